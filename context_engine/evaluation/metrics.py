"""Measures of a ranking by ir_measures; intervals for a mean and for the difference between two set-ups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from subprocess import SubprocessError
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from context_engine.core.models.chunk import NOTHING
from context_engine.errors import InvalidRequest, MissingExtra
from context_engine.evaluation.qrels import Qrels, Rejected

DEFAULT_MEASURES: Final = ("R@8", "R@10", "AP@10", "nDCG@10", "RR@10")

_ALIASES: Final = {
    "AP": "AP",
    "HIT": "Success",
    "JUDGED": "Judged",
    "MAP": "AP",
    "MRR": "RR",
    "NDCG": "nDCG",
    "P": "P",
    "R": "R",
    "RECALL": "R",
    "RR": "RR",
    "SUCCESS": "Success",
}

_COUNTS: Final = ("NumQ", "NumRel", "NumRet")
_NOTHING: Final = "nothing"
Scores = Mapping[str, Mapping[str, float]]
"""{question id: {measure: value}}."""


def _library() -> Any:
    try:
        import ir_measures
    except ImportError as error:
        raise MissingExtra("evaluation", "eval") from error
    return ir_measures


def read_measures(names: Sequence[str]) -> tuple[str, ...]:
    """Return measures by their ir_measures names; MAP, MRR, NDCG and Recall are accepted too.

    Raises:
        InvalidRequest: a measure is unknown, has a cutoff of 0, is a count, or cannot be computed on this machine.
        MissingExtra: the extra `eval` is not installed.
    """
    measures = tuple(dict.fromkeys(str(_parsed(name)) for name in names))
    for name in measures:
        _try(name)
    return measures


def _parsed(name: str) -> Any:
    library = _library()
    word, at, depth = name.strip().partition("@")
    if at and not depth.strip().isdecimal():
        raise _unknown(name)
    try:
        measure = library.parse_measure(_ALIASES.get(word.upper(), word))
        return measure @ int(depth) if at else measure
    except (ValueError, NameError, SyntaxError, AssertionError):
        raise _unknown(name) from None
    except AttributeError:
        # ir_measures parses the numbers of a name with ast.Num, which Python 3.14 removed; plain names have none.
        raise InvalidRequest(
            f"ir_measures cannot read {name!r} on this Python: leave out the brackets and their content"
        ) from None


def _unknown(name: str) -> InvalidRequest:
    return InvalidRequest(f"unknown measure {name!r}: e.g. {', '.join(DEFAULT_MEASURES)}, Success@5, P@8")


def _try(name: str) -> None:
    """Refuse a measure that ir_measures cannot compute, before any search."""
    if cutoff(name) < 1:
        raise InvalidRequest(f"measure {name!r} has a cutoff of 0: the number after @ must be at least 1")
    if name.startswith(_COUNTS):
        raise InvalidRequest(f"measure {name!r} is a count: a measure must be between 0 and 1")
    try:
        measured({"q": ["a"]}, {"q": {"a": 1}}, (name,))
    except AssertionError:
        raise _unknown(name) from None
    except (ValueError, RuntimeError, OSError, SubprocessError) as error:
        problem = " ".join(str(error).split())[:200]
        raise InvalidRequest(f"ir_measures cannot compute {name!r} on this machine: {problem}") from None


def cutoff(measure: str) -> int:
    """Return the cutoff of a measure, 1 if it has none.

    >>> cutoff("nDCG@10")
    10
    """
    depth = measure.rpartition("@")[2]
    return int(depth) if depth.isdecimal() else 1


def measured(
    rankings: Mapping[str, Sequence[str]], qrels: Qrels, measures: Sequence[str], rejected: Rejected = NOTHING
) -> Scores:
    """Return the measures of each judged question; a question without a ranking counts 0.

    Args:
        rankings: question id to names, best first, without repetitions.
        qrels: from `positive`.
        rejected: gold ids judged not relevant, for measures that distinguish them from unjudged ones.

    Raises:
        MissingExtra: the extra `eval` is not installed.
    """
    numbers = {question: str(place) for place, question in enumerate(qrels)}
    run = {number: _run(rankings.get(question, ())) for question, number in numbers.items()}
    grades = {number: _grades(gold, rejected.get(name, ())) for (name, gold), number in zip(qrels.items(), run)}
    out: dict[str, dict[str, float]] = {number: dict.fromkeys(measures, 0.0) for number in run}
    for value in _library().iter_calc([_parsed(name) for name in measures], grades, run):
        out[value.query_id][str(value.measure)] = float(value.value)
    return {question: out[number] for question, number in numbers.items()}


def _run(names: Sequence[str]) -> dict[str, float]:
    return {_plain(name): float(len(names) - place) for place, name in enumerate(names)} or {_NOTHING: 0.0}


def _grades(gold: Mapping[str, int], rejected: Iterable[str]) -> dict[str, int]:
    return {_plain(name): grade for name, grade in {**dict.fromkeys(rejected, 0), **gold}.items()}


def _plain(name: str) -> str:
    """Return a name without spaces and special characters, at which some tools behind ir_measures split."""
    return "d" + quote(name, safe="", errors="replace")


def mean(scores: Scores, measure: str, questions: Sequence[str] | None = None) -> float:
    """Return the mean of a measure over questions; 0 without questions."""
    chosen = list(scores) if questions is None else questions
    return sum(scores[question][measure] for question in chosen) / len(chosen) if chosen else 0.0


SAMPLES: Final = 2000
FEWEST: Final = 6
"""Fewest differing questions: five in one direction occur by chance in 2 of 32 cases (sign test), six in 2 of 64."""

_SEED: Final = 20_250_630
_CHUNK: Final = 2_000_000


class Interval(NamedTuple):
    """A mean and its 95 % interval."""

    mean: float
    low: float
    high: float


class Paired(NamedTuple):
    """The mean difference of two set-ups over the same questions.

    Attributes:
        low, high: its 95 % interval.
        p: two-sided: twice the share of resamples on the other side of 0.
        wins, losses, ties: number of questions on which the first is better, worse or equal.
    """

    mean: float
    low: float
    high: float
    p: float
    wins: int
    losses: int
    ties: int

    @property
    def beyond_noise(self) -> bool:
        """Whether the interval lies on one side of 0, and at least `FEWEST` questions differ."""
        return self.wins + self.losses >= FEWEST and (self.low > 0.0 or self.high < 0.0)

    def text(self, measure: str) -> str:
        return f"{measure} {self.mean:+.4f}, 95 % {self.low:+.4f} to {self.high:+.4f}"


def _resampled(values: Sequence[float], samples: int, seed: int) -> Any:
    """Return the sorted means of samples drawn with replacement; deterministic for the seed."""
    try:
        import numpy as np
    except ImportError as error:
        raise MissingExtra("evaluation", "eval") from error
    array, random = np.asarray(values, dtype=float), np.random.default_rng(seed)
    rows = max(1, _CHUNK // len(array))
    counts = [min(rows, samples - start) for start in range(0, samples, rows)]
    means = [array[random.integers(0, len(array), (count, len(array)))].mean(axis=1) for count in counts]
    return np.sort(np.concatenate(means))


def bootstrap(values: Sequence[float], *, samples: int = SAMPLES, seed: int = _SEED) -> Interval:
    """Return the mean with its percentile bootstrap interval (Efron 1979); 0 everywhere for no values.

    Raises:
        MissingExtra: the extra `eval` is not installed.
    """
    if not values:
        return Interval(0.0, 0.0, 0.0)
    means = _resampled(values, samples, seed)
    low, high = _ends(means)
    return Interval(sum(values) / len(values), low, high)


def paired_bootstrap(ours: Sequence[float], theirs: Sequence[float]) -> Paired:
    """Return the mean difference with its interval: questions are resampled, each with both of its values.

    Args:
        ours, theirs: one value per question, in the same order.

    Raises:
        MissingExtra: the extra `eval` is not installed.
    """
    differences = [our - their for our, their in zip(ours, theirs, strict=True)]
    if not differences:
        return Paired(0.0, 0.0, 0.0, 1.0, 0, 0, 0)
    means = _resampled(differences, SAMPLES, _SEED)
    low, high = _ends(means)
    below, above = float((means <= 0.0).mean()), float((means >= 0.0).mean())
    return Paired(
        mean=sum(differences) / len(differences),
        low=low,
        high=high,
        p=min(1.0, 2.0 * min(below, above)),
        wins=sum(difference > 0.0 for difference in differences),
        losses=sum(difference < 0.0 for difference in differences),
        ties=sum(difference == 0.0 for difference in differences),
    )


def _ends(means: Any) -> tuple[float, float]:
    count = len(means)
    return float(means[int(0.025 * (count - 1))]), float(means[int(0.975 * (count - 1))])


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that a share of the values does not exceed (nearest rank); 0 without values.

    >>> percentile([4.0, 1.0, 3.0, 2.0], 0.5)
    2.0
    """
    if not values:
        return 0.0
    ordered = sorted(values)
    place = max(0, min(len(ordered) - 1, -(-int(share * 1000) * len(ordered) // 1000) - 1))
    return ordered[place]
