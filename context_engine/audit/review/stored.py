"""Find one record of a ledger, with what is needed to read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from context_engine.audit.record.question import Pseudonyms
from context_engine.errors import AuditError, RecordNotFound

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger
    from context_engine.core.models import SearchResult


@dataclass(frozen=True, slots=True)
class RecordBytes:
    """A stored record; its index is None while pending."""

    entry: bytes
    index: int | None


def find_record(ledger: Ledger, record_id: str) -> RecordBytes:
    """Return a record, after integrating pending ones.

    Raises:
        RecordNotFound: there is none of that id, or it was pruned.
    """
    ledger.integrate()
    stored = ledger.entry(record_id)
    if stored is None:
        raise RecordNotFound(f"the ledger has no record {record_id!r}: 'context-engine audit list' shows those it has")
    if stored.entry is None:
        raise RecordNotFound(f"record {record_id!r} was pruned: its retention has ended")
    return RecordBytes(stored.entry, stored.index)


def recorded_result(ledger: Ledger, record_id: str, entry: bytes, query: str | None) -> SearchResult:
    """Return the result of a recorded search.

    Args:
        query: the question, if only its digest was recorded.

    Raises:
        AuditError: something needed to compute it is missing, erased or unreadable.
        InvalidRequest: the record is not of a search.
    """
    from context_engine.audit.record.restored import restore

    restored = restore(entry, ledger, query=query, pseudonyms=ledger_pseudonyms(ledger))
    if restored.result is None:
        gone = "; ".join(f"{part.kind} {part.why}" for part in restored.missing[:3])
        raise AuditError(f"record {record_id} cannot be computed again: {gone}. 'audit show' tells what is left of it")
    return restored.result


def context_entries(ledger: Ledger, search_id: str) -> list[bytes]:
    """Return the entries of the contexts of a search, oldest first, without pruned ones."""
    return _entries_of(ledger, "context", search_id)


def answer_entries(ledger: Ledger, search_id: str) -> list[bytes]:
    """Return the entries of the answers composed from a search, oldest first, without pruned ones."""
    return _entries_of(ledger, "answer", search_id)


def _entries_of(ledger: Ledger, kind: str, search_id: str) -> list[bytes]:
    from context_engine.audit.ledger.look_up import Criteria

    rows = ledger.rows(Criteria(kind=kind, search_id=search_id, newest_first=False))
    entries = (ledger.entry_at(row.index) for row in rows)
    return [stored.entry for stored in entries if stored is not None and stored.entry is not None]


def ledger_pseudonyms(ledger: Ledger) -> list[Pseudonyms]:
    """Return the pseudonyms of every key, newest first, and those without a key."""
    keys = () if ledger.keyring is None else ledger.keyring.pseudonym_keys
    return [Pseudonyms(secret) for secret in (*keys, ledger.pseudonym_salt)]


def missing_keys(ledger: Ledger) -> list[str]:
    """Return NAME+ID of the log's keys that were not given, oldest first: callers recorded under them are not found."""
    from context_engine.audit.ledger.look_up import Criteria
    from context_engine.audit.record.entry import read_entry

    given = () if ledger.keyring is None else ledger.keyring.verifiers
    stored = (ledger.entry_at(row.index) for row in ledger.rows(Criteria(kind="key", newest_first=False)))
    changes = [read_entry(record.entry) for record in stored if record is not None and record.entry is not None]
    texts = dict.fromkeys(str(change[name]) for change in changes for name in ("was", "now") if change.get(name))
    return ["+".join(text.split("+")[:2]) for text in texts if text not in {key.text for key in given}]
