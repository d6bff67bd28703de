"""Export records as JSON lines, each of which can be proved, or as CSV for a spreadsheet; and the log as tiles.

Tiles stand in a folder in the C2SP tlog-tiles layout, which any monitor can read.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from sqlalchemy import select

from context_engine.audit.formats.checkpoint import parse_checkpoint
from context_engine.audit.formats.strict import FormatError
from context_engine.audit.formats.tiles import TILE_WIDTH, bundle_path, pack_entries, tile_path, tile_width, tiles_of
from context_engine.audit.ledger.database import parts
from context_engine.audit.ledger.derive import parse_entry
from context_engine.audit.ledger.key_change import present_checkpoint
from context_engine.audit.ledger.named import named_in
from context_engine.audit.ledger.read import StoredEntry
from context_engine.audit.ledger.schema import addendum
from context_engine.audit.values import Addendum
from context_engine.errors import AuditError, LedgerCorrupt

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger


_PLAIN: Final = ("question", "account", "text", "card", "settings", "sources")
"""Kinds whose data is exported as text."""
_PARTIAL: Final = ".p"
_UNFINISHED: Final = ".unfinished"


def exported_entries(ledger: Ledger, indices: Iterable[int] | None = None) -> Iterator[StoredEntry]:
    """Yield the entries that were not pruned, in log order.

    Args:
        indices: the records to export, ascending; None: all.
    """
    if indices is None:
        entries: Iterable[StoredEntry | None] = ledger.entries(ledger.minimum_index, ledger.size)
    else:
        entries = (ledger.entry_at(index) for index in indices)
    yield from (stored for stored in entries if stored is not None and stored.entry is not None)


def json_lines(ledger: Ledger, entries: Iterable[StoredEntry], *, with_texts: bool = False) -> Iterator[bytes]:
    """Yield a line for each record, without its line end.

    Args:
        with_texts: include the addenda of each record; null for an erased one.
    """
    for stored in entries:
        line: dict[str, Any] = {"index": stored.index, "leaf": stored.leaf.hex()}
        entry = stored.entry or b""
        if with_texts:
            line["addenda"] = _addenda(ledger, entry)
        head = json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
        # The entry's bytes are copied, not parsed and written again: the leaf hash is over these very bytes.
        if _is_object(entry):
            yield b'%b,"entry":%b}' % (head[:-1], entry)
        else:
            yield b'%b,"entry_base64":"%b"}' % (head[:-1], base64.b64encode(entry))


def _is_object(entry: bytes) -> bool:
    """Return whether an entry is a JSON object on one line; an altered entry may be any bytes."""
    try:
        return b"\n" not in entry and b"\r" not in entry and isinstance(json.loads(entry), dict)
    except ValueError:
        return False


def _addenda(ledger: Ledger, entry: bytes) -> dict[str, Any]:
    with ledger.database.connect() as connection:
        named = [digest for digests in named_in(connection, entry).values() for digest in digests]
    present = ledger.addenda(set(named))
    return {digest.hex(): _exported_addendum(present.get(digest)) for digest in dict.fromkeys(named)}


def _exported_addendum(addendum: Addendum | None) -> Mapping[str, str] | None:
    if addendum is None:
        return None
    fields = {"kind": addendum.kind, "salt": addendum.salt.hex()}
    if addendum.kind in _PLAIN:
        try:
            return {**fields, "data": addendum.data.decode()}
        except UnicodeDecodeError:
            pass
    return {**fields, "base64": base64.b64encode(addendum.data).decode()}


Rows = Literal["records", "chunks"]
_Row = Mapping[str, Any]
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
RECORD_COLUMNS: Final = (
    "index", "id", "kind", "time", "domain", "app", "request_id", "caller", "roles", "groups", "clearance", "status",
    "decision", "error", "query_kept", "candidates", "returned", "merged", "dropped", "swaps", "sources",
    "sources_failed", "denied", "withheld", "notices", "search", "code", "settings", "registry", "policy", "leaf",
)  # fmt: skip
CHUNK_COLUMNS: Final = (
    "index", "search_id", "time", "domain", "caller", "decision", "rank", "source", "chunk", "document", "version",
    "sha256", "tier", "type", "trust", "fetched_at", "final", "flags",
)  # fmt: skip


def csv_lines(entries: Iterable[StoredEntry], rows: Rows = "records") -> Iterator[str]:
    """Yield a header line and one line per row, with line ends (RFC 4180).

    Args:
        rows: "records": one row per record; "chunks": one row per chunk that a search returned.
    """
    columns = RECORD_COLUMNS if rows == "records" else CHUNK_COLUMNS
    made: Callable[[StoredEntry, _Row], Iterable[_Row]] = _records if rows == "records" else _chunks
    yield _line(columns)
    for stored in entries:
        for row in made(stored, parse_entry(stored.entry or b"")):
            yield _line([row.get(name) for name in columns])


def safe_cell(value: object) -> str:
    """Return a value as a cell that no spreadsheet evaluates as a formula; None is empty.

    >>> safe_cell("=1+1"), safe_cell(-1), safe_cell(None)
    ("'=1+1", '-1', '')
    """
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return str(value)
    text = str(value).replace("\x00", "")
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text


def _line(cells: Sequence[object]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow([safe_cell(cell) for cell in cells])
    return out.getvalue()


def _records(stored: StoredEntry, entry: _Row) -> Iterator[_Row]:
    caller, counts, hashes = (_mapping(entry.get(name)) for name in ("caller", "counts", "hashes"))
    sources = [source for source in _list(entry.get("sources")) if isinstance(source, Mapping)]
    yield {
        **{name: entry.get(name) for name in ("id", "kind", "time", "domain", "app", "request_id", "status")},
        **{name: entry.get(name) for name in ("decision", "search", "code")},
        **{name: counts.get(name) for name in ("candidates", "returned", "merged", "dropped", "swaps")},
        **{name: hashes.get(name) for name in ("settings", "registry", "policy")},
        "index": stored.index,
        "caller": caller.get("pseudonym"),
        "roles": _joined(_list(caller.get("roles"))),
        "groups": _joined(_list(caller.get("groups"))),
        "clearance": caller.get("clearance") if hashes.get("policy") else None,
        "error": _mapping(entry.get("error")).get("code"),
        "query_kept": _mapping(entry.get("query")).get("kept"),
        "sources": _joined(source.get("id") for source in sources),
        "sources_failed": _joined(source.get("id") for source in sources if source.get("error")),
        "denied": _joined(_first(denial) for denial in _list(entry.get("denied"))),
        "withheld": len(_list(entry.get("withheld"))) or None,
        "notices": _joined(dict.fromkeys(str(_first(notice)) for notice in _list(entry.get("notices")))),
        "leaf": stored.leaf.hex(),
    }


def _chunks(stored: StoredEntry, entry: _Row) -> Iterator[_Row]:
    if entry.get("kind") == "context":
        return
    caller = _mapping(entry.get("caller")).get("pseudonym")
    of_search = {name: entry.get(name) for name in ("time", "domain", "decision")}
    for rank, chunk in enumerate(_list(entry.get("chunks")), 1):
        if isinstance(chunk, Mapping):
            flags = _joined(_list(chunk.get("flags")))
            about = {"index": stored.index, "search_id": entry.get("id"), "caller": caller, "rank": rank}
            yield {**chunk, **of_search, **about, "flags": flags}


def _mapping(value: object) -> _Row:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _first(value: object) -> object:
    return value[0] if isinstance(value, list) and value else value


def _joined(values: Iterable[object]) -> str | None:
    return "; ".join(str(value) for value in values if value is not None) or None


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
