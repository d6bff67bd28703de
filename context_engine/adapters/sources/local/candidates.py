"""The candidates of one search: the best by text and the best by vector, each with both of its true scores.

Two measures judge the text: coverage, the share of the question that a row covers, and trust in the best hit. Measured
on three collections with the vectors of all-MiniLM-L6-v2, R@10 / MAP@10: coverage gains +.004 / +.009 for the text
search in regulation and changes nothing in an FAQ or in abstracts; trust gains +.093 / +.110 for text and vectors in an
FAQ whose questions use other words than its answers, and costs the others at most .001
(tests/benchmarks/bench_collections.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from datetime import date
from functools import partial
from math import log
from typing import Final, NamedTuple

from tantivy import DocAddress, Occur, Query, Searcher

from context_engine.adapters.sources.local.queries import FEW_ROWS, TextQuery, both, rows
from context_engine.adapters.sources.local.view import View
from context_engine.adapters.sources.stores.options import (
    CLEARLY,
    SearchOptions,
    boosted,
    covered,
    kind_of,
    lifted,
    merged,
    ranked,
    smoothed,
    trust,
    whole,
)
from context_engine.core.models import Score, ScoreKind

_MANY_ROWS: Final = 50_000
"""Rows of a view from which the best rows of a scope are first looked for among those of all scopes."""


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


def best_hit(view: View, query: TextQuery) -> tuple[float, int] | None:
    """Return the highest text score of a question in the view and its row, or None."""
    hits = view.once(("best", query), lambda: view.searcher.search(query.text, limit=1, count=False).hits)
    if not hits:
        return None
    score, place = hits[0]
    return score, _numbers(view, "rid", [place])[0]


def evidence(view: View, query: TextQuery, rids: Collection[int]) -> RowEvidence:
    """Return the textual evidence for a question; best and trust do not depend on the rows or the scope."""
    best = best_hit(view, query)
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
    shares = scores_in(view, view.once(("shares", query), lambda: _shares(view.searcher, query)), rids)
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


def scores_in(view: View, query: Query, rids: Collection[int]) -> dict[int, float]:
    """Return the score of each of `rids` that a query finds."""
    if not rids:
        return {}
    hits = view.searcher.search(both(query, rows(rids)), limit=len(rids), count=False).hits
    row_ids = view.searcher.fast_field_values("rid", [address for _, address in hits])
    return {int(rid or 0): score for (score, _), rid in zip(hits, row_ids)}


class LocalQuery(NamedTuple):
    """A question: its index queries, its vector if an embedder is configured, and the search options.

    Attributes:
        words: of the text that may be misspelt.
    """

    query: TextQuery | None
    vector: Sequence[float] | None
    options: SearchOptions
    words: Sequence[str] = ()


class SearchScope(NamedTuple):
    """The rows that a search may find.

    Attributes:
        query: finds all rows of the scope.
        source_key: of its source; None if it may hold rows of any source.
        selective: whether a filter or further sources may leave few rows of the source.
        source_id: the public id; row keys would reveal how many sources the base has.
        name: unique key of the scope in the view; None unless it holds all rows of a source.
    """

    query: Query
    source_key: int | None
    selective: bool
    source_id: str
    name: tuple[int, date | None] | None = None


class Candidates(NamedTuple):
    """The rows found.

    Attributes:
        ranked: best first.
        scores: returns the scores of a row.
        more: whether a higher limit might find more.
    """

    ranked: list[int]
    scores: Callable[[int], tuple[Score, ...]]
    more: bool


class _Hits(NamedTuple):
    """Rows, column by column.

    Attributes:
        text: the score of the text query, 0 without a match.
        group: the first row of the section.
        doc: the document; empty unless neighbours have a weight.
    """

    text: dict[int, float]
    group: dict[int, int]
    doc: dict[int, int]

    def add(self, others: _Hits) -> None:
        """Add other rows."""
        self.text.update(others.text)
        self.group.update(others.group)
        self.doc.update(others.doc)

    def of(self, rids: Sequence[int]) -> _Hits:
        """Return the given rows, in their order."""
        text = {rid: self.text[rid] for rid in rids}
        group = {rid: self.group[rid] for rid in rids}
        doc = {rid: self.doc[rid] for rid in rids if rid in self.doc}
        return _Hits(text, group, doc)


class _FirstRows(NamedTuple):
    """The rows of one scope that a search begins with, and whether a higher limit might find more."""

    rows: _Hits
    full: bool


def candidates(view: View, question: LocalQuery, scopes: Sequence[SearchScope], limit: int) -> list[Candidates]:
    """Return the candidates of a search in each of several disjoint scopes.

    The index is queried once for the rows of all scopes: one call for the rows of twenty sources takes a fifth of the
    time of twenty calls.
    """
    first_rows = [_found(view, question, scope, limit) for scope in scopes]
    if question.vector is None or view.vectors is None:
        return _by_text(view, question, first_rows)
    return _merged(view, question, first_rows, scopes)


def measured(view: View, question: LocalQuery, scope: SearchScope, rids: Collection[int]) -> Candidates:
    """Return those of some rows that are in a scope, with the scores that a search which found them together gives."""
    rows_of_scope = _ScopeRows(view, question, scope)
    rows_of_scope.among(rids)
    first_rows = [_FirstRows(rows_of_scope.read, False)]
    if question.vector is None or view.vectors is None:
        return _by_text(view, question, first_rows)[0]
    return _merged(view, question, first_rows, [scope])[0]


def _found(view: View, question: LocalQuery, scope: SearchScope, limit: int) -> _FirstRows:
    top_hits = _Hits({}, {}, {})
    if question.query is not None:
        top_hits = _best_by_text(view, question.query, scope, limit, question.options)
    full = len(top_hits.text) >= limit
    if question.vector is None or view.vectors is None:
        return _FirstRows(top_hits, full)
    rows_of_scope = _ScopeRows(view, question, scope)
    nearest = view.vectors.nearest(question.vector, limit, rows_of_scope, question.options)
    hits = rows_of_scope.read.of(nearest)
    hits.add(top_hits)
    return _FirstRows(hits, full or len(nearest) >= limit)


def _best_by_text(view: View, query: TextQuery, scope: SearchScope, limit: int, options: SearchOptions) -> _Hits:
    """Return the best rows of a scope by text.

    In a large view they are first looked for among the best rows of all scopes. A search without a scope takes half as
    long, and `best_hit` needs its first row anyway.
    """
    if view.searcher.num_docs >= _MANY_ROWS and limit <= FEW_ROWS // 2 and not scope.selective:
        hits = view.once(("hits", query), lambda: view.searcher.search(query.text, limit=FEW_ROWS, count=False).hits)
        view.once(("best", query), lambda: hits[:1])
        rids = _numbers(view, "rid", [place for _, place in hits])
        inside = scores_in(view, scope.query, rids)
        own = [hit for hit, rid in zip(hits, rids) if rid in inside]
        if len(own) >= limit or len(hits) < FEW_ROWS:
            return _columns(view, own[:limit], options)
    return _read(view, both(query.text, scope.query), limit, options)


class _ScopeRows:
    """The rows of a scope, looked up in the index for a search by vectors; rows that were read are kept."""

    def __init__(self, view: View, question: LocalQuery, scope: SearchScope) -> None:
        self._view, self._query, self._scope, self._options = view, question.query, scope, question.options
        self.source_key, self.selective = scope.source_key, scope.selective
        self.read = _Hits({}, {}, {})

    def count(self) -> int:
        """Return the number of rows of the scope."""
        result = self._view.searcher.search(self._scope.query, limit=1, count=True)
        return int(result.count)  # type: ignore[attr-defined]

    def all(self, count: int) -> list[int]:
        """Return all `count` rows of the scope."""
        hits = self._view.searcher.search(self._scope.query, limit=max(count, 1), count=False).hits
        return [int(rid or 0) for rid in self._view.searcher.fast_field_values("rid", [place for _, place in hits])]

    def among(self, rids: Collection[int]) -> Container[int]:
        """Return which of `rids` are in the scope, and keep their text scores, 0 without a match."""
        clauses = [(Occur.Must, rows(rids)), (Occur.Must, self._scope.query)]
        clauses += [(Occur.Should, self._query.text)] if self._query else []
        if rids:
            self.read.add(_read(self._view, Query.boolean_query(clauses), len(rids), self._options))
        return self.read.text


def _read(view: View, query: Query, limit: int, options: SearchOptions) -> _Hits:
    return _columns(view, view.searcher.search(query, limit=limit, count=False).hits, options)


def _columns(view: View, hits: Sequence[tuple[float, DocAddress]], options: SearchOptions) -> _Hits:
    places = [place for _, place in hits]
    rids = _numbers(view, "rid", places)
    doc = dict(zip(rids, _numbers(view, "doc", places))) if options.neighbour_weight else {}
    return _Hits(dict(zip(rids, (score for score, _ in hits))), dict(zip(rids, _numbers(view, "group", places))), doc)


def _numbers(view: View, field: str, places: list[DocAddress]) -> list[int]:
    """Return a field that every row has."""
    numbers: list[int] = view.searcher.fast_field_values(field, places)  # type: ignore[assignment]
    return numbers


def _by_text(view: View, question: LocalQuery, first_rows: Sequence[_FirstRows]) -> list[Candidates]:
    """Smooth the best `depth` rows of each scope by BM25 and coverage; the others keep their lower scores."""
    options, query = question.options, question.query
    if query is None:
        return [Candidates([], lambda _: (), first.full) for first in first_rows]
    hits = _together(first_rows)
    text = _covering(hits.text, coverage(view, query, hits.text))
    score = text | _smoothed(view, query, hits, _best(first_rows, text, options.depth), options)
    scorer = f"local:{view.state.base_id}"

    def of_scope(first: _FirstRows) -> Candidates:
        own = {rid: score[rid] for rid in first.rows.text}
        own = _boosted(view, query, own, options) if _boosts(options) else own
        return Candidates(ranked(own), lambda rid: (Score(ScoreKind.BM25, own[rid], scorer),), first.full)

    return [of_scope(first) for first in first_rows]


def _merged(
    view: View, question: LocalQuery, first_rows: Sequence[_FirstRows], scopes: Sequence[SearchScope]
) -> list[Candidates]:
    vectors, vector, query, options = view.vectors, question.vector, question.query, question.options
    assert vectors is not None and vector is not None
    hits = _together(first_rows)
    text, best, trust = hits.text, 0.0, 1.0
    if query is not None:
        by_text = evidence(view, query, [rid for rid, score in text.items() if score > 0.0])
        text = _smoothed(view, query, hits, _covering(text, by_text.coverage), options)
        best, trust = by_text.best * whole(options), by_text.trust
    base, model, kind = f"local:{view.state.base_id}", vectors.scorer_id, kind_of(options)

    def of_scope(first: _FirstRows, scope: SearchScope) -> Candidates:
        cosine = vectors.cosines(vector, first.rows.text)
        own = {rid: text[rid] for rid in first.rows.text}
        fused = merged(own, best, cosine, options, trust)
        if query is not None:
            fused = _boosted(view, query, fused, options) if _boosts(options) else fused
            fused = _cited_first(view, query, own, best, fused, kind)
        # Ranks in one source's list are not comparable with those in another's, so each list has its own scorer.
        scorer = f"{base}:{model}" if kind is ScoreKind.WEIGHTED else f"{base}:{model}:{scope.source_id}"

        def scores(rid: int) -> tuple[Score, ...]:
            dense = (Score(ScoreKind.COSINE, cosine[rid], model),) if rid in cosine else ()
            return (Score(kind, fused[rid], scorer), *dense, Score(ScoreKind.BM25, own[rid], base))

        return Candidates(ranked(fused), scores, first.full)

    return [of_scope(first, scope) for first, scope in zip(first_rows, scopes, strict=True)]


def _together(first_rows: Sequence[_FirstRows]) -> _Hits:
    """Return the rows of all scopes."""
    if len(first_rows) == 1:
        return first_rows[0].rows
    hits = _Hits({}, {}, {})
    for first in first_rows:
        hits.add(first.rows)
    return hits


def _best(first_rows: Sequence[_FirstRows], text: dict[int, float], depth: int) -> dict[int, float]:
    """Return the best `depth` rows of each scope."""
    if all(len(first.rows.text) <= depth for first in first_rows):
        return text
    best = (rid for first in first_rows for rid in ranked({rid: text[rid] for rid in first.rows.text})[:depth])
    return {rid: text[rid] for rid in best}


def _covering(text: Mapping[int, float], shares: Mapping[int, float]) -> dict[int, float]:
    """Return text scores weighted by the share of the question that each row covers."""
    return {rid: covered(score, shares.get(rid, 0.0)) for rid, score in text.items()}


def _smoothed(
    view: View, query: TextQuery, hits: _Hits, text: Mapping[int, float], options: SearchOptions
) -> dict[int, float]:
    return smoothed(text, hits.group, hits.doc, options, partial(scores_in, view, query.section))


def _boosts(options: SearchOptions) -> bool:
    return options.title_boost > 0.0 or options.definition_boost > 0.0


def _boosted(view: View, query: TextQuery, scores: Mapping[int, float], options: SearchOptions) -> dict[int, float]:
    title = scores_in(view, query.title, scores) if options.title_boost else {}
    defines = scores_in(view, query.defines, scores) if options.definition_boost and query.defines else {}
    return boosted(scores, title, defines, options)


def _cited_first(
    view: View, query: TextQuery, text: Mapping[int, float], best: float, fused: Mapping[int, float], kind: ScoreKind
) -> dict[int, float]:
    """Lift rows that contain every code of a query with few other words, and match those words well (`options.lifted`).

    `MAS Notice 637` asks for that notice; by cosine any notice is about as close. If no row of the base, in any source,
    holds the codes, the scores are unchanged.
    """
    codes = query.codes
    if codes is None or not view.once(("codes", query), lambda: view.searcher.search(codes, limit=1, count=False).hits):
        return dict(fused)
    holding = scores_in(view, codes, [rid for rid, score in text.items() if score >= CLEARLY * best])
    return lifted(fused, holding, kind)
