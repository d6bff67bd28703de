"""Rows of the log against their entries, MACs and tiles, and which rows and tiles a log has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from context_engine.audit.checks.findings import Finding
from context_engine.audit.checks.rows import (
    KeyRun,
    LogExtent,
    LogRow,
    check_block,
    find_extent,
    key_runs,
    stray_rows,
)
from context_engine.audit.formats.merkle import leaf_hash
from context_engine.audit.ledger.signing import row_mac, row_macs
from tests.unit.audit.checks.logs import KEY, STOLEN_NAME, Hand, make_log, open_log

MACS = {KEY.key_id: row_macs(KEY.derived("mac"))}


def row(index: int, entry: bytes | None = None) -> LogRow:
    """A row as the ledger writes it."""
    entry = b"entry %d" % index if entry is None else entry
    leaf = leaf_hash(entry)
    return LogRow(index, entry, leaf, row_mac(KEY.derived("mac"), index, leaf), KEY.key_id)


def tile_of(rows: Sequence[LogRow]) -> bytes:
    return b"".join(row.leaf for row in rows)


def found(
    rows: Sequence[LogRow], tile: bytes | None = None, *, width: int = 4, minimum: int = 0
) -> list[tuple[str, int | None]]:
    """The findings of a tile that should have the rows 0 to `width` - 1."""
    hashes = tile_of([row(index) for index in range(width)]) if tile is None else tile
    _, findings = check_block(0, width, list(rows), hashes, MACS, minimum)
    return [(one.code, one.where.first) for one in findings]


ROWS = [row(index) for index in range(4)]


def test_rows_that_fit_their_entries_macs_and_tile_are_no_finding() -> None:
    block, findings = check_block(0, 4, ROWS, tile_of(ROWS), MACS, 0)
    assert findings == []
    assert block.leaves == block.likely == tile_of(ROWS)


def test_entries_are_gone_below_the_minimum_and_nowhere_else() -> None:
    pruned = [*(one._replace(entry=None) for one in ROWS[:2]), *ROWS[2:]]
    assert found(pruned, minimum=2) == []
    assert found(pruned, minimum=1) == [("entry_missing", 1)]
    assert found(pruned, minimum=3) == [("entry_not_pruned", 2)]


def test_an_entry_that_is_not_that_of_its_leaf_hash_is_found() -> None:
    assert found([*ROWS[:3], ROWS[3]._replace(entry=b"another")]) == [("entry_hash", 3)]


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        (ROWS[1]._replace(mac=bytes(32)), "the MAC does not match index and leaf hash"),
        (ROWS[1]._replace(mac=row(0, b"entry 1").mac), "belongs to the index one below"),
        (ROWS[1]._replace(mac=row(2, b"entry 1").mac), "belongs to the index one above"),
        (ROWS[1]._replace(mac=None), "a key id without a MAC, or the reverse"),
        (ROWS[1]._replace(key_id=None), "a key id without a MAC, or the reverse"),
    ],
)
def test_a_mac_that_does_not_hold_is_found(changed: LogRow, problem: str) -> None:
    _, (one,) = check_block(0, 4, [ROWS[0], changed, *ROWS[2:]], tile_of(ROWS), MACS, 0)
    assert (one.code, one.where.first) == ("row_mac", 1)
    assert problem in one.problem


def test_a_row_without_a_mac_or_under_a_key_that_is_not_at_hand_is_left_to_others() -> None:
    assert found([ROWS[0]._replace(mac=None, key_id=None), ROWS[1]._replace(key_id="another"), *ROWS[2:]]) == []


def test_a_row_that_is_not_there_is_a_gap_unless_it_was_pruned() -> None:
    assert found([ROWS[0], *ROWS[2:]]) == [("gap", 1)]
    assert found([ROWS[0], *ROWS[2:]], tile_of(ROWS[:1])) == [("gap", 1), ("tile_missing", 2), ("tile_missing", 3)]
    assert found(ROWS[2:], minimum=2) == []
    assert found(ROWS[2:], minimum=1) == [("gap", 1)]


def test_a_tile_that_lacks_hashes_or_has_others_is_found() -> None:
    assert found(ROWS, tile_of(ROWS[:3])) == [("tile_missing", 3)]
    assert found(ROWS, tile_of(ROWS[:3]) + bytes(32)) == [("tile_hash", 3)]
    assert found(ROWS, tile_of(ROWS) + bytes(5)) == [("tile_hash", 0)]
    assert found(ROWS, tile_of(ROWS) + bytes(32)) == [("tile_hash", 0)]


def test_where_row_and_tile_differ_the_likely_leaf_is_that_of_the_row_whose_mac_holds() -> None:
    other = row(1, b"another")
    block, _ = check_block(0, 4, [ROWS[0], other, *ROWS[2:]], tile_of(ROWS), MACS, 0)
    assert block.likely == block.leaves == tile_of([ROWS[0], other, *ROWS[2:]])
    edited = other._replace(mac=ROWS[1].mac)
    block, _ = check_block(0, 4, [ROWS[0], edited, *ROWS[2:]], tile_of(ROWS), MACS, 0)
    assert block.leaves == tile_of([ROWS[0], other, *ROWS[2:]])
    assert block.likely == tile_of(ROWS)


def test_neighbours_under_one_key_are_one_run() -> None:
    rows = [*ROWS[:2], ROWS[2]._replace(mac=None), ROWS[3]._replace(key_id=STOLEN_NAME.key_id)]
    assert key_runs(rows) == [KeyRun(KEY.key_id, 0, 2), KeyRun(None, 2, 3), KeyRun(STOLEN_NAME.key_id, 3, 4)]
    assert key_runs([ROWS[0], ROWS[2]]) == [KeyRun(KEY.key_id, 0, 1), KeyRun(KEY.key_id, 2, 3)]


@pytest.fixture
def hand(tmp_path: Path) -> Hand:
    make_log(tmp_path / "ledger.db", 5)
    return Hand(tmp_path / "ledger.db")


def strays(hand: Hand) -> list[Finding]:
    with open_log(hand.place) as ledger, ledger.database.connect() as connection:
        return list(stray_rows(connection, 5))


def test_a_log_extends_over_its_rows_and_hashes(hand: Hand) -> None:
    def extent(length: int) -> tuple[int, tuple[range, ...]]:
        with open_log(hand.place) as ledger, ledger.database.connect() as connection:
            found = find_extent(connection, length)
        return found.size, found.stretches

    assert extent(8) == (5, (range(1),))
    hand("DELETE FROM log WHERE idx > 1")  # the tile still has their hashes
    assert extent(8) == (5, (range(1),))
    hand("INSERT INTO log VALUES (2560, 'far', ?, NULL, NULL)", bytes(32))
    assert extent(2) == (2561, (range(2), range(10, 11)))


def test_rows_and_tiles_where_no_log_has_any_are_found(hand: Hand) -> None:
    assert strays(hand) == []
    hand("INSERT INTO log VALUES (-1, 'x', ?, NULL, NULL)", bytes(32))
    hand("INSERT INTO tile VALUES (0, 1, ?)", bytes(32))
    hand("INSERT INTO tile VALUES (1, 0, ?)", bytes(32))
    assert [(one.code, str(one.where)) for one in strays(hand)] == [
        ("gap", "log -1"),
        ("tile_extra", "tile 1 (level 0)"),
        ("tile_extra", "tile 0 (level 1)"),
    ]


@pytest.mark.parametrize(
    ("level", "index", "valid"),
    [(1, 0, True), (2, 0, True), (8, 0, False), (0, -1, False), (1, -1, False), (1, 1, False), ("x", 0, False)],
)
def test_only_tiles_that_a_log_of_the_size_has_are_in_place(hand: Hand, level: object, index: int, valid: bool) -> None:
    """65,537 records have 257 tiles at level 0, two at level 1 and one at level 2."""
    hand("INSERT INTO tile VALUES (?, ?, ?)", level, index, bytes(32))
    size = 65_537 if (level, index) != (1, 1) else 65_536
    with open_log(hand.place) as ledger, ledger.database.connect() as connection:
        found = list(stray_rows(connection, size))
    assert [(one.code, one.where.first) for one in found] == ([] if valid else [("tile_extra", index)])


def test_a_log_without_rows_has_no_extent(tmp_path: Path) -> None:
    with open_log(tmp_path / "empty.db") as ledger, ledger.database.connect() as connection:
        extent = find_extent(connection, 8)
    assert (extent.size, extent.stretches) == (0, ())


def test_a_tile_has_256_rows_and_the_last_has_the_rest() -> None:
    extent = LogExtent((range(3),), 600)
    assert [extent.width(number) for number in range(3)] == [256, 256, 88]


def test_a_moved_row_is_recognised_at_the_beginning_of_the_log() -> None:
    """There is no index below 0 to compare its MAC with."""
    _, (one,) = check_block(0, 4, [ROWS[0]._replace(mac=row(1, b"entry 0").mac), *ROWS[1:]], tile_of(ROWS), MACS, 0)
    assert "belongs to the index one above" in one.problem


@pytest.mark.parametrize(("index", "found_codes"), [(1, ["gap"]), (2, ["tile_missing"]), (3, [])])
def test_rows_from_the_minimum_on_must_be_there(index: int, found_codes: list[str]) -> None:
    """`minimum` is the index of the first row that was not pruned."""
    rows = [one for one in ROWS if one.idx != 1]
    tile = tile_of(ROWS[:2])
    minimum = {1: 1, 2: 2, 3: 4}[index]
    pruned = [one._replace(entry=None) if one.idx < minimum else one for one in rows]
    codes = [code for code, at in found(pruned, tile, minimum=minimum) if at == index]
    assert codes == found_codes


@pytest.mark.parametrize(("hashes", "size"), [("no bytes", 256), (bytes(64), 258), (bytes(32 * 300), 512)])
def test_the_last_tile_tells_how_far_the_hashes_reach(hand: Hand, hashes: object, size: int) -> None:
    """The tile at 1 begins at 256 and has 256 hashes at most."""
    hand("INSERT INTO tile VALUES (0, 1, ?)", hashes)
    with open_log(hand.place) as ledger, ledger.database.connect() as connection:
        assert find_extent(connection, 8).size == size


def test_where_row_and_tile_are_gone_nothing_stands_for_the_hash() -> None:
    block, _ = check_block(0, 4, [ROWS[0], ROWS[2]], tile_of(ROWS[:2]), MACS, 0)
    assert block.leaves == tile_of(ROWS[:3]) + bytes(32)
    assert block.likely == block.leaves
