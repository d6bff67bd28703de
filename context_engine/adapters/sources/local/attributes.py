"""The dictionary of field values: each (field, value) of some chunk has a number, and chunks are indexed by numbers.

A condition on any field is answered exactly, with types, ranges and dates, by testing each *different* value of the
field once in Python and asking the index for the numbers of those that hold.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from typing import Any, Final

from context_engine.adapters.sources.local.records import canonical
from context_engine.core.models import Chunk, Classification, SourceType, TrustClass
from context_engine.core.policy.filters import own_fields

CLAIMS: Final = ""
"""The name under which what a document says of its own authority is kept; no field has an empty name."""

NOT_INDEXED: Final = frozenset({"chunk_id", "content_sha256", "previous_chunk_id", "next_chunk_id"})
"""Fields with a value of their own for each chunk: tested on the rows found, not looked up."""

_CLAIM_FIELDS: Final = ("source_type", "authority_tier", "trust_class", "classification")
_MOST_REMEMBERED: Final = 200_000


class Dictionary:
    """Gives each (field, value) its number, making new ones in the writer's transaction.

    Args:
        connection: a writer's.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known: dict[tuple[str, str], int] = {}

    def numbers(self, chunk: Chunk) -> list[int]:
        """Return the numbers of all that a filter can see of a chunk, and for each field the number of having it."""
        out = [self._number(CLAIMS, canonical([getattr(chunk, name) for name in _CLAIM_FIELDS]))]
        for name, value in own_fields(chunk).items():
            if name and name not in NOT_INDEXED and value is not None:
                out += self._number(name, ""), self._number(name, canonical(value))
        return out

    def forget(self) -> None:
        """Forget what is remembered: the transaction that made it was rolled back."""
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
        found = self._connection.execute("SELECT attr_id FROM attributes WHERE name = ? AND value = ?", key).fetchone()
        return None if found is None else int(found[0])

    def _add(self, key: tuple[str, str]) -> int:
        return int(self._connection.execute("INSERT INTO attributes(name, value) VALUES (?, ?)", key).lastrowid or 0)


def values_of(connection: sqlite3.Connection, name: str) -> tuple[int | None, list[tuple[int, Any]]]:
    """Return the number of having a field, None if no chunk has it, and (number, value) of each different value."""
    if any("\ud800" <= char <= "\udfff" for char in name):
        return None, []  # no name that was ever stored
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
    while True:  # from name to name by the index, past the many values of each
        row = connection.execute(
            "SELECT attr_id, name FROM attributes WHERE name > ? ORDER BY name, value LIMIT 1", (name,)
        ).fetchone()
        if row is None:
            return
        number, name = row
        yield number, name


def claims_chunk(value: list[Any]) -> Chunk:
    """Return a chunk that claims what a value of CLAIMS says."""
    kind, tier, trust, classification = value
    return Chunk(
        content="-",
        source_type=kind and SourceType(kind),
        authority_tier=tier,
        trust_class=trust and TrustClass(trust),
        classification=classification and Classification(classification),
    )
