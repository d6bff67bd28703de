"""Publish a checkpoint: store it, have witnesses cosign it, and hand it to files and programs outside the ledger."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from sqlalchemy import Connection, delete, insert, select, update

from context_engine.audit.formats.checkpoint import Note, parse_checkpoint, parse_note, parse_signature, verify_note
from context_engine.audit.formats.keys import VerifierKey
from context_engine.audit.formats.strict import FormatError
from context_engine.audit.formats.tiles import TileTree
from context_engine.audit.ledger.outlets import Outlet
from context_engine.audit.ledger.read import log_size
from context_engine.audit.ledger.schema import checkpoint, meta
from context_engine.core.protocols import Clock
from context_engine.errors import AuditError

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger


_ROUNDS: Final = 3
"""One to learn what the witness saw last, one to answer, one more in case another process was quicker."""


class Cosigner(Protocol):
    """A witness.

    Attributes:
        name: for messages.
        vkey: its verifier key; cosignatures of other keys are not accepted.
    """

    name: str
    vkey: str

    def add_checkpoint(self, note: str, old_size: int, proof: tuple[bytes, ...]) -> str | int:
        """Return the lines of its cosignatures, or the size it cosigned last if that is not `old_size`.

        Raises:
            AuditError: it refuses, or cannot be reached.
        """

    def close(self) -> None:
        """Close connections; may be called twice, and the witness may be used again."""


def cosigned(note: str, tree: TileTree, witness: Cosigner, seen: int = 0) -> str:
    """Return the note with a witness's cosignature added.

    Args:
        seen: the last size that the witness cosigned, as far as known; the witness corrects a wrong size.

    Raises:
        AuditError: the witness refuses, saw a larger log than this one, or returns no cosignature of its key.
    """
    old = seen if seen <= tree.size else 0
    for _ in range(_ROUNDS):
        answer = witness.add_checkpoint(note, old, tree.consistency_proof(old) if old else ())
        if isinstance(answer, str):
            return str(_with_cosignature(parse_note(note), answer, witness))
        if answer > tree.size:
            raise AuditError(
                f"witness {witness.name!r} cosigned this log at {answer} records and it has {tree.size} now: it was "
                "cut off or rolled back; run 'context-engine audit verify'"
            )
        old = answer
    raise AuditError(f"witness {witness.name!r} names another size each time: it is retried with the next checkpoint")


def _with_cosignature(note: Note, lines: str, witness: Cosigner) -> Note:
    """Return the note with the lines that the witness's key signed."""
    key = VerifierKey.parse(witness.vkey)
    try:
        signatures = [parse_signature(line) for line in lines.removesuffix("\n").split("\n")]
        own = tuple(signature for signature in signatures if signature.by(key))
        good = bool(own) and verify_note(Note(note.text, own), (key,))
    except FormatError as error:
        raise AuditError(f"witness {witness.name!r} returned no valid cosignature of its key: {error}") from None
    if not good:
        raise AuditError(
            f"witness {witness.name!r} returned no cosignature of the key {key.name}: correct audit_witnesses"
        )
    others = tuple(signature for signature in note.signatures if not signature.by(key))
    return Note(note.text, others + own)


def seen_by(note: str, witness: Cosigner) -> int:
    """Return the size of a stored checkpoint if the witness cosigned it, else 0."""
    try:
        key, parsed = VerifierKey.parse(witness.vkey), parse_note(note)
        return parse_checkpoint(parsed).size if any(signature.by(key) for signature in parsed.signatures) else 0
    except FormatError:
        return 0


logger = logging.getLogger(__name__)
LEASE_S: Final = 300.0
"""Longer than witnesses and programs may take; afterwards another process takes over from one that was killed."""

_STORED: Final = "ledger"
_LOOKED_AT: Final = 8  # newest checkpoints searched for the last cosignature


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """When checkpoints are published, and where.

    Attributes:
        records: one is due after this many records,
        seconds: or after this many seconds, if there are new records.
        outlets: destinations by name.
        witnesses: asked to cosign before publication.
    """

    records: int
    seconds: float
    outlets: Mapping[str, Outlet] = field(default_factory=dict)
    witnesses: Sequence[Cosigner] = ()

    @property
    def ways(self) -> tuple[str, ...]:
        """The names of all destinations, including the ledger itself."""
        return (_STORED, *(f"witness {witness.name}" for witness in self.witnesses), *self.outlets)

    def close(self) -> None:
        """Close the connections to the witnesses."""
        for witness in self.witnesses:
            witness.close()


class Published(NamedTuple):
    """A checkpoint that was published.

    Attributes:
        size: its number of records.
        note: with the cosignatures obtained.
        problems: one sentence per failed destination, which is retried after `Rhythm.seconds`.
    """

    size: int
    note: str
    problems: tuple[str, ...]


def publish(ledger: Ledger, rhythm: Rhythm, clock: Clock, *, at_once: bool = False) -> Published | None:
    """Make and publish a checkpoint if one is due and no other process is publishing; else return None.

    Args:
        at_once: publish to every destination that lacks the newest checkpoint, regardless of the rhythm.

    Raises:
        AuditError: the ledger cannot be used.
    """
    ledger.integrate()
    before = _take_lease(ledger, rhythm, clock.now().timestamp(), at_once)
    if before is None:
        return None
    reached: list[str] = []
    size, made = 0, before.made
    try:
        stored = ledger.checkpoint()
        size, made = stored.size, (stored.size, stored.written)
        published = _deliver(ledger, size, stored.note, rhythm, before.owed(rhythm.ways, size), reached)
    finally:
        with ledger.database.begin() as connection:
            write_publication(connection, replace(before.given(reached, size), tried_size=size, made=made))
    return published


def _take_lease(ledger: Ledger, rhythm: Rhythm, now: float, at_once: bool) -> Publication | None:
    """Take the lease if a checkpoint is due, and return the state before."""
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


def _deliver(
    ledger: Ledger, size: int, note: str, rhythm: Rhythm, owed: Sequence[str], reached: list[str]
) -> Published:
    problems: list[str] = []
    reached.append(_STORED)
    for witness in rhythm.witnesses:
        way = f"witness {witness.name}"
        if way in owed:
            try:
                note = _witnessed(ledger, size, note, witness)
                reached.append(way)
            except (AuditError, ValueError) as error:  # the latter: a tile or a note that is damaged
                problems.append(str(error))
    for way, give in rhythm.outlets.items():
        if way in owed:
            try:
                give(note)
                reached.append(way)
            except AuditError as error:
                problems.append(str(error))
    for problem in problems:
        logger.warning("the checkpoint at %d records was not delivered: %s", size, problem)
    return Published(size, note, tuple(problems))


def _witnessed(ledger: Ledger, size: int, note: str, witness: Cosigner) -> str:
    """Add a witness's cosignature to a note and store it."""
    if not parse_note(note).signatures:
        raise AuditError(
            f"witness {witness.name!r} was not asked: it cosigns only signed checkpoints, and this ledger has no key"
        )
    seen = (seen_by(kept.note, witness) for kept in reversed(ledger.checkpoints(newest=_LOOKED_AT)))
    note = cosigned(note, TileTree(ledger.tile, size), witness, next(filter(None, seen), 0))
    with ledger.database.begin() as connection:
        connection.execute(update(checkpoint).where(checkpoint.c.size == size).values(note=note))
    return note


_NAME: Final = "publication"


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """The last published checkpoint of each destination, and who holds the lease.

    Attributes:
        done: {destination: size of the last checkpoint published there}.
        tried: seconds since 1970 of the last attempt.
        tried_size: its number of records.
        leased: seconds since 1970 until which a process holds the lease; 0: none does.
        made: (size, seconds since 1970 at which it was made) of the last published checkpoint.
    """

    done: Mapping[str, int] = field(default_factory=dict)
    tried: float = 0.0
    tried_size: int = 0
    leased: float = 0.0
    made: tuple[int, float] | None = None

    def owed(self, ways: Iterable[str], size: int) -> tuple[str, ...]:
        """Return the destinations without a checkpoint of this size."""
        return tuple(way for way in ways if self.done.get(way, 0) != size)

    def due(self, ways: Iterable[str], size: int, now: float, *, records: int, seconds: float) -> bool:
        """Return whether a destination lacks a checkpoint, and enough records or seconds have passed since the last
        attempt.
        """
        if not size or not self.owed(ways, size):
            return False
        return size - self.tried_size >= records or not 0 <= now - self.tried < seconds

    def given(self, ways: Iterable[str], size: int) -> Publication:
        """Return the state after publishing to some destinations, with the lease released."""
        return replace(self, done={**self.done, **dict.fromkeys(ways, size)}, leased=0.0)


def read_publication(connection: Connection) -> Publication:
    """Return the stored state; an unreadable state counts as nothing published."""
    written = connection.scalar(select(meta.c.value).where(meta.c.name == _NAME))
    try:
        state = json.loads(written or "{}")
        return Publication(
            done={str(way): int(size) for way, size in state.get("done", {}).items()},
            tried=float(state.get("tried", 0.0)),
            tried_size=int(state.get("tried_size", 0)),
            leased=float(state.get("leased", 0.0)),
            made=(int(made[0]), float(made[1])) if (made := state.get("made")) else None,
        )
    except (ValueError, TypeError, AttributeError, LookupError):
        return Publication()


def write_publication(connection: Connection, state: Publication) -> None:
    """Store the state inside the caller's transaction."""
    body = {"done": dict(state.done), "tried": state.tried, "tried_size": state.tried_size, "leased": state.leased}
    if state.made is not None:
        body["made"] = list(state.made)
    connection.execute(delete(meta).where(meta.c.name == _NAME))
    connection.execute(insert(meta).values(name=_NAME, value=json.dumps(body)))
