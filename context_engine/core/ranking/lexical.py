"""The engine's own lexical scores: one scorer over all candidates, whatever source they come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import chain, compress, count, pairwise
from math import fsum, log
from typing import Final, NamedTuple

from context_engine.core.models import TermStatistics
from context_engine.core.ranking.candidates import AnalysedText
from context_engine.core.text import bigrams, term_weights, terms

UNKNOWN_TERM: Final = 2.0
"""Weight of a term that no chunk holds, relative to one that a single chunk holds. With 98.5 % of the questions in
scope kept, 1, 1.5, 2 and 2.5 turn away 87, 90, 92 and 93 % of the off-topic ones (mean of six collections). The higher
the weight, the more a misspelt word costs."""


def rarity(
    weights: Mapping[str, float], terms_held: Sequence[Iterable[str]], statistics: Sequence[TermStatistics | None] = ()
) -> dict[str, float]:
    """Return each term's inverse document frequency: weight * ln(1 + N / df), or 2 * weight * ln(1 + N) if df = 0.

    N and df are summed over the distinct collections of the candidates. Candidates without a known collection count as
    one further collection. If a collection states a lower frequency than its candidates show, the count of the
    candidates is used.

    Args:
        weights: weight of each of the question's terms, (0, 1].
        terms_held: distinct terms in each candidate's text or label; terms that the question does not have are ignored.
        statistics: of each candidate's collection, None if unknown; empty if all are unknown.
    """
    collections = _collections(terms_held, statistics or [None] * len(terms_held))
    chunks = sum(collection.chunks for collection in collections)
    rarities = {}
    for term, weight in weights.items():
        frequency = sum(collection.document_frequency.get(term, 0) for collection in collections)
        rarities[term] = weight * (log(1 + chunks / frequency) if frequency else UNKNOWN_TERM * log(1 + chunks))
    return rarities


def _collections(
    terms_held: Sequence[Iterable[str]], statistics: Sequence[TermStatistics | None]
) -> Iterable[TermStatistics]:
    """Return the distinct collections of the candidates; candidates without a known collection are under ""."""
    shown: dict[str, list[Iterable[str]]] = {}
    for its_terms, known in zip(terms_held, statistics, strict=True):
        shown.setdefault(known.collection if known else "", []).append(its_terms)
    collections = {
        name: TermStatistics(collection=name, chunks=len(texts), document_frequency=Counter(chain.from_iterable(texts)))
        for name, texts in shown.items()
    }
    for known in {
        id(known_statistics): known_statistics for known_statistics in statistics if known_statistics is not None
    }.values():
        collections[known.collection] = collections[known.collection].merged(known)
    return collections.values()


K1: Final = 1.2
B: Final = 0.75
BIGRAM_WEIGHT: Final = 0.5
LABEL_WEIGHT: Final = 0.2
CLOSE: Final = 5
"""Largest distance, in terms, between two terms of the question that count as close; 3 to 8 measured alike."""

SCATTERED: Final = 0.5
"""Credit of a term that is close to no other: of off-topic questions .5 turns away 92 %, 1 turns away 86 % (at 98.5 %
of questions in scope kept, mean of six collections)."""

JOINT_EXPONENT: Final = 0.75
"""A long question asks for more than one text tells: its information counts by this power. See
tests/benchmarks/bench_near_miss.py."""

_IN_LABEL: Final = 0.5
"""Credit in `joint` of a term that only the label holds."""

COVERAGE_EXPONENT: Final = 0.75
"""Spreads the low end of coverage, so that the default threshold 0.15 drops no more right answers than it did with
plain idf-weighted coverage."""

_NONE: Final[Mapping[str, object]] = {}
_EMPTY: Final[Set[str]] = frozenset()


class LexicalScores(NamedTuple):
    """Lexical scores, one per text in the order given.

    Attributes:
        score: BM25 over the pool, [0, inf); comparable within this pool only.
        coverage: share of the question's information that the text holds, [0, 1]; comparable across pools.
        joint: how much of the question's information the text holds together and dwells on, [0, inf); comparable
            within a collection.
    """

    score: list[float]
    coverage: list[float]
    joint: list[float]


class _Matches(NamedTuple):
    """The question's terms found in each text and label, as columns.

    Attributes:
        counts: occurrences of each term and pair in each text, in order of appearance.
        close: terms at most CLOSE terms away from another of the question's.
        heads: terms in each label, in order of appearance.
    """

    counts: list[dict[str, int]]
    close: list[Set[str]]
    heads: list[Mapping[str, object]]


def lexical_scores(
    query: str,
    texts: Sequence[AnalysedText],
    labels: Sequence[AnalysedText] = (),
    statistics: Sequence[TermStatistics | None] = (),
) -> LexicalScores:
    """Score each text against the query.

    With N texts, df(t) of which hold term t, idf(t) = ln(1 + N / max(df(t), 1)). The usual BM25 idf would be 0 for a
    term that every candidate holds, and a recalled pool is made of such terms.

    score = sum of idf(t) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean length)) over the query's terms, plus
    half of the same sum over its pairs of adjacent terms; k1 = 1.2, b = 0.75 (Robertson and Zaragoza 2009); plus, for
    each term in the label, idf(t) over the labels, or a fifth of it if the term has no digit, as in the embedded index.

    coverage = (sum of rarity(t) * credit(t) / sum of rarity(t)) ** 0.75 over the terms of the query. Rarity is idf in
    the searched collection if that is known, else in the pool; a term that occurs nowhere counts twice (`rarity`).
    Credit is 1 for a term in the label, for a term close to another query term in the text, and for a query's only
    term; 1/2 for a term that stands alone in the text; 0 for a missing term. Query words that stand close together show
    that a text is about the question; scattered words merely occur (term proximity: Tao and Zhai, SIGIR 2007).

    joint = (sum of rarity(t) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean length)) over the terms, plus half
    the lesser rarity of both terms for each pair of neighbours in the question that are neighbours in the text)
    / (sum of rarity(t)) ** 0.75. A term that only the label holds counts half its rarity.

    Args:
        labels: label of each text (title, headings, document id). In the score a code or a clause number in it counts
            fully and a word little: the titles of long documents match too much.
        statistics: of the collection of each text, None if unknown; empty if all are unknown.

    Terms are stems without stop words. Codes stay whole (`4.2.1(b)`); a piece of a hyphenated code counts a fifth in
    both numbers (`text.term_weights`). A query without terms scores 0 everywhere.

    >>> texts = [AnalysedText("The approval limits."), AnalysedText("A cake recipe.")]
    >>> lexical_scores("approval limit", texts).coverage
    [1.0, 0.0]
    """
    singles = term_weights(query)
    if not singles or not texts:
        return LexicalScores(*([0.0] * len(texts) for _ in LexicalScores._fields))
    pairs = dict.fromkeys(bigrams(terms(query)), BIGRAM_WEIGHT)
    matched = _matches(texts, labels, singles, pairs)
    terms_held = [{**counts, **head} if head else counts for counts, head in zip(matched.counts, matched.heads)]
    information = rarity(singles, terms_held, statistics)
    total = fsum(information.values())  # exact: the same on every version of Python, in every order
    coverage = [(_held(information, *match) / total) ** COVERAGE_EXPONENT for match in zip(*matched)]
    norms = _norms(texts)
    joint = _joint(norms, matched, information, _pair_information(terms(query), information))
    return LexicalScores(_scores(norms, matched, singles, pairs), coverage, joint)


def _norms(texts: Sequence[AnalysedText]) -> list[float]:
    """Return k1 * (1 - b + b * length / mean length) of each text."""
    lengths = [text.reading.length for text in texts]
    mean = sum(lengths) / len(texts) or 1.0
    return [K1 * (1 - B + B * length / mean) for length in lengths]


def _pair_information(query_terms: list[str], information: Mapping[str, float]) -> dict[str, float]:
    """Return half the lesser rarity of both terms, for each pair of neighbours in the query."""
    return {
        pair: BIGRAM_WEIGHT * min(information[first], information[second])
        for (first, second), pair in zip(pairwise(query_terms), bigrams(query_terms))
        if first in information and second in information
    }


def _joint(
    norms: Sequence[float], matched: _Matches, information: Mapping[str, float], pairs: Mapping[str, float]
) -> list[float]:
    scale = fsum(information.values()) ** JOINT_EXPONENT
    joint: list[float] = []
    for norm, counts, head in zip(norms, matched.counts, matched.heads, strict=True):
        credits = [
            information[name] * tf * (K1 + 1) / (tf + norm) if name in information else pairs.get(name, 0.0)
            for name, tf in counts.items()
        ]
        credits += [_IN_LABEL * information[term] for term in head if term not in counts]
        joint.append(fsum(credits) / scale)
    return joint


def _scores(
    norms: Sequence[float], matched: _Matches, singles: Mapping[str, float], pairs: Mapping[str, float]
) -> list[float]:
    """Return BM25 over the pool plus the labels' share."""
    idf, in_labels = _idf({**pairs, **singles}, matched.counts), _idf(singles, matched.heads)
    in_label = {
        term: value * (1.0 if any(map(str.isdigit, term)) else LABEL_WEIGHT) for term, value in in_labels.items()
    }
    most = K1 + 1
    scores: list[float] = []
    for norm, counts, head in zip(norms, matched.counts, matched.heads, strict=True):
        score = 0.0
        for term, tf in counts.items():
            score += idf[term] * tf * most / (tf + norm)
        scores.append(score + fsum([in_label[term] for term in head]) if head else score)
    return scores


def _held(
    information: Mapping[str, float], counts: Mapping[str, int], close: Set[str], head: Mapping[str, object]
) -> float:
    """Return the share of the query's information that a text holds, before normalising."""
    alone = 1.0 if len(information) == 1 else SCATTERED
    shares = [information[term] for term in head]
    for term in counts:
        if term in information and term not in head:
            shares.append(information[term] if term in close else alone * information[term])
    return fsum(shares)


def _idf(weights: Mapping[str, float], names_held: Sequence[Mapping[str, object]]) -> dict[str, float]:
    """Return each name's weight times its idf over the pool."""
    holders = Counter(chain.from_iterable(names_held))
    return {name: weight * log(1 + len(names_held) / max(holders[name], 1)) for name, weight in weights.items()}


def _matches(
    texts: Sequence[AnalysedText],
    labels: Sequence[AnalysedText],
    singles: Mapping[str, float],
    pairs: Mapping[str, float],
) -> _Matches:
    """Return the query's terms and pairs found in texts and labels."""
    matched = _Matches([], [], [_held_by_label(label, singles) for label in labels] or [_NONE] * len(texts))
    for text in texts:
        counts, close = _held_by_text(text, singles, pairs)
        matched.counts.append(counts)
        matched.close.append(close)
    return matched


def _held_by_label(label: AnalysedText, singles: Mapping[str, float]) -> Mapping[str, object]:
    return dict.fromkeys(filter(singles.__contains__, label.reading.terms)) or _NONE


def _held_by_text(
    text: AnalysedText, singles: Mapping[str, float], pairs: Mapping[str, float]
) -> tuple[dict[str, int], Set[str]]:
    """Return the occurrences of each term and pair in a text, and the terms that are close to another.

    Only neighbours need comparing: the nearest other term is the one before or after.
    """
    counts: dict[str, int] = {}
    close: set[str] = set()
    text_terms, last, before = text.reading.terms, "", -CLOSE - 1
    for place in compress(count(), map(singles.__contains__, text_terms)):
        term = text_terms[place]
        counts[term] = counts.get(term, 0) + 1
        if place - before <= CLOSE:
            if place == before + 1 and (pair := f"{last}_{term}") in pairs:
                counts[pair] = counts.get(pair, 0) + 1
            if term != last:
                close.add(last)
                close.add(term)
        last, before = term, place
    return counts, close or _EMPTY
