"""Filters as index queries: the numbers of values in SQLite, and sets of rows as queries of tantivy."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from datetime import date
from typing import Any, Final

from tantivy import FieldType, Occur, Query

from context_engine.adapters.sources.local.index import SCHEMA
from context_engine.adapters.sources.stores.pushdown import CLAIMS, attributes_of
from context_engine.core.models import Chunk

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
        """Return the numbers of `attributes_of` a chunk."""
        return [self._number(name, value) for name, value in attributes_of(chunk)]

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
    """Return the number that says "has the field" (None if no chunk has it), and (number, value) of each value."""
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


class IndexRows:
    """Sets of rows as queries of the index (`pushdown.RowSets`)."""

    everything = Query.all_query()
    nothing = Query.empty_query()

    def having(self, numbers: Iterable[int]) -> Query:
        """Return the query for rows with at least one of some numbers."""
        wanted = list(numbers)
        return Query.term_set_query(SCHEMA, "attr", wanted) if wanted else self.nothing

    def without(self, rows: Query) -> Query:
        """Return the query for all other rows."""
        return Query.boolean_query([(Occur.Must, self.everything), (Occur.MustNot, rows)])

    def in_all(self, parts: list[Query]) -> Query:
        """Return the query for rows of every part."""
        return _joined(Occur.Must, parts)

    def in_any(self, parts: list[Query]) -> Query:
        """Return the query for rows of any part."""
        return _joined(Occur.Should, parts)


def in_force(day: date) -> list[tuple[Occur, Query]]:
    """Return clauses that exclude chunks not in force on a day; a missing date is no bound."""
    number = day.toordinal()
    later = Query.range_query(SCHEMA, "from_day", FieldType.Unsigned, lower_bound=number, include_lower=False)
    over = Query.range_query(SCHEMA, "to_day", FieldType.Unsigned, upper_bound=number)
    return [(Occur.MustNot, later), (Occur.MustNot, over)]


def _joined(occur: Occur, parts: list[Query]) -> Query:
    return parts[0] if len(parts) == 1 else Query.boolean_query([(occur, part) for part in parts])
