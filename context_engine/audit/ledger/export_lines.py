"""Records as lines of JSON, one each, from which every record can be proved: its entry stands there byte for byte.

    {"index": 7, "leaf": "<hex>", "addenda": {...}, "entry": {...}}

`entry` comes last, so the bytes that the leaf hash is of are those between `"entry":` and the brace that ends the line.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from context_engine.audit.ledger.named import named_in
from context_engine.audit.ledger.read import StoredEntry
from context_engine.audit.values import Addendum

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger


_PLAIN: Final = ("question", "account", "text", "card", "settings", "sources")
"""Kinds whose data is text as it is stored."""


def exported_entries(ledger: Ledger, indices: Iterable[int] | None = None) -> Iterator[StoredEntry]:
    """Yield the entries that are there, in the order of the log.

    Args:
        ledger: what waits in it should be integrated.
        indices: of the records wanted, in rising order; None: all of them.
    """
    if indices is None:
        found: Iterable[StoredEntry | None] = ledger.entries(ledger.minimum_index, ledger.size)
    else:
        found = (ledger.entry_at(index) for index in indices)
    yield from (one for one in found if one is not None and one.entry is not None)


def json_lines(ledger: Ledger, entries: Iterable[StoredEntry], *, with_texts: bool = False) -> Iterator[bytes]:
    """Yield a line for each record, without its end.

    Args:
        ledger: of the entries.
        entries: with their bytes.
        with_texts: the addenda that a record names too: question, candidates, texts, settings; null for one that was
            erased.
    """
    for one in entries:
        said: dict[str, Any] = {"index": one.index, "leaf": one.leaf.hex()}
        entry = one.entry or b""
        if with_texts:
            said["addenda"] = _addenda(ledger, entry)
        head = json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
        yield (
            b'%b,"entry":%b}' % (head[:-1], entry)
            if _is_object(entry)
            else b'%b,"entry_base64":"%b"}'
            % (
                head[:-1],
                base64.b64encode(entry),
            )
        )


def _is_object(entry: bytes) -> bool:
    """Whether an entry is a JSON object in one line: an entry that somebody altered may be anything."""
    try:
        return b"\n" not in entry and b"\r" not in entry and isinstance(json.loads(entry), dict)
    except ValueError:
        return False


def _addenda(ledger: Ledger, entry: bytes) -> dict[str, Any]:
    with ledger.database.connect() as connection:
        named = [digest for digests in named_in(connection, entry).values() for digest in digests]
    held = ledger.addenda(set(named))
    return {digest.hex(): _told(held.get(digest)) for digest in dict.fromkeys(named)}


def _told(addendum: Addendum | None) -> Mapping[str, str] | None:
    if addendum is None:
        return None
    said = {"kind": addendum.kind, "salt": addendum.salt.hex()}
    if addendum.kind in _PLAIN:
        try:
            return {**said, "data": addendum.data.decode()}
        except UnicodeDecodeError:
            pass
    return {**said, "base64": base64.b64encode(addendum.data).decode()}
