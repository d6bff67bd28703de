"""Export records as JSON lines, each of which can be proved, or as CSV for a spreadsheet."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from context_engine.audit.ledger.derive import parse_entry
from context_engine.audit.ledger.named import named_in
from context_engine.audit.ledger.read import StoredEntry
from context_engine.audit.values import Addendum

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger


_PLAIN: Final = ("question", "account", "text", "card", "settings", "sources")
"""Kinds whose data is exported as text."""


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
