"""Stretches of a log: what one reads, how several are joined, and how processes share them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from context_engine.audit.checks import stretch as module
from context_engine.audit.checks import verify as verifying
from context_engine.audit.checks.rows import LogExtent
from context_engine.audit.checks.stretch import Plan, Stretch, are_several, check_stretch, check_stretches
from context_engine.audit.checks.verify import Outside, verify
from context_engine.audit.formats.keys import Keyring
from context_engine.audit.ledger.erase import Wanted, erase
from context_engine.testing.fakes import FixedClock
from tests.unit.audit.checks.logs import KEY, Hand, make_log, open_log


@pytest.fixture
def place(tmp_path: Path) -> Path:
    make_log(tmp_path / "ledger.db", 300)
    return tmp_path / "ledger.db"


def plan_of(size: int, *stretches: range, minimum: int = 0, log_alone: bool = False) -> Plan:
    extent = LogExtent(stretches, size)
    return Plan(extent=extent, minimum=minimum, keyring=Keyring(KEY), log_alone=log_alone)


def read(place: Path, tiles: range, plan: Plan) -> Stretch:
    with open_log(place) as ledger, ledger.database.connect() as connection:
        return check_stretch(connection, tiles, plan)


def test_a_stretch_counts_rows_macs_and_addenda_its_own_and_shared_ones(place: Path) -> None:
    stretch = read(place, range(2), plan_of(300, range(2)))
    assert stretch.findings.listed() == ()
    # 299 searches with a question and candidates each; 40 texts that they share.
    assert dict(stretch.counts) == {"records": 300, "macs": 300, "addenda": 2 * 299 + 40}
    assert len(stretch.names.shared) == 40
    assert len(stretch.keys) == 1
    assert [block.number for block in stretch.blocks] == [0, 1]
    assert [len(block.leaves) // 32 for block in stretch.blocks] == [256, 44]


def test_the_log_alone_is_read_without_addenda_and_its_key_changes_are(place: Path) -> None:
    stretch = read(place, range(2), plan_of(300, range(2), log_alone=True))
    assert dict(stretch.counts) == {"records": 300, "macs": 300}
    assert len(stretch.keys) == 1


def test_tiles_without_rows_are_told_before_between_and_behind_others(place: Path) -> None:
    Hand(place)("DELETE FROM log WHERE idx < 256")
    stretch = read(place, range(3), plan_of(600, range(3)))
    assert [(one.code, one.where.first, one.where.last) for one in stretch.findings.listed()][:1] == [("gap", 0, 255)]
    assert [block.number for block in stretch.blocks] == [0, 1, 2]
    stretch = read(place, range(3), plan_of(600, range(3), minimum=768))
    assert [block.number for block in stretch.blocks] == [0, 1]  # nothing is left of a pruned tile


def test_an_addendum_of_another_kind_than_its_entry_says_is_found(place: Path) -> None:
    hand = Hand(place)
    ((digest,),) = hand("SELECT digest FROM addendum WHERE data = ?", b"Who approves request 7?")
    hand("UPDATE addendum SET kind = 'account' WHERE digest = ?", digest)
    (one,) = read(place, range(2), plan_of(300, range(2))).findings.listed()
    assert isinstance(digest, bytes)
    assert (one.code, one.where.table, one.where.name) == ("addendum_kind", "addendum", digest.hex())


def test_stretches_are_joined_by_the_first_record_that_names_something() -> None:
    first, second = Stretch(), Stretch()
    first.missing, second.missing = {b"a": 1}, {b"a": 300, b"b": 301}
    first.erased, second.erased = {b"e": [4]}, {b"e": [400]}
    first.counts.update(records=256)
    second.counts.update(records=44)
    second.findings.more["gap"] = 3
    second.prunings.append((300, 256))
    first.join(second)
    assert first.missing == {b"a": 1, b"b": 301}
    assert first.erased == {b"e": [4, 400]}
    assert (first.counts["records"], first.findings.more["gap"], first.prunings) == (300, 3, [(300, 256)])


class SamePool:
    """Stands for a pool of processes: works in this one when a result is asked for."""

    started: list[int] = []

    def __init__(self, workers: int, context: object, initializer: Callable[..., None], initargs: Any) -> None:
        self.started.append(workers)
        initializer(*initargs)

    def __enter__(self) -> SamePool:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def submit(self, work: Callable[[range], Stretch], tiles: range) -> Future[Stretch]:
        future: Future[Stretch] = Future()
        future.set_result(work(tiles))
        return future


@pytest.fixture
def same_pool(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    monkeypatch.setattr(module, "ProcessPoolExecutor", SamePool)
    monkeypatch.setattr(module, "_opened", [])
    monkeypatch.setattr(module, "_plans", [])
    monkeypatch.setattr(SamePool, "started", [])
    return SamePool.started


@pytest.mark.parametrize(("stretches", "workers", "several"), [(2, 2, False), (3, 2, True), (3, 1, False)])
def test_processes_are_started_for_three_stretches_and_no_fewer(stretches: int, workers: int, several: bool) -> None:
    plan = plan_of(300, *(range(one, one + 1) for one in range(stretches)))
    assert are_several(plan, workers) == several


def test_processes_read_every_stretch_in_order(place: Path, same_pool: list[int]) -> None:
    plan = plan_of(300, *(range(one, one + 1) for one in range(7)), minimum=1792)
    with open_log(place) as ledger, ledger.database.connect() as connection:
        found = list(check_stretches(ledger.database, connection, plan, 2))
    assert same_pool == [2]
    assert [one.counts["records"] for one in found] == [256, 44, 0, 0, 0, 0, 0]


@pytest.mark.slow
def test_a_ledger_that_processes_read_is_found_to_be_what_it_is(
    place: Path, same_pool: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "_STRETCH", 1)
    monkeypatch.setattr(module, "_LEAST_STRETCHES", 2)
    with open_log(place) as ledger:
        alone = verify(ledger)
        assert verify(ledger, workers=4) == alone
        assert same_pool == [2]  # no more than there are stretches
        erase(ledger, Wanted(record_ids=("search-0000007",)), reason="asked for", by="officer", clock=FixedClock())
        kept = [Outside("kept", ledger.checkpoint().note)]
        assert verify(ledger, workers=2, outside=kept).counts["erased"] == 1
    Hand(place)("UPDATE log SET entry = x'7b7d' WHERE idx = 290")
    with open_log(place) as ledger:
        found = verify(ledger, workers=2, outside=kept)
    assert [(one.code, one.where.first) for one in found.findings] == [("entry_hash", 290)]
    assert found.counts["damaged"] == 1
