"""Erasure: questions and texts are deleted for good, an entry says so in the same transaction, and every proof holds.

Entries are never touched: what is left of an erased text in them is its SHA-256 and the digest of its addendum, which
is salted, and the salt goes with the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import Connection, delete

from context_engine.audit.ledger.append import append
from context_engine.audit.ledger.find_erasable import Erasable, Wanted, find_erasable
from context_engine.audit.ledger.key_change import enter_key
from context_engine.audit.ledger.overwrite import overwrite_freed, overwrites_deleted
from context_engine.audit.ledger.read import log_size
from context_engine.audit.ledger.rows import parts
from context_engine.audit.ledger.schema import addendum
from context_engine.audit.ledger.statements import own_words, statement, statement_id
from context_engine.audit.values import Draft
from context_engine.core.protocols import Clock

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger


_TEXTS: Final = ("text",)
_CARDS: Final = ("card",)
_MOST_DIGESTS: Final = 60
"""In one entry: 67 bytes each, beside reason and name of up to 800 bytes each, stay below 6144."""


class Erased(NamedTuple):
    """What was erased, or would be.

    Attributes:
        record_ids: of the entries that say so.
        questions: questions, and what else was kept of a record alone.
        texts: texts of chunks.
        cards: what else was known of those chunks.
        records: records that lose something; one text may be named by many.
        overwritten: whether the database's files hold nothing of it any more; None in PostgreSQL, where vacuuming,
            backups and archives are the operator's.
    """

    record_ids: tuple[str, ...]
    questions: int
    texts: int
    cards: int
    records: int
    overwritten: bool | None


def erase(ledger: Ledger, wanted: Wanted, *, reason: str, by: str, clock: Clock, dry_run: bool = False) -> Erased:
    """Delete questions and texts, and record it.

    Args:
        ledger: open for writing.
        wanted: what is to go. What is not there any more is passed over.
        reason: 1 to 200 characters that stand in the log for ever.
        by: who does it, likewise.
        clock: the time.
        dry_run: only say what would be erased.

    Raises:
        InvalidRequest: reason or name of another form.
        RecordNotFound: there is no record of an id.
        AuditError: the ledger cannot be written.
        LedgerCorrupt: what is stored cannot be read.
    """
    reason, by = own_words("reason", reason), own_words("by", by)
    if dry_run:
        ledger.integrate()
    else:
        enter_key(ledger, ledger.keyring, clock)
    with ledger.database.connect(patient=True) as connection:
        end, found = log_size(connection), find_erasable(connection, wanted)
    if dry_run:
        return _told((), found, None)
    with ledger.database.begin(alone=True) as connection:
        overwrites_deleted(connection)
        # The whole log was read before: whoever appends waits only for what has come since.
        found.join(find_erasable(connection, wanted, since=end))
        found.keep_there(connection)
        drafts = list(erasure_drafts(sorted(found.kinds), reason, by, clock))
        _delete(connection, found.kinds)
        append(connection, drafts, ledger.seals, clock.now().timestamp())
    ledger.integrate()
    return _told(tuple(draft.record_id for draft in drafts), found, overwrite_freed(ledger.database))


def erasure_drafts(digests: Sequence[bytes], reason: str, by: str, clock: Clock) -> Iterator[Draft]:
    """Yield the entries that say which addenda were erased, as few as hold them.

    Args:
        digests: of the addenda.
        reason, by: why, and by whom.
        clock: the time.
    """
    for part in parts(digests, _MOST_DIGESTS):
        now = clock.now()
        said = {"digests": [digest.hex() for digest in part], "reason": reason, "by": by}
        yield statement("erasure", statement_id("erasure", now), now, said)


def _delete(connection: Connection, digests: Sequence[bytes] | dict[bytes, str]) -> None:
    for part in parts(digests):
        connection.execute(delete(addendum).where(addendum.c.digest.in_(part)))


def _told(record_ids: tuple[str, ...], found: Erasable, overwritten: bool | None) -> Erased:
    texts, cards = found.count(*_TEXTS), found.count(*_CARDS)
    return Erased(record_ids, len(found.kinds) - texts - cards, texts, cards, len(found.records), overwritten)
