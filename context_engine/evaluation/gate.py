"""Whether a set-up still answers what a gate file asks of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from context_engine.errors import ConfigError
from context_engine.evaluation.collections import Collected, run_file
from context_engine.evaluation.evaluate import SCHEMA_VERSION
from context_engine.evaluation.gate_file import GateFile
from context_engine.evaluation.session import Session
from context_engine.evaluation.statistics import Paired
from context_engine.evaluation.trec import write_run
from context_engine.settings.files import read_json

Outcome = Literal["holds", "below_floor", "lost"]
MOST_LOST: Final = 5
_EVEN: Final = 1e-9
"""Differences of means that are rounding, not loss."""


class MeasureCheck(NamedTuple):
    """One measure of one collection.

    Attributes:
        now: its mean.
        floor: the least mean; None where the file names none.
        baseline, pair: the baseline's mean and the paired difference to it; None where it is not compared.
    """

    collection: str
    measure: str
    outcome: Outcome
    now: float
    floor: float | None = None
    baseline: float | None = None
    pair: Paired | None = None


class LostQuestion(NamedTuple):
    """A question that is answered worse than in the baseline."""

    question: str
    text: str
    now: float
    baseline: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """What came of a gate.

    Attributes:
        found: what was measured.
        checks: in the order of the file's collections and measures.
    """

    found: Collected
    checks: tuple[MeasureCheck, ...]

    @property
    def fallen(self) -> tuple[MeasureCheck, ...]:
        """The checks that do not hold."""
        return tuple(one for one in self.checks if one.outcome != "holds")

    @property
    def holds(self) -> bool:
        """Whether every check holds."""
        return not self.fallen

    @property
    def troubles(self) -> Mapping[str, Sequence[str]]:
        """Components that failed in some search, by collection; the numbers are then unreliable."""
        return {name: one.troubles for name, one in self.found.compared.items() if one.degraded}


def gate_result(gate: GateFile, found: Collected) -> GateResult:
    """Return the gate's checks on the measured results.

    Args:
        found: the collections of the gate, by its `measured` measures, beside its baseline where it has one.
    """
    checks = [
        _check(gate, found, name, measure)
        for name, one in gate.collections.items()
        for measure in gate.measured
        if measure in one.floors or measure in gate.compared
    ]
    return GateResult(found=found, checks=tuple(checks))


def _check(gate: GateFile, found: Collected, name: str, measure: str) -> MeasureCheck:
    one, floor = found.compared[name], gate.collections[name].floors.get(measure)
    pair = found.against(name, measure) if measure in gate.compared else None
    now, outcome = one.ours.mean(measure), "holds"
    if pair is not None and _lost(gate, pair):
        outcome = "lost"
    if floor is not None and now < floor - _EVEN:
        outcome = "below_floor"
    baseline = one.baseline.mean(measure) if pair is not None and one.baseline is not None else None
    return MeasureCheck(name, measure, outcome, now, floor, baseline, pair)  # type: ignore[arg-type]


def _lost(gate: GateFile, pair: Paired) -> bool:
    """Whether more is lost than the gate allows."""
    return -pair.mean > gate.allowed_loss + _EVEN and (pair.beyond_noise or not gate.beyond_noise)


def lost_most(found: Collected, name: str, measure: str, most: int = MOST_LOST) -> Sequence[LostQuestion]:
    """Return the questions of a collection that lost most against the baseline, the worst first."""
    one = found.compared[name]
    if one.baseline is None:
        return []
    ours, theirs, texts = one.ours.scores, one.baseline.scores, one.texts
    lost = [
        LostQuestion(question, texts.get(question, ""), held[measure], theirs[question][measure])
        for question, held in ours.items()
        if held[measure] < theirs[question][measure]
    ]
    return sorted(lost, key=lambda row: (row.now - row.baseline, row.question))[:most]


def gate_summary(result: GateResult) -> dict[str, Any]:
    """Return the result as plain values, JSON-ready."""
    return {
        "schema_version": SCHEMA_VERSION,
        "holds": result.holds,
        "degraded": bool(result.troubles),
        "checks": [
            {
                **one._asdict(),
                "pair": None if one.pair is None else one.pair._asdict(),
                "lost_most": [row._asdict() for row in lost_most(result.found, one.collection, one.measure)]
                if one.outcome != "holds"
                else [],
            }
            for one in result.checks
        ],
        "troubles": {name: list(troubles) for name, troubles in result.troubles.items()},
    }


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
    """Return a digest of a run's lines, independent of line endings."""
    try:
        return _digest(path.read_text("utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", file=str(path)) from None
