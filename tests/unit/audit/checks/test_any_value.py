"""Whatever somebody writes into any column of a ledger in a file, the check ends, and says so."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from context_engine.audit.checks.verify import Outside, verify
from tests.unit.audit.checks.logs import Hand, copied, make_log, open_log, search

TABLES = ("pending", "log", "record", "chunk", "mention", "addendum", "tile", "checkpoint")
KEYS = {"mention": "tile, chunk, idx"}
"""Of a table without row ids."""
VALUES = (None, "text", b"blob", -5, 3.5, 10**14, "[" * 3000, b"[" * 6000, b"\xff\xfe", b"")
UNPROVED = {("pending", "seq"), ("pending", "written"), ("checkpoint", "written"), ("addendum", "content_key")}
"""What tells nothing of a record: when a row was written, in which order records wait, and what is kept once."""


@pytest.mark.parametrize("table", TABLES)
def test_any_value_in_a_column_of_a_small_ledger_is_found(tmp_path: Path, table: str) -> None:
    *_, kept = make_log(tmp_path / "ledger.db", 4)
    with open_log(tmp_path / "ledger.db") as ledger:
        ledger.append([search(5000)])
    for number, (_, column, *_) in enumerate(Hand(tmp_path / "ledger.db")(f"PRAGMA table_info({table})")):
        check_change(tmp_path / "ledger.db", kept, Random(number), table, str(column))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_any_value_in_any_column_is_found(tmp_path: Path, seed: int) -> None:
    *_, kept = make_log(tmp_path / "ledger.db", 300)
    with open_log(tmp_path / "ledger.db") as ledger:
        ledger.append([search(5000)])
    random = Random(seed)
    for _ in range(50):
        table = random.choice(TABLES)
        column = str(random.choice(Hand(tmp_path / "ledger.db")(f"PRAGMA table_info({table})"))[1])
        check_change(tmp_path / "ledger.db", kept, random, table, column)


def check_change(place: Path, kept: str, random: Random, table: str, column: str) -> None:
    """Change one value in a copy of a ledger, and assert that a check finds it where it says anything of a record."""
    hand = copied(place, place.with_name(f"copy-{random.getrandbits(64):x}.db"))
    key = KEYS.get(table, "rowid")
    is_row = " AND ".join(f"{name} = ?" for name in key.split(", "))
    ((before, *row), *_) = random.sample(hand(f"SELECT {column}, {key} FROM {table}"), 1)
    with suppress(sqlite3.Error):
        hand(f"UPDATE {table} SET {column} = ? WHERE {is_row}", random.choice(VALUES), *row)
    same = not hand(f"SELECT 1 FROM {table} WHERE {is_row} AND {column} IS NOT ?", *row, before)
    with open_log(hand.place) as ledger:
        found = verify(ledger, outside=(Outside("kept", kept),))
    harmless = (table, column) in UNPROVED
    moved = not hand(f"SELECT 1 FROM {table} WHERE {is_row}", *row)
    assert found.consistent == (same and not moved) or harmless, (table, column, row)
