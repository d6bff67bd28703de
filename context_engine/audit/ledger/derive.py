"""What is looked up of a record, derived from its entry and candidates alone, so that a check can derive it again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

from context_engine.audit.ledger.identity import FATES, ChunkIdentity
from context_engine.audit.record.mentions import mentions_of

_UNKNOWN: Final = "unknown"
_FATES: Final[Mapping[str, int]] = {fate: number for number, fate in enumerate(FATES)}
_OTHER_FATE: Final = len(FATES)
_RANK: Final = (*(_FATES[fate] for fate in ("returned", "merged", "dropped")), _OTHER_FATE)
_IDENTITIES: Final = 16_384


class RecordColumns(NamedTuple):
    """The row of a record in the table `record`, in the order of its columns."""

    idx: int
    record_id: str
    kind: str
    time: str
    domain: str | None
    status: str | None
    decision: str | None
    caller: str | None
    search_id: str | None


def parse_entry(entry: bytes) -> dict[str, Any]:
    """Return an entry as a mapping, an empty one where it is none: whatever stands in the log is looked up as it is."""
    try:
        found = json.loads(entry)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def derive_record(index: int, record_id: str, entry: dict[str, Any]) -> RecordColumns:
    """Return what a record is looked up by.

    Args:
        index: of the entry.
        record_id: under which it was appended.
        entry: as `parse_entry` returns it.
    """
    caller = entry.get("caller")
    return RecordColumns(
        index,
        record_id,
        _text(entry.get("kind")) or _UNKNOWN,
        _time(entry.get("time")),
        _text(entry.get("domain")),
        _text(entry.get("status")),
        _text(entry.get("decision")),
        _text(caller.get("pseudonym")) if isinstance(caller, dict) else None,
        _text(entry.get("search")),
    )


def derive_mentions(entry: dict[str, Any], candidates: bytes | None) -> dict[ChunkIdentity, int]:
    """Return the chunks that a record names, and what became of each: the best, where it is named more than once.

    Args:
        entry: as `parse_entry` returns it.
        candidates: the addendum of that kind; None: what was returned is all that is known.
    """
    found: dict[ChunkIdentity, int] = {}
    for source_id, chunk_id, document_id, version, sha256, fate in mentions_of(entry, candidates):
        try:
            identity = _identity(source_id, chunk_id, document_id, version, sha256)
        except TypeError:  # a damaged record may say anything
            identity = _storable(source_id, chunk_id, document_id, version, sha256)
        number = _FATES.get(fate, _OTHER_FATE) if isinstance(fate, str) else _OTHER_FATE
        found[identity] = min(found[identity], number, key=_RANK.index) if identity in found else number
    return found


def named_digest(entry: dict[str, Any], kind: str) -> bytes | None:
    """Return the digest under which an entry names an addendum of its own, None where it names none.

    Args:
        entry: as `parse_entry` returns it.
        kind: of the addendum, such as candidates.
    """
    return named_digests(entry).get(kind)


def named_digests(entry: Mapping[str, Any]) -> dict[str, bytes]:
    """Return {kind: digest} of the addenda that an entry names as its own; what is no digest is left out.

    Args:
        entry: as `parse_entry` returns it.
    """
    addenda = entry.get("addenda")
    found: dict[str, bytes] = {}
    for kind, digest in addenda.items() if isinstance(addenda, dict) else ():
        try:
            found[kind] = bytes.fromhex(digest)
        except (TypeError, ValueError):
            continue  # the entry was written so: its hash and MAC hold
    return found


def derive_erased(entry: dict[str, Any]) -> list[bytes]:
    """Return the digests that an entry says were erased, none where it is no erasure.

    Args:
        entry: as `parse_entry` returns it.
    """
    if entry.get("kind") != "erasure" or not isinstance(entry.get("digests"), list):
        return []
    try:
        return list(dict.fromkeys(bytes.fromhex(digest) for digest in entry["digests"]))
    except (TypeError, ValueError):
        return []


def moment_text(moment: datetime) -> str:
    """Return a moment as records are looked up by: UTC, to the microsecond, so that texts stand in the order of time.

    Args:
        moment: aware.
    """
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _time(value: object) -> str:
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            return moment_text(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
        except (ValueError, OverflowError):
            pass
    return ""


def _storable(source_id: Any, chunk_id: Any, document_id: Any, version: Any, sha256: bytes | None) -> ChunkIdentity:
    return ChunkIdentity(_text(source_id) or "", _text(chunk_id) or "", _text(document_id), _text(version), sha256)


_identity: Final = lru_cache(_IDENTITIES)(_storable)
"""The same chunks are named by record after record."""


def _text(value: object) -> str | None:
    """Return a text that every database stores; PostgreSQL knows no NUL, and neither knows half a surrogate pair."""
    if not isinstance(value, str):
        return None
    if value.isascii() and "\x00" not in value:
        return value
    return value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
