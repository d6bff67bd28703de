"""Records of answers for their callers: the ledger entry and its proof of inclusion."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from context_engine.core.models import Authenticated, SearchResult, SearchSettings
from context_engine.core.policy.access import OpenAccess
from context_engine.errors import CursorExpired, NotPermitted, RecordNotFound, RecordNotWritten
from context_engine.service.contract.fetch import RecordResponse, RecordStanding
from context_engine.service.deployment import Deployment

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger
    from context_engine.audit.ledger.read import StoredEntry


_ID: Final = re.compile(r"[A-Za-z0-9_.:+-]{1,200}")
_FOR_OPERATORS: Final = ("denied", "withheld", "hashes", "addenda")
_WAIT_S: Final = 1.0
_LOOK_EVERY_S: Final = 0.05


class OwnedRecord:
    """A record that a caller may read.

    Attributes:
        ledger: the ledger that holds it.
        record_id: its id.
        entry: the stored entry.
        index: its place in the log; None while pending.
    """

    def __init__(self, ledger: Ledger, record_id: str, entry: bytes, index: int | None) -> None:
        self.ledger, self.record_id, self.entry, self.index = ledger, record_id, entry, index


def record_of(deployment: Deployment, caller: Authenticated, record_id: str) -> RecordResponse:
    """Return a record: any to an operator, their own to other callers.

    Raises:
        AuditOff: searches are not recorded.
        RecordNotFound: unknown, pruned or somebody else's; the cases are deliberately indistinguishable.
        RecordNotWritten: it is the caller's, but was not written within a second.
        AuditError: the ledger cannot be read.
    """
    return described(find_owned(deployment, caller, record_id), operator=caller.operator)


def described(record: OwnedRecord, *, operator: bool) -> RecordResponse:
    """Return a record without what its caller may not know.

    Args:
        operator: whether an operator reads it, who sees all of it.

    Raises:
        AuditError: the ledger cannot be read.
    """
    from context_engine.audit.review.account import account_of
    from context_engine.audit.review.stored import answer_entries, context_entries

    account = account_of(
        record.entry,
        record.index,
        record.ledger,
        contexts=context_entries(record.ledger, record.record_id),
        answers=answer_entries(record.ledger, record.record_id),
    ).to_dict()
    entry = account["entry"] if operator else _without(account["entry"], _FOR_OPERATORS)
    known = {name: account[name] for name in RecordResponse.model_fields if name in account}
    if not operator and known.get("settings"):  # process settings are for operators only
        known["settings"] = {
            name: row for name, row in known["settings"].items() if name in SearchSettings.model_fields
        }
    return RecordResponse(**{**known, "entry": entry, "proof": _standing(record)})


def proof_of_record(deployment: Deployment, caller: Authenticated, record_id: str) -> str:
    """Return the proof that a record is in the log, as `context-engine audit prove` writes it.

    A proof holds the whole entry. With access rules an entry names sources that its caller may not know of, so only
    operators get it.

    Raises:
        NotPermitted: access rules are in force, and the caller is not an operator.
        AuditOff, RecordNotFound, RecordNotWritten, AuditError: see `record_of`; also if no checkpoint can be made.
    """
    from context_engine.audit.ledger.key_change import present_checkpoint
    from context_engine.audit.ledger.prove import prove_record

    if not caller.operator and not isinstance(deployment.setup.access, OpenAccess):
        raise NotPermitted(
            "a proof holds the whole record, which under access rules names what its caller may not know: "
            "ask an operator for it"
        )
    record = find_owned(deployment, caller, record_id)
    newest = next(iter(record.ledger.checkpoints(newest=1)), None)
    covered = newest is not None and record.index is not None and record.index < newest.size
    checkpoint = newest if covered and newest is not None else present_checkpoint(record.ledger)
    return prove_record(record.ledger, record_id, checkpoint).text


def own_result(deployment: Deployment, caller: Authenticated, search_id: str) -> SearchResult:
    """Return the result of a search of the caller's, from the last minutes or from its record; operators may have any.

    Raises:
        RecordNotFound: neither kept nor recorded, or somebody else's; the cases are deliberately indistinguishable.
        InvalidRequest: the record is not of a search.
        RecordNotWritten, AuditError: see `record_of`; also if a part of the record is missing.
    """
    from context_engine.audit.review.stored import recorded_result

    try:
        return deployment.kept.get(caller.principal, search_id).result
    except CursorExpired:
        if not deployment.ledger.recording:
            raise RecordNotFound(
                f"no answer of the search {search_id!r} is kept for you now, and searches are not recorded here"
            ) from None
    record = find_owned(deployment, caller, search_id)
    return recorded_result(record.ledger, search_id, record.entry, None)


def find_owned(deployment: Deployment, caller: Authenticated, record_id: str) -> OwnedRecord:
    """Return a record that a caller may read; wait up to a second for one that was just made.

    Raises:
        AuditOff, RecordNotFound, RecordNotWritten, AuditError: see `record_of`.
    """
    until = time.monotonic() + _WAIT_S
    while (record := _readable(deployment, caller, record_id)) is None:
        if not deployment.kept.holds(caller.principal, record_id):  # else it is the caller's and being written
            raise RecordNotFound(f"there is no record {record_id!r} that you may read")
        if time.monotonic() > until:
            raise RecordNotWritten(
                f"the record {record_id!r} is not written yet: ask again in a moment", retry_after_s=_WAIT_S
            )
        time.sleep(_LOOK_EVERY_S)
    return record


def _readable(deployment: Deployment, caller: Authenticated, record_id: str) -> OwnedRecord | None:
    ledger = deployment.ledger.opened()
    if ledger is None or not _ID.fullmatch(record_id):
        return None
    stored = ledger.entry(record_id)
    if stored is not None and stored.index is None:
        ledger.integrate()
        stored = ledger.entry(record_id)
    if stored is None or stored.entry is None or not (caller.operator or _is_own(ledger, caller, stored)):
        return None
    return OwnedRecord(ledger, record_id, stored.entry, stored.index)


def _is_own(ledger: Ledger, caller: Authenticated, stored: StoredEntry) -> bool:
    """Whether an entry is the caller's; never for an unauthenticated caller."""
    from context_engine.audit.record.entry import read_entry

    if stored.entry is None:
        return False
    who = read_entry(stored.entry).get("caller") or {}
    return who.get("pseudonym") in own_pseudonyms(ledger, caller.principal.id)


def own_pseudonyms(ledger: Ledger, name: str) -> frozenset[str]:
    """Return the pseudonyms of a caller: one for each key, and one of the time without a key; none without a name."""
    from context_engine.audit.review.stored import ledger_pseudonyms

    return frozenset(key.of_caller(name) for key in ledger_pseudonyms(ledger)) if name else frozenset()


def _standing(record: OwnedRecord) -> RecordStanding:
    newest = next(iter(record.ledger.checkpoints(newest=1)), None)
    if newest is None or record.index is None or record.index >= newest.size:
        return RecordStanding(index=record.index, checkpoint=None, signed=False)
    signed = "\n\n" in newest.note.rstrip("\n")
    return RecordStanding(index=record.index, checkpoint=newest.size, signed=signed)


def _without(entry: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name not in names}
