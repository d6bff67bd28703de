"""What repeats in a record is said once, and reads again as it was."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.audit.record.exact import Unreadable
from context_engine.audit.record.packed import (
    packed_candidates,
    packed_question,
    unpacked_candidates,
    unpacked_question,
)

SHA = "ab" * 32
FATES = {"source_id": ["s", "s"], "chunk_id": ["a", "b"], "content_sha256": [SHA, None]}
SCORES = st.lists(
    st.tuples(st.sampled_from(["bm25", "cosine"]), st.floats(0, 1), st.sampled_from([None, "x"])), max_size=2
)


def answer(text: list[int], card: list[int], scores: list[Any], times: list[str | None] | None = None) -> Any:
    columns = {"text": text, "card": card, "scores": scores}
    return {"source_id": "s", "chunks": columns if times is None else {**columns, "fetched_at": times}}


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def test_columns_that_go_on_alike_are_one_value() -> None:
    scores = [[["bm25", 0.5, "x"]], [["bm25", 0.25, "x"]]]
    [packed] = packed_candidates({"answers": [answer([3, 4], [5, 6], scores, ["t", "t"])], "fates": {}})["answers"]
    assert packed["chunks"] == {
        "text": 3,
        "card": 5,
        "scores": {"of": [["bm25", "x"]], "values": [[0.5], [0.25]]},
        "fetched_at": "t",
    }


def test_columns_that_do_not_stand_as_they_are() -> None:
    given_ = answer([3, 3], [6, 5], [[["bm25", 0.5, "x"]], []], ["t", None])
    assert packed_candidates({"answers": [given_], "fates": {}})["answers"] == [given_]


def rows(number: int) -> st.SearchStrategy[Any]:
    numbers = st.lists(st.integers(0, 4), min_size=number, max_size=number) | st.just(list(range(7, 7 + number)))
    times = st.lists(st.sampled_from(["t", "u", None]), min_size=number, max_size=number)
    return st.builds(answer, numbers, numbers, st.lists(SCORES, min_size=number, max_size=number), st.none() | times)


@given(st.lists(st.integers(0, 4).flatmap(rows), max_size=3), st.sampled_from([SHA, "cd" * 32, None]))
@pytest.mark.slow
def test_whatever_stands_there_reads_again_as_it_was(answers: list[Any], sha256: str | None) -> None:
    returned = [
        {"source_id": "s", "chunk_id": name, "provenance": {"extra": {"content_sha256": sha256, "n": 1}}}
        for name in "abc"
    ]
    whole = {"v": 1, "answers": answers, "fates": FATES, "returned": returned}
    before = copy.deepcopy(whole)
    read = unpacked_candidates(through_json(packed_candidates(whole)))
    assert whole == before, "what is packed is left as it was"
    assert read == through_json(whole)
    assert json.dumps(read) == json.dumps(whole), "the order of names too"


def test_the_hash_of_a_returned_text_stands_once() -> None:
    returned = [{"source_id": "s", "chunk_id": "a", "provenance": {"extra": {"content_sha256": SHA}}}]
    packed = packed_candidates({"fates": FATES, "returned": returned})
    assert SHA not in json.dumps(packed["returned"])


def test_statistics_that_answers_share_stand_once() -> None:
    same, other = {"chunks": 3}, {"chunks": 4}
    answers = [{}, {"statistics": same}, {"statistics": other}, {"statistics": same, "unknown_words": []}]
    packed = packed_question({"v": 1, "answers": answers})
    assert packed["answers"] == [
        {},
        {"statistics": same},
        {"statistics": other},
        {"statistics": 1, "unknown_words": []},
    ]
    assert unpacked_question(packed) == {"v": 1, "answers": answers}
    assert unpacked_question(packed_question({"message": "none"})) == {"message": "none"}


@pytest.mark.parametrize(
    "chunks",
    [{}, {"text": 1, "card": 2}, {"text": [1], "card": [2], "scores": {"of": [], "values": [[1.0]]}}, None, [1]],
)
def test_what_cannot_be_read_is_told(chunks: Any) -> None:
    with pytest.raises(Unreadable):
        unpacked_candidates({"answers": [{"chunks": chunks}], "fates": {}})


@pytest.mark.parametrize("answers", [[{"statistics": 7}], [{"statistics": 0}], [3], {"a": 1}])
def test_a_question_that_cannot_be_read_is_told(answers: Any) -> None:
    with pytest.raises(Unreadable):
        unpacked_question({"answers": answers})
