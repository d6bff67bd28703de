"""Records into the ledger: what they share is looked up or kept, each is composed, and all wait to be integrated."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from sqlalchemy import Connection, select, update

from context_engine.audit.formats.keys import VerifierKey
from context_engine.audit.formats.merkle import leaf_hash
from context_engine.audit.formats.note import parse_note, verify_note
from context_engine.audit.formats.strict import FormatError
from context_engine.audit.ledger.read import StoredCheckpoint
from context_engine.audit.ledger.rows import insert_rows, rows_where
from context_engine.audit.ledger.schema import addendum, checkpoint, pending
from context_engine.audit.ledger.seals import Seals
from context_engine.audit.values import Addendum, Composed, Content, Draft
from context_engine.errors import AuditError

_MOST_BYTES: Final = 65_535
"""Of an entry: what the length of an entry in a bundle of C2SP tlog-tiles can say."""

_KNOWN: Final = " UNION ALL ".join(
    f"SELECT record_id FROM {table} WHERE record_id {{values}}" for table in ("pending", "record")
)
"""One statement, hence one moment: between two a record could move from the one to the other, and be in neither."""

_DIGESTS: Final = "SELECT content_key, digest FROM addendum WHERE content_key {values}"


def append(connection: Connection, drafts: Sequence[Draft], seals: Seals, written: float) -> int:
    """Insert records that are not there yet, in the order given; return how many.

    Args:
        connection: in a transaction that writes.
        drafts: the records.
        seals: makes the MACs.
        written: the time, in seconds since 1970.

    Raises:
        AuditError: an entry is longer than a bundle can hold.
    """
    fresh = _unknown(connection, drafts)
    digests = _keep(connection, (content for draft in fresh for content in draft.contents))
    composed = [draft.compose(digests) for draft in fresh]
    addenda = [(one.digest, one.kind, one.salt, one.data, None) for each in composed for one in each.addenda]
    insert_rows(connection, addendum, addenda, conflict="DO NOTHING")
    rows = [_row(draft.record_id, each, seals, written) for draft, each in zip(fresh, composed, strict=True)]
    insert_rows(connection, pending, rows, conflict="DO NOTHING")
    return len(rows)


def keep_checkpoint(
    connection: Connection, made: StoredCheckpoint, keys: Sequence[VerifierKey] = ()
) -> StoredCheckpoint:
    """Keep a checkpoint; return the one of that size that is kept, which may have been there before.

    Args:
        connection: in a transaction that writes.
        made: of a size that the log has, or had.
        keys: of the log; one that was there, says the same and is signed by none of them gives way to the new one.
    """
    insert_rows(connection, checkpoint, [made], conflict="DO NOTHING")
    of_size = checkpoint.c.size == made.size
    kept = StoredCheckpoint(*connection.execute(select(checkpoint).where(of_size)).one())
    if kept.note == made.note or not _gives_way(kept.note, made.note, keys):
        return kept
    connection.execute(update(checkpoint).where(of_size).values(note=made.note, written=made.written))
    return made


def _gives_way(kept: str, made: str, keys: Sequence[VerifierKey]) -> bool:
    """Return whether a checkpoint is about the same records as another, and no key of the log signed it."""
    if not keys or not kept.startswith(parse_note(made).text):
        return False
    try:
        return not verify_note(parse_note(kept), keys)
    except FormatError:
        return True


def _unknown(connection: Connection, drafts: Sequence[Draft]) -> list[Draft]:
    """Return the first draft of each record that the ledger does not have."""
    drafts_by_id: dict[str, Draft] = {}
    for draft in drafts:
        drafts_by_id.setdefault(draft.record_id, draft)
    for row in rows_where(connection, _KNOWN, list(drafts_by_id)):
        drafts_by_id.pop(row[0], None)
    return list(drafts_by_id.values())


def _keep(connection: Connection, contents: Iterable[Content]) -> dict[bytes, bytes]:
    """Return the digest of every content by its key; what is not there is kept, under a salt of its own.

    Where two processes keep the same at once, both name what the first one kept. All insert in the order of the keys,
    so that they never wait for each other in a circle.
    """
    wanted = {content.key: content for content in contents}
    digests = _digests(connection, wanted)
    missing = sorted(key for key in wanted if key not in digests)
    if missing:
        rows = [(one.digest, one.kind, one.salt, one.data, key) for key, one in _salted(wanted, missing)]
        insert_rows(connection, addendum, rows, conflict="DO NOTHING")
        digests |= _digests(connection, missing)
    return digests


def _salted(wanted: dict[bytes, Content], keys: Iterable[bytes]) -> Iterable[tuple[bytes, Addendum]]:
    return ((key, Addendum.of(wanted[key].kind, wanted[key].data)) for key in keys)


def _digests(connection: Connection, keys: Collection[bytes]) -> dict[bytes, bytes]:
    return {row[0]: row[1] for row in rows_where(connection, _DIGESTS, keys)}


def _row(record_id: str, composed: Composed, seals: Seals, written: float) -> tuple[str | bytes | float | None, ...]:
    entry = composed.entry
    if len(entry) > _MOST_BYTES:
        raise AuditError(f"the entry of {record_id} has {len(entry)} bytes, the most is {_MOST_BYTES}")
    leaf = leaf_hash(entry)
    return (record_id, entry, leaf, *seals.pending(leaf), written)
