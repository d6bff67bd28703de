"""Judgements of readers: the form that `eval` reads, and what privacy leaves out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from context_engine.errors import InvalidRequest, RecordNotFound
from context_engine.evaluation.qrels import read_qrels
from context_engine.evaluation.questions import read_questions
from context_engine.service.deployment import Deployment
from context_engine.service.judgements import ANSWERS, PASSAGES, WITHOUT_QUESTION
from context_engine.service.judging import judge_answer, judge_passage
from context_engine.service.kept import KeptAnswer
from context_engine.service.records import own_result
from tests.unit.service.small_bank import CHAIR, CLERK, QUESTION, caller, searched, small_bank

NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    deployment = small_bank(tmp_path_factory.mktemp("bank"))
    yield deployment
    deployment.close()


def lines(bank: Deployment, name: Any) -> list[dict[str, Any]]:
    assert bank.data_dir is not None
    return [json.loads(line) for line in (bank.data_dir / name).read_text("utf-8").splitlines()]


def test_a_passage_judged_twice_has_its_last_grade(bank):
    result = searched(bank, CLERK)
    chunk = result.chunks[0]
    for thumb in ("down", "up"):
        judge_passage(bank, caller(CLERK), result, (chunk.source_id, chunk.chunk_id), thumb, NOW)
    path = bank.data_dir / PASSAGES
    (question,) = read_questions(path)

    assert (question.text, question.domain) == (QUESTION, "ORM")
    assert read_qrels(path) == {question.id: {f"={chunk.chunk_id}": 2}}


def test_an_answer_is_judged_in_a_file_of_its_own(bank):
    result = searched(bank, CLERK)
    judge_answer(bank, caller(CLERK), result, "a-1", "down", NOW)
    row = lines(bank, ANSWERS)[-1]

    assert (row["answer_id"], row["grade"], row["query"], row["at"]) == ("a-1", 0, QUESTION, "2026-03-02T10:00:00Z")


@pytest.mark.parametrize("form", ["digest", "none"])
def test_a_question_that_the_ledger_hides_is_not_written(bank, form):
    result = searched(bank, CLERK)
    hidden = result.settings.values.model_copy(update={"audit_query": form})
    result = replace(result, settings=result.settings.model_copy(update={"values": hidden}))
    chunk = result.chunks[0]
    judge_passage(bank, caller(CLERK), result, (chunk.source_id, chunk.chunk_id), "up", NOW)
    judge_answer(bank, caller(CLERK), result, "", "up", NOW)

    for row in (lines(bank, WITHOUT_QUESTION)[-1], lines(bank, ANSWERS)[-1]):
        assert row["query_id"] == result.search_id
        assert QUESTION not in json.dumps(row)


def test_only_a_passage_of_the_answer_is_judged(bank):
    with pytest.raises(InvalidRequest, match="has no passage"):
        judge_passage(bank, caller(CLERK), searched(bank, CLERK), ("sops", "other"), "up", NOW)


def test_a_search_is_its_askers(bank):
    result = searched(bank, CLERK)
    bank.kept.keep(CLERK, KeptAnswer(result=result))

    assert own_result(bank, caller(CLERK), result.search_id) == result
    with pytest.raises(RecordNotFound):
        own_result(bank, caller(CHAIR), result.search_id)
