"""Append records to the ledger, including the ledger's records about itself."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, select, update

from context_engine.audit.formats.checkpoint import parse_note, verify_note
from context_engine.audit.formats.keys import VerifierKey
from context_engine.audit.formats.merkle import leaf_hash
from context_engine.audit.formats.strict import FormatError
from context_engine.audit.ledger.database import insert_rows, rows_where
from context_engine.audit.ledger.read import StoredCheckpoint
from context_engine.audit.ledger.schema import addendum, checkpoint, pending
from context_engine.audit.ledger.signing import Seals
from context_engine.audit.values import Addendum, Composed, Content, Draft
from context_engine.core.engine.search_plan import TimeSortedIds
from context_engine.core.models import utc_text
from context_engine.errors import AuditError, InvalidRequest

_MOST_BYTES: Final = 65_535  # per entry: C2SP entry bundles have 2-byte lengths

_KNOWN: Final = " UNION ALL ".join(
    f"SELECT record_id FROM {table} WHERE record_id {{values}}" for table in ("pending", "record")
)
"""One statement, because between two a record could move from one table to the other and be missed in both."""

_DIGESTS: Final = "SELECT content_key, digest FROM addendum WHERE content_key {values}"


def append(connection: Connection, drafts: Sequence[Draft], seals: Seals, written: float) -> int:
    """Insert the records that the ledger does not have yet, in the given order; return their number.

    Args:
        written: the time, in seconds since 1970.

    Raises:
        AuditError: an entry is too long for a C2SP entry bundle.
    """
    fresh = _new_drafts(connection, drafts)
    digests = _store_contents(connection, (content for draft in fresh for content in draft.contents))
    composed = [draft.compose(digests) for draft in fresh]
    addenda = [(own.digest, own.kind, own.salt, own.data, None) for each in composed for own in each.addenda]
    insert_rows(connection, addendum, addenda, conflict="DO NOTHING")
    rows = [_row(draft.record_id, each, seals, written) for draft, each in zip(fresh, composed, strict=True)]
    insert_rows(connection, pending, rows, conflict="DO NOTHING")
    return len(rows)


def keep_checkpoint(
    connection: Connection, made: StoredCheckpoint, keys: Sequence[VerifierKey] = ()
) -> StoredCheckpoint:
    """Store a checkpoint unless one of its size exists; return the stored one.

    Args:
        keys: keys of the log; an existing checkpoint of the same records that none of them signed is replaced.
    """
    insert_rows(connection, checkpoint, [made], conflict="DO NOTHING")
    of_size = checkpoint.c.size == made.size
    kept = StoredCheckpoint(*connection.execute(select(checkpoint).where(of_size)).one())
    if kept.note == made.note or not _is_replaceable(kept.note, made.note, keys):
        return kept
    connection.execute(update(checkpoint).where(of_size).values(note=made.note, written=made.written))
    return made


def _is_replaceable(kept: str, made: str, keys: Sequence[VerifierKey]) -> bool:
    """Return whether a stored checkpoint is about the same records as a new one, and no key of the log signed it."""
    if not keys or not kept.startswith(parse_note(made).text):
        return False
    try:
        return not verify_note(parse_note(kept), keys)
    except FormatError:
        return True


def _new_drafts(connection: Connection, drafts: Sequence[Draft]) -> list[Draft]:
    """Return the first draft of each record that the ledger does not have."""
    drafts_by_id: dict[str, Draft] = {}
    for draft in drafts:
        drafts_by_id.setdefault(draft.record_id, draft)
    for row in rows_where(connection, _KNOWN, list(drafts_by_id)):
        drafts_by_id.pop(row[0], None)
    return list(drafts_by_id.values())


def _store_contents(connection: Connection, contents: Iterable[Content]) -> dict[bytes, bytes]:
    """Store the contents that are new, each under its own salt; return all digests by content key.

    If two processes store the same content, both use the first one's. All insert in key order: no deadlocks.
    """
    wanted = {content.key: content for content in contents}
    digests = _digests(connection, wanted)
    missing = sorted(key for key in wanted if key not in digests)
    if missing:
        salted = [(key, Addendum.of(wanted[key].kind, wanted[key].data)) for key in missing]
        rows = [(shared.digest, shared.kind, shared.salt, shared.data, key) for key, shared in salted]
        insert_rows(connection, addendum, rows, conflict="DO NOTHING")
        digests |= _digests(connection, missing)
    return digests


def _digests(connection: Connection, keys: Collection[bytes]) -> dict[bytes, bytes]:
    return {row[0]: row[1] for row in rows_where(connection, _DIGESTS, keys)}


def _row(record_id: str, composed: Composed, seals: Seals, written: float) -> tuple[str | bytes | float | None, ...]:
    entry = composed.entry
    if len(entry) > _MOST_BYTES:
        raise AuditError(f"the entry of {record_id} has {len(entry)} bytes; the maximum is {_MOST_BYTES}")
    leaf = leaf_hash(entry)
    return (record_id, entry, leaf, *seals.pending(leaf), written)


STATEMENTS: Final = frozenset({"erasure", "pruning", "key", "loss"})
"""The kinds of the ledger's records about itself."""

_VERSION: Final = 1
_MOST_WORDS: Final = 200


def statement(kind: str, record_id: str, now: datetime, fields: Mapping[str, Any]) -> Draft:
    """Return the draft of a record of the ledger about itself.

    Args:
        kind: one of `STATEMENTS`.
        record_id: unique in the ledger.
    """
    body = {"v": _VERSION, "kind": kind, "id": record_id, "time": utc_text(now), **fields}
    entry = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    return Draft(record_id=record_id, contents=(), compose=lambda _digests: Composed(entry))


def statement_id(kind: str, now: datetime) -> str:
    """Return a new record id that begins with its kind and sorts by time."""
    return f"{kind}-{TimeSortedIds().new(now)}"


def own_words(name: str, text: str) -> str:
    """Return an operator's name or reason without surrounding white space; the log keeps it for ever.

    Raises:
        InvalidRequest: it is empty, longer than 200 characters, or holds control characters.
    """
    words = " ".join(text.split())
    if not words or len(words) > _MOST_WORDS or not words.isprintable():
        raise InvalidRequest(f"{name}: give 1 to {_MOST_WORDS} printable characters; they stay in the log for ever")
    return words
