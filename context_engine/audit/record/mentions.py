"""Which chunks a record mentions, and what became of them: what answers are found by later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from context_engine.audit.record.candidates import read_fates
from context_engine.audit.record.exact import Unreadable, read_json

_NAMING: Final = ("search", "rank", "fetch")
_COLUMNS: Final = ("source_id", "chunk_id", "document_id", "document_version", "outcome")
_RETURNED: Final = "returned"


Mention = tuple[Any, Any, Any, Any, bytes | None, Any]
"""A candidate: source, chunk, document, version, SHA-256 of its text (32 bytes), fate (returned, merged or dropped).

Texts, and None where there is none; a damaged record may say anything. A plain tuple: there are a hundred to a record.
"""


def mentions_of(entry: bytes | Mapping[str, Any], candidates: bytes | None) -> tuple[Mention, ...]:
    """Return what a record mentions, in the order of the candidates; nothing for one that is of no search or fetch.

    What cannot be read, such as the record of a newer version, mentions what its entry lists, or nothing: it must not
    keep the log from growing.

    Args:
        entry: as it is stored, or read.
        candidates: the addendum of that name; without it only what the entry lists as returned is known.
    """
    try:
        read = read_json(entry) if isinstance(entry, bytes) else entry
        if read.get("kind") not in _NAMING:
            return ()
    except Unreadable:
        return ()
    found = None if candidates is None else _candidates(candidates)
    return _listed(read) if found is None else found


def _candidates(data: bytes) -> tuple[Mention, ...] | None:
    try:
        fates, texts = read_fates(data)
        *columns, outcomes = [fates[name] for name in _COLUMNS] if fates else [[]] * len(_COLUMNS)
        return tuple(zip(*columns, texts, outcomes, strict=True))
    except (Unreadable, KeyError, TypeError, ValueError):
        return None


def _listed(entry: Mapping[str, Any]) -> tuple[Mention, ...]:
    chunks = entry.get("chunks")
    listed = [one for one in chunks if isinstance(one, Mapping)] if isinstance(chunks, list) else []
    named = (
        (one.get("source"), one.get("chunk"), one.get("document"), one.get("version"), _sha256(one.get("sha256")))
        for one in listed
    )
    return tuple((*one, _RETURNED) for one in named if one[0] and one[1])


def _sha256(value: object) -> bytes | None:
    try:
        return bytes.fromhex(value) if isinstance(value, str) else None
    except ValueError:
        return None
