"""The SQLite database: tables, connections, and the state of the base.

A document lives from generation `generation` until before generation `removed`. Replaced rows stay until the index has
followed, so a reader with an older index still finds every row it points to. Row ids are never reused.
"""

from __future__ import annotations

import errno
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

from context_engine.adapters.sources.stores.vector_form import VectorForm, bytes_of
from context_engine.errors import StoreCorrupt, StoreError, StoreVersionMismatch
from context_engine.presence import is_there

DATABASE: Final = "base.sqlite3"
SCHEMA_VERSION: Final = 5
_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_MEND: Final = {
    sqlite3.SQLITE_BUSY: "try again when the other process is done",
    sqlite3.SQLITE_LOCKED: "try again when the other process is done",
    sqlite3.SQLITE_FULL: "make room on the disk",
    sqlite3.SQLITE_READONLY: (
        "let the user who runs this write to its folder, or let its owner run 'context-engine kb repartition', which "
        "leaves the files -wal and -shm that readers need"
    ),
    sqlite3.SQLITE_IOERR: "check the disk, its free space and its permissions",
}
_MAY_NOT_WRITE: Final = "let the user who runs this write there, or name another folder with --data-dir"
_OS_MEND: Final = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), _MEND[sqlite3.SQLITE_FULL]),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _MAY_NOT_WRITE),
}
_OS_ERROR: Final = re.compile(r"\(os error (\d+)\)")
"""The number of the error in the messages of the index, which come as `ValueError`."""

_TABLES: Final = """
CREATE TABLE state(
    one INTEGER PRIMARY KEY CHECK (one = 1), base_id TEXT NOT NULL, generation INTEGER NOT NULL,
    index_number INTEGER NOT NULL, analyser TEXT NOT NULL
);
CREATE TABLE sources(source_key INTEGER PRIMARY KEY AUTOINCREMENT, source_id TEXT NOT NULL UNIQUE);
CREATE TABLE documents(
    doc_key INTEGER PRIMARY KEY AUTOINCREMENT, source_key INTEGER NOT NULL REFERENCES sources,
    document_id TEXT NOT NULL, version TEXT NOT NULL, content_hash TEXT NOT NULL, chunk_count INTEGER NOT NULL,
    indexed_at TEXT NOT NULL, generation INTEGER NOT NULL, removed INTEGER
);
CREATE UNIQUE INDEX live_documents ON documents(source_key, document_id, version) WHERE removed IS NULL;
CREATE INDEX removed_documents ON documents(removed) WHERE removed IS NOT NULL;
CREATE TABLE chunks(
    rid INTEGER PRIMARY KEY AUTOINCREMENT, doc_key INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    chunk_id TEXT NOT NULL, content TEXT NOT NULL, fields TEXT NOT NULL, digest BLOB NOT NULL
);
CREATE INDEX chunks_by_document ON chunks(doc_key);
CREATE INDEX chunks_by_id ON chunks(chunk_id);
CREATE TABLE attributes(
    attr_id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, value TEXT NOT NULL, UNIQUE(name, value)
);
"""

_VECTOR_TABLES: Final = """
CREATE TABLE embedding(
    one INTEGER PRIMARY KEY CHECK (one = 1), model_id TEXT NOT NULL, dimension INTEGER NOT NULL
);
CREATE TABLE vectors(
    rid INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE, vector BLOB NOT NULL, digest BLOB NOT NULL
);
CREATE TABLE cells(rid INTEGER PRIMARY KEY REFERENCES vectors ON DELETE CASCADE, cells BLOB NOT NULL)
"""
_PARTITIONS: Final = """
CREATE TABLE partitions(
    partition_key INTEGER PRIMARY KEY AUTOINCREMENT, rules TEXT NOT NULL, classification TEXT NOT NULL,
    generation INTEGER NOT NULL, UNIQUE(rules, classification)
);
INSERT INTO partitions SELECT 1, '', '', coalesce((SELECT generation FROM state), 0);
ALTER TABLE documents ADD COLUMN partition_key INTEGER NOT NULL DEFAULT 1;
ALTER TABLE documents ADD COLUMN claimed TEXT NOT NULL DEFAULT '';
DROP INDEX IF EXISTS documents_by_generation;
CREATE INDEX documents_by_partition ON documents(partition_key, generation);
CREATE INDEX documents_by_place ON documents(source_key, partition_key, claimed) WHERE removed IS NULL;
DROP TABLE IF EXISTS centroids;
DELETE FROM cells;
CREATE TABLE centroids(partition_key INTEGER PRIMARY KEY, trained_on INTEGER NOT NULL, matrix BLOB NOT NULL);
DROP TABLE IF EXISTS calibrations;
CREATE TABLE calibrations(
    domain TEXT NOT NULL, model_id TEXT NOT NULL, partition_key INTEGER NOT NULL, signal TEXT NOT NULL,
    threshold REAL NOT NULL, strong REAL NOT NULL, own INTEGER NOT NULL, judged INTEGER NOT NULL,
    outside INTEGER NOT NULL, chunks INTEGER NOT NULL, base_chunks INTEGER NOT NULL, last_rid INTEGER NOT NULL,
    PRIMARY KEY (domain, model_id, partition_key)
)
"""
"""Cells and calibrations of an earlier version were computed from all rows together, and are computed again."""

_CLAIMED: Final = """
UPDATE documents SET claimed = coalesce((
    SELECT json_extract(fields, '$.classification') AS own FROM chunks
    WHERE chunks.doc_key = documents.doc_key AND json_valid(fields)
    ORDER BY own = 'restricted' DESC, own = 'confidential' DESC, own = 'internal' DESC, own = 'public' DESC
    LIMIT 1), '');
INSERT INTO partitions(rules, classification, generation)
    SELECT DISTINCT '', claimed, (SELECT generation FROM state) FROM documents
    WHERE claimed IN ('confidential', 'restricted');
UPDATE documents SET partition_key = (
    SELECT partition_key FROM partitions WHERE rules = '' AND classification = claimed)
    WHERE claimed IN ('confidential', 'restricted')
"""
"""Documents that claim a higher classification are moved; a writer that knows the access rules places the others."""

_LEARNT: Final = """
ALTER TABLE embedding ADD COLUMN form TEXT NOT NULL DEFAULT 'float32';
CREATE TABLE adapters(
    domain TEXT NOT NULL, adapter_id TEXT NOT NULL, model_id TEXT NOT NULL, learnt_from TEXT NOT NULL,
    maps BLOB NOT NULL, digest BLOB NOT NULL, evidence TEXT NOT NULL, made_at TEXT NOT NULL,
    PRIMARY KEY (domain, adapter_id)
);
CREATE TABLE adapter_switches(
    number INTEGER PRIMARY KEY AUTOINCREMENT, domain TEXT NOT NULL, learnt_from TEXT NOT NULL, adapter_id TEXT,
    switched_at TEXT NOT NULL
)
"""
"""The form of the vectors, and the adapters learnt for a domain; the last switch of a domain and a set of partitions
determines which of its adapters is in force, or none."""

_NEAR_MISS: Final = "ALTER TABLE calibrations ADD COLUMN near_miss REAL"
"""The evidence below which a question is a near miss; NULL until the domain is calibrated again."""

_UPGRADES: Final = {
    1: (_VECTOR_TABLES, _PARTITIONS, _CLAIMED, _LEARNT, _NEAR_MISS),
    2: (_PARTITIONS, _CLAIMED, _LEARNT, _NEAR_MISS),
    3: (_LEARNT, _NEAR_MISS),
    4: (_NEAR_MISS,),
}
"""The scripts that upgrade the tables of each earlier version."""
_READABLE: Final = {
    4: "CREATE TEMP VIEW IF NOT EXISTS calibrations AS SELECT *, NULL AS near_miss FROM main.calibrations",
}
"""Earlier versions that can be read as they are, each with the view that completes its tables."""


class BaseState(NamedTuple):
    """The state of a base.

    Attributes:
        base_id: identifies the base; part of the scorer of its scores.
        generation: incremented by every commit.
        index_number: of the current index directory.
        analyser: version of the text analysis of the index.
    """

    base_id: str
    generation: int
    index_number: int
    analyser: str


class Model(NamedTuple):
    """The model, dimension and form of the base's vectors."""

    model_id: str
    dimension: int
    form: VectorForm = "float32"

    @property
    def size(self) -> int:
        """Bytes of a vector."""
        return bytes_of(self.dimension, self.form)


def exists(root: Path) -> bool:
    """Return whether the folder has a base, even a damaged one, whose creation was not interrupted.

    Raises:
        StoreError: this user may not look.
    """
    if not has_database(root):
        return False
    connection = connect(root, write=False)
    try:
        return bool(_version(connection))
    except sqlite3.DatabaseError as error:
        return not _is_begun(error)
    finally:
        connection.close()


def has_database(root: Path) -> bool:
    """Return whether the folder has the database of a base.

    Raises:
        StoreError: this user may not look.
    """
    try:
        return is_there(root / DATABASE)
    except OSError as error:
        problem = f"the knowledge base in {root} cannot be reached ({error.strerror})"
        raise StoreError(f"{problem}: let the user who runs this enter this folder and those above it") from error


def missing(root: Path) -> StoreError:
    """Return the error for a folder without a base."""
    for above in root.parents:
        if above.is_file():
            return StoreError(f"there is no knowledge base in {root}: {above.name!r} above it is a file, not a folder")
    advice = "create one with 'context-engine ingest PATH' (--data-dir FOLDER, if this program names a data folder)"
    return StoreError(f"there is no knowledge base in {root}: {advice}")


def connect(root: Path, *, write: bool) -> sqlite3.Connection:
    """Open the database in autocommit mode; callers begin and end transactions.

    Raises:
        StoreError: the file cannot be opened.
    """
    mode = "rwc" if write else "ro"
    try:
        connection = sqlite3.connect(
            f"file:{quote(str(root.absolute() / DATABASE))}?mode={mode}",
            uri=True,
            timeout=10.0,
            isolation_level=None,
            check_same_thread=False,
        )
        if write:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
    except sqlite3.DatabaseError as error:
        raise unusable(root, error) from error
    return connection


def close_shared(root: Path, connection: sqlite3.Connection) -> None:
    """Close a writer's connection, and a reader's after it, so that SQLite keeps the log and its index.

    Without these two files a user without write permission on the folder cannot read the base.
    """
    with suppress(StoreError, sqlite3.Error), closing(connect(root, write=False)) as last:
        _version(last)
        connection.close()
    connection.close()


def create(connection: sqlite3.Connection, state: BaseState) -> None:
    """Create the tables; the caller holds the transaction, so that a base is created completely or not at all."""
    _run(connection, _TABLES, _VECTOR_TABLES, _PARTITIONS, _LEARNT, _NEAR_MISS)
    connection.execute("INSERT INTO state VALUES (1, ?, ?, ?, ?)", state)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def upgrade(connection: sqlite3.Connection) -> None:
    """Upgrade the tables of earlier versions; the index is renewed by its own version."""
    with transaction(connection):
        version = _version(connection)
        if version in _UPGRADES:
            _run(connection, *_UPGRADES[version])
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def read_state(connection: sqlite3.Connection, root: Path) -> BaseState:
    """Return the state, for reading; inside a transaction this pins the snapshot.

    Tables of a version in `_READABLE` are read too: temporary views add what they lack.

    Raises:
        StoreVersionMismatch: the tables are of another version.
        StoreCorrupt: the database is unreadable.
    """
    try:
        version = _version(connection)
        if version in _READABLE:
            connection.execute(_READABLE[version])
        else:
            _require_current(version, root)
        return _state(connection, root)
    except sqlite3.DatabaseError as error:
        raise unusable(root, error) from error


def state_to_write(connection: sqlite3.Connection, root: Path) -> BaseState:
    """Return the state, for writing; otherwise as `read_state`.

    Raises:
        StoreVersionMismatch: the tables are not of this version.
        StoreCorrupt: the database is unreadable.
    """
    try:
        _require_current(_version(connection), root)
        return _state(connection, root)
    except sqlite3.DatabaseError as error:
        raise unusable(root, error) from error


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version of the tables of a readable base."""
    return _version(connection)


def _require_current(version: int, root: Path) -> None:
    if version in _UPGRADES:
        raise StoreVersionMismatch(
            f"{root} was written by an older version (tables {version}, this program has {SCHEMA_VERSION}): run "
            "'context-engine kb rebuild', or ingest again; back it up first if you may go back"
        )
    if version != SCHEMA_VERSION:
        raise StoreVersionMismatch(
            f"{root} was written by a newer version (tables of schema version {version}, this program reads "
            f"{SCHEMA_VERSION}): install that version again, restore a backup made before the upgrade "
            "('context-engine restore'), or ingest into a new folder; 'context-engine kb rebuild' does not help"
        )


def _state(connection: sqlite3.Connection, root: Path) -> BaseState:
    row = connection.execute("SELECT base_id, generation, index_number, analyser FROM state").fetchone()
    if row is None:
        raise StoreCorrupt(f"{root} has lost its state: {anew(root)}")
    return BaseState(*row)


def model_of(connection: sqlite3.Connection) -> Model | None:
    """Return the model of the base's vectors, or None."""
    row = connection.execute("SELECT model_id, dimension, form FROM embedding").fetchone()
    return None if row is None else Model(*row)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit the statements inside, or roll them back on an error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite ends it on a full disk
            connection.execute("ROLLBACK")
        raise


def write_state(connection: sqlite3.Connection, state: BaseState) -> None:
    """Replace the state, inside the caller's transaction."""
    connection.execute("UPDATE state SET base_id = ?, generation = ?, index_number = ?, analyser = ?", state)


def _run(connection: sqlite3.Connection, *scripts: str) -> None:
    for script in scripts:
        for statement in script.split(";"):
            connection.execute(statement)


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _is_begun(error: sqlite3.DatabaseError) -> bool:
    """Return whether the creation of the base was interrupted: only then is there a journal to roll back."""
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_ROLLBACK


def unusable(root: Path, error: sqlite3.DatabaseError) -> StoreError:
    """Convert an error of SQLite."""
    if _is_begun(error):
        return missing(root)
    if isinstance(error, sqlite3.OperationalError) and not is_damage(error):
        mend = _MEND.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, f"correct its permissions, or {anew(root)}")
        return StoreError(f"cannot open {root / DATABASE} ({error}): {mend}")
    return StoreCorrupt(f"{root / DATABASE} is damaged ({error}): {anew(root)}")


def mend_of(error: Exception) -> str:
    """Return how to mend an error while the base is written; "" if that is unknown."""
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        return _MAY_NOT_WRITE if code == sqlite3.SQLITE_READONLY else _MEND.get(code, "")
    of_index = _OS_ERROR.search(str(error))
    number = int(of_index[1]) if of_index else getattr(error, "errno", None)
    return _OS_MEND.get(number or 0, "")


def is_damage(error: sqlite3.DatabaseError) -> bool:
    """Return whether the database file is damaged."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE


def anew(root: Path) -> str:
    """Return the remedy for a base that cannot be repaired."""
    return f"move the folder {root} away and run 'context-engine ingest' again"
