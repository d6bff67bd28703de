"""Measures of a ranking, computed by ir_measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from context_engine.errors import InvalidRequest, MissingExtra
from context_engine.evaluation.qrels import Qrels

__all__ = ["DEFAULT_MEASURES", "Scores", "cutoff", "mean", "measured", "read_measures"]

DEFAULT_MEASURES: Final = ("R@8", "R@10", "AP@10", "nDCG@10", "RR@10")
_ALIASES: Final = {"MAP": "AP", "MRR": "RR", "HIT": "Success", "RECALL": "R", "NDCG": "nDCG"}
_NOTHING: Final = "\x00nothing"

Scores = Mapping[str, Mapping[str, float]]
"""Question id to measure to value."""


def _library() -> Any:
    try:
        import ir_measures
    except ImportError as error:
        raise MissingExtra("evaluation", "eval") from error
    return ir_measures


def read_measures(names: Sequence[str]) -> tuple[str, ...]:
    """Return measures by the names ir_measures gives them; MAP, MRR, NDCG and Recall are read too.

    Raises:
        InvalidRequest: it is no measure.
        MissingExtra: the extra `eval` is not installed.
    """
    return tuple(dict.fromkeys(str(_parsed(name)) for name in names))


def _parsed(name: str) -> Any:
    library = _library()
    word, at, depth = name.strip().partition("@")
    try:
        return library.parse_measure(_ALIASES.get(word.upper(), word) + at + depth)
    except (ValueError, NameError, SyntaxError):
        raise InvalidRequest(f"unknown measure {name!r}: e.g. {', '.join(DEFAULT_MEASURES)}, Success@5, P@8") from None


def cutoff(measure: str) -> int:
    """Return how deep a measure looks, 1 where it says nothing about that.

    >>> cutoff("nDCG@10")
    10
    """
    depth = measure.rpartition("@")[2]
    return int(depth) if depth.isdecimal() else 1


def measured(rankings: Mapping[str, Sequence[str]], qrels: Qrels, measures: Sequence[str]) -> Scores:
    """Return the measures of each question of the qrels; one that has no ranking counts 0.

    Args:
        rankings: question id to names, best first, none twice.
        qrels: as `positive` returns them.

    Raises:
        MissingExtra: the extra `eval` is not installed.
    """
    run = {
        question: {name: float(len(names) - place) for place, name in enumerate(names)} or {_NOTHING: 0.0}
        for question, names in ((question, rankings.get(question, ())) for question in qrels)
    }
    grades = {question: dict(held) for question, held in qrels.items()}
    out: dict[str, dict[str, float]] = {question: dict.fromkeys(measures, 0.0) for question in qrels}
    for one in _library().iter_calc([_parsed(name) for name in measures], grades, run):
        out[one.query_id][str(one.measure)] = float(one.value)
    return out


def mean(scores: Scores, measure: str, questions: Sequence[str] | None = None) -> float:
    """Return the mean of a measure over questions, 0 where there are none."""
    chosen = list(scores) if questions is None else questions
    return sum(scores[question][measure] for question in chosen) / len(chosen) if chosen else 0.0
