"""Judgements by a person, as lines that are questions and judgements at once."""

from datetime import UTC, date, datetime

import pytest

from context_engine import SearchRequest, build_engine
from context_engine.errors import InvalidRequest
from context_engine.evaluation.qrels import append_judgement, judgement, question_id, read_qrels, to_judge
from context_engine.evaluation.questions import read_questions


def test_a_judgement_is_read_back_as_question_and_judgement(demo_session, tmp_path):
    path = tmp_path / "mine.jsonl"
    with build_engine(demo_session.setup, data_dir=demo_session.data_dir) as engine:
        result = engine.search(SearchRequest(query="material change", domain="NPA", as_of=date(2026, 3, 2)))
    name = question_id(path, "material change", "NPA")
    assert to_judge(path, name, result) == list(result.chunks)
    moment = datetime(2026, 3, 2, 10, tzinfo=UTC)
    row = judgement(name, result, result.chunks[0], 2, as_of=date(2026, 3, 2), by="ana", at=moment)
    assert (row["by"], row["at"], row["rank"]) == ("ana", "2026-03-02T10:00:00Z", 1)
    append_judgement(path, row)
    append_judgement(path, judgement(name, result, result.chunks[1], 0, as_of=date(2026, 3, 2)))
    assert read_qrels(path) == {name: {f"={result.chunks[0].chunk_id}": 2, f"={result.chunks[1].chunk_id}": 0}}
    (question,) = read_questions(path)
    assert (question.id, question.text, question.domain, question.as_of) == (
        name,
        "material change",
        "NPA",
        date(2026, 3, 2),
    )
    assert to_judge(path, name, result) == list(result.chunks[2:])


def test_a_question_keeps_the_id_it_has(written):
    path = written("m.jsonl", '{"query_id": "mine", "query": "limits", "domain": "NPA", "chunk_id": "c", "grade": 1}\n')
    assert question_id(path, "limits", "NPA") == "mine"
    assert question_id(path, "limits", "ORM") != "mine"
    assert question_id(path, "limits", "ORM") == question_id(path.with_name("none.jsonl"), "limits", "ORM")


def test_asked_of_another_day_it_is_another_question(written):
    line = (
        '{"query_id": "%s", "query": "limits", "domain": "NPA", "as_of": "2024-06-30", "chunk_id": "c", "grade": 1}\n'
    )
    path, day = written("m.jsonl", line % "then"), date(2024, 6, 30)
    assert question_id(path, "limits", "NPA", day) == "then"
    names = {question_id(path, "limits", "NPA"), question_id(path, "limits", "NPA", date(2025, 6, 30)), "then"}
    assert len(names) == 3


def test_an_id_is_not_given_to_two_questions(written):
    path = written("m.jsonl", '{"query_id": "mine", "query": "limits", "domain": "NPA", "chunk_id": "c", "grade": 1}\n')
    assert question_id(path, "limits", "NPA", name="mine") == "mine"
    assert question_id(path, "desks", "NPA", name="other") == "other"
    with pytest.raises(InvalidRequest, match="holds another question as 'mine': 'limits'"):
        question_id(path, "desks", "NPA", name="mine")
