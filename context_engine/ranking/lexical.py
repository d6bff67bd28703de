"""The engine's own lexical score: one scorer over all candidates, whatever source they come from."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Final, NamedTuple

from context_engine.text import STOP_WORDS, bigrams, has_cjk, stems, terms, tokens

__all__ = ["LexicalScores", "lexical_scores"]

K1: Final = 1.2
B: Final = 0.75
BIGRAM_WEIGHT: Final = 0.5


class LexicalScores(NamedTuple):
    """Per text, in the order given.

    Attributes:
        score: BM25 over the pool, [0, inf); comparable within this pool only.
        coverage: share of the query's information the text holds, [0, 1]; comparable across pools.
    """

    score: list[float]
    coverage: list[float]


def lexical_scores(query: str, texts: Sequence[str], labels: Sequence[str] = ()) -> LexicalScores:
    """Score each text against the query.

    With N texts, df(t) of which hold term t, idf(t) = ln(1 + N / max(df(t), 1)). The usual BM25 idf would be 0 for a
    term that every candidate holds, and a recalled pool is made of such terms.

    score = sum of idf(t) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean length)) over the query's terms, plus
    half of the same over its pairs of adjacent terms; k1 = 1.2, b = 0.75 (Robertson and Zaragoza 2009).
    coverage = sum of idf(t) over the terms the text or its label holds / sum of idf(t) over all terms of the query.

    Args:
        query: the question.
        texts: the pool.
        labels: what each text is headed by (title, headings, document id). A label helps to tell whether a text is
            about the question at all; it does not rank, for the titles of long documents match too much.

    Terms are stems without stop words; codes are whole (`4.2.1(b)`). A query without terms scores 0 everywhere.

    >>> lexical_scores("approval limit", ["The approval limits.", "A cake recipe."]).coverage
    [1.0, 0.0]
    """
    wanted = terms(query)
    singles = dict.fromkeys(wanted)
    if not singles or not texts:
        return LexicalScores([0.0] * len(texts), [0.0] * len(texts))
    pairs = dict.fromkeys(bigrams(wanted))
    finder = _Finder(singles, pairs)
    found = [finder.count(text) for text in texts]
    idf = _idf([*singles, *pairs], [counts for counts, _ in found])
    mean = sum(length for _, length in found) / len(found) or 1.0
    whole = sum(idf[term] for term in singles)
    scores: list[float] = []
    coverage: list[float] = []
    heads = [finder.count(label)[0] for label in labels] or [{} for _ in texts]
    for (counts, length), head in zip(found, heads, strict=True):
        norm = K1 * (1 - B + B * length / mean)
        score = 0.0
        for term, tf in counts.items():
            weight = idf[term] if term in singles else BIGRAM_WEIGHT * idf[term]
            score += weight * tf * (K1 + 1) / (tf + norm)
        scores.append(score)
        coverage.append(sum(idf[term] for term in singles if term in counts or term in head) / whole)
    return LexicalScores(scores, coverage)


def _idf(names: Sequence[str], found: Sequence[dict[str, int]]) -> dict[str, float]:
    total = len(found)
    return {name: log(1 + total / max(sum(name in counts for counts in found), 1)) for name in names}


class _Finder:
    """Counts a query's terms and pairs in texts, looking each word form up once for the whole pool."""

    def __init__(self, singles: dict[str, None], pairs: dict[str, None]) -> None:
        self._singles, self._pairs = singles, pairs
        self._forms: dict[str, tuple[str, ...] | None] = dict.fromkeys(STOP_WORDS)

    def count(self, text: str) -> tuple[dict[str, int], int]:
        """Return ({term or pair: times}, length in tokens)."""
        if has_cjk(text):
            sequence = terms(text)
            return self._tally([term if term in self._singles else "" for term in sequence]), len(sequence)
        words = tokens(text)
        forms = self._forms
        self._learn(set(words))
        sequence = []
        for word in words:
            hit = forms[word]
            if hit is not None:
                sequence += hit
        return self._tally(sequence), len(words)

    def _learn(self, words: set[str]) -> None:
        """Map each new word form to the query terms it holds; "" stands for a word that breaks a pair."""
        new = words.difference(self._forms)
        simple = [word for word in new if word.isalpha()]
        for word, stem in zip(simple, stems(simple)):
            self._forms[word] = (stem,) if stem in self._singles else ("",)
        for word in new:
            if word not in self._forms:
                self._forms[word] = tuple(term if term in self._singles else "" for term in terms(word))

    def _tally(self, sequence: list[str]) -> dict[str, int]:
        counts: dict[str, int] = {}
        previous = ""
        for term in sequence:
            if term:
                counts[term] = counts.get(term, 0) + 1
                if previous:
                    pair = f"{previous}_{term}"
                    if pair in self._pairs:
                        counts[pair] = counts.get(pair, 0) + 1
            previous = term
        return counts
