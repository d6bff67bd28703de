"""The engine's own lexical score: one scorer over all candidates, whatever source they come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, compress, count
from math import log
from typing import Final, NamedTuple

from context_engine.core.ranking.analysed import AnalysedText
from context_engine.core.text import bigrams, term_weights, terms

__all__ = ["LexicalScores", "lexical_scores"]

K1: Final = 1.2
B: Final = 0.75
BIGRAM_WEIGHT: Final = 0.5
LABEL_WEIGHT: Final = 0.2


class LexicalScores(NamedTuple):
    """Per text, in the order given.

    Attributes:
        score: BM25 over the pool, [0, inf); comparable within this pool only.
        coverage: share of the query's information the text holds, [0, 1]; comparable across pools.
    """

    score: list[float]
    coverage: list[float]


def lexical_scores(query: str, texts: Sequence[AnalysedText], labels: Sequence[AnalysedText] = ()) -> LexicalScores:
    """Score each text against the query.

    With N texts, df(t) of which hold term t, idf(t) = ln(1 + N / max(df(t), 1)). The usual BM25 idf would be 0 for a
    term that every candidate holds, and a recalled pool is made of such terms.

    score = sum of idf(t) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean length)) over the query's terms, plus
    half of the same over its pairs of adjacent terms; k1 = 1.2, b = 0.75 (Robertson and Zaragoza 2009); plus, for each
    term its label holds, idf(t) over the labels, a fifth of it where the term has no digit: as in the embedded index.
    coverage = sum of idf(t) over the terms the text or its label holds / sum of idf(t) over all terms of the query.

    Args:
        query: the question.
        texts: the pool.
        labels: what each text is headed by (title, headings, document id). A code or a clause number counts fully
            wherever it stands; a word little, for the titles of long documents match too much.

    Terms are stems without stop words; codes are whole (`4.2.1(b)`), and a piece of a hyphenated code counts a fifth
    (`text.term_weights`), in both. A query without terms scores 0 everywhere.

    >>> texts = [AnalysedText("The approval limits."), AnalysedText("A cake recipe.")]
    >>> lexical_scores("approval limit", texts).coverage
    [1.0, 0.0]
    """
    singles = term_weights(query)
    if not singles or not texts:
        return LexicalScores([0.0] * len(texts), [0.0] * len(texts))
    pairs = dict.fromkeys(bigrams(terms(query)), BIGRAM_WEIGHT)
    found = [_counts(text, singles, pairs) for text in texts]
    idf = _idf(pairs | singles, found)
    mean = sum(text.reading.length for text in texts) / len(texts) or 1.0
    whole = sum(idf[term] for term in singles)
    scores: list[float] = []
    coverage: list[float] = []
    heads = [_counts(label, singles, pairs) for label in labels] or [{} for _ in texts]
    rarity = _idf(singles, heads)
    in_label = {term: rarity[term] * (1.0 if any(map(str.isdigit, term)) else LABEL_WEIGHT) for term in singles}
    for text, counts, head in zip(texts, found, heads, strict=True):
        norm = K1 * (1 - B + B * text.reading.length / mean)
        score = 0.0
        for term, tf in counts.items():
            score += idf[term] * tf * (K1 + 1) / (tf + norm)
        scores.append(score + sum(in_label[term] for term in head if term in singles))
        coverage.append(sum(idf[term] for term in singles if term in counts or term in head) / whole)
    return LexicalScores(scores, coverage)


def _idf(weights: Mapping[str, float], found: Sequence[dict[str, int]]) -> dict[str, float]:
    """Return each name's weight times its idf over the pool."""
    holders = Counter(chain.from_iterable(found))
    return {name: weight * log(1 + len(found) / max(holders[name], 1)) for name, weight in weights.items()}


def _counts(text: AnalysedText, singles: Mapping[str, float], pairs: Mapping[str, float]) -> dict[str, int]:
    """Return how often the text holds each of the query's terms and pairs, in the order in which they appear."""
    counts: dict[str, int] = {}
    found, last, before = text.reading.terms, "", -2
    for place in compress(count(), map(singles.__contains__, found)):
        term = found[place]
        counts[term] = counts.get(term, 0) + 1
        if place == before + 1 and (pair := f"{last}_{term}") in pairs:
            counts[pair] = counts.get(pair, 0) + 1
        last, before = term, place
    return counts
