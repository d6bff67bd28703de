"""Whatever somebody without the key does to a ledger, in logs of four sizes, is found, located, and nothing else is."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

import pytest

from context_engine.audit.checks.findings import Verification
from context_engine.audit.checks.verify import Outside, verify
from context_engine.audit.ledger.erase import Wanted, erase
from context_engine.testing.fakes import FixedClock
from tests.unit.audit.checks.attacks import ATTACKS, Attack, Case, Seen
from tests.unit.audit.checks.logs import copied, make_log, open_log

SMALL = [(one, size) for size in (1, 2) for one in ATTACKS if one.least <= size]
ALONE = [one for one in ATTACKS if one.kind == "whole"]
TWO_TILES = 300
"""The fewest records for every attack: one tile of level 0 is full, so that there is a tile above it."""
HUGE = 66_000
"""Above 256 · 256, so that a tile of level 1 is full and another stands above it."""


class Made(NamedTuple):
    """A ledger, an earlier copy of it, a checkpoint of it that is kept elsewhere, and an addendum that was erased."""

    place: Path
    early: Path | None
    kept: str
    erased: tuple[bytes, bytes, str] | None


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], Made]]:
    """Makes a ledger of so many records, once."""
    found: dict[int, Made] = {}

    def make(records: int) -> Made:
        if records not in found:
            found[records] = _make(tmp_path_factory.mktemp(f"log{records}"), records)
        return found[records]

    yield make


def _make(folder: Path, records: int) -> Made:
    place, early = folder / "ledger.db", folder / "early.db"
    if records > 1:
        make_log(place, max(1, records // 2), checkpoints=1)
        copied(place, early)
    notes = make_log(place, records - (1 if records >= 300 else 0))
    erased = None
    if records >= 300:
        with closing(sqlite3.connect(place)) as connection:
            erased = connection.execute("SELECT salt, data, kind FROM addendum WHERE kind = 'question'").fetchone()
        with open_log(place) as ledger:
            name = f"search-{int(erased[1].split()[-1].rstrip(b'?')):07d}"
            erase(ledger, Wanted(record_ids=(name,)), reason="asked for", by="the officer", clock=FixedClock())
            notes.append(ledger.checkpoint().note)
            assert ledger.size == records
    return Made(place, early if records > 1 else None, notes[-1], erased)


def check(place: Path, kept: str, workers: int = 1) -> Verification:
    with open_log(place) as ledger:
        return verify(ledger, outside=(Outside("kept", kept),), workers=workers)


def attacked(made: Made, to: Path, attacks: list[Attack], seed: int) -> tuple[Seen, Verification]:
    """Do several things to one copy; return what must be seen of all, and what was."""
    case = Case(copied(made.place, to), Random(seed), made.early, made.erased)
    seen = Seen()
    for one in attacks:
        of_one = one.do(case)
        seen.must |= of_one.must
        seen.may |= of_one.may
        seen.names |= of_one.names
    return seen, check(to, made.kept)


def assert_seen(seen: Seen, found: Verification) -> None:
    assert not found.consistent
    assert seen.missed(found.findings) == set(), found.findings
    assert seen.false(found.findings) == []


@pytest.mark.parametrize(("one", "records"), SMALL, ids=lambda value: getattr(value, "name", str(value)))
def test_an_attack_on_a_small_log_is_found(
    made: Callable[[int], Made], tmp_path: Path, one: Attack, records: int
) -> None:
    assert_seen(*attacked(made(records), tmp_path / "ledger.db", [one], records))


@pytest.mark.slow
@pytest.mark.parametrize("one", [one for one in ATTACKS if one.least > 2], ids=lambda one: str(one.name))
def test_an_attack_on_a_log_of_two_tiles_is_found(made: Callable[[int], Made], tmp_path: Path, one: Attack) -> None:
    assert_seen(*attacked(made(TWO_TILES), tmp_path / "ledger.db", [one], 5))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("one", ATTACKS, ids=lambda one: str(one.name))
def test_an_attack_on_a_thousand_records_is_found(
    made: Callable[[int], Made], tmp_path: Path, one: Attack, seed: int
) -> None:
    assert_seen(*attacked(made(1000), tmp_path / "ledger.db", [one], seed))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rows", "beside"])
def test_attacks_on_sixty_six_thousand_records_are_found_side_by_side(
    made: Callable[[int], Made], tmp_path: Path, kind: Literal["rows", "beside"]
) -> None:
    together = [one for one in ATTACKS if one.kind == kind]
    assert_seen(*attacked(made(HUGE), tmp_path / "ledger.db", together, 7))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "edit an entry, its leaf hash, its look-up row and all tiles",
        "cut the last rows off, with their tiles, look-up rows, addenda and checkpoints",
        "bring an old copy back, and let it grow again",
        "write everything anew under another key",
    ],
)
def test_an_attack_on_sixty_six_thousand_records_is_found(
    made: Callable[[int], Made], tmp_path: Path, name: str
) -> None:
    together = [one for one in ATTACKS if one.name == name]
    assert_seen(*attacked(made(HUGE), tmp_path / "ledger.db", together, 11))


@pytest.mark.parametrize(
    "records", [1, 2, TWO_TILES, pytest.param(1000, marks=pytest.mark.slow), pytest.param(HUGE, marks=pytest.mark.slow)]
)
def test_of_an_untouched_log_nothing_is_found(made: Callable[[int], Made], records: int) -> None:
    found = check(made(records).place, made(records).kept)
    assert found.findings == ()
    assert found.consistent
    assert (found.size, found.counts["records"], found.counts["macs"]) == (records, records, records)


@pytest.mark.slow
def test_several_processes_find_the_same(made: Callable[[int], Made], tmp_path: Path) -> None:
    together = [one for one in ATTACKS if one.kind == "rows"]
    _, alone = attacked(made(HUGE), tmp_path / "ledger.db", together, 7)
    assert check(tmp_path / "ledger.db", made(HUGE).kept, workers=2) == alone
