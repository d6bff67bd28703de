"""Export the log as a folder of files in the C2SP tlog-tiles layout, which any monitor can read."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import select

from context_engine.audit.formats.checkpoint import parse_checkpoint
from context_engine.audit.formats.strict import FormatError
from context_engine.audit.formats.tiles import TILE_WIDTH, bundle_path, pack_entries, tile_path, tile_width, tiles_of
from context_engine.audit.ledger.database import parts
from context_engine.audit.ledger.key_change import present_checkpoint
from context_engine.audit.ledger.schema import addendum
from context_engine.errors import AuditError, LedgerCorrupt

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger


_PARTIAL: Final = ".p"
_UNFINISHED: Final = ".unfinished"


class ExportFolder:
    """A folder to export to; counts the files written, kept and removed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written = self.kept = self.removed = 0

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a file, None if it does not exist."""
        path = self.path / name
        return path.read_bytes() if path.is_file() else None

    def keeps(self, name: str) -> bool:
        """Return whether a file that never changes exists already, and count it."""
        exists = (self.path / name).is_file()
        self.kept += exists
        return exists

    def names(self, folder: str) -> set[str]:
        path = self.path / folder
        return {file.name for file in path.iterdir()} if path.is_dir() else set()

    def put(self, name: str, data: bytes, *, private: bool = False) -> None:
        """Write a file atomically; a full tile replaces its partial ones.

        Args:
            private: only its owner may read it.
        """
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}{_UNFINISHED}")
        unfinished.unlink(missing_ok=True)  # a leftover may have been readable by others
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666), "wb") as file:
            file.write(data)
        unfinished.replace(path)
        self.written += 1
        if (partial := path.with_name(f"{path.name}{_PARTIAL}")).is_dir():
            shutil.rmtree(partial)

    def remove(self, name: str) -> None:
        path = self.path / name
        if path.is_file():
            path.unlink()
            self.removed += 1


_CHECKPOINT: Final = "checkpoint"
_ADDENDA: Final = "addenda"
_BATCH: Final = 200
_PREFIXES: Final = 256  # folders of addenda, by the first byte of the digest


class TilesExported(NamedTuple):
    """The result of an export.

    Attributes:
        size: records in the log.
        written: files written.
        kept: tiles, bundles and addenda that existed already.
        removed: files of pruned entries and erased addenda.
    """

    size: int
    written: int
    kept: int
    removed: int


def export_tiles(ledger: Ledger, folder: Path, *, with_texts: bool = False) -> TilesExported:
    """Write the log to a folder, or update an earlier export; the checkpoint is written last.

    Args:
        ledger: integrated and given a new checkpoint if this user may.
        folder: a new one, or that of an earlier export of this log.
        with_texts: export the addenda as well: questions, candidates and texts.

    Raises:
        AuditError: the folder holds another log, or cannot be written.
        LedgerCorrupt: stored data is inconsistent.
    """
    problem = ""
    try:
        return _exported(ledger, ExportFolder(folder), with_texts=with_texts)
    except OSError as error:
        problem = f"{folder} cannot be written ({error.strerror or type(error).__name__}): give another --out"
    raise AuditError(problem)  # outside the except block, so that the OSError is not chained


def _exported(ledger: Ledger, folder: ExportFolder, *, with_texts: bool) -> TilesExported:
    stored = present_checkpoint(ledger)
    _check_same_log(ledger, folder, stored.size)
    for level, index, width in tiles_of(stored.size):
        path = tile_path(level, index, width)
        if not folder.keeps(path):
            folder.put(path, ledger.tile(level, index, width))
    _put_entries(ledger, folder, stored.size)
    _put_addenda(ledger, folder, wanted=with_texts)
    folder.put(_CHECKPOINT, stored.note.encode())
    return TilesExported(stored.size, folder.written, folder.kept, folder.removed)


def _check_same_log(ledger: Ledger, folder: ExportFolder, size: int) -> None:
    """Refuse a folder whose checkpoint is not of this log."""
    written = folder.read(_CHECKPOINT)
    if written is None:
        return
    try:
        exported = parse_checkpoint(written.decode())
    except (FormatError, UnicodeDecodeError) as error:
        raise AuditError(f"{folder.path / _CHECKPOINT} is not a checkpoint ({error}): give a new folder") from None
    if exported.origin != ledger.origin or exported.size > size or ledger.root(exported.size) != exported.root:
        raise AuditError(
            f"{folder.path} holds {exported.size} records of {exported.origin!r}, which are not the beginning of this "
            "ledger: give a new folder. If it is an export of this ledger, run 'context-engine audit verify --against "
            f"{folder.path / _CHECKPOINT}'"
        )


def _put_entries(ledger: Ledger, folder: ExportFolder, size: int) -> None:
    first = ledger.minimum_index // TILE_WIDTH
    for index in range(first):
        folder.remove(bundle_path(index))
    for index in range(first, -(-size // TILE_WIDTH)):
        start, width = index * TILE_WIDTH, tile_width(0, index, size)
        path = bundle_path(index, width)
        if folder.keeps(path):
            continue
        entries = [stored.entry for stored in ledger.entries(start, start + width) if stored.entry is not None]
        if len(entries) != width:
            raise LedgerCorrupt(f"records are missing between {start} and {start + width}: run 'audit verify'")
        folder.put(path, pack_entries(entries))


def _put_addenda(ledger: Ledger, folder: ExportFolder, *, wanted: bool) -> None:
    """Sync the addendum files with the ledger; delete those of erased addenda."""
    for prefix in range(_PREFIXES):
        place = f"{_ADDENDA}/{prefix:02x}"
        present = folder.names(place)
        digests = _digests(ledger, prefix) if wanted or present else set()
        for name in present - digests:
            folder.remove(f"{place}/{name}")
        folder.kept += len(present & digests)
        for part in parts(sorted(digests - present) if wanted else (), _BATCH):
            for digest, stored in ledger.addenda([bytes.fromhex(name) for name in part]).items():
                folder.put(f"{place}/{digest.hex()}", stored.salt + stored.data, private=True)


def _digests(ledger: Ledger, prefix: int) -> set[str]:
    """Return the digests, in hex, of the addenda whose first byte is the prefix."""
    wanted = select(addendum.c.digest).where(addendum.c.digest >= bytes([prefix]))
    if prefix + 1 < _PREFIXES:
        wanted = wanted.where(addendum.c.digest < bytes([prefix + 1]))
    with ledger.database.connect() as connection:
        return {bytes(digest).hex() for digest in connection.execute(wanted).scalars()}
