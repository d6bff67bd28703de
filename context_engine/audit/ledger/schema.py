"""The tables of a ledger, as of the newest migration.

`log` and `addendum` are the truth; `record`, `chunk`, `mention` and `tile` are derived from them, and a check derives
them again.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    literal_column,
)

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
    Column("search_id", Text),  # of a context: the search it is of
    Index("record_time", "time"),
    Index("record_caller", "caller"),
    Index("record_domain", "domain", "time"),
    Index("record_search", "search_id"),
)

IS_KEY: Final = record.c.kind == literal_column("'key'")
"""Says that a record is a change of key. A parameter in its place would keep SQLite from the index of those few."""

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
    # The tile of level 0 that the record stands in: what a check reads at once, and a search in one step for a chunk.
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
