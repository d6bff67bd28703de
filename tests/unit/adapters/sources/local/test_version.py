"""The version of a base changes with every write that may change an answer, and with no other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from context_engine.adapters.sources.local import LocalBase
from context_engine.adapters.sources.stores.chunk_rows import SourcePlace
from context_engine.core.models import AccessScope, Chunk, Classification, ScopeCalibration
from context_engine.core.protocols import Versioned
from context_engine.errors import StoreError

OPEN = AccessScope(clearance=Classification.INTERNAL)
MEMBER = AccessScope(rules=frozenset({"members"}), clearance=Classification.INTERNAL)


def put(base: LocalBase, source_id: str, text: str) -> None:
    with base.writer() as writer:
        writer.put(source_id, text, "", text, [Chunk(content=text)])


@pytest.fixture(scope="module")
def placed(tmp_path_factory: pytest.TempPathFactory) -> LocalBase:
    """A base with an open source `sop` and a source `hidden` for members; every test only compares before and after."""
    folder = tmp_path_factory.mktemp("version") / "base"
    place = {"hidden": SourcePlace(rules="members"), "sop": SourcePlace()}.get
    base = LocalBase.open(folder, create=True, place=place)
    put(base, "sop", "open rule")
    put(base, "hidden", "hidden rule")
    return base


def versions(base: LocalBase) -> list[str]:
    return [base.version(access, 1.0) for access in (OPEN, MEMBER, None)]


def changed(base: LocalBase, write: Callable[[], object]) -> list[bool]:
    before = versions(base)
    write()
    return [old != new for old, new in zip(before, versions(base), strict=True)]


def test_a_base_can_tell_its_version(placed):
    assert isinstance(placed, Versioned)
    with pytest.raises(StoreError, match="there is no knowledge base"):
        LocalBase(placed.path / "none").version(None, 1.0)


def test_documents_change_the_version_of_those_who_may_read_them(placed):
    assert changed(placed, lambda: put(placed, "sop", "another rule")) == [True, True, True]
    assert changed(placed, lambda: put(placed, "hidden", "another rule")) == [False, True, True]
    assert changed(placed, lambda: put(placed, "hidden", "another rule")) == [False, False, False]

    def delete() -> None:
        with placed.writer() as writer:
            writer.delete("hidden", "another rule", "")

    assert changed(placed, delete) == [False, True, True]


def test_a_calibration_changes_it(placed):
    def calibrate() -> None:
        plan = placed.calibration_plan("NPA", ["sop", "hidden"], anew=True)
        found = [
            (part, ScopeCalibration(threshold=0.2, strong=0.4, signal="1")) for part in plan.parts if part.key != 1
        ]
        placed.keep_calibrations("NPA", plan, found)

    assert changed(placed, calibrate) == [False, True, True]


def test_a_rebuild_changes_it_and_so_does_another_base_in_its_place(placed, tmp_path):
    assert changed(placed, placed.rebuild) == [True, True, True]
    twin = LocalBase.open(tmp_path / "twin", create=True)
    put(twin, "sop", "open rule")
    assert twin.version(OPEN, 1.0) != placed.version(OPEN, 1.0)


def test_reading_leaves_it_as_it_is(placed):
    assert changed(placed, lambda: placed.search("rule", source_id="sop", top_k=3)) == [False, False, False]


def test_a_data_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(StoreError, match="'data' above it is a file, not a folder"):
        LocalBase.open(tmp_path / "data" / "base")
