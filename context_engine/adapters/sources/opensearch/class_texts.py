"""The chunks and vectors of each access class of a view, to calibrate with and to learn from."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from context_engine.adapters.sources.opensearch.conditions import (
    CHUNK_FIELDS,
    Query,
    StoreView,
    any_of,
    both,
    buckets_of,
    chunk_of,
    sources_of,
)
from context_engine.adapters.sources.opensearch.server import SearchBody
from context_engine.adapters.sources.stores.adapter_rows import Origin
from context_engine.adapters.sources.stores.calibrating import MOST_PASSAGES, CalibratedExtent
from context_engine.adapters.sources.stores.chunk_rows import SourcePlace
from context_engine.core.models import Chunk, Classification, HeldVectors

_OF_CHUNKS: Final[Query] = {"term": {"kind": "chunk"}}
_PLACE: Final = itemgetter("source", "document_id", "version", "row", "part")


class IndexTexts(NamedTuple):
    """The chunks of a view (`ClassTexts`)."""

    view: StoreView

    def holding(self, source_ids: Sequence[str]) -> list[tuple[str, int]]:
        """Return (source, key of a class) for each class that holds documents of some sources."""
        names = {"terms": {"field": "source", "size": max(len(source_ids), 1)}}
        query = both(self.view.state.visible, {"term": {"kind": "document"}}, any_of("source", source_ids))
        body = {"size": 0, "query": query, "aggs": {"names": names}}
        classes = self.view.classes
        results = self.view.calls.search([SearchBody([each.index_name], body) for each in classes])
        return [
            (bucket["key"], access_class.key)
            for access_class, result in zip(classes, results, strict=True)
            for bucket in buckets_of(result, "names")
        ]

    def extent(self, key: int, source_ids: Sequence[str], up_to: int | None = None) -> CalibratedExtent:
        """Return the size of a class, counting rows up to a number only."""
        limit = [] if up_to is None else [{"range": {"row": {"lte": up_to}}}]
        body = {
            "size": 0,
            "track_total_hits": True,
            "query": both(self.view.state.visible, _OF_CHUNKS, *limit),
            "aggs": {"own": {"filter": any_of("source", source_ids)}, "last": {"max": {"field": "row"}}},
        }
        (result,) = self.view.only(key).search([body])
        if "aggregations" not in result:  # the class is gone
            return CalibratedExtent(0, 0, 0)
        counted = result["aggregations"]
        last = int(counted["last"]["value"] or 0)
        return CalibratedExtent(counted["own"]["doc_count"], result["hits"]["total"]["value"], last)

    def passages(self, key: int, source_ids: Sequence[str]) -> list[Chunk]:
        """Return the chunks of the lowest digests."""
        query = both(self.view.state.visible, _OF_CHUNKS, any_of("source", source_ids))
        body = {"size": MOST_PASSAGES, "query": query, "_source": list(CHUNK_FIELDS), "sort": ["digest", "row"]}
        (result,) = self.view.only(key).search([body])
        return [chunk_of(row) for row in sources_of(result)]

    def held_ids(self, key: int, source_ids: Sequence[str], asked_ids: Collection[str]) -> frozenset[str]:
        """Return those of some ids that chunks and documents of a class have."""
        if not asked_ids:
            return frozenset()
        either = [any_of("chunk_id", asked_ids), any_of("document_id", asked_ids)]
        query = both(any_of("source", source_ids), {"bool": {"should": either, "minimum_should_match": 1}})
        rows = self.view.only(key).rows(query, ("chunk_id", "document_id"))
        return frozenset({row[name] for row in rows for name in ("chunk_id", "document_id")} & {*asked_ids})


def is_placed(view: StoreView, source_id: str, place: SourcePlace) -> bool:
    """Return whether every document of a source is in the class of its place."""
    body = {
        "size": 0,
        "query": both(view.state.visible, {"term": {"kind": "document"}}, {"term": {"source": source_id}}),
        "aggs": {"claimed": {"terms": {"field": "claimed", "size": len(Classification) + 1}}},
    }
    classes = view.state.classes
    results = view.calls.search([SearchBody([access_class.index_name], body) for access_class in classes])
    return all(
        place.holds(bucket["key"]) == access_class.holds
        for access_class, result in zip(classes, results, strict=True)
        for bucket in result["aggregations"]["claimed"]["buckets"]
    )


def held_vectors(view: StoreView, source_ids: Sequence[str]) -> HeldVectors:
    """Return the vectors of some sources with their chunks; see `TrainableStore`."""
    import numpy as np  # only here: the rest of the store works without it

    origin = Origin(view.learnt.moves, tuple(sorted({key for _, key in IndexTexts(view).holding(source_ids)})))
    vectors = HeldVectors([], [], np.empty(0, np.int64), np.empty((0, view.state.dimension), np.float32), origin)
    wanted = both(view.state.visible, any_of("source", source_ids), {"exists": {"field": "vector"}})
    fields = (*CHUNK_FIELDS, "source", "document_id", "version", "part", "vector")
    rows: list[dict[str, Any]] = [
        {**row, "vector": np.array(row["vector"], np.float32)}
        for row in view.calls.snapshot(view.indices, wanted, fields)
    ]
    lengths, parts = list[int](), [vectors.parts]
    for _, group in groupby(sorted(rows, key=_PLACE), key=itemgetter("row")):
        first, *further = group
        if first["part"] == 0:  # else the text's first vector had no direction, and none was kept
            vectors.source_ids.append(first["source"])
            vectors.chunks.append(chunk_of(first))
            lengths.append(1 + len(further))
            parts += [row["vector"][np.newaxis] for row in (first, *further)]
    return vectors._replace(lengths=np.array(lengths, np.int64), parts=np.concatenate(parts))
