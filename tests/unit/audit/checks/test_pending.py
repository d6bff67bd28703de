"""Records that wait to be integrated, each by itself and against the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.audit.checks.keys import Trust
from context_engine.audit.checks.pending import LateRecords, check_pending, read_later
from context_engine.audit.formats.keys import Keyring, SigningKey
from context_engine.audit.formats.merkle import leaf_hash
from context_engine.audit.ledger.signing import pending_mac
from tests.unit.audit.checks.logs import KEY, STOLEN_NAME, Hand, make_log, open_log, search

TRUST = Trust(verifiers=(KEY.verifier,), keyed_from=0, named=frozenset((KEY.verifier.text,)), findings=())
NO_KEY = Trust(verifiers=(), keyed_from=None, named=frozenset(), findings=())


@pytest.fixture
def hand(tmp_path: Path) -> Hand:
    """On a ledger of three records, behind which one waits."""
    make_log(tmp_path / "ledger.db", 3)
    with open_log(tmp_path / "ledger.db") as ledger:
        ledger.append([search(9)])
    return Hand(tmp_path / "ledger.db")


def wait(hand: Hand, record_id: str, entry: bytes, key: SigningKey | None = KEY) -> None:
    """Let a record wait that somebody with the key wrote."""
    leaf = leaf_hash(entry)
    sealed = (None, None) if key is None else (pending_mac(key.derived("mac"), leaf), key.key_id)
    insert = "INSERT INTO pending (record_id, entry, leaf, mac, key_id, written) VALUES (?, ?, ?, ?, ?, 0)"
    hand(insert, record_id, entry, leaf, *sealed)


def found(
    hand: Hand, trust: Trust = TRUST, keyring: Keyring | None = None, later: LateRecords | None = None
) -> list[tuple[str, str | None, str]]:
    with open_log(hand.place) as ledger, ledger.database.connect() as connection:
        findings = list(check_pending(connection, keyring or Keyring(KEY), trust, later or LateRecords()))
    return [(one.code, one.where.name, one.problem) for one in findings]


def test_a_record_that_waits_as_the_ledger_wrote_it_is_no_finding(hand: Hand) -> None:
    later = LateRecords()
    assert found(hand, later=later) == []
    assert later.count == 1
    assert sorted(later.own.values()) == ["candidates", "question"]


def test_an_entry_that_is_not_that_of_its_leaf_hash_is_found(hand: Hand) -> None:
    hand("UPDATE pending SET entry = x'7b7d'")
    ((code, name, _),) = found(hand)
    assert (code, name) == ("pending_hash", "search-0000009")


def test_a_record_without_a_mac_is_found_where_the_log_has_a_key(hand: Hand) -> None:
    hand("UPDATE pending SET mac = NULL, key_id = NULL")
    ((code, _, problem),) = found(hand)
    assert (code, problem.startswith("the row has no MAC")) == ("pending_mac", True)
    assert found(hand, NO_KEY) == []


def test_a_record_under_a_key_that_does_not_count_is_found(hand: Hand) -> None:
    wait(hand, "x", b'{"id":"x"}', STOLEN_NAME)
    ((code, name, problem),) = found(hand)
    assert (code, name) == ("pending_mac", "x")
    assert "not trusted in this log" in problem
    assert found(hand, NO_KEY) == []


def test_a_mac_of_another_leaf_hash_is_found(hand: Hand) -> None:
    hand("UPDATE pending SET mac = ?", bytes(32))
    ((code, _, problem),) = found(hand)
    assert (code, "does not match the leaf hash" in problem) == ("pending_mac", True)


def test_a_row_under_another_record_id_is_found(hand: Hand) -> None:
    wait(hand, "x", b'{"id":"y"}')
    ((code, name, problem),) = found(hand)
    assert (code, name) == ("pending_row", "x")
    assert "different record ids" in problem


def test_a_record_that_stands_in_the_log_already_is_found(hand: Hand) -> None:
    wait(hand, "search-0000001", b'{"id":"search-0000001"}')
    ((code, name, problem),) = found(hand)
    assert (code, name) == ("pending_row", "search-0000001")
    assert problem.endswith("at 1")


def test_prunings_and_erasures_that_wait_are_noted(hand: Hand) -> None:
    wait(hand, "p", b'{"id":"p","kind":"pruning","minimum":256}')
    wait(hand, "e", b'{"id":"e","kind":"erasure","digests":["%s"]}' % (b"ab" * 32))
    later = LateRecords()
    assert found(hand, later=later) == []
    assert (later.minimums, later.erased) == ([256], {b"\xab" * 32})


def test_an_addendum_of_a_record_that_waits_is_gone_only_where_an_entry_erased_it(hand: Hand) -> None:
    later = LateRecords()
    assert found(hand, later=later) == []

    def read() -> list[tuple[str, str | None]]:
        with open_log(hand.place) as ledger, ledger.database.connect() as connection:
            return [(one.code, one.where.name) for one in read_later(connection, 3, later)]

    assert read() == []
    (digest,) = (digest for digest, kind in later.own.items() if kind == "question")
    hand("DELETE FROM addendum WHERE digest = ?", digest)
    assert read() == [("addendum_missing", digest.hex())]
    later.erased.add(digest)
    assert read() == []


def test_a_minimum_that_is_no_number_is_not_noted(hand: Hand) -> None:
    wait(hand, "p", b'{"id":"p","kind":"pruning","minimum":"all"}')
    wait(hand, "q", b'{"id":"q","kind":"search","minimum":256}')
    later = LateRecords()
    assert found(hand, later=later) == []
    assert later.minimums == []


def test_without_signing_keys_macs_are_not_compared(hand: Hand) -> None:
    hand("UPDATE pending SET mac = ?", bytes(32))
    with open_log(hand.place) as ledger, ledger.database.connect() as connection:
        assert list(check_pending(connection, None, TRUST, LateRecords())) == []


def test_what_came_into_the_log_meanwhile_is_read_from_the_size_it_had(hand: Hand) -> None:
    later = LateRecords()
    with open_log(hand.place) as ledger, ledger.database.connect() as connection:
        assert list(read_later(connection, 2, later)) == []
    assert len(later.own) == 2  # question and candidates of the last record alone
    assert (len(later.names.own), list(later.names.shared.values())) == (16, [2])
