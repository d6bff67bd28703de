"""Whether a set-up still answers what a gate file asks of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from context_engine.evaluation.collected import Collected
from context_engine.evaluation.gate_file import GateFile
from context_engine.evaluation.statistics import Paired
from context_engine.evaluation.summary import SCHEMA_VERSION

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
        """What did not do its part in some search, by collection: the numbers say little of the set-up then."""
        return {name: one.troubles for name, one in self.found.compared.items() if one.degraded}


def gate_result(gate: GateFile, found: Collected) -> GateResult:
    """Return the checks of a gate on what was measured.

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
