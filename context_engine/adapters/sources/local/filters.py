"""Filters as index queries.

Each (field, value) pair has a number, and chunks are indexed by these numbers. A condition is tested in Python once on
each distinct value of its field; the index is then queried for the numbers of the values that match."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import date
from typing import Any, Final

from tantivy import FieldType, Occur, Query

from context_engine.adapters.sources.local.index import SCHEMA
from context_engine.adapters.sources.local.view import canonical
from context_engine.core.models import And, Chunk, Classification, Condition, Filter, Not, Or, SourceType, TrustClass
from context_engine.core.policy.filters import matches, own_fields

CLAIMS: Final = ""
"""The name under which a document's claims of authority are stored; no field has an empty name."""
NOT_INDEXED: Final = frozenset({"chunk_id", "content_sha256", "previous_chunk_id", "next_chunk_id"})
"""Fields that differ for each chunk: tested on the rows found, not indexed."""
_CLAIM_FIELDS: Final = ("source_type", "authority_tier", "trust_class", "classification")
_MOST_REMEMBERED: Final = 200_000


class Dictionary:
    """Numbers each (field, value), adding new ones in the writer's transaction.

    Args:
        connection: a writer's.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known: dict[tuple[str, str], int] = {}

    def numbers(self, chunk: Chunk) -> list[int]:
        """Return the numbers of all values of a chunk that filters see, and for each field the number of having it."""
        out = [self._number(CLAIMS, canonical([getattr(chunk, name) for name in _CLAIM_FIELDS]))]
        for name, value in own_fields(chunk).items():
            if name and name not in NOT_INDEXED and value is not None:
                out += self._number(name, ""), self._number(name, canonical(value))
        return out

    def forget(self) -> None:
        """Empty the cache: the transaction that added the numbers was rolled back."""
        self._known.clear()

    def _number(self, name: str, value: str) -> int:
        key = (name, value)
        number = self._known.get(key)
        if number is None:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            number = self._known[key] = self._look_up(key) or self._add(key)
        return number

    def _look_up(self, key: tuple[str, str]) -> int | None:
        row = self._connection.execute("SELECT attr_id FROM attributes WHERE name = ? AND value = ?", key).fetchone()
        return None if row is None else int(row[0])

    def _add(self, key: tuple[str, str]) -> int:
        return int(self._connection.execute("INSERT INTO attributes(name, value) VALUES (?, ?)", key).lastrowid or 0)


def values_of(connection: sqlite3.Connection, name: str) -> tuple[int | None, list[tuple[int, Any]]]:
    """Return the number of having a field, or None if no chunk has it, and (number, value) of each distinct value."""
    if any("\ud800" <= char <= "\udfff" for char in name):
        return None, []  # lone surrogates cannot be stored
    has, values = None, []
    for number, text in connection.execute("SELECT attr_id, value FROM attributes WHERE name = ?", (name,)):
        if text:
            values.append((number, json.loads(text)))
        else:
            has = number
    return has, values


def fields_held(connection: sqlite3.Connection) -> Iterator[tuple[int, str]]:
    """Yield (number of having it, field) for each field that some chunk of the base has or had."""
    name = CLAIMS
    while True:  # skip from name to name by the index, past the many values of each
        row = connection.execute(
            "SELECT attr_id, name FROM attributes WHERE name > ? ORDER BY name, value LIMIT 1", (name,)
        ).fetchone()
        if row is None:
            return
        number, name = row
        yield number, name


def claims_chunk(value: list[Any]) -> Chunk:
    """Return a chunk with the claims in a value of CLAIMS."""
    kind, tier, trust, classification = value
    return Chunk(
        content="-",
        source_type=kind and SourceType(kind),
        authority_tier=tier,
        trust_class=trust and TrustClass(trust),
        classification=classification and Classification(classification),
    )


Standing = Callable[[Chunk], Mapping[str, Any]]
"""From a chunk with a document's claims to the fields that the engine sees after applying the manifest's limits."""
ENGINE_FIELDS: Final = frozenset({"source_type", "tier", "authority_tier", "classification"})
_MOST_RESOLVED: Final = 64
_ALL: Final = Query.all_query()
_NONE: Final = Query.empty_query()


class Pushdown:
    """Turns filters into index queries, for one snapshot of the base.

    Args:
        resolved: caches the query of each condition on values; valid for one searcher.
        constants: fields that are the same for every chunk of the source.
        standing: resolves ENGINE_FIELDS; without it the filter must be `relaxed` first.

    Attributes:
        exact: False once the index could not answer a condition; the rows found must then be tested.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        resolved: dict[str, Query],
        constants: Mapping[str, Any],
        standing: Standing | None = None,
    ) -> None:
        self._connection, self._resolved = connection, resolved
        self._constants, self._standing = constants, standing
        self.exact = True

    def query(self, filter: Filter, *, widen: bool = True) -> Query:
        """Return a query for the chunks that match a filter.

        Args:
            widen: whether a condition that the index cannot answer admits all (else none), so that the query admits
                too much rather than too little, also under a `not`.
        """
        if isinstance(filter, Condition):
            return self._condition(filter, widen)
        if isinstance(filter, Not):
            return _without(self.query(filter.part, widen=not widen))
        parts = [self.query(part, widen=widen) for part in filter.parts]
        if isinstance(filter, And):
            return _joined(Occur.Must, parts) if parts else _ALL
        assert isinstance(filter, Or)
        return _joined(Occur.Should, parts) if parts else _NONE

    def _condition(self, condition: Condition, widen: bool) -> Query:
        name = condition.field
        if name in self._constants:
            return _ALL if matches(condition, self._constants) else _NONE
        if name in ENGINE_FIELDS and self._standing is not None:
            return self._by_standing(condition, self._standing)
        if name in NOT_INDEXED or name == CLAIMS:
            self.exact = False
            return _ALL if widen else _NONE
        key = repr(condition)
        query = self._resolved.get(key)
        if query is None:
            if len(self._resolved) >= _MOST_RESOLVED:
                self._resolved.clear()
            query = self._resolved[key] = self._by_value(condition)
        return query

    def _by_value(self, condition: Condition) -> Query:
        """Query the values that match; if a missing field matches too, exclude the values that fail instead."""
        has, values = values_of(self._connection, condition.field)
        holding: list[int] = []
        failing: list[int] = []
        for number, value in values:
            (holding if matches(condition, {condition.field: value}) else failing).append(number)
        if not matches(condition, {}):
            return _NONE if has is None or not holding else _any(holding if failing else (has,))
        return _without(_any(failing)) if failing else _ALL

    def _by_standing(self, condition: Condition, standing: Standing) -> Query:
        _, values = values_of(self._connection, CLAIMS)
        return _any(number for number, value in values if matches(condition, standing(claims_chunk(value))))


def relaxed(filter: Filter, fields: Collection[str], *, widen: bool = True) -> Filter:
    """Return a filter without the conditions on some fields; it admits at least what the full filter admits."""
    if isinstance(filter, Condition):
        return filter if filter.field not in fields else And(()) if widen else Or(())
    if isinstance(filter, Not):
        return Not(relaxed(filter.part, fields, widen=not widen))
    return type(filter)(tuple(relaxed(part, fields, widen=widen) for part in filter.parts))


def in_force(day: date) -> list[tuple[Occur, Query]]:
    """Return clauses that exclude chunks not in force on a day; a missing date is no bound."""
    number = day.toordinal()
    later = Query.range_query(SCHEMA, "from_day", FieldType.Unsigned, lower_bound=number, include_lower=False)
    over = Query.range_query(SCHEMA, "to_day", FieldType.Unsigned, upper_bound=number)
    return [(Occur.MustNot, later), (Occur.MustNot, over)]


def _any(numbers: Iterable[int]) -> Query:
    wanted = list(numbers)
    return Query.term_set_query(SCHEMA, "attr", wanted) if wanted else _NONE


def _without(query: Query) -> Query:
    return Query.boolean_query([(Occur.Must, _ALL), (Occur.MustNot, query)])


def _joined(occur: Occur, parts: list[Query]) -> Query:
    return parts[0] if len(parts) == 1 else Query.boolean_query([(occur, part) for part in parts])
