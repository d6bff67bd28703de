"""The rows nearest to a question's vector: all compared, or by the graph, whose recall is watched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from context_engine.adapters.sources.opensearch.conditions import MOST_ROWS, Query, StoreView, any_of, both, sources_of
from context_engine.adapters.sources.opensearch.server import SearchBody
from context_engine.adapters.sources.opensearch.state import IndexClass
from context_engine.adapters.sources.stores.options import ranked
from context_engine.adapters.sources.stores.recall import RecallWatch
from context_engine.adapters.sources.stores.vector_form import first_numbers

if TYPE_CHECKING:
    from context_engine.adapters.sources.domain_adapter import DomainAdapter

APPROXIMATE_FROM: Final = 10_000
"""Readable texts from which the graph of vectors is searched; fewer are all compared."""
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
        by_graph = chunks >= APPROXIMATE_FROM and not watch.is_low(access_class.key)
        watched = by_graph and watch.is_due(access_class.key)
        asked = [_neighbours(view, query, rows, limit, by_graph) for rows in conditions]
        asked += [_neighbours(view, query, rows, limit, False) for rows in conditions if watched]
        results = view.calls.search([SearchBody([access_class.index_name], body) for body in asked])
        rows = [_best(view, query, access_class, sources_of(result), limit) for result in results]
        for own, numbers in zip(near, rows, strict=False):
            own += numbers
        for numbers, exact in zip(rows, rows[len(conditions) :], strict=False):
            watch.add(access_class.key, len({*numbers} & {*exact}) / max(len(exact), 1))
    return near


def cosines(view: StoreView, query: NearestQuery, rows: Sequence[int]) -> dict[int, float]:
    """Return the cosine of each row with vectors; the nearest part of a long text counts."""
    if query.adapter is not None:
        return _adapted_cosines(view, query, query.adapter, rows)
    batch = MOST_ROWS // 2
    parts = [any_of("row", rows[at : at + batch]) for at in range(0, len(rows), batch)]
    asked = [
        {"size": MOST_ROWS, "query": _compared(both(view.state.visible, part), query.numbers), "_source": ["row"]}
        for part in parts
    ]
    cosine: dict[int, float] = {}
    for hit in chain.from_iterable(result["hits"]["hits"] for result in view.search(asked)):
        cosine.setdefault(hit["_source"]["row"], 1.0 - (1.0 / hit["_score"] - 1.0) / 2.0)
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


def _best(view: StoreView, query: NearestQuery, access_class: IndexClass, hits: Sequence[Any], limit: int) -> list[int]:
    """Return the best rows of a result; under an adapter those with the highest cosines."""
    rows = list(dict.fromkeys(hit["row"] for hit in hits))
    if query.adapter is None:
        return rows
    return ranked(cosines(view._replace(classes=(access_class,)), query, rows))[:limit]


def _neighbours(view: StoreView, query: NearestQuery, rows: Query, limit: int, by_graph: bool) -> Mapping[str, Any]:
    size = min(limit if query.adapter is None else SPARE * limit, MOST_ROWS)
    rows = both(view.state.visible, rows)
    graph = {"knn": {"vector": {"vector": query.numbers, "k": size, "filter": rows}}}
    return {"size": size, "query": graph if by_graph else _compared(rows, query.numbers), "_source": ["row"]}


def _compared(rows: Query, vector: Sequence[float]) -> Query:
    """Return the query that scores every row of a set by 1 / (1 + d * d) of its distance d to a vector.

    Vectors have unit length, so the cosine is 1 - d * d / 2. The server's score of cosines depends on its version.
    """
    rows = both(rows, {"exists": {"field": "vector"}})
    values = {"field": "vector", "query_value": vector, "space_type": "l2"}
    return {"script_score": {"query": rows, "script": {"lang": "knn", "source": "knn_score", "params": values}}}
