"""Check whether a set-up still meets a gate file."""

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
from context_engine.evaluation.metrics import Paired
from context_engine.evaluation.qrels import write_run
from context_engine.evaluation.session import Session
from context_engine.settings.files import read_json

Outcome = Literal["holds", "below_floor", "lost"]
MOST_LOST: Final = 5
_EVEN: Final = 1e-9  # smaller differences of means are rounding, not loss


class MeasureCheck(NamedTuple):
    """One measure of one collection.

    Attributes:
        floor: the least allowed mean; None: no floor.
        baseline, pair: the baseline's mean and the paired difference from it; None if not compared.
    """

    collection: str
    measure: str
    outcome: Outcome
    now: float
    floor: float | None = None
    baseline: float | None = None
    pair: Paired | None = None


class LostQuestion(NamedTuple):
    """A question with a worse answer than in the baseline."""

    question: str
    text: str
    now: float
    baseline: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """The result of a gate: its measured collections, and its checks in the order of the file."""

    collected: Collected
    checks: tuple[MeasureCheck, ...]

    @property
    def fallen(self) -> tuple[MeasureCheck, ...]:
        """The checks that fail."""
        return tuple(check for check in self.checks if check.outcome != "holds")

    @property
    def holds(self) -> bool:
        return not self.fallen

    @property
    def troubles(self) -> Mapping[str, Sequence[str]]:
        """Components that failed in some search, by collection; the numbers are then unreliable."""
        return {name: result.troubles for name, result in self.collected.compared.items() if result.degraded}


def gate_result(gate: GateFile, collected: Collected) -> GateResult:
    """Check results of the gate's collections, measured by `gate.measured` against its baseline, if any."""
    checks = [
        _check(gate, collected, name, measure)
        for name, collection in gate.collections.items()
        for measure in gate.measured
        if measure in collection.floors or measure in gate.compared
    ]
    return GateResult(collected=collected, checks=tuple(checks))


def _check(gate: GateFile, collected: Collected, name: str, measure: str) -> MeasureCheck:
    result, floor = collected.compared[name], gate.collections[name].floors.get(measure)
    pair = collected.against(name, measure) if measure in gate.compared else None
    now, outcome = result.ours.mean(measure), "holds"
    if pair is not None and _lost(gate, pair):
        outcome = "lost"
    if floor is not None and now < floor - _EVEN:
        outcome = "below_floor"
    baseline = result.baseline.mean(measure) if pair is not None and result.baseline is not None else None
    return MeasureCheck(name, measure, outcome, now, floor, baseline, pair)  # type: ignore[arg-type]


def _lost(gate: GateFile, pair: Paired) -> bool:
    """Return whether the loss exceeds the loss that the gate allows."""
    return -pair.mean > gate.allowed_loss + _EVEN and (pair.beyond_noise or not gate.beyond_noise)


def lost_most(collected: Collected, name: str, measure: str, most: int = MOST_LOST) -> Sequence[LostQuestion]:
    """Return the questions of a collection with the largest losses against the baseline, worst first."""
    result = collected.compared[name]
    if result.baseline is None:
        return []
    ours, theirs, texts = result.ours.scores, result.baseline.scores, result.texts
    lost = [
        LostQuestion(question, texts.get(question, ""), scores[measure], theirs[question][measure])
        for question, scores in ours.items()
        if scores[measure] < theirs[question][measure]
    ]
    return sorted(lost, key=lambda row: (row.now - row.baseline, row.question))[:most]


def gate_summary(result: GateResult) -> dict[str, Any]:
    """Return the result as JSON values."""
    return {
        "schema_version": SCHEMA_VERSION,
        "holds": result.holds,
        "degraded": bool(result.troubles),
        "checks": [
            {
                **check._asdict(),
                "pair": None if check.pair is None else check.pair._asdict(),
                "lost_most": [row._asdict() for row in lost_most(result.collected, check.collection, check.measure)]
                if check.outcome != "holds"
                else [],
            }
            for check in result.checks
        ],
        "troubles": {name: list(troubles) for name, troubles in result.troubles.items()},
    }


_PARTS: Final = {"questions": "the questions", "judgements": "the judgements", "corpus": "the documents"}


def fingerprint(session: Session) -> dict[str, str]:
    """Identify a collection's questions, judgements and corpus by sixteen hex digits each.

    File names, formats and order do not matter.
    """
    asked = [[entry.id, entry.text, domain, str(entry.as_of or session.as_of)] for entry, domain in session.questions]
    judged = {question: dict(gold) for question, gold in session.qrels.items()}
    rejected = {question: sorted(gold) for question, gold in session.rejected.items() if gold}
    corpus = [[*key, identity.sha256] for key, identity in session.corpus.identities.items()]
    values = (sorted(asked), [judged, rejected], [sorted(corpus), session.corpus.unlisted])
    return dict(zip(_PARTS, map(_digest, values), strict=True))


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:16]


def keep_baseline(folder: Path, collected: Collected) -> None:
    """Write the runs of all collections with fingerprints of their questions, judgements and corpora.

    Raises:
        ConfigError: a file cannot be written.
    """
    for name, result in collected.compared.items():
        run, beside = run_file(folder, name), _beside(folder, name)
        write_run(run, result.ours.places, result.ours.name)
        kept = {
            "run": _run_digest(run),
            **fingerprint(result.session),
            "means": {measure: round(result.ours.mean(measure), 6) for measure in collected.measures},
        }
        try:
            beside.write_text(json.dumps(kept, indent=2) + "\n", "utf-8")
        except OSError as error:
            raise ConfigError(f"cannot be written: {error.strerror}", file=str(beside)) from None


def check_replaceable(gate: GateFile) -> None:
    """Refuse to overwrite a file that is not a baseline: a gate file may name any folder.

    Raises:
        ConfigError: a file is not a baseline, or cannot be read.
    """
    if gate.baseline is None:
        return
    for name in gate.collections:
        beside = _beside(gate.baseline, name)
        if beside.exists() and "run" not in read_json(beside, str(beside)):
            problem = "is not a baseline and would be overwritten: name a separate folder for the baseline"
            raise ConfigError(problem, file=str(beside))


def check_baseline(gate: GateFile, collected: Collected, file: Path) -> None:
    """Refuse to write a baseline from runs that fail the gate or had a failed component.

    Raises:
        ConfigError: a mean is below its floor, or a source failed.
    """
    for name, result in collected.compared.items():
        if result.degraded:
            raise ConfigError(f"no baseline is written: collection {name!r}: {result.troubles[0]}", file=str(file))
        for measure, floor in gate.collections[name].floors.items():
            if result.ours.mean(measure) < floor:
                problem = f"{measure} of collection {name!r} is {result.ours.mean(measure):.4f}, its floor {floor:g}"
                raise ConfigError(
                    f"no baseline is written: {problem}: lower the floor, or improve the set-up", file=str(file)
                )


def check_comparable(gate: GateFile, sessions: Mapping[str, Session], file: Path) -> None:
    """Refuse to compare with a baseline of other questions, judgements or (unless the file allows it) documents.

    Raises:
        ConfigError: no baseline, or changes since; the message lists all changes by collection.
    """
    if gate.baseline is None:
        return
    problems = [
        problem for name, session in sessions.items() if (problem := _changed(gate, gate.baseline, name, session))
    ]
    if problems:
        remedy = f"'context-engine eval gate {file} --write' measures the baseline again"
        raise ConfigError(f"nothing can be compared: {'; '.join(problems)}. {remedy}", file=str(file))


def _changed(gate: GateFile, folder: Path, name: str, session: Session) -> str:
    """Return why a collection cannot be compared with its baseline; "" if it can."""
    beside, run = _beside(folder, name), run_file(folder, name)
    if not (beside.is_file() and run.is_file()):
        return f"collection {name!r} has no baseline in {folder}"
    kept, now = read_json(beside, str(beside)), fingerprint(session)
    if kept.get("run") != _run_digest(run):
        return f"{run} is not the run that {beside.name} was written for"
    compared = [key for key in now if key != "corpus" or gate.same_corpus]
    changed = [_PARTS[key] for key in compared if kept.get(key) != now[key]]
    return f"since the baseline {' and '.join(changed)} of collection {name!r} have changed" if changed else ""


def _beside(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def _run_digest(path: Path) -> str:
    """Return a digest of a run's lines, independent of line endings."""
    try:
        return _digest(path.read_text("utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", file=str(path)) from None
