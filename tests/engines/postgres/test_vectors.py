"""Vectors by an index: no row is lost under a filter, recall is measured, and a low one ends the use of the index."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from context_engine.adapters.sources.postgres import nearest, sink, vectors
from context_engine.adapters.sources.stores.recall import LEAST_MEASURED
from context_engine.core.models import (
    Chunk,
    Condition,
    ExaminationRequest,
    FilterOp,
    NoticeCode,
    ScoreKind,
    SourceQuery,
)

pytestmark = pytest.mark.slow
QUESTION = SourceQuery(text="custody of collateral", domain="NPA", top_k=10)
SUBJECTS = ("custody", "collateral", "dividends", "escrow", "factoring", "guarantees", "leasing", "netting")


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every class gets an index, and every search is allowed to use it."""
    for module in (nearest, vectors):
        monkeypatch.setattr(module, "APPROXIMATE_FROM", 1)
    monkeypatch.setattr(sink, "_ANALYSE_FROM", 1)


@pytest.fixture
def indexed(vector_store: Any, always: None) -> Any:
    """A store of 400 texts whose vectors have an index."""
    with vector_store.sink() as writer:
        writer.put("notes", "d", "", "1", [chunk(number) for number in range(400)])
    return vector_store


def chunk(number: int) -> Chunk:
    first, second = SUBJECTS[number % 8], SUBJECTS[number // 8 % 8]
    text = f"The {first} of {second} is reviewed by desk {number}."
    return Chunk(content=text, chunk_id=f"c{number}", metadata={"rare": number % 100 == 7})


def ids(answer: Any) -> list[str]:
    return [found.chunk_id for found in answer.chunks]


def test_a_run_of_many_commits_builds_its_index_once_at_the_end(vector_store: Any, always: None) -> None:
    def rows_and_indexes() -> tuple[int, int]:
        with vector_store.source().store._servers.reading(5.0) as session:
            statement = "SELECT (SELECT count(*) FROM vectors), count(*) FROM pg_indexes WHERE schemaname = %s"
            return session.execute(statement + " AND indexname LIKE '%%_hnsw'", (vector_store.schema,)).fetchone()

    with vector_store.sink() as writer:
        for number in range(3):
            writer.put("notes", f"d{number}", "", "1", [chunk(number)])
            writer.commit()
            assert rows_and_indexes() == (number + 1, 0)
    assert rows_and_indexes() == (3, 1)


def test_the_statistics_of_a_growing_store_are_renewed_ever_less_often(
    vector_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed = []
    monkeypatch.setattr(sink, "_ANALYSE_FROM", 1)
    monkeypatch.setattr(vectors.VectorWriter, "analyse", lambda self: renewed.append(self))
    with vector_store.sink() as writer:
        for number in range(60):
            writer.put("notes", f"d{number}", "", "1", [chunk(number)])
            writer.commit()
    assert 10 < len(renewed) < 35, "each commit up to 10 texts, then after a tenth of them"


def test_a_filter_loses_no_row(indexed: Any) -> None:
    rare = replace(QUESTION, filters=Condition("rare", FilterOp.EQ, True))
    assert set(ids(indexed.source().search(rare))) == {"c7", "c107", "c207", "c307"}


def test_scores_are_those_of_both_legs(indexed: Any) -> None:
    answer = indexed.source().search(QUESTION)
    kinds = [score.kind for score in answer.chunks[0].scores]
    assert kinds == [ScoreKind.WEIGHTED, ScoreKind.COSINE, ScoreKind.BM25]
    assert answer.embedding is not None and answer.embedding.model == indexed.embedder.model_id


def test_the_first_search_measures_the_recall(indexed: Any) -> None:
    source = indexed.source()
    source.search(QUESTION)
    details = source.examine(ExaminationRequest(domain="NPA")).details
    assert 0.0 <= details["ann_recall"] <= 1.0


def test_a_low_recall_ends_the_use_of_the_index(indexed: Any) -> None:
    source = indexed.source()
    exact = indexed.source()
    for key, _ in product(range(1, 5), range(LEAST_MEASURED)):
        exact.store.watch.next_way(key)
        exact.store.watch.add(key, 0.5)
        source.store.watch.add(key, 1.0)
    answer = exact.search(QUESTION)
    assert [(notice.code, notice.detail) for notice in answer.notices] == [(NoticeCode.ANN_RECALL_LOW, {"recall": 0.5})]
    assert ids(answer) == ids(source.search(QUESTION)), "this index finds the true neighbours"
    report = exact.examine(ExaminationRequest(domain="NPA"))
    assert [notice.code for notice in report.warnings] == [NoticeCode.ANN_RECALL_LOW]
