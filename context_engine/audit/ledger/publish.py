"""One checkpoint made and handed out: stored, cosigned by witnesses, and given to what stands outside the ledger."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import update

from context_engine.audit.formats.note import parse_note
from context_engine.audit.formats.tiles import TileTree
from context_engine.audit.ledger.cosign import Cosigner, cosigned, seen_by
from context_engine.audit.ledger.outlets import Outlet
from context_engine.audit.ledger.publication import Publication, read_publication, write_publication
from context_engine.audit.ledger.read import log_size
from context_engine.audit.ledger.schema import checkpoint
from context_engine.core.protocols import Clock
from context_engine.errors import AuditError

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger


logger = logging.getLogger(__name__)

LEASE_S: Final = 300.0
"""Longer than witnesses and programs may take; after it another process takes over from one that was killed."""

_STORED: Final = "ledger"
_LOOKED_AT: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """When checkpoints are made and where they go.

    Attributes:
        records: one is due after so many records ...
        seconds: ... or after so many seconds, where there are new ones.
        outlets: where it goes, by name.
        witnesses: asked to cosign it before it goes there.
    """

    records: int
    seconds: float
    outlets: Mapping[str, Outlet] = field(default_factory=dict)
    witnesses: Sequence[Cosigner] = ()

    @property
    def ways(self) -> tuple[str, ...]:
        """The names of all that a checkpoint is handed to; the ledger itself is one."""
        return (_STORED, *(f"witness {one.name}" for one in self.witnesses), *self.outlets)

    def close(self) -> None:
        """Close the connections to the witnesses; whoever is done with them does, while none is asked."""
        for witness in self.witnesses:
            witness.close()


class Published(NamedTuple):
    """A checkpoint that was handed out.

    Attributes:
        size: records it speaks of.
        note: with the cosignatures that were obtained.
        problems: what it could not be handed to, a sentence each; it is tried again after `Rhythm.seconds`.
    """

    size: int
    note: str
    problems: tuple[str, ...]


def publish(ledger: Ledger, rhythm: Rhythm, clock: Clock, *, at_once: bool = False) -> Published | None:
    """Make a checkpoint and hand it out, if one is due and no other process is at it; else return None.

    Args:
        ledger: open for writing.
        rhythm: when and where.
        clock: the time.
        at_once: it is due wherever it has not been handed out, however little time has passed.

    Raises:
        AuditError: the ledger cannot be used.
    """
    ledger.integrate()
    before = _taken(ledger, rhythm, clock.now().timestamp(), at_once)
    if before is None:
        return None
    given: list[str] = []
    size = 0
    try:
        stored = ledger.checkpoint()
        size = stored.size
        found = _handed_out(ledger, size, stored.note, rhythm, before.owed(rhythm.ways, size), given)
    finally:
        with ledger.database.begin() as connection:
            write_publication(connection, replace(before.given(given, size), tried_size=size))
    return found


def _taken(ledger: Ledger, rhythm: Rhythm, now: float, at_once: bool) -> Publication | None:
    """Take the lease where a checkpoint is due, and return what was handed out before."""
    records, seconds = (0, 0.0) if at_once else (rhythm.records, rhythm.seconds)
    with ledger.database.begin(alone=True) as connection:
        state = read_publication(connection)
        size = log_size(connection)
        if now < state.leased <= now + LEASE_S or not state.due(
            rhythm.ways, size, now, records=records, seconds=seconds
        ):
            return None
        taken = replace(state, tried=now, leased=now + LEASE_S)
        write_publication(connection, taken)
    return taken


def _handed_out(
    ledger: Ledger, size: int, note: str, rhythm: Rhythm, owed: Sequence[str], given: list[str]
) -> Published:
    problems: list[str] = []
    given.append(_STORED)
    for witness in rhythm.witnesses:
        way = f"witness {witness.name}"
        if way in owed:
            try:
                note = _witnessed(ledger, size, note, witness)
                given.append(way)
            except (AuditError, ValueError) as error:  # the latter: a tile or a note that is damaged
                problems.append(str(error))
    for way, give in rhythm.outlets.items():
        if way in owed:
            try:
                give(note)
                given.append(way)
            except AuditError as error:
                problems.append(str(error))
    for problem in problems:
        logger.warning("the checkpoint at %d records was not handed out: %s", size, problem)
    return Published(size, note, tuple(problems))


def _witnessed(ledger: Ledger, size: int, note: str, witness: Cosigner) -> str:
    """Return the note with a witness's cosignature, and store it so."""
    if not parse_note(note).signatures:
        raise AuditError(
            f"witness {witness.name!r} was not asked: it cosigns what is signed, and this ledger has no key"
        )
    seen = (seen_by(one.note, witness) for one in reversed(ledger.checkpoints(newest=_LOOKED_AT)))
    note = cosigned(note, TileTree(ledger.tile, size), witness, next(filter(None, seen), 0))
    with ledger.database.begin() as connection:
        connection.execute(update(checkpoint).where(checkpoint.c.size == size).values(note=note))
    return note
