"""Filters as queries, and the values of fields that they are tested on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any, Final, NamedTuple

from context_engine.adapters.sources.opensearch.server import Calls, SearchBody
from context_engine.adapters.sources.opensearch.state import IndexClass, IndexState, LearntDocument, StateDocument
from context_engine.adapters.sources.stores.chunk_rows import decode
from context_engine.adapters.sources.stores.pushdown import CLAIMS, FieldValues, attributes_of
from context_engine.core.models import AccessScope, Chunk
from context_engine.core.policy.filters import own_fields

Query = Mapping[str, Any]
EVERYTHING: Final[Query] = {"match_all": {}}
NOTHING: Final[Query] = {"match_none": {}}
CHUNK_FIELDS: Final = ("row", "chunk_id", "content", "fields", "indexed_at")
MOST_ROWS: Final = 10_000
"""Rows of one search; the server's limit."""
_MOST_TERMS: Final = 50_000
"""Values of one `terms` query; the server's limit is 65,536."""
_LONGEST: Final = 8_000
"""Characters of a value as it is indexed; the server's limit is 32,766 bytes."""
_PAGE: Final = 5_000
_MOST_FIELDS: Final = 1_000


class StoreView(NamedTuple):
    """What a caller may read of a store after one commit.

    Attributes:
        classes: the readable access classes.
        learnt: what the store has learnt, from all classes.
    """

    calls: Calls
    state: IndexState
    classes: tuple[IndexClass, ...]
    learnt: LearntDocument

    @classmethod
    def read(cls, calls: Calls, prefix: str, access: AccessScope | None = None) -> StoreView:
        """Return what a caller may read of the last commit; None: everything.

        Raises:
            SourceNotFound, StoreVersionMismatch, SourceError: as `StateDocument.read`.
        """
        document = StateDocument(calls, prefix)
        state = document.read()
        return cls(calls, state, state.readable(access), document.learnt)

    @property
    def keys(self) -> list[int]:
        """The keys of the readable classes."""
        return [access_class.key for access_class in self.classes]

    def only(self, key: int) -> StoreView:
        """Return the view of one of its classes."""
        return self._replace(classes=tuple(each for each in self.classes if each.key == key))

    @property
    def indices(self) -> list[str]:
        """The indices of the readable classes."""
        return [access_class.index_name for access_class in self.classes]

    def search(self, bodies: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return the result of each search of the readable classes."""
        return self.calls.search([SearchBody(self.indices, body) for body in bodies])

    def rows(self, query: Query, fields: Sequence[str]) -> list[Any]:
        """Return some fields of the visible chunks that match a query, in the order of writing."""
        query = both(self.state.visible, {"term": {"kind": "chunk"}}, query)
        body = {"size": MOST_ROWS, "_source": list(fields), "query": query, "sort": [{"row": "asc"}]}
        (result,) = self.search([body])
        rows = sources_of(result)
        while len(result["hits"]["hits"]) == MOST_ROWS:
            (result,) = self.search([{**body, "search_after": result["hits"]["hits"][-1]["sort"]}])
            rows += sources_of(result)
        return rows

    def numbered(self, numbers: Sequence[int], fields: Sequence[str]) -> dict[int, Any]:
        """Return some fields of the chunks with some row numbers."""
        batches = (numbers[at : at + MOST_ROWS] for at in range(0, len(numbers), MOST_ROWS))
        return {row["row"]: row for batch in batches for row in self.rows(any_of("row", batch), fields)}


ROW_ONLY: Final = {"_source": False, "docvalue_fields": ["row"], "track_total_hits": False}
"""The part of a search that returns row numbers alone; the server then reads no stored text."""


def numbers_of(result: Mapping[str, Any]) -> list[int]:
    """Return the numbers of the rows of a result of `ROW_ONLY`, in its order."""
    return [int(hit["fields"]["row"][0]) for hit in result["hits"]["hits"]]


def sources_of(result: Mapping[str, Any]) -> list[Any]:
    """Return the fields of the rows of a result, in its order."""
    return [hit["_source"] for hit in result["hits"]["hits"]]


def both(*parts: Query) -> Query:
    """Return the query for the rows of every part."""
    return {"bool": {"filter": list(parts)}}


def any_of(field: str, values: Iterable[Any]) -> Query:
    """Return the query for the rows with one of some values."""
    wanted = list(values)
    parts = [{"terms": {field: wanted[at : at + _MOST_TERMS]}} for at in range(0, len(wanted), _MOST_TERMS)]
    return parts[0] if len(parts) == 1 else {"bool": {"should": parts, "minimum_should_match": 1}} if parts else NOTHING


def in_force(day: date) -> Query:
    """Return the query for chunks in force on a day; a missing date is no bound."""
    late = {"range": {"from_day": {"gt": day.toordinal()}}}
    over = {"range": {"to_day": {"lte": day.toordinal()}}}
    return {"bool": {"must_not": [late, over]}}


def found_by(chunk: Chunk) -> dict[str, Any]:
    """Return the fields of a row that filters see."""
    pairs = sorted(attributes_of(chunk))
    return {
        "fields_held": [name for name, value in pairs if not value],
        "attributes": [_attribute(name, value) for name, value in pairs if value],
        **({} if chunk.effective_from is None else {"from_day": chunk.effective_from.toordinal()}),
        **({} if chunk.effective_to is None else {"to_day": chunk.effective_to.toordinal()}),
    }


def _attribute(name: str, value: str) -> str:
    """Return a value as it is indexed: its JSON, or the digest of a long one, which is never valid JSON."""
    kept = value if len(value) <= _LONGEST else "#" + hashlib.sha256(value.encode()).hexdigest()
    return f"={name}\0{kept}"


class FieldTable:
    """Numbers the values of fields in one view, and turns sets of numbers into queries (`pushdown.RowSets`)."""

    everything: Query = EVERYTHING
    nothing: Query = NOTHING

    def __init__(self, view: StoreView, source_id: str) -> None:
        self._view, self._source_id = view, source_id
        self._known: list[tuple[str, str]] = []

    def values_of(self, name: str, _texts: Sequence[str] = ()) -> FieldValues:
        """Return the number that says "has the field", and (number, value) of each distinct value (`ValuesOf`)."""
        texts = self._texts(name)
        values = [(self._number("attributes", text), self._value(name, text)) for text in texts]
        return (self._number("fields_held", name) if values and name != CLAIMS else None), values

    def having(self, numbers: Iterable[int]) -> Query:
        """Return the query for rows with at least one of some numbers."""
        wanted: dict[str, list[str]] = {}
        for field, value in (self._known[number] for number in numbers):
            wanted.setdefault(field, []).append(value)
        return self.in_any([any_of(field, values) for field, values in wanted.items()]) if wanted else NOTHING

    def without(self, rows: Query) -> Query:
        """Return the query for all other rows."""
        return {"bool": {"must_not": [rows]}}

    def in_all(self, parts: list[Query]) -> Query:
        """Return the query for rows of every part."""
        return both(*parts)

    def in_any(self, parts: list[Query]) -> Query:
        """Return the query for rows of any part."""
        return {"bool": {"should": parts, "minimum_should_match": 1}}

    def _number(self, field: str, value: str) -> int:
        self._known.append((field, value))
        return len(self._known) - 1

    def _texts(self, name: str) -> list[str]:
        """Return the indexed values of a field, by pages of a sorted enumeration of all values."""
        prefix, after, texts = f"={name}\0", f"={name}", list[str]()
        query = both(self._view.state.visible, {"term": {"source": self._source_id}})
        while True:
            pages = {
                "composite": {
                    "size": _PAGE,
                    "sources": [{"of": {"terms": {"field": "attributes"}}}],
                    "after": {"of": after},
                }
            }
            (result,) = self._view.search([{"size": 0, "query": query, "aggs": {"values": pages}}])
            keys = [bucket["key"]["of"] for bucket in buckets_of(result, "values")]
            texts += [key for key in keys if key.startswith(prefix)]
            if len(keys) < _PAGE or not keys[-1].startswith(prefix):
                return texts
            after = keys[-1]

    def _value(self, name: str, text: str) -> Any:
        kept = text.partition("\0")[2]
        if not kept.startswith("#"):
            return json.loads(kept)
        row = self._view.rows({"term": {"attributes": text}}, CHUNK_FIELDS)[0]
        return own_fields(chunk_of(row))[name]


def chunk_of(row: Mapping[str, Any]) -> Chunk:
    """Return the chunk of a row with CHUNK_FIELDS."""
    return decode((row["chunk_id"], row["content"], row["fields"]), row["indexed_at"])


def fields_of(view: StoreView, source_id: str) -> tuple[str, ...]:
    """Return the fields of a source's chunks."""
    query = both(view.state.visible, {"term": {"source": source_id}})
    names = {"terms": {"field": "fields_held", "size": _MOST_FIELDS}}
    (result,) = view.search([{"size": 0, "query": query, "aggs": {"names": names}}])
    return tuple(sorted(bucket["key"] for bucket in buckets_of(result, "names")))


def buckets_of(result: Mapping[str, Any], name: str) -> list[Any]:
    """Return the buckets of an aggregation; none where the caller may read no index."""
    return list(result["aggregations"][name]["buckets"]) if "aggregations" in result else []
