"""A search of one view of a store, restricted to sources, filters and a day.

The rows nearest to a question's vector are found by comparing all, or by the graph, whose recall is watched.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from context_engine.adapters.sources.opensearch.conditions import (
    CHUNK_FIELDS,
    EVERYTHING,
    MOST_ROWS,
    ROW_ONLY,
    FieldTable,
    Query,
    StoreView,
    any_of,
    both,
    chunk_of,
    in_force,
    numbers_of,
    sources_of,
)
from context_engine.adapters.sources.opensearch.server import SearchBody
from context_engine.adapters.sources.opensearch.state import IndexClass
from context_engine.adapters.sources.stores.options import SearchOptions, ranked
from context_engine.adapters.sources.stores.question import (
    FoundRow,
    LookUp,
    ScoredCollection,
    StoreEvidence,
    StoreQuestion,
    code_words,
)
from context_engine.adapters.sources.stores.ranking import (
    FIRST,
    LEAST_POOL,
    Ranking,
    RowRanker,
    ViewSearch,
    nearest_wanted,
)
from context_engine.adapters.sources.stores.recall import RecallWatch, SearchWay
from context_engine.adapters.sources.stores.scope import Scope, pushed
from context_engine.adapters.sources.stores.vector_form import first_numbers
from context_engine.core.models import Chunk

if TYPE_CHECKING:
    from context_engine.adapters.sources.domain_adapter import DomainAdapter


_FOUND: Final = ("row", "document", "section", "body", "head", "title", "defined")
_SEARCHED: Final[Query] = {"exists": {"field": "length"}}
"""Bare headings are not searched."""
_UNCOUNTED: Final = {"track_total_hits": False}
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


def collection_of(
    view: StoreView, question: StoreQuestion | None, codes: Sequence[str]
) -> tuple[ScoredCollection, bool]:
    """Return the statistics of the readable texts for the terms of a question, and whether a row holds all codes.

    Each count is a search of its own: it walks the rows of one term, where an aggregation tests every row for each. The
    server keeps the sums over all texts until the next commit, because each question asks for them alike.
    """
    visible = view.state.visible
    own = {} if question is None else {**question.own, **question.credited}
    searched = {} if question is None else {**question.weights, **own}  # synonyms: in texts alone
    held = [*(("body", word) for word in searched), *(("head", word) for word in own)]
    sums = {"texts": {"value_count": {"field": "length"}}, "words": {"sum": {"field": "length"}}}
    counts = [
        {"size": 0, "track_total_hits": True, "query": both(visible, {"term": {field: word}})} for field, word in held
    ]
    coded = {"size": 1, "_source": False, "query": both(visible, *(holding_any([code]) for code in codes))}
    summed, *results = view.search([{"size": 0, "query": visible, "aggs": sums}, *counts, *([coded] if codes else [])])
    totals = [result["hits"].get("total", {"value": 0})["value"] for result in results]
    in_texts, in_heads = (
        {word: total for (field, word), total in zip(held, totals, strict=False) if field == name and total}
        for name in ("body", "head")
    )
    size = summed.get("aggregations", {"texts": {"value": 0}, "words": {"value": 0}})
    sizes = size["texts"]["value"], int(size["words"]["value"])
    return ScoredCollection(*sizes, in_texts, in_heads), bool(codes) and bool(results[-1]["hits"]["hits"])


class IndexSearch(ViewSearch[IndexedRows]):
    """One question to a view; further arguments are those of `ViewSearch`.

    Args:
        question: None if it has no terms.
    """

    _most_pool = MOST_ROWS

    def __init__(
        self,
        view: StoreView,
        question: StoreQuestion | None,
        vector: Sequence[float] | None,
        options: SearchOptions,
        watch: RecallWatch,
        adapter: DomainAdapter | None = None,
    ) -> None:
        super().__init__(view.state.model_id, vector, options, watch, adapter)
        self._view = view
        self._vector = None if vector is None or not any(vector) else NearestQuery.of(vector, adapter)
        codes = [] if question is None or self._vector is None else code_words(question.own)
        collection, some = collection_of(view, question, codes)
        self._ranker = RowRanker(
            question,
            collection,
            options,
            by_text=f"opensearch:{view.state.base_id}",
            by_vector=self.scorer_id,
            codes=codes if some else [],
        )

    def _compared(
        self, source: IndexedRows, rows: Collection[int]
    ) -> tuple[list[FoundRow], Mapping[int, float] | None]:
        wanted = both(_SEARCHED, source.query, any_of("row", rows))
        found_rows = [_found_row(row) for row in self._view.rows(wanted, _FOUND)]
        numbers = [row.rid for row in found_rows]
        return found_rows, None if self._vector is None else cosines(self._view, self._vector, numbers)

    def _evidence(self) -> StoreEvidence:
        (first,) = self._found([self._pooled(EVERYTHING, FIRST)])
        return self._ranker.evidence(first)

    def ranked_in(self, source: IndexedRows, documents: Collection[int]) -> dict[int, list[int]]:
        """Return the rows of each of some documents that hold words of the question, best first."""
        each = [both(source.query, {"term": {"document": document}}) for document in documents]
        pools = self._found([self._pooled(rows, LEAST_POOL) for rows in each])
        return {
            document: ranked(self._ranker.text_scores(rows)) for document, rows in zip(documents, pools, strict=True)
        }

    def _chunks(self, rows: Sequence[int]) -> dict[int, Chunk]:
        return {number: chunk_of(row) for number, row in self._view.numbered(rows, CHUNK_FIELDS).items()}

    def _rank(self, sources: Sequence[IndexedRows], pool: int) -> dict[str, Ranking]:
        """Return the ranking of each source.

        Args:
            pool: most rows of a source that are scored.
        """
        first = [] if self._vector is None else [self._pooled(EVERYTHING, FIRST)]
        pools = self._found([*first, *(self._pooled(source.query, pool) for source in sources)])
        if self._vector is None:
            return {
                source.source_id: self._ranker.of_text(rows, self._ranker.text_scores(rows), more=len(rows) >= pool)
                for source, rows in zip(sources, pools, strict=True)
            }
        return self._merged(sources, self._vector, self._ranker.evidence(pools[0]), pools[1:], pool)

    def _merged(
        self,
        sources: Sequence[IndexedRows],
        vector: NearestQuery,
        best: StoreEvidence,
        by_text: Sequence[Sequence[FoundRow]],
        pool: int,
    ) -> dict[str, Ranking]:
        """Merge the best of each source by text with its nearest by vector; every row gets both of its true scores."""
        limit = min(nearest_wanted(self._options, pool), MOST_ROWS)
        conditions, chunks = [source.query for source in sources], self._ranker.collection.chunks
        near = nearest(self._view, vector, conditions, limit, chunks, self._watch)
        known = {row.rid: row for row in chain.from_iterable(by_text)}
        others = [number for number in dict.fromkeys(chain.from_iterable(near)) if number not in known]
        known |= {number: _found_row(row) for number, row in self._view.numbered(others, _FOUND).items()}
        rows, texts = [], []
        for text_rows, numbers in zip(by_text, near, strict=True):
            every = dict.fromkeys([*(row.rid for row in text_rows), *numbers])
            texts.append(self._ranker.text_scores([known[number] for number in every if number in known]))
            own = {*numbers, *ranked(texts[-1])[:limit]}
            rows.append([known[number] for number in texts[-1] if number in own])
        cosine = cosines(self._view, vector, [row.rid for row in chain.from_iterable(rows)])
        return {
            source.source_id: self._ranker.of_both(
                source.source_id, own, text, cosine, best, more=len(numbers) >= limit or len(text_rows) >= pool
            )
            for source, own, text, text_rows, numbers in zip(sources, rows, texts, by_text, near, strict=True)
        }

    def _pooled(self, rows: Query, most: int) -> Mapping[str, Any]:
        """Return the search for the rows with the highest sum of the scores of the terms they hold."""
        holding = [
            {"constant_score": {"filter": _holding(look_up), "boost": look_up.score}}
            for look_up in self._ranker.look_ups
        ]
        query = {"bool": {"filter": [self._view.state.visible, rows], "should": holding, "minimum_should_match": 1}}
        return {"size": most, "query": query, "_source": list(_FOUND), "sort": ["_score", {"row": "asc"}], **_UNCOUNTED}

    def _found(self, searches: Sequence[Mapping[str, Any]]) -> list[list[FoundRow]]:
        if not self._ranker.look_ups:
            return [[] for _ in searches]
        return [[_found_row(row) for row in sources_of(result)] for result in self._view.search(searches)]


def _holding(look_up: LookUp) -> Query:
    return {"term": {"head" if look_up.in_head else "body": look_up.term}}


def holding_any(terms: Collection[str]) -> Query:
    """Return the query for rows that hold any of some terms, in text or head."""
    parts = [any_of(field, terms) for field in ("body", "head")]
    return {"bool": {"should": parts, "minimum_should_match": 1}}


def _found_row(row: Mapping[str, Any]) -> FoundRow:
    sets = (frozenset(row[name]) for name in ("head", "title", "defined"))
    return FoundRow(row["row"], 0, row["document"], row["section"], row["body"], *sets)


SPARE: Final = 4
"""Rows read for each wanted one under an adapter: the server does not know the lengths of mapped vectors."""
_READ_AT_ONCE: Final = 500
"""Rows whose vectors are read in one call."""


class NearestQuery(NamedTuple):
    """A question's vector for one store.

    Attributes:
        asked: the vector; with an adapter as `DomainAdapter.asked` folds it.
        numbers: the same with unit length.
        adapter: maps the stored vectors before they are compared; None: they are compared as they are.
    """

    asked: Sequence[float]
    numbers: Sequence[float]
    adapter: DomainAdapter | None = None

    @classmethod
    def of(cls, vector: Sequence[float], adapter: DomainAdapter | None = None) -> NearestQuery:
        """Return the query for a vector that is not 0 everywhere."""
        asked = vector if adapter is None else adapter.asked(vector).tolist()
        return cls(asked, first_numbers(asked, len(asked)), adapter)


def nearest(
    view: StoreView, query: NearestQuery, conditions: Sequence[Query], limit: int, chunks: int, watch: RecallWatch
) -> list[list[int]]:
    """Return, for each of some conditions, the rows nearest to a question, at most `limit` of each access class.

    Args:
        chunks: the number of readable texts.
    """
    near: list[list[int]] = [[] for _ in conditions]
    for access_class in view.classes:
        way = watch.next_way(access_class.key) if chunks >= APPROXIMATE_FROM else SearchWay.EXACT
        by_graph = {SearchWay.INDEX: [True], SearchWay.EXACT: [False], SearchWay.BOTH: [True, False]}[way]
        asked = [_neighbours(view, query, rows, limit, each) for each in by_graph for rows in conditions]
        results = view.calls.search([SearchBody([access_class.index_name], body) for body in asked])
        rows = [_best(view, query, access_class, numbers_of(result), limit) for result in results]
        last = rows[-len(conditions) :]
        for own, numbers in zip(near, last, strict=True):
            own += numbers
        shares = [len({*numbers} & {*exact}) / len(exact) for numbers, exact in zip(rows, last, strict=False) if exact]
        if way is SearchWay.BOTH and shares:
            watch.add(access_class.key, sum(shares) / len(shares))
    return near


def cosines(view: StoreView, query: NearestQuery, rows: Sequence[int]) -> dict[int, float]:
    """Return the cosine of each row with vectors; the nearest part of a long text counts."""
    if query.adapter is not None:
        return _adapted_cosines(view, query, query.adapter, rows)
    batch = MOST_ROWS // 2
    parts = [any_of("row", rows[at : at + batch]) for at in range(0, len(rows), batch)]
    asked = [
        {"size": MOST_ROWS, "query": _compared(both(view.state.visible, part), query.numbers), **ROW_ONLY}
        for part in parts
    ]
    cosine: dict[int, float] = {}
    for result in view.search(asked):
        for number, hit in zip(numbers_of(result), result["hits"]["hits"], strict=True):
            cosine.setdefault(number, 1.0 - (1.0 / hit["_score"] - 1.0) / 2.0)
    return cosine


def _adapted_cosines(
    view: StoreView, query: NearestQuery, adapter: DomainAdapter, rows: Sequence[int]
) -> dict[int, float]:
    cosine: dict[int, float] = {}
    for at in range(0, len(rows), _READ_AT_ONCE):
        some = both(view.state.visible, any_of("row", rows[at : at + _READ_AT_ONCE]), {"exists": {"field": "vector"}})
        (result,) = view.search([{"size": MOST_ROWS, "query": some, "_source": ["row", "vector"]}])
        cosine |= adapter.best_cosines(query.asked, [(part["row"], part["vector"]) for part in sources_of(result)])
    return cosine


def _best(
    view: StoreView, query: NearestQuery, access_class: IndexClass, numbers: Sequence[int], limit: int
) -> list[int]:
    """Return the best rows of a result; under an adapter those with the highest cosines."""
    rows = list(dict.fromkeys(numbers))
    if query.adapter is None:
        return rows
    return ranked(cosines(view._replace(classes=(access_class,)), query, rows))[:limit]


def _neighbours(view: StoreView, query: NearestQuery, rows: Query, limit: int, by_graph: bool) -> Mapping[str, Any]:
    size = min(limit if query.adapter is None else SPARE * limit, MOST_ROWS)
    rows = both(view.state.visible, rows)
    graph = {"knn": {"vector": {"vector": query.numbers, "k": size, "filter": rows}}}
    return {"size": size, "query": graph if by_graph else _compared(rows, query.numbers), **ROW_ONLY}


def _compared(rows: Query, vector: Sequence[float]) -> Query:
    """Return the query that scores every row of a set by 1 / (1 + d * d) of its distance d to a vector.

    Vectors have unit length, so the cosine is 1 - d * d / 2. The server's score of cosines depends on its version.
    """
    rows = both(rows, {"exists": {"field": "vector"}})
    values = {"field": "vector", "query_value": vector, "space_type": "l2"}
    return {"script_score": {"query": rows, "script": {"lang": "knn", "source": "knn_score", "params": values}}}
