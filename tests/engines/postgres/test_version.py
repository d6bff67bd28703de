"""The version of a store changes for those who may read what has changed, and for nobody else."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from context_engine.core.models import AccessScope, Chunk, Classification, ScopeCalibration, SourceQuery
from context_engine.testing import FakeEmbedder

pytestmark = pytest.mark.slow
OPEN = AccessScope(clearance=Classification.INTERNAL)
MEMBER = AccessScope(rules=frozenset({"members"}), clearance=Classification.INTERNAL)


def rules_of(source_id: str) -> str:
    return "members" if source_id == "hidden" else ""


def put(store: Any, source_id: str, name: str, text: str = "The limit is five million.") -> None:
    with store.sink(store.spec("sop"), store.spec("hidden"), rules_of=rules_of) as sink:
        sink.put(source_id, name, "", text, [Chunk(content=f"{text} {name}")])


def versions(store: Any) -> list[str]:
    versioned = store.source(store.spec("sop"), rules_of).store
    return [versioned.version(access, 5.0) for access in (OPEN, MEMBER, None)]


def changed(store: Any, *written: str) -> list[bool]:
    before = versions(store)
    put(store, *written)
    return [old != new for old, new in zip(before, versions(store), strict=True)]


def test_documents_change_the_version_of_those_who_may_read_them(store: Any) -> None:
    put(store, "sop", "a")
    put(store, "hidden", "b")
    assert changed(store, "sop", "c") == [True, True, True]
    assert changed(store, "hidden", "c") == [False, True, True]
    assert changed(store, "hidden", "c") == [False, False, False], "it was written before"
    before = versions(store)
    with store.sink(store.spec("sop"), store.spec("hidden"), rules_of=rules_of) as sink:
        sink.delete("hidden", "c", "")
    assert [old != new for old, new in zip(before, versions(store), strict=True)] == [False, True, True]


def test_moved_documents_change_the_version_of_both_classes(store: Any) -> None:
    put(store, "sop", "a")
    put(store, "hidden", "b")
    before = versions(store)
    with store.sink(store.spec("sop"), store.spec("hidden"), rules_of=lambda _id: ""):
        pass
    assert [old != new for old, new in zip(before, versions(store), strict=True)] == [True, True, True]


def test_a_calibration_changes_it_for_those_who_may_read_its_class(store: Any) -> None:
    put(store, "sop", "a")
    put(store, "hidden", "b")
    before, calibrated = versions(store), store.source(store.spec("sop"), rules_of).store
    plan = calibrated.calibration_plan("NPA", ["hidden"], anew=True)
    known = ScopeCalibration(threshold=0.2, strong=0.4, signal="1")
    calibrated.keep_calibrations("NPA", plan, [(part, known) for part in plan.parts])
    assert [old != new for old, new in zip(before, versions(store), strict=True)] == [False, True, True]


def test_vectors_of_rows_that_had_none_change_it(vector_store: Any) -> None:
    vector_store.embedder = None
    put(vector_store, "sop", "a")
    before, vector_store.embedder = versions(vector_store), FakeEmbedder(64)
    put(vector_store, "sop", "a")
    assert all(old != new for old, new in zip(before, versions(vector_store), strict=True))


def test_tables_of_the_version_before_are_searched_and_cannot_tell_their_version(store: Any) -> None:
    put(store, "sop", "a")
    with psycopg.connect(store.dsn, autocommit=True) as connection:
        connection.execute(f"SET search_path = {store.schema}")  # type: ignore[arg-type]
        connection.execute(
            "ALTER TABLE classes DROP COLUMN generation; ALTER TABLE state DROP COLUMN moves;"
            " DROP TABLE adapters, adapter_switches; UPDATE state SET version = 1"
        )
    assert versions(store) == ["", "", ""]
    answer = store.source(store.spec("sop"), rules_of).search(SourceQuery(text="limit", domain="NPA", top_k=3))
    assert [chunk.document_id for chunk in answer.chunks] == ["a"]
    put(store, "sop", "b")
    assert all(versions(store)), "the writer has brought the tables up to date"
