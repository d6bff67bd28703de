"""What is known about the integrity of the log without reading all of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import func, select

from context_engine.audit.formats.checkpoint import parse_note
from context_engine.audit.formats.strict import FormatError
from context_engine.audit.ledger.look_up import Criteria
from context_engine.audit.ledger.newest import WantedRecords, entries_of, newest_rows
from context_engine.audit.ledger.schema import erasure
from context_engine.audit.record.entry import read_entry
from context_engine.wiring.audit_report import audit_notices

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger
    from context_engine.audit.ledger.read import StoredCheckpoint
    from context_engine.wiring.setup import Setup

_MOST: Final = 50
_KINDS: Final = ("key", "pruning", "loss", "erasure")


class ShownCheckpoint(NamedTuple):
    """A checkpoint: size, time in seconds since 1970, names of its signatures."""

    size: int
    written: float
    signers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Integrity:
    """The state of the log.

    Attributes:
        checkpoints: the newest, newest first.
        uncovered: number of records that no checkpoint covers yet.
        key: name and id of the current key; None: nothing is signed.
        keys, prunings, losses, erasures: the entries of the log about itself, newest first.
        erased: number of addenda that were erased.
        notices: sentences about unwise settings.
    """

    origin: str
    size: int
    pending: int
    minimum_index: int
    checkpoints: tuple[ShownCheckpoint, ...]
    uncovered: int
    key: str | None
    keys: tuple[dict[str, Any], ...]
    prunings: tuple[dict[str, Any], ...]
    losses: tuple[dict[str, Any], ...]
    erasures: tuple[dict[str, Any], ...]
    erased: int
    notices: tuple[str, ...]


def integrity_of(ledger: Ledger, setup: Setup) -> Integrity:
    """Return what is known about the log.

    Raises:
        AuditError: the ledger cannot be read.
    """
    ledger.integrate()
    checkpoints = tuple(_shown(each) for each in reversed(ledger.checkpoints(newest=_MOST)))
    size, keyring, about = ledger.size, ledger.keyring, _about_the_log(ledger)
    with ledger.database.connect() as connection:
        erased = int(connection.scalar(select(func.count()).select_from(erasure)) or 0)
    return Integrity(
        origin=ledger.origin,
        size=size,
        pending=ledger.pending_count(),
        minimum_index=ledger.minimum_index,
        checkpoints=checkpoints,
        uncovered=size - (checkpoints[0].size if checkpoints else 0),
        key=None if keyring is None else f"{keyring.current.name} {keyring.key_id}",
        keys=about["key"],
        prunings=about["pruning"],
        losses=about["loss"],
        erasures=about["erasure"],
        erased=erased,
        notices=tuple(notice.message for notice in audit_notices(setup)),
    )


def _shown(checkpoint: StoredCheckpoint) -> ShownCheckpoint:
    try:
        signers = tuple(dict.fromkeys(sign.name for sign in parse_note(checkpoint.note).signatures))
    except FormatError:  # `audit verify` reports it
        signers = ()
    return ShownCheckpoint(checkpoint.size, checkpoint.written, signers)


def _about_the_log(ledger: Ledger) -> dict[str, tuple[dict[str, Any], ...]]:
    """Return the newest entries of the log about itself, by kind."""
    rows = newest_rows(ledger, WantedRecords(criteria=Criteria(), kinds=_KINDS), _MOST)
    with ledger.database.connect() as connection:
        stored = entries_of(connection, [row.index for row in rows])
    read = [read_entry(stored[row.index]) for row in rows if row.index in stored]
    return {kind: tuple(entry for entry in read if entry["kind"] == kind) for kind in _KINDS}
