"""Sentences that set another value for the same thing in other words: "holding period: 14 days", "held for 30 days".

Two sentences are aligned if each has one value of the same unit, the numbers differ, neither has a name that the other
lacks, and the words that they share weigh enough: the cosine of their words, each weighted by its inverse document
frequency (Salton and Buckley: Term-weighting approaches in automatic text retrieval, 1988).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import fsum, log, sqrt
from typing import Final, NamedTuple

from context_engine.answer.conflicts import ConflictDifference
from context_engine.answer.reading import MeaningToken
from context_engine.insight.differences import ReadStatement

_LEAST_COSINE: Final = 0.4
_LEAST_SHARED: Final = 3
_MOST_HOLDERS: Final = 200
"""A word that more values of one unit stand with does not tell what they limit."""


class _Aligned(NamedTuple):
    """A statement with one value of a unit; `weights` are those of its words, `norm` is their Euclidean length."""

    number: int
    value: MeaningToken
    weights: Mapping[str, float]
    norm: float


def aligned_pairs(
    statements: Sequence[ReadStatement], usable: Sequence[int]
) -> Iterator[tuple[int, int, ConflictDifference]]:
    """Yield the pairs (i, j), i < j, of aligned sentences with the difference of their values; each pair once.

    Args:
        statements: all of them: rare words weigh more.
        usable: the numbers of those that may be paired, rising.
    """
    frequency = Counter(word for statement in statements for word in statement.words)
    groups: defaultdict[tuple[str, str], list[_Aligned]] = defaultdict(list)
    for number in usable:
        for unit, value in _only_values(statements[number]).items():
            weights = {word: log(len(statements) / frequency[word]) for word in statements[number].words}
            groups[unit].append(_Aligned(number, value, weights, _length(weights.values())))
    seen = set[tuple[int, int]]()
    for members in groups.values():
        for first, second in _sharing(members):
            pair = (first.number, second.number)
            if pair not in seen and _is_aligned(first, second, statements):
                seen.add(pair)
                yield *pair, ConflictDifference("number", first.value.written, second.value.written)


def _only_values(statement: ReadStatement) -> dict[tuple[str, str], MeaningToken]:
    """Return the values of a sentence by unit and currency, of each unit that has one value alone."""
    by_unit: defaultdict[tuple[str, str], list[MeaningToken]] = defaultdict(list)
    for token in statement.tokens:
        if token.value and (token.value.unit or token.value.currency):
            by_unit[token.value.unit, token.value.currency].append(token)
    return {unit: tokens[0] for unit, tokens in by_unit.items() if len(tokens) == 1}


def _sharing(members: Sequence[_Aligned]) -> Iterator[tuple[_Aligned, _Aligned]]:
    """Yield pairs that share at least one word of few members."""
    holders: defaultdict[str, list[int]] = defaultdict(list)
    for place, member in enumerate(members):
        for word in member.weights:
            holders[word].append(place)
    for place, member in enumerate(members):
        known = {before for word in member.weights if len(holders[word]) <= _MOST_HOLDERS for before in holders[word]}
        for before in sorted(known):
            if before < place:
                yield members[before], member


def _is_aligned(first: _Aligned, second: _Aligned, statements: Sequence[ReadStatement]) -> bool:
    left, right = statements[first.number], statements[second.number]
    shared = left.words & right.words
    if len(shared) < _LEAST_SHARED or _numbers(left) & _numbers(right):
        return False
    if not (_names(left) <= right.words and _names(right) <= left.words):
        return False
    common = fsum(first.weights[word] * second.weights[word] for word in shared)
    return common >= _LEAST_COSINE * first.norm * second.norm


def _numbers(statement: ReadStatement) -> set[str]:
    return {token.value.number for token in statement.tokens if token.value}


def _names(statement: ReadStatement) -> set[str]:
    return {token.key for token in statement.tokens if token.is_name}


def _length(weights: Iterable[float]) -> float:
    return sqrt(fsum(weight * weight for weight in weights))
