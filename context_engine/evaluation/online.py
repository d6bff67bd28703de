"""Two arms of an experiment compared by the judgements of their callers, at any time, with a stated error.

Each caller counts once, with the first judgement in the experiment: callers were drawn, not judgements, and those of
one caller resemble each other. The first caller of arm a is paired with the first of arm b, and so on (Wald 1947,
"double dichotomies"). Of the pairs that differ, each arm wins half if the arms are equal. The evidence is the ratio of
a mixture of other shares to that half (Robbins 1970): it ever exceeds 1/alpha with probability alpha at most (Ville
1939), however often one looks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import exp, lgamma, log, sqrt
from typing import Any, Final, Literal, NamedTuple

Decision = Literal["a", "b", "no_difference", "not_yet"]

_PRIOR: Final = 5.0
"""Both parameters of the mixture's beta distribution: shares from a third to two thirds are the likely ones."""

_Z: Final = 1.96


class ArmResult(NamedTuple):
    """The judgements of one arm.

    Attributes:
        up: callers whose first judgement was thumbs up, of `callers`.
        judgements: all judgements of the arm.
        low, high: 95 % interval of the share of `up`; 0 and 1 without callers.
    """

    up: int
    callers: int
    judgements: int
    low: float
    high: float

    @property
    def share(self) -> float | None:
        """The share of callers with thumbs up; None without callers."""
        return self.up / self.callers if self.callers else None


class OnlineComparison(NamedTuple):
    """An experiment so far.

    Attributes:
        pairs: callers compared in pairs.
        better_a, better_b: pairs in which only this arm had thumbs up.
        evidence: against the arms being equal; at 1/alpha it is over.
        decision: the better arm, no difference in all the pairs, or not yet.
        stopped_at: the pair that decided; None: none did.
        more: pairs that are still needed if what was seen goes on; None: none, or more than planned.
        unknown: judgements without a known caller, which do not count.
    """

    a: ArmResult
    b: ArmResult
    pairs: int
    better_a: int
    better_b: int
    evidence: float
    decision: Decision
    stopped_at: int | None
    more: int | None
    unknown: int


def compared_online(
    judgements: Iterable[Mapping[str, Any]], name: str, *, alpha: float, most_pairs: int
) -> OnlineComparison:
    """Return the comparison of the arms of an experiment.

    Args:
        judgements: in the order in which they were given, of any experiment.
        name: of the experiment.
        alpha: probability of a difference being claimed where there is none, in (0, 1).
        most_pairs: pairs after which it ends.
    """
    first: dict[str, dict[str, bool]] = {"a": {}, "b": {}}
    counts, unknown = {"a": 0, "b": 0}, 0
    for row in judgements:
        experiment, _, arm = str(row.get("experiment", "")).partition("/")
        if experiment != name or arm not in first:
            continue
        counts[arm] += 1
        if row.get("by"):
            first[arm].setdefault(str(row["by"]), int(row.get("grade", 0)) > 0)
        else:
            unknown += 1
    ups = {arm: list(of_callers.values()) for arm, of_callers in first.items()}
    return _compared(ups["a"], ups["b"], counts, unknown, alpha, most_pairs)


def _compared(
    a: list[bool], b: list[bool], counts: Mapping[str, int], unknown: int, alpha: float, most_pairs: int
) -> OnlineComparison:
    better_a = better_b = pairs = 0
    limit, decided = log(1 / alpha), False
    for up_a, up_b in zip(a[:most_pairs], b[:most_pairs]):
        pairs += 1
        better_a, better_b = better_a + (up_a and not up_b), better_b + (up_b and not up_a)
        decided = log_evidence(better_a, better_b) >= limit
        if decided:
            break
    decision: Decision = "not_yet"
    if decided:
        decision = "a" if better_a > better_b else "b"
    elif pairs >= most_pairs:
        decision = "no_difference"
    return OnlineComparison(
        a=_arm(a, counts["a"]),
        b=_arm(b, counts["b"]),
        pairs=pairs,
        better_a=better_a,
        better_b=better_b,
        evidence=exp(min(log_evidence(better_a, better_b), 700.0)),
        decision=decision,
        stopped_at=pairs if decided else None,
        more=_more(better_a, better_b, pairs, limit, most_pairs) if decision == "not_yet" else None,
        unknown=unknown,
    )


def log_evidence(wins: float, losses: float) -> float:
    """Return the logarithm of the evidence that a share of pairs is not one half.

    Args:
        wins, losses: pairs in which one arm alone, or the other alone, had thumbs up; at least 0.
    """
    return (wins + losses) * log(2.0) + _log_beta(_PRIOR + wins, _PRIOR + losses) - _log_beta(_PRIOR, _PRIOR)


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def _more(better_a: int, better_b: int, pairs: int, limit: float, most_pairs: int) -> int | None:
    """Return the pairs that are still needed if both shares stay as they are."""
    for total in range(pairs + 1, most_pairs + 1) if pairs else ():
        if log_evidence(better_a * total / pairs, better_b * total / pairs) >= limit:
            return total - pairs
    return None


def _arm(ups: list[bool], judgements: int) -> ArmResult:
    """Return an arm with the interval of its share (Wilson 1927)."""
    up, callers = sum(ups), len(ups)
    if not callers:
        return ArmResult(0, 0, judgements, 0.0, 1.0)
    z2, share = _Z**2 / callers, up / callers
    middle, half = share + z2 / 2, sqrt(z2) * sqrt(share * (1 - share) + z2 / 4)
    return ArmResult(
        up, callers, judgements, max(0.0, (middle - half) / (1 + z2)), min(1.0, (middle + half) / (1 + z2))
    )
