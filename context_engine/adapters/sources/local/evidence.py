"""Textual evidence for a question: the share of it that each row holds, and the trust in the best hit.

Measured on questions of three kinds with the vectors of all-MiniLM-L6-v2, R@10 / MAP@10: coverage gives +.004 / +.009
to the text of regulation and changes nothing in an FAQ or in abstracts; trust gives +.093 / +.110 to words and vectors
in an FAQ that is asked in other words than it answers in, and costs neither of the others more than .001
(tests/benchmarks/bench_collections.py).
"""

from __future__ import annotations

from collections.abc import Collection
from math import log
from typing import Final, NamedTuple

from tantivy import Occur, Query, Searcher

from context_engine.adapters.sources.local.queries import TextQuery, both, rows
from context_engine.adapters.sources.local.view import View

COVERAGE_EXPONENT: Final = 0.3
"""Of the share of the question that a row holds; .25 to .33 measured alike."""
_EVIDENCE: Final = 4.0
"""How many times the doubt the evidence must be beyond it, to be trusted fully; 3.5 to 5 measured alike."""
_WHOLE: Final = 4
"""Power of the best hit's share: .84 of the question is half of it."""


class Evidence(NamedTuple):
    """The textual evidence for one question.

    Attributes:
        coverage: of each row asked for that holds something of it (`coverage`).
        best: the highest text score in the view, as `covered` makes it; 0 where nothing matches.
        trust: what the text counts against the vectors, [0, 1].
    """

    coverage: dict[int, float]
    best: float
    trust: float


def best_hit(searcher: Searcher, query: TextQuery) -> tuple[float, int] | None:
    """Return the highest text score of a question in the view and its row, None where nothing matches."""
    hits = searcher.search(query.text, limit=1, count=False).hits
    if not hits:
        return None
    ((score, place),) = hits
    return score, int(searcher.fast_field_values("rid", [place])[0] or 0)


def evidence(view: View, query: TextQuery, rids: Collection[int]) -> Evidence:
    """Return what the view says of a question; best and trust are the same whatever its rows and its scope.

    Args:
        view: of one search.
        query: the question.
        rids: the rows asked for.
    """
    best = view.once(("best", query), lambda: best_hit(view.searcher, query))
    if best is None:
        return Evidence({}, 0.0, 0.0)
    score, first = best
    shares = coverage(view, query, {*rids, first})
    total = shares.get(first, 0.0)
    return Evidence(shares, covered(score, total), trust(score, int(view.searcher.num_docs), total))


def coverage(view: View, query: TextQuery, rids: Collection[int]) -> dict[int, float]:
    """Return the share of the question that each of some rows holds, (0, 1]; rows that hold nothing are left out.

    It is the sum of weight * idf over the question's terms that the row holds, by any of their names, over the sum of
    all; a word that its heading alone has counts half, one that it has in another form than the question .6
    (`queries.Held`). idf(t) = ln(1 + (N - df(t) + 1/2) / (df(t) + 1/2)) as in BM25, which lets one frequent term make
    up for others that are missing; coverage asks for all of them.
    """
    shares = scores(view, view.once(("shares", query), lambda: _shares(view.searcher, query)), rids)
    return {rid: min(share, 1.0) for rid, share in shares.items()}


def covered(score: float, share: float) -> float:
    """Return score * share ** COVERAGE_EXPONENT.

    >>> round(covered(8.0, 1 / 1024), 6)
    1.0
    """
    return float(score * share**COVERAGE_EXPONENT)


def trust(best: float, chunks: int, share: float) -> float:
    """Return how far the text of a base is trusted on one question, [0, 1]: max((best / ln(1 + N) - 1) / 4, held ** 4).

    A BM25 score is the log odds by which a text's words speak for it (Robertson and Zaragoza 2009), ln N are about the
    odds against any one of N texts before they are read: the best hit is worth best / ln N words that no other text
    holds. Where that is little, the question is in other words than the texts, and the best of them is best by chance.
    A short question has little to be found by; so a best hit that holds all of it is trusted too.

    Args:
        best: the highest BM25 score, >= 0.
        chunks: N, the number of texts, >= 1.
        held: share of the question that the best hit holds, [0, 1].

    >>> [round(trust(best, 999, 0.5), 2) for best in (6.9, 13.8, 20.7, 34.5)]
    [0.06, 0.25, 0.5, 1.0]
    """
    beyond = (best / log(1 + max(chunks, 1)) - 1.0) / _EVIDENCE
    return min(max(beyond, share**_WHOLE), 1.0)


def _shares(searcher: Searcher, query: TextQuery) -> Query:
    """Return the query that scores each row by the share of the question that it holds."""
    chunks = max(int(searcher.num_docs), 1)
    information = []
    for word in query.held_words:
        frequency = min(max(searcher.doc_freq(field, word.term) for field in ("body", "head")), chunks)
        information.append(word.weight * log(1.0 + (chunks - frequency + 0.5) / (frequency + 0.5)))
    total = sum(information)
    return Query.boolean_query(
        [
            (Occur.Should, Query.boost_query(word.query, value / total))
            for word, value in zip(query.held_words, information)
        ]
    )


def scores(view: View, query: Query, rids: Collection[int]) -> dict[int, float]:
    """Return the score of those of some rows that a query finds."""
    if not rids:
        return {}
    hits = view.searcher.search(both(query, rows(rids)), limit=len(rids), count=False).hits
    row_ids = view.searcher.fast_field_values("rid", [address for _, address in hits])
    return {int(rid or 0): score for (score, _), rid in zip(hits, row_ids)}
