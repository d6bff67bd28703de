"""A search of one view of a store, restricted to sources, filters and a day."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from context_engine.adapters.sources.opensearch.conditions import (
    CHUNK_FIELDS,
    EVERYTHING,
    MOST_ROWS,
    FieldTable,
    Query,
    StoreView,
    any_of,
    both,
    chunk_of,
    in_force,
    sources_of,
)
from context_engine.adapters.sources.opensearch.server import SearchBody
from context_engine.adapters.sources.stores.options import SearchOptions, kind_of, merged, ranked
from context_engine.adapters.sources.stores.question import (
    FoundRow,
    LookUp,
    ScoredCollection,
    Scorer,
    StoreEvidence,
    StoreQuestion,
    look_ups,
)
from context_engine.adapters.sources.stores.recall import RecallWatch
from context_engine.adapters.sources.stores.scope import Scope, pushed
from context_engine.adapters.sources.stores.vector_form import first_numbers
from context_engine.core.models import Chunk, Score, ScoreKind, TermStatistics

POOL: Final = 250
"""Rows of a source that are scored, the best by the terms they hold."""
_MOST_POOLED: Final = 1_000
"""Rows of many sources that are scored at first, in all."""
_LEAST_POOL: Final = 60
_POOL_SHARE: Final = 4
"""A search by vectors takes one row for so many of the pool, `depth` at least."""
_FIRST: Final = 40
"""Rows of the whole store among which the best hit is looked for."""
_FOUND: Final = ("row", "document", "section", "body", "head")
APPROXIMATE_FROM: Final = 10_000
"""Readable texts from which the graph of vectors is searched; fewer are all compared."""


class IndexedRows(NamedTuple):
    """The rows of a source that a search may find.

    Attributes:
        query: for its rows.
        test: chunks must pass it; None if the query is exact.
    """

    source_id: str
    query: Query
    test: Callable[[Chunk], bool] | None


def scoped(view: StoreView, scope: Scope) -> IndexedRows:
    """Return the rows of a source."""
    rows: list[Query] = [{"term": {"source": scope.source_id}}]
    rows += [] if scope.as_of is None else [in_force(scope.as_of)]
    if scope.filters is None:
        return IndexedRows(scope.source_id, both(*rows), None)
    table = FieldTable(view, scope.source_id)
    query, test = pushed(scope, table, table.values_of, {})
    return IndexedRows(scope.source_id, both(*rows, query), test)


def collection_of(view: StoreView, question: StoreQuestion | None) -> ScoredCollection:
    """Return the statistics of the readable texts for the terms of a question."""
    words = [] if question is None else list(dict.fromkeys((*question.weights, *question.credited)))
    body = {
        "size": 0,
        "query": view.state.visible,
        "aggs": {
            "texts": {"value_count": {"field": "length"}},
            "words": {"sum": {"field": "length"}},
            **{
                field: {"filters": {"filters": [{"term": {field: word}} for word in words]}}
                for field in ("body", "head")
                if words
            },
        },
    }
    (result,) = view.search([body])
    counted = result.get("aggregations", {"texts": {"value": 0}, "words": {"value": 0}})

    def holding(field: str) -> dict[str, int]:
        buckets = counted[field]["buckets"] if field in counted else []
        return {word: bucket["doc_count"] for word, bucket in zip(words, buckets, strict=False) if bucket["doc_count"]}

    return ScoredCollection(counted["texts"]["value"], int(counted["words"]["value"]), holding("body"), holding("head"))


class IndexRanking(NamedTuple):
    """The rows of one source, best first, the scores of each, and whether more rows might be found."""

    rows: list[int]
    scores: Callable[[int], tuple[Score, ...]]
    more: bool


class IndexSearch:
    """One question to a view.

    Args:
        question: None if it has no terms.
        vector: of the question; None: search by text only.
        watch: the recall of approximate searches.
    """

    def __init__(
        self,
        view: StoreView,
        question: StoreQuestion | None,
        vector: Sequence[float] | None,
        options: SearchOptions,
        watch: RecallWatch,
    ) -> None:
        self._view, self._options, self._watch = view, options, watch
        self.question, self.collection = question, collection_of(view, question)
        self._look_ups = [] if question is None else look_ups(question, self.collection, options)
        self._scorer = None if question is None else Scorer(question, self.collection, options)
        self._vector = None if vector is None or not any(vector) else first_numbers(vector, len(vector))
        self._by_text = f"opensearch:{view.state.base_id}"
        self._by_vector = str(view.state.model_id)

    def best(self, sources: Sequence[IndexedRows], top_k: int) -> dict[str, list[Chunk]]:
        """Return the best top_k chunks of each source; a source is searched deeper while chunks fail its test."""
        out: dict[str, list[Chunk]] = {}
        fair = _MOST_POOLED // max(len(sources), 1)
        pool, left = max(min(POOL, fair), _LEAST_POOL, top_k), list(sources)
        while left:
            rankings = self._rank(left, pool)
            reached = {name: ranking.rows for name, ranking in rankings.items()}
            reached |= {source.source_id: reached[source.source_id][:top_k] for source in left if not source.test}
            chunks = self._chunks([*chain.from_iterable(reached.values())])
            for source in left:
                name, ranking = source.source_id, rankings[source.source_id]
                kept = [row for row in reached[name] if source.test is None or source.test(chunks[row])][:top_k]
                if len(kept) >= top_k or not ranking.more or pool >= MOST_ROWS:
                    out[name] = [chunks[row]._replace(scores=ranking.scores(row)) for row in kept]
            left = [source for source in left if source.source_id not in out]
            pool = min(4 * pool, MOST_ROWS)
        return out

    @property
    def statistics(self) -> TermStatistics:
        """How frequent the question's terms are, for the engine."""
        terms = {} if self.question is None else dict.fromkeys(self.question.weights, 0)
        counted = {term: self.collection.frequency(term) for term in terms}
        return TermStatistics(collection=self._by_text, chunks=self.collection.chunks, document_frequency=counted)

    def _chunks(self, rows: Sequence[int]) -> dict[int, Chunk]:
        return {number: chunk_of(row) for number, row in self._view.numbered(rows, CHUNK_FIELDS).items()}

    def _rank(self, sources: Sequence[IndexedRows], pool: int) -> dict[str, IndexRanking]:
        """Return the ranking of each source.

        Args:
            pool: most rows of a source that are scored.
        """
        first = [] if self._vector is None else [self._pooled(EVERYTHING, _FIRST)]
        found = self._found([*first, *(self._pooled(source.query, pool) for source in sources)])
        if self._vector is None:
            return {source.source_id: self._of_texts(rows, pool) for source, rows in zip(sources, found, strict=True)}
        return self._merged(sources, self._vector, found[0], found[1:], pool)

    def _of_texts(self, rows: Sequence[FoundRow], pool: int) -> IndexRanking:
        own = {} if self._scorer is None else self._scorer.scores(rows)
        return IndexRanking(
            ranked(own), lambda row: (Score(ScoreKind.BM25, own[row], self._by_text),), len(own) >= pool
        )

    def _merged(
        self,
        sources: Sequence[IndexedRows],
        vector: Sequence[float],
        first: Sequence[FoundRow],
        by_text: Sequence[Sequence[FoundRow]],
        pool: int,
    ) -> dict[str, IndexRanking]:
        """Merge the best of each source by text with its nearest by vector; every row gets both of its true scores."""
        limit = min(max(self._options.depth, pool // _POOL_SHARE), MOST_ROWS)
        near = self._nearest(sources, vector, limit)
        known = {row.rid: row for row in chain.from_iterable(by_text)}
        others = [number for number in dict.fromkeys(chain.from_iterable(near)) if number not in known]
        known |= {number: _found_row(row) for number, row in self._view.numbered(others, _FOUND).items()}
        texts = [
            self._scores(dict.fromkeys([*(row.rid for row in rows), *numbers]), known)
            for rows, numbers in zip(by_text, near, strict=True)
        ]
        owns = [
            {row: text.get(row, 0.0) for row in {*numbers, *ranked(text)[:limit]}}
            for text, numbers in zip(texts, near, strict=True)
        ]
        cosine = self._cosines([*chain.from_iterable(owns)], vector)
        evidence = StoreEvidence(0.0, 0.0) if self._scorer is None else self._scorer.evidence(first)
        return {
            source.source_id: self._fused(
                source.source_id, own, cosine, evidence, len(numbers) >= limit or len(rows) >= pool
            )
            for source, own, rows, numbers in zip(sources, owns, by_text, near, strict=True)
        }

    def _scores(self, numbers: Mapping[int, Any], known: Mapping[int, FoundRow]) -> dict[int, float]:
        return (
            {}
            if self._scorer is None
            else self._scorer.scores([known[number] for number in numbers if number in known])
        )

    def _fused(
        self, source_id: str, own: Mapping[int, float], cosines: Mapping[int, float], best: StoreEvidence, more: bool
    ) -> IndexRanking:
        kind = kind_of(self._options)
        cosine = {row: cosines[row] for row in own if row in cosines}
        fused = merged(own, best.best, cosine, self._options, best.trust)
        # Ranks in one source's list are not comparable with those in another's, so each list has its own scorer.
        scorer = f"{self._by_text}:{self._by_vector}"
        scorer = scorer if kind is ScoreKind.WEIGHTED else f"{scorer}:{source_id}"

        def scores(row: int) -> tuple[Score, ...]:
            dense = (Score(ScoreKind.COSINE, cosine[row], self._by_vector),) if row in cosine else ()
            return (Score(kind, fused[row], scorer), *dense, Score(ScoreKind.BM25, own[row], self._by_text))

        return IndexRanking(ranked(fused), scores, more)

    def _pooled(self, rows: Query, most: int) -> Mapping[str, Any]:
        """Return the search for the rows with the highest sum of the scores of the terms they hold."""
        holding = [
            {"constant_score": {"filter": _holding(look_up), "boost": look_up.score}} for look_up in self._look_ups
        ]
        query = {"bool": {"filter": [self._view.state.visible, rows], "should": holding, "minimum_should_match": 1}}
        return {"size": most, "query": query, "_source": list(_FOUND), "sort": ["_score", {"row": "asc"}]}

    def _found(self, searches: Sequence[Mapping[str, Any]]) -> list[list[FoundRow]]:
        if not self._look_ups:
            return [[] for _ in searches]
        return [[_found_row(row) for row in sources_of(result)] for result in self._view.search(searches)]

    def _nearest(self, sources: Sequence[IndexedRows], vector: Sequence[float], limit: int) -> list[list[int]]:
        """Return, for each source, the rows nearest to a vector, at most `limit` of each access class."""
        near: list[list[int]] = [[] for _ in sources]
        for access_class in self._view.classes:
            by_graph = self.collection.chunks >= APPROXIMATE_FROM and not self._watch.is_low(access_class.key)
            watched = by_graph and self._watch.is_due(access_class.key)
            asked = [self._neighbours(source.query, vector, limit, by_graph) for source in sources]
            asked += [self._neighbours(source.query, vector, limit, False) for source in sources if watched]
            results = self._view.calls.search([SearchBody([access_class.index_name], body) for body in asked])
            rows = [list(dict.fromkeys(row["row"] for row in sources_of(result))) for result in results]
            for own, numbers in zip(near, rows, strict=False):
                own += numbers
            for numbers, exact in zip(rows, rows[len(sources) :], strict=False):
                self._watch.add(access_class.key, len({*numbers} & {*exact}) / max(len(exact), 1))
        return near

    def _neighbours(self, rows: Query, vector: Sequence[float], limit: int, by_graph: bool) -> Mapping[str, Any]:
        query = both(self._view.state.visible, rows)
        by = (
            {"knn": {"vector": {"vector": vector, "k": limit, "filter": query}}}
            if by_graph
            else _compared(query, vector)
        )
        return {"size": limit, "query": by, "_source": ["row"]}

    def _cosines(self, rows: Sequence[int], vector: Sequence[float]) -> dict[int, float]:
        """Return the cosine of each row with vectors; the nearest part of a long text counts."""
        batch = MOST_ROWS // 2
        parts = [any_of("row", rows[at : at + batch]) for at in range(0, len(rows), batch)]
        asked = [
            {"size": MOST_ROWS, "query": _compared(both(self._view.state.visible, part), vector), "_source": ["row"]}
            for part in parts
        ]
        cosines: dict[int, float] = {}
        for hit in chain.from_iterable(result["hits"]["hits"] for result in self._view.search(asked)):
            cosines.setdefault(hit["_source"]["row"], 1.0 - (1.0 / hit["_score"] - 1.0) / 2.0)
        return cosines


def _holding(look_up: LookUp) -> Query:
    return {"term": {"head" if look_up.in_head else "body": look_up.term}}


def _compared(rows: Query, vector: Sequence[float]) -> Query:
    """Return the query that scores every row of a set by 1 / (1 + d * d) of its distance d to a vector.

    Vectors have unit length, so the cosine is 1 - d * d / 2. The server's score of cosines depends on its version.
    """
    rows = both(rows, {"exists": {"field": "vector"}})
    values = {"field": "vector", "query_value": vector, "space_type": "l2"}
    return {"script_score": {"query": rows, "script": {"lang": "knn", "source": "knn_score", "params": values}}}


def _found_row(row: Mapping[str, Any]) -> FoundRow:
    return FoundRow(row["row"], 0, row["document"], row["section"], row["body"], frozenset(row["head"]))
