"""The baseline of a gate: a folder of runs, written by `eval gate --write`, with what they were measured on.

For each collection its rankings (`NAME.run`), and beside them the digests of its questions, judgements and documents
(`NAME.json`): a mean over other questions is no better and no worse.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from context_engine.errors import ConfigError
from context_engine.evaluation.collected import Collected, run_file
from context_engine.evaluation.gate_file import GateFile
from context_engine.evaluation.session import Session
from context_engine.evaluation.trec import write_run
from context_engine.settings.files import read_json

_WHAT: Final = {"questions": "the questions", "judgements": "the judgements", "corpus": "the documents"}


def fingerprint(session: Session) -> dict[str, str]:
    """Return what tells a collection's questions, judgements and corpus from others: sixteen hex digits each.

    The same for files of other names, forms or order.
    """
    asked = [[one.id, one.text, domain, str(one.as_of or session.as_of)] for one, domain in session.questions]
    judged = {question: dict(gold) for question, gold in session.qrels.items()}
    rejected = {question: sorted(gold) for question, gold in session.rejected.items() if gold}
    held = [[*key, one.sha256] for key, one in session.corpus.identities.items()]
    values = (sorted(asked), [judged, rejected], [sorted(held), session.corpus.unlisted])
    return dict(zip(_WHAT, map(_digest, values), strict=True))


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:16]


def keep_baseline(folder: Path, found: Collected) -> None:
    """Write the runs of all collections and what they were measured on.

    Raises:
        ConfigError: a file cannot be written.
    """
    for name, one in found.compared.items():
        run, beside = run_file(folder, name), _beside(folder, name)
        write_run(run, one.ours.places, one.ours.name)
        kept = {
            "run": _run_digest(run),
            **fingerprint(one.session),
            "means": {measure: round(one.ours.mean(measure), 6) for measure in found.measures},
        }
        try:
            beside.write_text(json.dumps(kept, indent=2) + "\n", "utf-8")
        except OSError as error:
            raise ConfigError(f"cannot be written: {error.strerror}", file=str(beside)) from None


def check_replaceable(gate: GateFile) -> None:
    """Refuse to write over a file that is no baseline: a gate file names the folder, and may name any.

    Raises:
        ConfigError: there is such a file, or it cannot be read.
    """
    if gate.baseline is None:
        return
    for name in gate.collections:
        beside = _beside(gate.baseline, name)
        if beside.exists() and "run" not in read_json(beside, str(beside)):
            raise ConfigError("is no baseline, and would be written over: name a folder for it alone", file=str(beside))


def check_baseline(gate: GateFile, found: Collected, file: Path) -> None:
    """Refuse to keep runs that could not pass, or that say little of the set-up.

    Raises:
        ConfigError: a mean is below its floor, or a source did not do its part.
    """
    for name, one in found.compared.items():
        if one.degraded:
            raise ConfigError(f"no baseline is written: collection {name!r}: {one.troubles[0]}", file=str(file))
        for measure, floor in gate.collections[name].floors.items():
            if one.ours.mean(measure) < floor:
                said = f"{measure} of collection {name!r} is {one.ours.mean(measure):.4f}, its floor {floor:g}"
                raise ConfigError(f"no baseline is written: {said}: lower the floor, or mend it", file=str(file))


def check_comparable(gate: GateFile, sessions: Mapping[str, Session], file: Path) -> None:
    """Refuse to compare with runs over other questions, judgements or, unless the file allows it, documents.

    Raises:
        ConfigError: all that has changed since the baseline, by collection; or there is no baseline.
    """
    if gate.baseline is None:
        return
    problems = [said for name, session in sessions.items() if (said := _changed(gate, gate.baseline, name, session))]
    if problems:
        mend = f"'context-engine eval gate {file} --write' measures the baseline anew"
        raise ConfigError(f"nothing can be compared: {'; '.join(problems)}. {mend}", file=str(file))


def _changed(gate: GateFile, folder: Path, name: str, session: Session) -> str:
    """Return why a collection cannot be compared with its baseline; "" where it can."""
    beside, run = _beside(folder, name), run_file(folder, name)
    if not (beside.is_file() and run.is_file()):
        return f"collection {name!r} has no baseline in {folder}"
    kept, now = read_json(beside, str(beside)), fingerprint(session)
    if kept.get("run") != _run_digest(run):
        return f"{run} is not the run that {beside.name} was written with"
    compared = [key for key in now if key != "corpus" or gate.same_corpus]
    changed = [_WHAT[key] for key in compared if kept.get(key) != now[key]]
    return f"since the baseline {' and '.join(changed)} of collection {name!r} have changed" if changed else ""


def _beside(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def _run_digest(path: Path) -> str:
    """Return a digest of a run's lines, whatever ends them."""
    try:
        return _digest(path.read_text("utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", file=str(path)) from None
