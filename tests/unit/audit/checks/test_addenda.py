"""Addenda against the entries that name them, and rows of erasures against the entries that record them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from context_engine.audit.checks.addenda import (
    KeptAddendum,
    Names,
    compare_erasures,
    contents_in,
    missing_addenda,
    read_named,
    unnamed_addenda,
)
from tests.unit.audit.checks.logs import Hand, open_log

SALT = bytes(16)


def digest_of(data: bytes) -> bytes:
    return hashlib.sha256(SALT + data).digest()


A, B, C = digest_of(b"a"), digest_of(b"b"), digest_of(b"c")


@pytest.fixture
def hand(tmp_path: Path) -> Hand:
    """On an empty ledger with the addendum A of one record, and B that is shared."""
    open_log(tmp_path / "ledger.db").close()
    hand = Hand(tmp_path / "ledger.db")
    hand("INSERT INTO addendum VALUES (?, 'question', ?, ?, NULL)", A, SALT, b"a")
    hand("INSERT INTO addendum VALUES (?, 'text', ?, ?, ?)", B, SALT, b"b", hashlib.sha256(b"text\x00b").digest())
    return hand


def test_names_are_remembered_by_digest_and_joined_by_the_first_record() -> None:
    names, later = Names(), Names()
    names.owns(A)
    names.share([B], 4)
    later.share([B, C], 9)
    later.owns(b"short")
    names.join(later)
    named = names.test()
    assert names.shared == {B: 4, C: 9}
    assert [named(digest) for digest in (A, B, C, b"short\x00\x00\x00", digest_of(b"d"))] == [True] * 4 + [False]
    assert len(names.own) == 16


def read(hand: Hand, *digests: bytes) -> tuple[dict[bytes, KeptAddendum | None], list[tuple[str, int | None, str]]]:
    with open_log(hand.place) as ledger, ledger.database.connect() as connection:
        kept, found = read_named(connection, digests, {A: 1, B: 2}.get)
    return kept, [(one.code, one.where.first, one.problem) for one in found]


def test_addenda_that_match_their_digests_are_read_and_missing_ones_left_out(hand: Hand) -> None:
    kept, found = read(hand, A, B, C)
    assert kept == {A: KeptAddendum("question", b"a", False), B: KeptAddendum("text", b"b", True)}
    assert found == []


@pytest.mark.parametrize(
    ("statement", "digest", "problem"),
    [
        ("UPDATE addendum SET data = x'00' WHERE data = x'61'", A, "salt and data do not match"),
        ("UPDATE addendum SET salt = x'00' WHERE data = x'61'", A, "salt and data do not match"),
        ("UPDATE addendum SET data = 'a' WHERE data = x'61'", A, "not bytes"),
        ("UPDATE addendum SET salt = 5 WHERE data = x'61'", A, "not bytes"),
        ("UPDATE addendum SET kind = 'card' WHERE data = x'62'", B, "do not match the content key"),
        ("UPDATE addendum SET content_key = x'00' WHERE data = x'62'", B, "do not match the content key"),
    ],
)
def test_an_addendum_that_was_changed_is_found(hand: Hand, statement: str, digest: bytes, problem: str) -> None:
    hand(statement)
    kept, ((code, index, said),) = read(hand, A, B)
    assert kept[digest] is None
    assert (code, index) == ("addendum_hash", 1 if digest == A else 2)
    assert problem in said


def test_missing_addenda_are_found_in_the_order_of_the_log_unless_erased() -> None:
    low, high = sorted((A, B))
    found = list(missing_addenda({low: 7, high: 3, C: 1}, {C: [5]}))
    assert [(one.code, one.where.first, one.where.name) for one in found] == [
        ("addendum_missing", 3, high.hex()),
        ("addendum_missing", 7, low.hex()),
    ]


def unnamed(
    hand: Hand, names: Names | None, erased: dict[bytes, list[int]]
) -> list[tuple[str, int | None, str | None]]:
    with open_log(hand.place) as ledger, ledger.database.connect() as connection:
        found = list(unnamed_addenda(connection, names, erased))
    return [(one.code, one.where.first, one.where.name) for one in found]


def test_an_addendum_that_no_entry_names_is_found_where_all_entries_can_be_read(hand: Hand) -> None:
    names = Names()
    names.owns(A)
    assert unnamed(hand, names, {}) == [("addendum_unnamed", None, B.hex())]
    assert unnamed(hand, None, {}) == []
    names.share([B], 2)
    assert unnamed(hand, names, {}) == []


def test_an_addendum_that_is_kept_after_its_erasure_is_found(hand: Hand) -> None:
    assert unnamed(hand, None, {A: [6, 8]}) == [("addendum_not_erased", 6, A.hex())]


def test_an_addendum_under_a_key_that_is_no_digest_is_found(hand: Hand) -> None:
    hand("UPDATE addendum SET digest = 'text' WHERE data = x'61'")
    assert unnamed(hand, None, {}) == [("addendum_unnamed", None, None)]


@pytest.mark.parametrize(
    ("index", "found"),
    [
        (3, True),  # an entry that was read, and does not erase it
        (4, True),
        (0, False),  # pruned
        (2, False),
        (9, True),  # the last that was read
        (10, False),  # later than the reading
        (-1, True),
        ("text", True),
    ],
)
def test_a_row_of_an_erasure_that_no_entry_records_is_found(hand: Hand, index: object, found: bool) -> None:
    hand("INSERT INTO erasure VALUES (?, ?)", A, index)
    with open_log(hand.place) as ledger, ledger.database.connect() as connection:
        findings = list(compare_erasures(connection, {}, 3, 10))
    assert [(one.code, one.where.first, one.where.name) for one in findings] == (
        [("erasure_row", index if isinstance(index, int) else None, A.hex())] if found else []
    )


def test_rows_of_erasures_are_compared_with_what_entries_record(hand: Hand) -> None:
    hand("INSERT INTO erasure VALUES (?, 4)", A)
    hand("INSERT INTO erasure VALUES (?, 1)", B)

    def found(erased: dict[bytes, list[int]]) -> list[tuple[str, int | None]]:
        with open_log(hand.place) as ledger, ledger.database.connect() as connection:
            return [(one.code, one.where.first) for one in compare_erasures(connection, erased, 3, 10)]

    assert found({A: [4], B: [1]}) == []
    assert found({A: [4, 6], B: [1]}) == []
    assert found({A: [6], B: [1]}) == [("erasure_row", 4)]
    assert found({A: [4], B: [1], C: [5, 7]}) == [("erasure_row", 5)]
    assert found({A: [4], B: [5]}) == [("erasure_row", 1)]  # a pruned entry cannot take the place of one that is there


def test_candidates_that_cannot_be_read_name_no_contents() -> None:
    assert contents_in(None) == contents_in(b"rubbish") == []
