"""What rows are found by: numbered values of fields, filters as SQL conditions on them, and terms as lexemes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Final

from psycopg import sql

from context_engine.adapters.sources.postgres.connection import Session
from context_engine.adapters.sources.stores.pushdown import CLAIMS, FieldValues, attributes_of
from context_engine.adapters.sources.stores.question import LookUp, StoredTerms
from context_engine.core.models import Chunk

_MOST_REMEMBERED: Final = 200_000
Condition = sql.Composable
TRUE: Final[Condition] = sql.SQL("true")


class Attributes:
    """Numbers each (field, value), adding new ones in the writer's transaction.

    Args:
        session: a writer's.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[tuple[str, str], int] = {}

    def numbers(self, chunks: Sequence[Chunk]) -> list[list[int]]:
        """Return the numbers of `attributes_of` each chunk, ascending."""
        pairs = [{(name.replace("\0", "\ufffd"), value) for name, value in attributes_of(chunk)} for chunk in chunks]
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        unknown = sorted(set().union(*pairs) - self._known.keys())
        if unknown:
            self._learn(unknown)
        return [sorted(self._known[pair] for pair in of_chunk) for of_chunk in pairs]

    def _learn(self, pairs: Sequence[tuple[str, str]]) -> None:
        names, values = [name for name, _ in pairs], [value for _, value in pairs]
        self._session.execute(
            "INSERT INTO attributes (name, value) SELECT * FROM unnest(%s::text[], %s::text[])"
            " ON CONFLICT (name, md5(value)) DO NOTHING",
            (names, values),
        )
        rows = self._session.execute(
            "SELECT name, value, number FROM attributes JOIN unnest(%s::text[], %s::text[]) AS wanted (name, value)"
            " USING (name, value) WHERE md5(attributes.value) = md5(wanted.value)",
            (names, values),
        )
        self._known.update({(name, value): number for name, value, number in rows})


def values_of(session: Session, name: str) -> FieldValues:
    """Return the number of having a field, None if no chunk has it, and (number, value) of each distinct value."""
    if not storable(name):
        return None, []
    has, values = None, []
    rows = session.execute("SELECT number, value FROM attributes WHERE name = %s", (name,))
    for number, text in rows:
        if text:
            values.append((number, json.loads(text)))
        else:
            has = number
    return has, values


def fields_of(session: Session, classes: list[int], source_key: int | None) -> tuple[str, ...]:
    """Return the fields of a source's chunks in some classes."""
    rows = session.execute(
        "SELECT name FROM attributes WHERE value = '' AND name <> %s AND EXISTS (SELECT 1 FROM words WHERE"
        " class_key = ANY(%s) AND source_key = %s AND words.attributes @> ARRAY[number]) ORDER BY name",
        (CLAIMS, classes, source_key),
    )
    return tuple(name for (name,) in rows)


class RowConditions:
    """Sets of rows as conditions on `words` (`pushdown.RowSets`)."""

    everything: Condition = TRUE
    nothing: Condition = sql.SQL("false")

    def having(self, numbers: Iterable[int]) -> Condition:
        """Return the condition for rows with at least one of some numbers."""
        wanted = list(numbers)
        return sql.SQL("attributes && {}::integer[]").format(sql.Literal(wanted)) if wanted else self.nothing

    def without(self, rows: Condition) -> Condition:
        """Return the condition for all other rows."""
        return sql.SQL("NOT ({})").format(rows)

    def in_all(self, parts: list[Condition]) -> Condition:
        """Return the condition for rows of every part."""
        return sql.SQL("({})").format(sql.SQL(" AND ").join(parts))

    def in_any(self, parts: list[Condition]) -> Condition:
        """Return the condition for rows of any part."""
        return sql.SQL("({})").format(sql.SQL(" OR ").join(parts))


def in_force(day: date) -> Condition:
    """Return the condition for chunks in force on a day; a missing date is no bound."""
    return sql.SQL("(from_day IS NULL OR from_day <= {day}) AND (to_day IS NULL OR to_day > {day})").format(
        day=sql.Literal(day)
    )


def storable(text: str) -> bool:
    """Return whether the server can hold a text: it has neither NUL characters nor lone surrogates."""
    return not any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text)


_HEAD: Final = "#"
"""Begins a term of a head; no term begins with it."""
_MOST_LEXEMES: Final = 20_000
"""Distinct terms by which a text is found; a `tsvector` holds a megabyte."""


def tsvector(stored: StoredTerms) -> str:
    """Return the lexemes to find a chunk by, as the server reads them."""
    lexemes = [*dict.fromkeys(stored.body), *(_HEAD + term for term in stored.head)]
    return " ".join(map(_quoted, lexemes[:_MOST_LEXEMES]))


def tsquery(look_up: LookUp) -> str:
    """Return the `tsquery` for the rows that hold a term."""
    return _quoted(_HEAD + look_up.term if look_up.in_head else look_up.term)


def _quoted(lexeme: str) -> str:
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"
