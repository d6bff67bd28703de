"""Textual evidence for a question: the share of it that each row covers, and the trust in the best hit.

Measured on three collections with the vectors of all-MiniLM-L6-v2, R@10 / MAP@10: coverage gains +.004 / +.009 for the
text search in regulation and changes nothing in an FAQ or in abstracts; trust gains +.093 / +.110 for text and vectors
in an FAQ whose questions use other words than its answers, and costs the others at most .001
(tests/benchmarks/bench_collections.py).
"""

from __future__ import annotations

from collections.abc import Collection
from math import log
from typing import NamedTuple

from tantivy import Occur, Query, Searcher

from context_engine.adapters.sources.local.queries import TextQuery, both, rows
from context_engine.adapters.sources.local.view import View
from context_engine.adapters.sources.stores.options import covered, trust


class RowEvidence(NamedTuple):
    """The textual evidence for one question.

    Attributes:
        coverage: of each requested row that covers some of it (`coverage`).
        best: the highest text score in the view, after `covered`; 0 without a match.
        trust: weight of the text against the vectors, [0, 1].
    """

    coverage: dict[int, float]
    best: float
    trust: float


def best_hit(searcher: Searcher, query: TextQuery) -> tuple[float, int] | None:
    """Return the highest text score of a question in the view and its row, or None."""
    hits = searcher.search(query.text, limit=1, count=False).hits
    if not hits:
        return None
    ((score, place),) = hits
    return score, int(searcher.fast_field_values("rid", [place])[0] or 0)


def evidence(view: View, query: TextQuery, rids: Collection[int]) -> RowEvidence:
    """Return the textual evidence for a question; best and trust do not depend on the rows or the scope."""
    best = view.once(("best", query), lambda: best_hit(view.searcher, query))
    if best is None:
        return RowEvidence({}, 0.0, 0.0)
    score, first = best
    shares = coverage(view, query, {*rids, first})
    total = shares.get(first, 0.0)
    return RowEvidence(shares, covered(score, total), trust(score, int(view.searcher.num_docs), total))


def coverage(view: View, query: TextQuery, rids: Collection[int]) -> dict[int, float]:
    """Return the share of the question that each row covers, (0, 1]; rows that cover nothing are omitted.

    It is the sum of weight * idf over the question's terms that the row holds, by any of their names, divided by the
    sum over all; a word only in its heading counts half, another form of a word .6 (`queries.Held`).
    idf(t) = ln(1 + (N - df(t) + 1/2) / (df(t) + 1/2)) as in BM25. In BM25 one frequent term can make up for missing
    ones; coverage requires all terms.
    """
    shares = scores(view, view.once(("shares", query), lambda: _shares(view.searcher, query)), rids)
    return {rid: min(share, 1.0) for rid, share in shares.items()}


def _shares(searcher: Searcher, query: TextQuery) -> Query:
    """Return the query that scores each row by the share of the question that it covers."""
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
    """Return the score of each of `rids` that a query finds."""
    if not rids:
        return {}
    hits = view.searcher.search(both(query, rows(rids)), limit=len(rids), count=False).hits
    row_ids = view.searcher.fast_field_values("rid", [address for _, address in hits])
    return {int(rid or 0): score for (score, _), rid in zip(hits, row_ids)}
