"""Checkpoints are made when they are due, by one process, and reach what stands outside; a witness refuses a fork."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from context_engine.adapters.witnesses import TlogWitness
from context_engine.audit.formats.checkpoint import parse_checkpoint, parse_note, verify_note
from context_engine.audit.formats.keys import Keyring, SigningKey, VerifierKey
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.outlets import checkpoints_in, outlets_of
from context_engine.audit.ledger.publish import (
    LEASE_S,
    Publication,
    Rhythm,
    publish,
    read_publication,
    write_publication,
)
from context_engine.audit.ledger.publisher import Publisher
from context_engine.core.engine.search_plan import SystemClock
from context_engine.errors import AuditError
from context_engine.settings.connections import Connection
from context_engine.testing.fakes import FixedClock

Grows = Callable[..., None]


class MovedClock(FixedClock):
    """A fixed clock that is moved on by hand."""

    moved_s = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.moved_s)


@pytest.fixture
def grow(draft: Callable[..., Any]) -> Grows:
    """Appends records, each under a new id."""
    count = iter(range(10**6))

    def appended(ledger: Ledger, records: int) -> None:
        ledger.append([draft(f"s-{next(count)}") for _ in range(records)])

    return appended


@pytest.fixture
def witness(witness_server: Any, keyring: Keyring) -> Iterator[TlogWitness]:
    witness_server.trusted[keyring.current.name] = keyring.current.verifier
    connection = Connection.model_validate({"base_url": witness_server.url})
    made = TlogWitness("outside", witness_server.vkey, lambda: connection, SystemClock())
    yield made
    made.close()


class Away:
    """A witness that refuses, and notes what is done with it."""

    def __init__(self) -> None:
        self.name, self.vkey = "away", SigningKey("witness.example/away", bytes(32)).verifier.text
        self.seen: list[str] = []

    def add_checkpoint(self, note: str, old_size: int, proof: tuple[bytes, ...]) -> str | int:
        self.seen.append("asked")
        raise AuditError("it is away")

    def close(self) -> None:
        self.seen.append("closed")


def rhythm(**fields: Any) -> Rhythm:
    return Rhythm(**{"records": 10, "seconds": 60.0, **fields})


def test_one_is_due_after_so_many_records_or_seconds(ledger: Ledger, grow: Grows) -> None:
    clock, notes = MovedClock(), []
    when = rhythm(outlets={"file": notes.append})
    assert publish(ledger, when, clock) is None  # nothing is recorded
    grow(ledger, 1)
    first = publish(ledger, when, clock)
    assert first is not None and first.size == 1  # long ago: never
    grow(ledger, 9)
    assert publish(ledger, when, clock) is None  # nine records, no time
    grow(ledger, 1)
    second = publish(ledger, when, clock)
    assert second is not None and second.size == 11
    grow(ledger, 1)
    clock.moved_s = 59.0
    assert publish(ledger, when, clock) is None
    clock.moved_s = 60.0
    third = publish(ledger, when, clock)
    assert third is not None and third.size == 12
    clock.moved_s = 500.0
    assert publish(ledger, when, clock) is None  # nothing new
    assert publish(ledger, when, clock, at_once=True) is None
    assert [parse_checkpoint(note).size for note in notes] == [1, 11, 12]


def test_at_once_there_is_one_wherever_something_is_new(ledger: Ledger, grow: Grows) -> None:
    for size in (1, 2):
        grow(ledger, 1)
        found = publish(ledger, rhythm(), FixedClock(), at_once=True)
        assert found is not None and found.size == size


def test_a_checkpoint_that_a_command_stored_is_handed_out_all_the_same(ledger: Ledger, grow: Grows) -> None:
    grow(ledger, 1)
    stored, notes = ledger.checkpoint(), []
    publish(ledger, rhythm(outlets={"file": notes.append}), FixedClock())
    assert notes == [stored.note]


def test_while_one_process_is_at_it_no_other_is_and_a_killed_one_is_replaced(ledger: Ledger, grow: Grows) -> None:
    clock = MovedClock()
    grow(ledger, 1)
    until = clock.now().timestamp() + LEASE_S
    with ledger.database.begin() as connection:
        write_publication(connection, Publication(leased=until))
    assert publish(ledger, rhythm(), clock) is None
    clock.moved_s = LEASE_S
    assert publish(ledger, rhythm(), clock) is not None
    with ledger.database.connect() as connection:
        assert read_publication(connection).leased == 0.0


def test_two_at_once_hand_it_out_once(ledger: Ledger, open_ledger: Callable[..., Ledger], grow: Grows) -> None:
    notes: list[str] = []
    other = open_ledger()

    def slow(note: str) -> None:
        notes.append(note)
        assert publish(other, rhythm(), FixedClock(), at_once=True) is None

    grow(ledger, 1)
    publish(ledger, rhythm(outlets={"command": slow}), FixedClock())
    assert len(notes) == 1


def test_what_failed_is_tried_again_and_what_did_not_is_not(ledger: Ledger, grow: Grows) -> None:
    clock, given, notes = MovedClock(), [], []
    down = True

    def fails(note: str) -> None:
        if down:
            raise AuditError("the disk is full")
        given.append(note)

    when = rhythm(outlets={"file": fails, "command": notes.append})
    grow(ledger, 1)
    first = publish(ledger, when, clock)
    assert first is not None and first.problems == ("the disk is full",) and len(notes) == 1
    down = False
    assert publish(ledger, when, clock) is None  # not before its time
    clock.moved_s = 60.0
    second = publish(ledger, when, clock)
    assert second is not None and not second.problems
    assert given == notes == [second.note]


def test_what_is_not_ours_to_read_means_that_nothing_was_handed_out(ledger: Ledger) -> None:
    with ledger.database.begin() as connection:
        connection.exec_driver_sql("INSERT INTO meta (name, value) VALUES ('publication', '[]')")
        assert read_publication(connection) == Publication()


def test_a_witness_cosigns_and_the_cosignature_is_stored(
    ledger: Ledger, grow: Grows, witness: TlogWitness, witness_server: Any, tmp_path: Path
) -> None:
    notes: list[str] = []
    when = rhythm(witnesses=(witness,), outlets={"file": notes.append})
    for records in (3, 300, 1):
        grow(ledger, records)
        found = publish(ledger, when, FixedClock(), at_once=True)
        assert found is not None and found.problems == ()
    keys = [VerifierKey.parse(witness.vkey), ledger.keyring.current.verifier]  # type: ignore[union-attr]
    for stored, note in zip(ledger.checkpoints(), notes, strict=True):
        assert stored.note == note and len(verify_note(parse_note(note), keys)) == 2
    # It knows what the witness saw last from the stored checkpoints: no 409 is needed.
    assert witness_server.asked == [(0, 200), (3, 200), (303, 200)]


def test_a_witness_that_saw_more_than_is_known_here_says_so_itself(
    ledger: Ledger, grow: Grows, witness: TlogWitness, witness_server: Any
) -> None:
    grow(ledger, 5)
    first = ledger.checkpoint()
    witness_server.seen[ledger.origin] = (5, ledger.root())
    grow(ledger, 5)
    found = publish(ledger, rhythm(witnesses=(witness,)), FixedClock(), at_once=True)
    assert found is not None and not found.problems and first.size == 5
    assert witness_server.asked == [(0, 409), (5, 200)]


def test_a_witness_refuses_a_fork_and_a_rollback(
    open_at: Callable[..., Ledger], grow: Grows, witness: TlogWitness, tmp_path: Path
) -> None:
    """An attacker with the database and even the key puts an old copy in its place and goes on from there."""
    when = rhythm(witnesses=(witness,))
    place, old = tmp_path / "new.db", tmp_path / "old.db"
    ledger = open_at(place)
    grow(ledger, 4)
    publish(ledger, when, FixedClock(), at_once=True)
    ledger.close()
    for suffix in ("", "-wal"):
        shutil.copy(f"{place}{suffix}", f"{old}{suffix}")
    ledger = open_at(place)
    grow(ledger, 4)
    publish(ledger, when, FixedClock(), at_once=True)

    forked = open_at(old)
    grow(forked, 2)
    rolled_back = publish(forked, when, FixedClock(), at_once=True)
    assert rolled_back is not None and "cut off or rolled back" in rolled_back.problems[0]
    grow(forked, 9)
    fork = publish(forked, when, FixedClock(), at_once=True)
    assert fork is not None and "does not grow into this one (422)" in fork.problems[0]
    assert "witness.example" not in fork.note


def test_cosignatures_of_other_keys_count_for_nothing(
    ledger: Ledger, grow: Grows, witness: TlogWitness, witness_server: Any
) -> None:
    grow(ledger, 1)
    other = VerifierKey.parse(witness.vkey)
    witness.vkey = VerifierKey(other.name, bytes(32), other.kind).text
    found = publish(ledger, rhythm(witnesses=(witness,)), FixedClock(), at_once=True)
    assert found is not None and "returned no cosignature of the key witness.example/w1" in found.problems[0]


def test_an_unsigned_checkpoint_is_shown_to_no_witness(
    open_ledger: Callable[..., Ledger], grow: Grows, witness: TlogWitness, witness_server: Any
) -> None:
    ledger = open_ledger(None)
    grow(ledger, 1)
    found = publish(ledger, rhythm(witnesses=(witness,)), FixedClock())
    assert found is not None and "this ledger has no key" in found.problems[0]
    assert witness_server.asked == []


def test_a_witness_that_is_away_holds_nothing_up(
    ledger: Ledger, grow: Grows, witness: TlogWitness, witness_server: Any
) -> None:
    witness_server.silent, notes = True, []
    grow(ledger, 1)
    found = publish(ledger, rhythm(witnesses=(witness,), outlets={"file": notes.append}), FixedClock())
    assert found is not None and len(found.problems) == len(notes) == 1


def test_the_thread_hands_out_what_is_due_and_the_rest_at_the_end(ledger: Ledger, grow: Grows, tmp_path: Path) -> None:
    file = tmp_path / "checkpoints.txt"
    publisher = Publisher(ledger, rhythm(outlets=outlets_of(file, None)), SystemClock())
    for _ in range(5):
        grow(ledger, 1)
        publisher.added()
    publisher.close()
    publisher.close()
    sizes = [parse_checkpoint(note).size for note in checkpoints_in(file.read_text("utf-8"))]
    assert sizes[-1] == 5 and sizes == sorted(set(sizes))
    assert publisher.counts.made == len(sizes) and publisher.counts.failures == 0


def test_a_publisher_that_was_told_of_nothing_makes_nothing(ledger: Ledger) -> None:
    publisher = Publisher(ledger, rhythm(), SystemClock())
    publisher.close()
    publisher.added()
    assert ledger.checkpoints() == [] and publisher.counts.made == 0


def test_failures_are_counted_and_the_last_is_told(ledger: Ledger, grow: Grows) -> None:
    def fails(_note: str) -> None:
        raise AuditError("the disk is full")

    publisher = Publisher(ledger, rhythm(outlets={"file": fails}), SystemClock())
    grow(ledger, 1)
    publisher.added()
    publisher.close()
    assert publisher.counts.failures >= 1 and publisher.counts.problem == "the disk is full"


def test_the_thread_closes_the_connections_to_witnesses_behind_its_last_checkpoint(ledger: Ledger, grow: Grows) -> None:
    publisher = Publisher(ledger, rhythm(records=10**6, seconds=10**6, witnesses=(away := Away(),)), SystemClock())
    grow(ledger, 1)
    publisher.added()
    publisher.close()
    assert away.seen == ["asked", "closed"]


def test_who_closes_a_rhythm_closes_its_witnesses_which_can_be_asked_again(
    ledger: Ledger, grow: Grows, witness: TlogWitness
) -> None:
    when = rhythm(witnesses=(witness,))
    for _ in range(2):
        grow(ledger, 1)
        found = publish(ledger, when, FixedClock(), at_once=True)
        assert found is not None and not found.problems
        when.close()
        when.close()
