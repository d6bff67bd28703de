"""The tables of a store, their numbered migrations, and its state.

`words` and `vectors` hold what is searched, one partition for each access class, so that no index and no statistics of
the server mix texts with different readers. `chunks` holds the texts, read by row number. `terms` counts, for each
class, the texts and the heads that hold a term, and the texts with a word as it is written.
"""

from __future__ import annotations

import secrets
from importlib.resources import files
from typing import Final, NamedTuple

from psycopg import sql
from psycopg.errors import InvalidSchemaName, UndefinedTable

from context_engine.adapters.sources.postgres.connection import NOTHING_WRITTEN, Session, one_row
from context_engine.core.models import AccessClass, AccessScope
from context_engine.core.text import ANALYSER_VERSION
from context_engine.errors import SourceNotFound, StoreVersionMismatch

WORDS_VERSION: Final = f"{ANALYSER_VERSION}.2"
"""The analysis that `words` and `terms` were made with."""

_MIGRATIONS: Final = files(__package__).joinpath("migrations")
"""One file of statements for each version, by its number."""
SCHEMA_VERSION: Final = 4
"""Tables of an older version can be searched too; the next writer brings them up to date."""


class HeldClass(NamedTuple):
    """An access class with documents in the store.

    Attributes:
        texts: chunks in its partition, without bare headings.
        words: terms in them, in all.
        generation: number of commits that changed it; None in tables that do not count them yet.
        ranked: whether its BM25 index has all of them.
    """

    key: int
    holds: AccessClass
    texts: int
    words: int
    generation: int | None
    ranked: bool


class StoreState(NamedTuple):
    """The state of a store at one moment.

    Attributes:
        generation: number of commits.
        moves: number of times that documents moved to another access class.
        keeps_adapters: whether its tables can hold adapters; older ones cannot.
        model_id, dimension: of the vectors; None and 0 without any.
        classes: all access classes, oldest first.
        guarded: whether row level security applies to the session; the index of terms is then not used.
    """

    base_id: str
    generation: int
    moves: int
    keeps_adapters: bool
    words_version: str
    model_id: str | None
    dimension: int
    classes: tuple[HeldClass, ...]
    guarded: bool

    def readable(self, access: AccessScope | None) -> tuple[HeldClass, ...]:
        """Return the classes that a caller may read; None admits everything."""
        return tuple(
            access_class for access_class in self.classes if access is None or access.admits(access_class.holds)
        )


_CLEAN: Final = (
    "SELECT gin_clean_pending_list(index.oid) FROM pg_class AS index JOIN pg_am ON pg_am.oid = relam"
    " WHERE amname = 'gin' AND relkind = 'i' AND relnamespace = current_schema()::regnamespace"
)
"""Bulk writing collects entries of an index beside it, where every search would read them one by one."""

_SCRUB: Final = (
    "DELETE FROM terms WHERE texts <= 0 AND heads <= 0",
    """DELETE FROM attributes WHERE number IN (
        SELECT number FROM attributes EXCEPT SELECT unnest(attributes) FROM words)""",
    "VACUUM documents, chunks, words, terms, attributes",
)
"""Remove the words and field values that only deleted documents had."""


def migrate(session: Session, schema: str) -> None:
    """Create the schema, or bring its tables to this version, in the caller's transaction.

    Raises:
        StoreVersionMismatch: a later version of this package made the tables.
    """
    session.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
    (made,) = one_row(session, "SELECT to_regclass(%s) IS NOT NULL", (f'"{schema}".state',))
    version = one_row(session, "SELECT version FROM state")[0] if made else 0
    if version > SCHEMA_VERSION:
        raise _too_new(version)
    for number in range(version + 1, SCHEMA_VERSION + 1):
        session.execute(_MIGRATIONS.joinpath(f"{number:04}.sql").read_bytes())
        if number == 1:
            session.execute(
                "INSERT INTO state (base_id, version, words_version) VALUES (%s, 1, %s)",
                (secrets.token_hex(8), WORDS_VERSION),
            )
        session.execute("UPDATE state SET version = %s", (number,))


def read_state(session: Session) -> StoreState:
    """Return the state of the store in a session's snapshot.

    Raises:
        SourceNotFound: nothing was ever ingested into the schema.
        StoreVersionMismatch: a later version of this package made the tables.
    """
    try:
        rows = session.execute(
            "SELECT version, base_id, state.generation, coalesce((to_jsonb(state) ->> 'moves')::bigint, 0),"
            " to_regclass('adapters') IS NOT NULL, words_version, model_id, coalesce(dimension, 0), class_key, rules,"
            " classification, texts, words, (to_jsonb(classes) ->> 'generation')::bigint,"
            " to_jsonb(classes) ->> 'ranked' = to_jsonb(classes) ->> 'generation'"
            " AND to_regclass('words_' || class_key || '_bm25') IS NOT NULL, row_security_active('words')"
            " FROM state LEFT JOIN classes ON true ORDER BY class_key"
        ).fetchall()
    except (UndefinedTable, InvalidSchemaName) as error:
        raise SourceNotFound(NOTHING_WRITTEN) from error
    if rows[0][0] > SCHEMA_VERSION:
        raise _too_new(rows[0][0])
    classes = (
        HeldClass(key, AccessClass.of(rules, name), texts, words, generation, bool(ranked))
        for *_, key, rules, name, texts, words, generation, ranked, _ in rows
        if key is not None
    )
    _, base_id, generation, moves, keeps, words_version, model_id, dimension, *_ = rows[0]
    guarded = rows[0][-1]
    return StoreState(base_id, generation, moves, keeps, words_version, model_id, dimension, tuple(classes), guarded)


def class_key(session: Session, holds: AccessClass) -> int:
    """Return the key of an access class; a new class gets its partitions in the caller's transaction."""
    named = (holds.rules, holds.classification or "")
    row = session.execute("SELECT class_key FROM classes WHERE rules = %s AND classification = %s", named).fetchone()
    if row is not None:
        return int(row[0])
    insert = "INSERT INTO classes (rules, classification) VALUES (%s, %s) RETURNING class_key"
    key = int(one_row(session, insert, named)[0])
    add_partition(session, "words", key)
    return key


def add_partition(session: Session, table: str, key: int) -> None:
    """Create the partition of an access class, unless it exists.

    Long values stand apart, so that a scan for row numbers reads few pages.
    """
    session.execute(
        sql.SQL(
            "CREATE TABLE IF NOT EXISTS {} PARTITION OF {} FOR VALUES IN ({}) WITH (toast_tuple_target = 128)"
        ).format(sql.Identifier(f"{table}_{key}"), sql.Identifier(table), sql.Literal(key))
    )


def _too_new(version: int) -> StoreVersionMismatch:
    return StoreVersionMismatch(
        f"its tables are of version {version}, this program knows version {SCHEMA_VERSION}: update the program"
    )


def clean_indexes(session: Session) -> None:
    """Bring what bulk writing collected beside the indexes of words into them."""
    session.execute(_CLEAN)


def scrub(session: Session) -> None:
    """Remove the words and field values that only deleted documents had; outside a transaction."""
    for statement in _SCRUB:
        session.execute(statement)
