"""Adapters and copies of a store: what is compared, what goes with moved documents, and whom a trial may not reach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from context_engine.adapters.sources.domain_adapter import DomainAdapter
from context_engine.adapters.sources.postgres import nearest, sink, vectors
from context_engine.core.models import AccessScope, Chunk, Classification, NoticeCode, ScoreKind, SourceQuery
from context_engine.errors import ConfigError, StoreError

pytestmark = pytest.mark.slow
QUESTION = SourceQuery(text="custody of collateral", domain="NPA", top_k=10)
SUBJECTS = ("custody", "collateral", "dividends", "escrow", "factoring", "guarantees", "leasing", "netting")
OPEN = AccessScope(clearance=Classification.INTERNAL)


@pytest.fixture
def filled(vector_store: Any) -> Any:
    """A store of 200 open texts and two of the board."""
    write(vector_store)
    return vector_store


def write(store: Any, rules: str = "board") -> None:
    with store.sink(store.spec("notes"), store.spec("board"), rules_of=rules_for(rules)) as writer:
        writer.put("notes", "d", "", "1", [chunk(number) for number in range(200)])
        writer.put("board", "e", "", "1", [chunk(number) for number in (1000, 1001)])


def rules_for(rules: str) -> Any:
    return lambda source_id: rules if source_id == "board" else ""


def chunk(number: int) -> Chunk:
    first, second = SUBJECTS[number % 8], SUBJECTS[number // 8 % 8]
    return Chunk(content=f"The {first} of {second} is reviewed by desk {number}.", chunk_id=f"c{number}")


def adapter_of(store: Any, seed: int = 1) -> DomainAdapter:
    noise = np.random.default_rng(seed).standard_normal((2, 64, 64))
    return DomainAdapter(store.embedder.model_id, *(np.eye(64) + 0.1 * noise))


def keep(store: Any, *source_ids: str, use: bool = True) -> str:
    """Keep an adapter learnt from some sources; return its id."""
    base = store.source().store
    origin = base.held_vectors(source_ids).origin
    adapter_id: str = base.keep_adapter("NPA", adapter_of(store), {"questions": 60}, origin).adapter_id
    if use:
        base.use_adapter("NPA", adapter_id)
    return adapter_id


def execute(store: Any, statement: str) -> None:
    with psycopg.connect(store.dsn, autocommit=True) as connection:
        connection.execute(f"SET search_path = {store.schema}")  # type: ignore[arg-type]
        connection.execute(statement)  # type: ignore[arg-type]


def cosines(answer: Any) -> dict[str, float]:
    scores = {found.chunk_id: score for found in answer.chunks for score in found.scores}
    assert all(score.kind in (ScoreKind.WEIGHTED, ScoreKind.COSINE, ScoreKind.BM25) for score in scores.values())
    return {
        found.chunk_id: score.value
        for found in answer.chunks
        for score in found.scores
        if score.kind is ScoreKind.COSINE
    }


def test_the_cosines_are_those_of_the_mapped_vectors(filled: Any) -> None:
    adapter_id = keep(filled, "notes")
    answer = filled.source().search(QUESTION)
    assert answer.embedding.model == f"{filled.embedder.model_id}+{adapter_id}"
    assert answer.embedding.adapter.adapter_id == adapter_id
    held = filled.source().store.held_vectors(["notes"])
    adapter = adapter_of(filled)
    question = np.asarray(filled.embedder.embed_query(QUESTION.text)) @ adapter.query
    mapped = held.parts @ adapter.passage
    expected = mapped @ question / np.linalg.norm(mapped, axis=1) / np.linalg.norm(question)
    by_id = dict(zip(held.chunk_ids, expected.tolist(), strict=True))
    found = cosines(answer)
    assert len(found) == 10
    assert found == pytest.approx({chunk_id: by_id[chunk_id] for chunk_id in found}, abs=1e-5)


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


def test_an_adapter_is_for_those_who_may_read_what_it_was_learnt_from(filled: Any) -> None:
    base = filled.source().store
    before = base.version(OPEN, 5.0)
    keep(filled, "notes", "board")
    assert base.adapters("NPA", access=OPEN) == [] and len(base.adapters("NPA")) == 1
    assert base.version(OPEN, 5.0) == before
    keep(filled, "notes")
    assert base.version(OPEN, 5.0) != before


def test_documents_that_move_take_what_was_learnt_from_them_along(filled: Any) -> None:
    keep(filled, "board")
    base = filled.source().store
    origin = base.held_vectors(["board"]).origin
    write(filled, rules="committee")
    assert base.adapters() == []
    with pytest.raises(StoreError, match="learn the adapter again"):
        base.keep_adapter("NPA", adapter_of(filled), {}, origin)


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
