"""Adapters and copies of a store: what is compared, what goes with moved documents, and whom a trial may not reach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from context_engine.adapters.sources.postgres import nearest, sink, vectors
from context_engine.core.models import Chunk, NoticeCode
from context_engine.errors import ConfigError, StoreError
from tests.engines.parity import QUESTION, AdapterParity, chunk, cosines, keep, write

pytestmark = pytest.mark.slow


@pytest.fixture
def filled(vector_store: Any) -> Any:
    write(vector_store)
    return vector_store


class TestAdapters(AdapterParity):
    pass


def execute(store: Any, statement: str) -> None:
    with psycopg.connect(store.dsn, autocommit=True) as connection:
        connection.execute(f"SET search_path = {store.schema}")  # type: ignore[arg-type]
        connection.execute(statement)  # type: ignore[arg-type]


def test_an_index_of_the_vectors_serves_an_adapter_too(filled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (nearest, vectors):
        monkeypatch.setattr(module, "APPROXIMATE_FROM", 1)
    monkeypatch.setattr(sink, "_ANALYSE_FROM", 1)
    with filled.sink() as writer:
        writer.put("notes", "f", "", "1", [chunk(300)])
    keep(filled, "notes")
    by_index, exact = filled.source(), filled.source()
    for key in range(1, 4):
        exact.store.watch.add(key, 0.5)
    assert cosines(by_index.search(QUESTION)) == cosines(exact.search(QUESTION))
    assert by_index.store.watched_recall() == 1.0


@pytest.mark.parametrize("damage", ["UPDATE adapters SET evidence = '{'", "UPDATE adapters SET model_id = 'another'"])
def test_one_that_cannot_be_used_is_named(filled: Any, damage: str) -> None:
    before = filled.source().search(QUESTION)
    adapter_id = keep(filled, "notes")
    execute(filled, damage)
    answer = filled.source().search(QUESTION)
    assert [(note.code, note.detail) for note in answer.notices] == [
        (NoticeCode.ADAPTER_UNUSABLE, {"adapter": adapter_id})
    ]
    assert answer.chunks == before.chunks


def test_a_trial_reaches_its_copy_alone(filled: Any, tmp_path: Path) -> None:
    adapter_id = keep(filled, "notes")
    original = filled.source().store
    original.copy_to(tmp_path)
    filled.data_dir = tmp_path
    copied = filled.source()
    assert [kept.adapter_id for kept in copied.store.adapters("NPA") if kept.in_force] == [adapter_id]
    write(filled, rules="committee")  # numbers go on, so that no row of the copy is taken twice
    with filled.sink() as writer:
        writer.put("notes", "new", "", "1", [Chunk(content="Written to the copy.")])
    filled.own = {"schema_name": "another"}
    with pytest.raises(ConfigError, match="a trial is about one store"):
        filled.source()
    filled.own = {"schema_name": filled.schema}
    copied.close()
    original.drop_copy(tmp_path)
    with pytest.raises(ConfigError, match="a trial is about one store"):
        filled.source()
    assert "new" not in {found.document_id for found in original.chunks("notes")}
    assert [kept.in_force for kept in original.adapters("NPA")] == [True]


def test_tables_of_another_version_are_not_copied(filled: Any, tmp_path: Path) -> None:
    execute(filled, "UPDATE state SET version = version - 1")
    with pytest.raises(StoreError, match="brings them up to date"):
        filled.source().store.copy_to(tmp_path)
    assert list(tmp_path.iterdir()) == []
