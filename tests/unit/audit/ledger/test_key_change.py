"""The log says itself which key it is signed with, and a signed one is never continued without."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, func, insert, select, update

from context_engine.audit.formats.checkpoint import Checkpoint, sign_note
from context_engine.audit.formats.keys import Keyring, SigningKey
from context_engine.audit.formats.merkle import leaf_hash
from context_engine.audit.ledger.key_change import endorsement, enter_key, present_checkpoint, restated_key
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.schema import IS_KEY, checkpoint, meta, pending, record
from context_engine.errors import AuditError, LedgerCorrupt
from context_engine.testing.fakes import FixedClock

ORIGIN = "audit.bank.example/retrieval"
OLD, NEW = (SigningKey(ORIGIN, bytes([seed]) * 32) for seed in (1, 2))
Opens = Callable[..., Ledger]


def key_entries(ledger: Ledger) -> list[dict[str, Any]]:
    read = [json.loads(one.entry or b"{}") for one in ledger.entries(0, ledger.size)]
    return [one for one in read if one.get("kind") == "key"]


def entered(open_ledger: Opens, *keys: SigningKey) -> Ledger:
    keyring = Keyring(keys[0], keys[1:]) if keys else None
    ledger = open_ledger(keyring)
    enter_key(ledger, keyring, FixedClock())
    return ledger


def test_the_first_key_of_a_log_stands_before_everything(open_ledger: Opens, draft: Callable[..., Any]) -> None:
    ledger = entered(open_ledger, OLD)
    ledger.append([draft("s-1")])
    ledger.integrate()
    (first,) = key_entries(ledger)
    assert (first["was"], first["now"], first["endorsed"]) == (None, OLD.verifier.text, None)
    found = ledger.entry_at(0)
    assert found is not None and found.key_id == OLD.key_id and json.loads(found.entry or b"")["kind"] == "key"


def test_a_key_that_did_not_change_is_not_entered_again(open_ledger: Opens) -> None:
    entered(open_ledger, OLD)
    assert entered(open_ledger, OLD).size == 1


def test_the_former_key_endorses_the_one_that_follows(open_ledger: Opens) -> None:
    entered(open_ledger, OLD)
    _, second = key_entries(entered(open_ledger, NEW, OLD))
    assert (second["was"], second["now"]) == (OLD.verifier.text, NEW.verifier.text)
    signature = base64.b64decode(second["endorsed"])
    assert OLD.verifier.accepts(signature, endorsement(OLD.verifier.text, NEW.verifier.text))


def test_a_change_without_the_former_key_is_entered_as_such(open_ledger: Opens) -> None:
    entered(open_ledger, OLD)
    ledger = open_ledger(Keyring(NEW))
    change = enter_key(ledger, Keyring(NEW), FixedClock())
    assert change is not None and not change.endorsed and change.was == OLD.verifier.text
    assert key_entries(ledger)[-1]["endorsed"] is None


def test_a_key_may_come_back(open_ledger: Opens) -> None:
    for keys in ((OLD,), (NEW, OLD), (OLD, NEW)):
        ledger = entered(open_ledger, *keys)
    assert [one["now"] for one in key_entries(ledger)] == [key.verifier.text for key in (OLD, NEW, OLD)]


def test_a_log_that_was_never_signed_goes_on_without_a_key_and_may_get_one(
    open_ledger: Opens, draft: Callable[..., Any]
) -> None:
    unsigned = entered(open_ledger)
    unsigned.append([draft("s-1")])
    assert unsigned.integrate() == 1 and key_entries(unsigned) == []
    signed = entered(open_ledger, OLD)
    assert signed.size == 2 and key_entries(signed)[0]["was"] is None


def test_a_signed_log_is_not_continued_without_its_key(open_ledger: Opens) -> None:
    entered(open_ledger, OLD)
    with pytest.raises(AuditError, match=r"is signed .* set CONTEXT_ENGINE_AUDIT_KEY"):
        enter_key(open_ledger(None), None, FixedClock())


def test_a_key_of_another_log_is_refused(open_ledger: Opens) -> None:
    other = Keyring(SigningKey("elsewhere.example/log", bytes(32)))
    with pytest.raises(AuditError, match=r"audit keygen audit\.bank\.example/retrieval"):
        enter_key(open_ledger(other), other, FixedClock())


def test_without_the_key_a_signed_log_has_the_checkpoint_that_is_stored(open_ledger: Opens) -> None:
    stored = entered(open_ledger, OLD).checkpoint()
    assert present_checkpoint(open_ledger(None)) == stored


def test_without_key_and_checkpoint_a_signed_log_has_none_to_show(open_ledger: Opens) -> None:
    entered(open_ledger, OLD)
    with pytest.raises(AuditError, match="no checkpoint yet"):
        present_checkpoint(open_ledger(None))


def test_nobody_stores_an_unsigned_checkpoint_of_a_signed_log(open_ledger: Opens) -> None:
    ledger = entered(open_ledger, OLD)
    with pytest.raises(AuditError, match="its key is missing"):
        open_ledger(None).checkpoint()
    assert ledger.checkpoints() == []


def test_a_checkpoint_of_other_records_is_not_taken_for_this_log_s(open_ledger: Opens) -> None:
    ledger = entered(open_ledger, OLD)
    forged = f"{ORIGIN}\n1\nAAAA\n"
    with ledger.database.begin() as connection:
        connection.execute(insert(checkpoint).values(size=1, note=forged, written=0.0))
    with pytest.raises(LedgerCorrupt, match="audit verify"):
        ledger.checkpoint()


def test_what_says_the_key_again_is_signed_with_it() -> None:
    said = json.loads(restated_key(Keyring(NEW, (OLD,)), FixedClock().now()).compose({}).entry)
    assert said["was"] == said["now"] == NEW.verifier.text
    assert NEW.verifier.accepts(base64.b64decode(said["endorsed"]), endorsement(said["was"], said["now"]))


def test_a_change_of_key_that_somebody_put_among_what_waits_is_not_followed(open_ledger: Opens) -> None:
    ledger = entered(open_ledger, OLD)
    (entry, *_) = restated_key(Keyring(NEW), FixedClock().now()).compose({})
    row = {"record_id": "key-of-mine", "entry": entry, "leaf": leaf_hash(entry), "written": 0.0}
    for seal in ({}, {"mac": bytes(32), "key_id": OLD.key_id}):
        with ledger.database.begin() as connection:
            connection.execute(delete(pending))
            connection.execute(insert(pending).values(**row, **seal))
        assert enter_key(ledger, Keyring(OLD), FixedClock()) is None
    assert len(key_entries(ledger)) == 1


def test_a_ledger_that_was_given_another_name_is_not_signed_in_that_name(open_ledger: Opens) -> None:
    ledger = entered(open_ledger, OLD)
    with ledger.database.begin() as connection:
        connection.execute(update(meta).where(meta.c.name == "origin").values(value="audit.other.example/log"))
    with pytest.raises(AuditError, match=r"this log is 'audit\.other\.example/log'"):
        entered(open_ledger, OLD)
    with pytest.raises(AuditError, match=r"this log is 'audit\.other\.example/log'"):
        open_ledger(Keyring(OLD)).checkpoint()


def test_a_checkpoint_without_the_signature_of_the_key_in_force_gives_way_to_one_with_it(open_ledger: Opens) -> None:
    ledger = entered(open_ledger, OLD)
    made = Checkpoint(ORIGIN, 1, ledger.root())
    rubbish = f"{made.text}\n{sign_note('x' + chr(10), OLD).signatures[0].line}\n"
    for note in (made.text, made.signed(NEW), rubbish):
        with ledger.database.begin() as connection:
            connection.execute(delete(checkpoint))
            connection.execute(insert(checkpoint).values(size=1, note=note, written=0.0))
        assert ledger.checkpoint().note == made.signed(OLD)
    assert [one.note for one in ledger.checkpoints()] == [made.signed(OLD)]


def test_the_last_key_of_a_long_log_is_found_without_reading_it(open_at: Callable[..., Ledger], tmp_path: Path) -> None:
    ledger = open_at(tmp_path / "ledger.db")
    newest = select(func.count(record.c.idx), func.max(record.c.idx)).where(IS_KEY)
    statement = str(newest.compile(dialect=ledger.database.engine.dialect))
    with ledger.database.connect() as connection:
        (plan,) = [str(row[-1]) for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}")]
    assert "INDEX record_key" in plan
