"""Copies of a ledger's file: take one, open one without writing to it, and list what a ledger has erased."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import select

from context_engine.audit.ledger.database import Database
from context_engine.audit.ledger.engines import sqlite_engine
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.schema import erasure, version_of
from context_engine.core.protocols import Clock
from context_engine.errors import AuditError
from context_engine.settings.sqlite_copy import copy_database


class LedgerContents(NamedTuple):
    """What a ledger held at one moment.

    Attributes:
        schema_version: of its tables.
        size: number of records in the log.
        pending: number of records that wait for their place in the log.
        root: hex root of the tree over the log.
        checkpoint: the newest stored checkpoint, a signed note; None if there is none.
    """

    schema_version: int
    origin: str
    size: int
    pending: int
    root: str
    checkpoint: str | None


def copy_ledger(path: Path, to: Path) -> None:
    """Copy one snapshot of a ledger's file; recording goes on meanwhile.

    Raises:
        AuditError: it cannot be read, or the copy cannot be written.
    """
    try:
        copy_database(path, to)
    except sqlite3.Error as error:
        raise AuditError(
            f"the ledger {path} cannot be copied ({error}): let this user read it, make room on the disk, or run "
            "'context-engine audit verify'"
        ) from error


def opened_copy(path: Path, clock: Clock) -> Ledger:
    """Open a ledger's file for reading alone; nothing is migrated or integrated.

    Raises:
        AuditError: it cannot be opened.
        LedgerCorrupt: it is damaged.
    """
    return Ledger(Database(sqlite_engine(path, writable=False), str(path), writable=False, path=path), None, clock)


def read_contents(ledger: Ledger) -> LedgerContents:
    """Return what a ledger holds.

    Raises:
        LedgerCorrupt: a tile is missing or too short.
        LedgerVersionMismatch: a newer version of this package wrote it.
    """
    with ledger.database.connect() as connection:
        version = version_of(connection, ledger.database.place)
    size, newest = ledger.size, ledger.checkpoints(newest=1)
    return LedgerContents(
        schema_version=version,
        origin=ledger.origin,
        size=size,
        pending=ledger.pending_count(),
        root=ledger.root(size).hex(),
        checkpoint=newest[0].note if newest else None,
    )


def erased_digests(ledger: Ledger) -> frozenset[bytes]:
    """Return the digests of all addenda that a ledger has erased."""
    with ledger.database.connect() as connection:
        return frozenset(bytes(digest) for digest in connection.scalars(select(erasure.c.digest)))


def exported_erasures(path: Path) -> frozenset[bytes]:
    """Return the digests that the erasures in a JSONL export name ('audit export --format jsonl').

    Raises:
        OSError: it cannot be read.
        ValueError: a line is not that of an export.
    """
    with path.open(encoding="utf-8") as lines:
        return frozenset(digest for line in lines for digest in _digests(json.loads(line)))


def _digests(line: object) -> Iterator[bytes]:
    entry = line.get("entry") if isinstance(line, dict) else None
    if not isinstance(line, dict) or "index" not in line or "entry" not in line:
        raise ValueError("is not a line of an export")
    if isinstance(entry, dict) and entry.get("kind") == "erasure":
        yield from (bytes.fromhex(digest) for digest in entry["digests"])
