"""The tables of a ledger at the newest version, and the migrations from older ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    insert,
    inspect,
    literal_column,
    select,
    update,
)

from context_engine.errors import AuditError, LedgerCorrupt, LedgerVersionMismatch

VERSION: Final = 1
METADATA: Final = MetaData()
_Id = BigInteger().with_variant(Integer, "sqlite")

meta: Final = Table(
    "meta",
    METADATA,
    Column("name", Text, primary_key=True),  # schema_version, origin, pseudonym_salt, minimum_index
    Column("value", Text, nullable=False),
)

pending: Final = Table(
    "pending",
    METADATA,
    Column("seq", _Id, primary_key=True, autoincrement=True),
    Column("record_id", Text, nullable=False, unique=True),
    Column("entry", LargeBinary, nullable=False),
    Column("leaf", LargeBinary, nullable=False),  # SHA-256(0x00 || entry)
    Column("mac", LargeBinary),  # HMAC(key, "pending" || leaf); null without a key
    Column("key_id", Text),
    Column("written", Float, nullable=False),  # seconds since 1970
)

log: Final = Table(
    "log",
    METADATA,
    Column("idx", _Id, primary_key=True, autoincrement=False),  # 0, 1, 2 ... without a gap
    Column("entry", LargeBinary),  # null where it was pruned
    Column("leaf", LargeBinary, nullable=False),
    Column("mac", LargeBinary),  # HMAC(key, idx || leaf); null without a key
    Column("key_id", Text),
)

record: Final = Table(
    "record",
    METADATA,
    Column("idx", _Id, primary_key=True, autoincrement=False),
    Column("record_id", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),  # search, refusal, context, fetch, erasure, key, loss, pruning
    Column("time", Text, nullable=False),  # UTC, ISO 8601, ends in Z
    Column("domain", Text),
    Column("status", Text),
    Column("decision", Text),
    Column("caller", Text),  # keyed pseudonym
    Column("search_id", Text),  # of a context or an answer: the search it is of
    Index("record_time", "time"),
    Index("record_caller", "caller"),
    Index("record_domain", "domain", "time"),
    Index("record_search", "search_id"),
)

IS_KEY: Final = record.c.kind == literal_column("'key'")
"""Whether a record is a key change. A literal, because SQLite ignores the partial index if "key" is a parameter."""

Index("record_key", record.c.idx, sqlite_where=IS_KEY, postgresql_where=IS_KEY)

chunk: Final = Table(  # what records name, each once
    "chunk",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("identity", LargeBinary, nullable=False, unique=True),  # SHA-256 of the columns behind it
    Column("source_id", Text, nullable=False),
    Column("chunk_id", Text, nullable=False),
    Column("document_id", Text),
    Column("document_version", Text),
    Column("content_sha256", LargeBinary),
    Index("chunk_document", "document_id", "document_version"),
    Index("chunk_content", "content_sha256"),
    Index("chunk_source", "source_id", "chunk_id"),
)

mention: Final = Table(  # which record names which chunk; by far the most rows of all
    "mention",
    METADATA,
    # The level-0 tile of the record: verification reads one tile at a time, and a look-up seeks within each.
    Column("tile", Integer, primary_key=True, autoincrement=False),
    Column("chunk", Integer, primary_key=True, autoincrement=False),
    Column("idx", _Id, primary_key=True, autoincrement=False),
    Column("fate", SmallInteger, nullable=False),  # 0 dropped, 1 returned, 2 merged, 3 another
    sqlite_with_rowid=False,
)

addendum: Final = Table(
    "addendum",
    METADATA,
    Column("digest", LargeBinary, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("salt", LargeBinary, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("content_key", LargeBinary, unique=True),  # of what is kept once; null for what one record owns
)

erasure: Final = Table(
    "erasure",
    METADATA,
    Column("digest", LargeBinary, primary_key=True),  # of an addendum that was erased
    Column("idx", _Id, nullable=False),  # the entry that says so
)

tile: Final = Table(
    "tile",
    METADATA,
    Column("level", Integer, primary_key=True, autoincrement=False),
    Column("idx", _Id, primary_key=True, autoincrement=False),
    Column("hashes", LargeBinary, nullable=False),  # 32 bytes each, at most 256; the last of a level grows
)

checkpoint: Final = Table(
    "checkpoint",
    METADATA,
    Column("size", _Id, primary_key=True, autoincrement=False),
    Column("note", Text, nullable=False),  # a signed note with its cosignatures
    Column("written", Float, nullable=False),
)

Migration = Callable[[Connection], None]
MIGRATIONS: Final[tuple[Migration, ...]] = ()
"""The first migrates version 1 to version 2, and so on. A released one is never changed."""

_VERSION: Final = "schema_version"


def version_of(connection: Connection, place: str) -> int:
    """Return the version of a ledger's tables, 0 if there are none.

    Raises:
        AuditError: the tables belong to something else.
        LedgerCorrupt: the ledger's version is missing.
        LedgerVersionMismatch: a newer version of this package wrote it.
    """
    names = set(inspect(connection).get_table_names())
    if not names & set(METADATA.tables) and (not names or connection.dialect.name != "sqlite"):
        return 0
    if meta.name not in names or log.name not in names:
        raise AuditError(f"{place} holds tables other than a ledger's: name a separate place")
    written = connection.scalar(select(meta.c.value).where(meta.c.name == _VERSION))
    if not isinstance(written, str) or not written.isdecimal():
        raise LedgerCorrupt(f"the ledger {place} has lost its own description: restore it from a backup")
    if int(written) > VERSION:
        raise LedgerVersionMismatch(
            f"the ledger {place} has schema version {written}; this program knows {VERSION}: install the version that "
            "wrote it, or a newer one"
        )
    return int(written)


def create_tables(connection: Connection, about: dict[str, str]) -> None:
    """Create all tables in the caller's transaction, so that a ledger exists completely or not at all."""
    METADATA.create_all(connection, checkfirst=False)
    rows = {_VERSION: str(VERSION), **about}
    connection.execute(insert(meta), [{"name": name, "value": value} for name, value in rows.items()])


def migrate(connection: Connection, version: int, migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """Migrate the tables in the caller's transaction; return the new version.

    Args:
        migrations: the steps from version 1 on.
    """
    for number, step in enumerate(migrations[version - 1 :], version):
        step(connection)
        connection.execute(update(meta).where(meta.c.name == _VERSION).values(value=str(number + 1)))
    return 1 + len(migrations)
