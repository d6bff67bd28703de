"""What rows are found by: numbered values of fields, filters as SQL conditions on them, and terms as lexemes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Final, NamedTuple

from psycopg import sql

from context_engine.adapters.sources.postgres.connection import Session, one_row
from context_engine.adapters.sources.stores.pushdown import CLAIMS, FieldValues, attributes_of
from context_engine.adapters.sources.stores.question import FoundRow, LookUp, StoredTerms
from context_engine.adapters.sources.stores.term_counts import WRITTEN
from context_engine.core.models import Chunk
from context_engine.core.query.spelling import near_words
from context_engine.core.text import terms

_MOST_REMEMBERED: Final = 200_000
Condition = sql.Composable
TRUE: Final[Condition] = sql.SQL("true")
NOTHING: Final[Condition] = sql.SQL("false")


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
        unknown = sorted(pair for pair in set().union(*pairs) if pair not in self._known)
        if unknown:
            self._learn(unknown)
        return [sorted(self._known[pair] for pair in of_chunk) for of_chunk in pairs]

    def _learn(self, pairs: Sequence[tuple[str, str]]) -> None:
        names, values = [name for name, _ in pairs], [value for _, value in pairs]
        rows = self._session.execute(
            "INSERT INTO attributes (name, value) SELECT * FROM unnest(%s::text[], %s::text[])"
            " ON CONFLICT (name, md5(value)) DO NOTHING RETURNING name, value, number",
            (names, values),
        ).fetchall()
        if len(rows) < len(pairs):
            rows += self._session.execute(
                "SELECT name, value, number FROM attributes JOIN unnest(%s::text[], %s::text[]) AS wanted (name, value)"
                " USING (name, value) WHERE md5(attributes.value) = md5(wanted.value)",
                (names, values),
            )
        self._known.update({(name, value): number for name, value, number in rows})


_LIKELY: Final = """ AND (
    value = '' OR char_length(value) < octet_length(convert_to(value, 'UTF8')) OR lower(value COLLATE "C") LIKE ANY(%s)
)"""


def values_of(session: Session, name: str, texts: Sequence[str] = ()) -> FieldValues:
    """Return the values of a field that may equal some texts (`ValuesOf`)."""
    if not storable(name):
        return None, []
    has, values = None, []
    statement = "SELECT number, value FROM attributes WHERE name = %s" + (_LIKELY if texts else "")
    likely = ([f"%{text}%" for text in texts],) if texts else ()
    rows = session.execute(statement, (name, *likely))
    for number, text in rows:
        if text:
            values.append((number, json.loads(text)))
        else:
            has = number
    return has, values


_FIELDS: Final = """
WITH RECURSIVE field (name) AS (
    SELECT min(name) FROM attributes
    UNION ALL SELECT (SELECT min(attributes.name) FROM attributes WHERE attributes.name > field.name) FROM field
    WHERE field.name IS NOT NULL
)
SELECT name FROM field WHERE name <> %s AND (
    SELECT true FROM words WHERE class_key = ANY(%s) AND source_key = %s AND words.attributes @> ARRAY[
        (SELECT number FROM attributes WHERE attributes.name = field.name AND md5(value) = md5(''))
    ] LIMIT 1
) ORDER BY name
"""
"""Skips from name to name by the index, past the many values of each."""


def fields_of(session: Session, classes: list[int], source_key: int | None) -> tuple[str, ...]:
    """Return the fields of a source's chunks in some classes."""
    return tuple(name for (name,) in session.execute(_FIELDS, (CLAIMS, classes, source_key)))


class RowConditions:
    """Sets of rows as conditions on `words` (`pushdown.RowSets`)."""

    everything: Condition = TRUE
    nothing: Condition = NOTHING

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


def lexemes_of(stored: StoredTerms, written: Iterable[str]) -> list[str]:
    """Return the lexemes to find a chunk by: its terms, and the words as they are written."""
    lexemes = [*dict.fromkeys(stored.body), *(_HEAD + term for term in stored.head), *(WRITTEN + w for w in written)]
    return lexemes[:_MOST_LEXEMES]


def tsvector(lexemes: Iterable[str]) -> str:
    """Return lexemes as the server reads them."""
    return " ".join(map(quoted, lexemes))


def tsquery(look_up: LookUp) -> str:
    """Return the `tsquery` for the rows that hold a term."""
    return quoted(_HEAD + look_up.term if look_up.in_head else look_up.term)


def holding(terms: Iterable[str]) -> str:
    """Return the `tsquery` for the rows that hold any of some terms, in text or head."""
    return " | ".join(quoted(sign + term) for term in terms for sign in ("", _HEAD))


def holding_all(terms: Iterable[str]) -> str:
    """Return the `tsquery` for the rows that hold every one of some terms, in text or head."""
    return " & ".join(f"({holding([term])})" for term in terms)


def quoted(lexeme: str) -> str:
    """Return the `tsquery` for the rows with a lexeme."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


def parts_of(stored: StoredTerms, defined: Iterable[str]) -> str:
    """Return the terms of a chunk as one text: of its text, of its title, of the rest of its head, and defined ones."""
    rest = [term for term in stored.head if term not in stored.title]
    return "\n".join(map(" ".join, (stored.body, sorted(stored.title), rest, defined)))


def read_row(rid: int, source_key: int, doc_key: int, section: int, parts: str) -> FoundRow:
    """Return a row of `words`."""
    body, title, rest, defined = (line.split() for line in parts.split("\n"))
    return FoundRow(
        rid, source_key, doc_key, section, body, frozenset((*title, *rest)), frozenset(title), frozenset(defined)
    )


HOLDING: Final = "holding AS MATERIALIZED (SELECT FROM words WHERE class_key = ANY(%s) AND terms @@ %s::tsquery{})"
"""The rows that hold some terms; without MATERIALIZED a search for the first of them reads all rows one by one."""
_COUNTED: Final = f"WITH {HOLDING.format(' AND {}')} SELECT count(*) FROM (SELECT FROM holding LIMIT %s) AS counted"


class SourceWords(NamedTuple):
    """The words of some rows (`misspelt.Vocabulary`).

    Attributes:
        classes: that the caller may read.
        condition: met by the rows.
    """

    session: Session
    classes: list[int]
    condition: Condition

    def has(self, word: str) -> bool:
        """Return whether some row holds a term of the word; true for a word without terms (a stop word)."""
        own = terms(word)
        return not own or self._count(holding(own), at_most=1) > 0

    def near(self, word: str, letter: str) -> list[tuple[int, str]]:
        """Return the words near to a word among those of all readable texts that begin with a letter."""
        rows = self.session.execute(
            "SELECT DISTINCT substr(term, 2) FROM terms WHERE class_key = ANY(%s) AND term LIKE %s AND texts > 0",
            (self.classes, f"{WRITTEN}{letter}%"),
        )
        return near_words(word, [name for (name,) in rows])

    def counts(self, words: Sequence[str]) -> dict[str, int]:
        """Return the number of rows with each word."""
        counted = {word: self._count(quoted(WRITTEN + word)) for word in words}
        return {word: count for word, count in counted.items() if count}

    def _count(self, lexemes: str, at_most: int | None = None) -> int:
        query = sql.SQL(_COUNTED).format(self.condition)
        return int(one_row(self.session, query, (self.classes, lexemes, at_most))[0])
