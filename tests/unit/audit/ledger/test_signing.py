"""No key signs a log that did not grow out of what it signed before, whoever asks for the checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import insert

from context_engine.audit.formats.checkpoint import parse_checkpoint
from context_engine.audit.formats.keys import Keyring, SigningKey
from context_engine.audit.ledger.key_change import present_checkpoint
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.prune import Retention, prune
from context_engine.audit.ledger.publish import Rhythm, publish
from context_engine.audit.ledger.read import StoredCheckpoint
from context_engine.audit.ledger.schema import checkpoint
from context_engine.audit.values import Draft
from context_engine.core.models import utc_text
from context_engine.errors import LedgerCorrupt
from context_engine.testing.fakes import FixedClock

CLOCK = FixedClock()

OLD = utc_text(CLOCK.now() - timedelta(days=400))

RHYTHM = Rhythm(records=1, seconds=1.0)

OpensAt = Callable[..., Ledger]

Draws = Callable[..., Draft]


@pytest.fixture
def grown(open_at: OpensAt, tmp_path: Path, draft: Draws) -> Callable[..., Ledger]:
    """Returns a ledger of so many old records, whose ids begin with the name of the ledger's file."""

    def made(name: str, records: int, keyring: Keyring | None = None) -> Ledger:
        ledger = open_at(tmp_path / f"{name}.db", *([] if keyring is None else [keyring]))
        ledger.append([draft(f"{name}-{number}", time=OLD) for number in range(records)])
        return ledger

    return made


def given(ledger: Ledger, *stored: StoredCheckpoint) -> Ledger:
    with ledger.database.begin() as connection:
        connection.execute(insert(checkpoint), [one._asdict() for one in stored])
    return ledger


@pytest.mark.parametrize(
    ("records", "signed"),
    [(310, 300), (256, 255), (3, 3), (200, 300)],
    ids=["rewritten", "rewritten before a border", "rewritten and no longer", "cut off"],
)
def test_another_history_than_the_signed_one_is_not_signed(
    grown: Callable[..., Ledger], records: int, signed: int
) -> None:
    ledger = given(grown("other", records), grown("own", signed).checkpoint())
    refused = rf"log of {records} records does not extend the {signed} that were signed.*audit verify"
    with pytest.raises(LedgerCorrupt, match=refused):
        present_checkpoint(ledger)  # of head and prove
    with pytest.raises(LedgerCorrupt, match=refused):
        publish(ledger, RHYTHM, CLOCK, at_once=True)
    assert [one.size for one in ledger.checkpoints()] == [signed]


def test_a_history_that_a_former_key_signed_is_not_left_either(grown: Callable[..., Ledger], keyring: Keyring) -> None:
    later = Keyring(SigningKey(keyring.current.name, bytes(32)), (keyring.current,))
    ledger = given(grown("other", 20, later), grown("own", 10).checkpoint())
    with pytest.raises(LedgerCorrupt, match="log of 20 records does not extend the 10 that were signed"):
        ledger.checkpoint()


def test_a_log_that_only_grew_is_signed_at_every_size(grown: Callable[..., Ledger], draft: Draws) -> None:
    ledger = grown("own", 0)
    for number in range(6):
        ledger.append([draft(f"s-{number}-{one}") for one in range(1 if number < 3 else 128)])
        assert ledger.checkpoint().size == ledger.size
    assert [one.size for one in ledger.checkpoints()] == [1, 2, 3, 131, 259, 387]


def test_after_pruning_a_log_is_signed_if_it_grew_and_not_if_it_did_not(grown: Callable[..., Ledger]) -> None:
    own, other = grown("own", 600), grown("other", 600)
    first = own.checkpoint()
    for ledger in (own, other):
        assert prune(ledger, Retention(365, {}), clock=CLOCK).plan.border == 512
    assert own.checkpoint().size == own.size > 600
    with pytest.raises(LedgerCorrupt, match="does not extend the 600 that were signed"):
        given(other, first).checkpoint()


def test_what_no_key_of_the_log_signed_keeps_nobody_from_signing(
    grown: Callable[..., Ledger], keyring: Keyring
) -> None:
    stranger = Keyring(SigningKey(keyring.current.name, bytes(32)))
    forged = grown("other", 9, stranger).checkpoint()
    unsigned = StoredCheckpoint(8, parse_checkpoint(forged.note).text, 0.0)
    ledger = given(grown("own", 5), forged, unsigned, StoredCheckpoint(7, "no note", 0.0))
    assert ledger.checkpoint().size == 5
