"""Each partition is calibrated by itself, and a search uses the mean of those its caller may read."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from context_engine.adapters.sources.local import LocalBase, partitions
from context_engine.adapters.sources.local.partitions import StoredCalibration, forget_derived, read_all
from context_engine.adapters.sources.local.writer import BaseWriter
from context_engine.adapters.sources.stores.chunk_rows import SourcePlace
from context_engine.adapters.sources.stores.scope import Scope
from context_engine.core.models import (
    AccessScope,
    Chunk,
    Classification,
    DomainSpec,
    ScopeCalibration,
    SourceSpec,
    SourceType,
)
from context_engine.core.ranking.scope import mean_calibration
from context_engine.learning.calibration import JudgedQuestion, calibrate
from tests.unit.adapters.sources.local.conftest import DESKS, RULES

OPEN, SECRET = 1, 2
HOUSE = DomainSpec(
    version=1,
    domain="HOUSE",
    sources=tuple(SourceSpec(id=name, type=SourceType.BANK_SOP) for name in ("sop", "board")),
)
BOARD = AccessScope(rules=frozenset({"board only"}), clearance=Classification.RESTRICTED)

Write = Callable[..., None]


def rules(desks: Sequence[str] = DESKS) -> list[str]:
    return [rule.format(desk) for desk in desks for rule in RULES]


def secrets(count: int = 24) -> list[str]:
    return [
        f"Bid number {number} for the takeover of a rival bank is {number} crowns a share." for number in range(count)
    ]


@pytest.fixture
def write(folder: Path) -> Write:
    """Writes texts, each as a document of its own, in one commit."""

    def put(source_id: str, texts: Sequence[str]) -> None:
        def place(source_id: str) -> SourcePlace:
            return SourcePlace(rules="board only" if source_id == "board" else "")

        with BaseWriter(folder, now=lambda: datetime(2026, 3, 2, tzinfo=UTC), place=place) as writer:
            for text in texts:
                writer.put(source_id, text, "", "1", [Chunk(content=text)])

    return put


@pytest.fixture
def house(folder: Path, write: Write) -> LocalBase:
    write("sop", rules())
    write("board", secrets())
    return LocalBase(folder)


def stored(base: LocalBase) -> dict[int, StoredCalibration]:
    with closing(sqlite3.connect(base.path / "base.sqlite3")) as connection:
        return {one.partition: one for one in read_all(connection)}


def of_search(base: LocalBase, access: AccessScope | None) -> ScopeCalibration | None:
    scope = Scope(source_id="sop", constants={"domain": "HOUSE"}, access=access)
    return base.answer("limit of the desk", top_k=1, scope=scope).calibration


def test_each_partition_has_its_own_and_a_search_the_mean_of_what_may_be_read(house: LocalBase):
    (shown,) = calibrate(house, HOUSE)
    kept = stored(house)
    assert {key: (one.calibration.chunks, one.base_chunks) for key, one in kept.items()} == {1: (36, 36), 2: (24, 24)}
    assert of_search(house, AccessScope()) == house.calibration("HOUSE", access=AccessScope()) == kept[OPEN].calibration
    assert of_search(house, BOARD) == of_search(house, None) == shown
    assert shown == mean_calibration([kept[OPEN].calibration, kept[SECRET].calibration])
    assert kept[OPEN].calibration.threshold != kept[SECRET].calibration.threshold


def test_the_open_one_is_that_of_a_base_that_holds_nothing_else(house: LocalBase, tmp_path: Path):
    calibrate(house, HOUSE)
    with LocalBase.open(tmp_path / "alone", create=True) as alone:
        with alone.writer() as writer:
            for text in rules():
                writer.put("sop", text, "", "1", [Chunk(content=text)])
        assert calibrate(alone, HOUSE) == (stored(house)[OPEN].calibration,)


@pytest.mark.slow
def test_what_is_written_to_another_partition_neither_changes_nor_renews_it(house: LocalBase, write: Write):
    calibrate(house, HOUSE)
    before = stored(house)
    write("board", [text.replace("Bid", "Limit of the desk") for text in secrets(200)])
    calibrate(house, HOUSE)
    after = stored(house)
    assert after[OPEN] == before[OPEN]
    assert after[SECRET].calibration.chunks == 224
    calibrate(house, HOUSE, anew=True)
    assert stored(house)[OPEN] == before[OPEN]


def test_a_partition_that_says_too_little_has_none_and_weighs_nothing(house: LocalBase, folder: Path, write: Write):
    with BaseWriter(folder, now=lambda: datetime(2026, 3, 2, tzinfo=UTC)) as writer:
        for text in secrets()[9:]:
            writer.delete("board", text, "")
    (shown,) = calibrate(house, HOUSE)
    assert list(stored(house)) == [OPEN] and shown == stored(house)[OPEN].calibration


def test_one_that_holds_nothing_of_the_domain_any_more_is_forgotten(house: LocalBase, folder: Path):
    calibrate(house, HOUSE)
    with BaseWriter(folder, now=lambda: datetime(2026, 3, 2, tzinfo=UTC)) as writer:
        for text in secrets():
            writer.delete("board", text, "")
    calibrate(house, HOUSE)
    assert list(stored(house)) == [OPEN]


def test_a_partition_that_a_rebuild_drops_leaves_none_behind(house: LocalBase, folder: Path):
    calibrate(house, HOUSE)
    with BaseWriter(folder, now=lambda: datetime(2026, 3, 2, tzinfo=UTC)) as writer:
        for text in secrets():
            writer.delete("board", text, "")
    house.rebuild()
    found = house.stats()
    assert {one.partition for one in found.calibrations} == {one.key for one in found.partitions} == {OPEN}


def test_one_that_documents_have_left_is_forgotten(house: LocalBase):
    calibrate(house, HOUSE)
    with closing(sqlite3.connect(house.path / "base.sqlite3")) as connection, connection:
        forget_derived(connection, [SECRET])
    assert list(stored(house)) == [OPEN]
    calibrate(house, HOUSE)
    assert list(stored(house)) == [OPEN, SECRET]


def test_nothing_is_kept_where_documents_are_moved_while_it_is_asked(house: LocalBase, monkeypatch: pytest.MonkeyPatch):
    """It has learned from documents that may no longer count for whoever reads the partition."""
    replace = partitions.replace

    def late(root: Path, *given: Any) -> None:
        moved = LocalBase(root, place={"board": SourcePlace(rules="nobody"), "sop": SourcePlace()}.get)
        assert moved.repartition() == 24
        replace(root, *given)

    monkeypatch.setattr(partitions, "replace", late)
    calibrate(house, HOUSE)
    assert stored(house) == {}


@pytest.mark.slow
def test_a_judged_question_is_asked_where_its_answer_stands(house: LocalBase):
    """Elsewhere nothing is near it, and it would pull that threshold down."""
    calibrate(house, HOUSE)
    plain = stored(house)
    asked = JudgedQuestion("which crowns does the archive keep", frozenset({secrets()[3]}))
    calibrate(house, HOUSE, judged=[asked], anew=True)
    assert stored(house)[OPEN] == plain[OPEN]
    assert stored(house)[SECRET].calibration.judged == 1
    everywhere = JudgedQuestion("which crowns does the archive keep")
    calibrate(house, HOUSE, judged=[everywhere], anew=True)
    assert {one.calibration.judged for one in stored(house).values()} == {1}


def test_a_judged_chunk_is_known_by_its_id_too(house: LocalBase):
    chunk = next(house.chunks("sop")).chunk_id
    calibrate(house, HOUSE, judged=[JudgedQuestion("who reviews", frozenset({chunk, "nowhere"}))])
    assert {key: one.calibration.judged for key, one in stored(house).items()} == {OPEN: 1, SECRET: 0}


def test_the_stores_numbers_name_the_partition(house: LocalBase):
    calibrate(house, HOUSE)
    assert [(one.domain, one.partition) for one in house.stats().calibrations] == [("HOUSE", OPEN), ("HOUSE", SECRET)]
