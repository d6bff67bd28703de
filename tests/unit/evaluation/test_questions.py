"""Questions out of files, and the line that is named when one cannot be used."""

from datetime import date

import pytest

from context_engine import demo
from context_engine.errors import ConfigError
from context_engine.evaluation.qrels import read_qrels
from context_engine.evaluation.questions import read_questions


def test_json_lines_with_domain_day_answers_and_labels(written):
    path = written(
        "q.jsonl",
        '{"id": 7, "text": "limit?", "domain": "NPA", "as_of": "2025-06-30", "group": 2, "note": "mine",'
        ' "answers": ["C-1", {"document_id": "D", "version": "3", "section": "4.2"}, {"document_id": "E"}]}\n\n'
        '{"_id": "b", "query": "who approves?"}\n',
    )
    first, second = read_questions(path)
    assert (first.id, first.text, first.domain, first.as_of) == ("7", "limit?", "NPA", date(2025, 6, 30))
    assert first.gold == {"C-1": 1, "D@3#4.2": 1, "E": 1}
    assert first.labels == {"group": "2"}
    assert (second.id, second.text, second.domain, second.gold) == ("b", "who approves?", None, {})


def test_id_tab_text(written):
    assert [(one.id, one.text) for one in read_questions(written("q.tsv", "a\tone thing\r\nb\tanother\n"))] == [
        ("a", "one thing"),
        ("b", "another"),
    ]


def test_lines_of_one_question_are_one_question(written):
    line = '{"query_id": "a", "query": "one thing", "domain": "NPA", "chunk_id": "%s", "grade": 1}\n'
    assert len(read_questions(written("judged.jsonl", line % "c1" + line % "c2"))) == 1


def test_a_judgement_with_its_question_beside_it_is_read_as_both(written):
    line = '{"query_id": "a", "query": "one thing", "gold": "%s", "grade": %d}\n'
    path = written("both.jsonl", line % ("D-1", 2) + line % ("D-2", 0))
    assert [(one.id, one.text, one.gold) for one in read_questions(path)] == [("a", "one thing", {})]
    assert read_qrels(path) == {"a": {"D-1": 2, "D-2": 0}}


def test_judgements_without_the_text_of_a_question_ask_for_the_questions(written):
    path = written("judgements.jsonl", '{"query_id": "a", "gold": "D-1", "grade": 2}\n')
    with pytest.raises(ConfigError, match='lacks a "text" or "query": add it, or give --queries FILE'):
        read_questions(path)


def test_the_demo_has_forty_four_questions():
    questions = read_questions(demo.QUESTIONS)
    assert (len(questions), sum(bool(one.gold) for one in questions)) == (44, 40)
    assert dict(questions[1].gold) == {"NPA-SOP-001@3.2#4.2.1": 1}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("q.jsonl", '{"id": "a", "text": "x"}\nnot json\n', "line 2: is not JSON"),
        ("q.jsonl", '\n["a"]\n', "line 2: is not a JSON object"),
        ("q.jsonl", '{"text": "x"}\n', "line 1: the question lacks an id"),
        ("q.jsonl", '{"id": "x", "text": "  "}\n', "line 1: query is empty"),
        ("q.jsonl", '{"id": "x"}\n', 'line 1: the question lacks a "text"'),
        ("q.jsonl", '{"id": "x", "text": "y", "as_of": "June"}\n', "line 1: as_of 'June' is not a day"),
        ("q.jsonl", '{"id": "x", "text": "y", "answers": [{"section": "1"}]}\n', "line 1: an answer is a gold id"),
        ("q.jsonl", '{"id": "x", "text": "y", "answers": "D"}\n', "line 1: answers must be a list"),
        (
            "q.jsonl",
            '{"id": "x", "text": "y"}\n{"id": "x", "text": "z"}\n',
            "line 2: question 'x' occurs again with another",
        ),
        ("q.tsv", "a\tx\nb\n", "line 2: must be an id, a tab and a question"),
        ("q.tsv", "\n", "holds no question"),
        ("q.tsv", "id\ttext\n", "holds no question"),
        ("q.tsv", "\twho approves?\n", "line 1: the question lacks an id"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_line(written, name, text, said):
    with pytest.raises(ConfigError, match=name) as error:
        read_questions(written(name, text))
    assert said in str(error.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.tsv: cannot be read"):
        read_questions(tmp_path / "none.tsv")


def test_a_heading_is_no_question(written):
    assert [one.id for one in read_questions(written("q.tsv", "query_id\tText\na\tone thing\n"))] == ["a"]


def test_text_in_another_encoding_says_how_to_fix_it(tmp_path):
    path = tmp_path / "q.tsv"
    path.write_bytes("a\tWer genehmigt Überziehungen?\n".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"is not UTF-8 text \(byte 16\): save it as UTF-8"):
        read_questions(path)
