"""Judgements out of files, and into one."""

import json

import pytest

from context_engine.errors import ConfigError
from context_engine.evaluation.qrels import append_judgement, positive, read_qrels

EXPECTED = {"q1": {"a": 2, "b": 0}, "q2": {"c d": 1}}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("q.tsv", "q1\ta\t2\nq1\tb\t0\nq2\tc d\t1\n"),
        ("q.tsv", "query-id\tcorpus-id\tscore\nq1\ta\t2\nq1\tb\t0\n\nq2\tc d\t1\n"),
        ("q.qrels", "q1\t0\ta\t2\nq1\t0\tb\t0\nq2\t0\tc d\t1\n"),
        (
            "q.jsonl",
            '{"query_id":"q1","gold":"a","grade":2}\n{"qid":"q1","doc_id":"b","grade":0}\n{"qid":"q2","gold":"c d"}\n',
        ),
    ],
)
def test_every_form(written, name, text):
    assert read_qrels(written(name, text)) == EXPECTED


@pytest.mark.parametrize("header", ["query-id\tcorpus-id\tscore", "query_id gold label", "topic doc relevance"])
def test_a_header_is_known_by_the_name_of_its_first_or_last_column(written, header):
    assert read_qrels(written("q.tsv", f"{header}\nq1 a 2\n")) == {"q1": {"a": 2}}


def test_trec_columns_may_be_parted_by_blanks(written):
    assert read_qrels(written("q.txt", "q1 0 a 2\nq1 Q0 b 0\n")) == {"q1": {"a": 2, "b": 0}}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("q.tsv", "q1 a\n", "line 1: has 2 columns"),
        ("q.tsv", "q1 a 1\nq1 b good\n", "line 2: the grade must be a whole number, 0 for not relevant, got 'good'"),
        ("q.tsv", "q1 a 1\nq1 a 2\n", "line 2: q1 a was graded 1 above and is 2 here"),
        ("q.jsonl", '{"query_id": "q1", "grade": 1}\n', "line 1: the judgement lacks gold, chunk_id or document_id"),
        ("q.jsonl", '{"gold": "a"}\n', "line 1: the judgement lacks query_id"),
        ("q.jsonl", '{"query_id": "q1", "gold": "a", "grade": true}\n', "line 1: the grade must be a whole number"),
        ("q.tsv", "  \n", "holds no judgement"),
        ("q.tsv", "q1 a good\nq2 a 1\n", "line 1: the grade must be a whole number, 0 for not relevant, got 'good'"),
        ("q.tsv", "q1 a 1.5\n", "line 1: the grade must be a whole number"),
        ("q.tsv", "q1 a 1x\n", "line 1: the grade must be a whole number"),
        ("q.tsv", "q1 a 1\nq2 a grade\n", "line 2: the grade must be a whole number"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_line(written, name, text, said):
    with pytest.raises(ConfigError) as error:
        read_qrels(written(name, text))
    assert said in str(error.value)


def test_a_judgement_by_hand_can_be_changed_by_a_later_one(tmp_path):
    path = tmp_path / "new" / "mine.jsonl"
    for grade in (0, 2):
        append_judgement(path, {"query_id": "q", "chunk_id": "a", "grade": grade})
    assert len(path.read_text("utf-8").splitlines()) == 2
    assert read_qrels(path) == {"q": {"=a": 2}}


def test_a_line_that_was_broken_off_does_not_swallow_the_next(written):
    path = written("mine.jsonl", '{"query_id": "q", "chunk_id": "a", "grade": 1}')
    append_judgement(path, {"query_id": "q", "chunk_id": "b", "grade": 1})
    assert [json.loads(line)["chunk_id"] for line in path.read_text("utf-8").splitlines()] == ["a", "b"]


def test_judgements_are_added_to_json_lines_alone(tmp_path):
    with pytest.raises(ConfigError, match=r"ends in \.jsonl"):
        append_judgement(tmp_path / "q.tsv", {})


def test_only_grades_above_nothing_are_relevant():
    assert positive({"q": {"a": 1, "b": 0, "c": -1}, "p": {"d": 0}}) == {"q": {"a": 1}}


@pytest.mark.parametrize(
    ("name", "line"), [("q.tsv", "q1\ta\t2.0\n"), ("q.jsonl", '{"qid": "q1", "gold": "a", "grade": 2.0}\n')]
)
def test_a_whole_grade_may_be_written_with_a_point_also_on_the_first_line(written, name, line):
    assert read_qrels(written(name, line)) == {"q1": {"a": 2}}


def test_a_heading_may_stand_below_empty_lines(written):
    assert read_qrels(written("q.tsv", "\n\nqid\tdoc\trel\nq1\ta\t2\n")) == {"q1": {"a": 2}}


def test_of_several_people_the_grade_counts_that_most_give_each_with_the_last_word(tmp_path):
    path = tmp_path / "judged.jsonl"

    def judged(*grades: tuple[str, int]) -> int:
        rows = [{"query_id": "q", "chunk_id": "c", "grade": grade, "by": by} for by, grade in grades]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return read_qrels(path)["q"]["=c"]

    assert judged(("jo", 2), ("jo", 0)) == 0
    assert judged(("jo", 2), ("li", 2), ("mo", 0), ("mo", 0)) == 2
    assert judged(("jo", 2), ("li", 0)) == 0
