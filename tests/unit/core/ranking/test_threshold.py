"""The threshold filter on chunk dicts: counts, fallback, what is kept as it is."""

import logging
from copy import deepcopy

import pytest

from context_engine.core.ranking.threshold import filter_by_similarity
from context_engine.errors import InvalidRequest

CHUNKS = [
    {"content": "a", "score": 0.85, "metadata": {"year": 2026}},
    {"content": "b", "score": 0.72},
    {"content": "c", "score": 0.5},
    {"content": "d", "score": 0.3},
    {"content": "e"},
]


def texts(chunks):
    return "".join(chunk["content"] for chunk in chunks)


def test_C1_it_keeps_what_reaches_the_threshold_and_reports():
    kept, report = filter_by_similarity(CHUNKS, 0.72, 2)
    assert texts(kept) == "ab"
    assert report == {"original_count": 5, "filtered_count": 2, "fallback_triggered": False, "scores": [0.85, 0.72]}


def test_C2_below_min_chunks_the_best_come_back_marked_and_it_is_logged(caplog):
    caplog.set_level(logging.INFO)
    kept, report = filter_by_similarity(CHUNKS, 0.8, 3)
    assert texts(kept) == "abc"
    assert [chunk.get("below_threshold", False) for chunk in kept] == [False, True, True]
    assert report == {"original_count": 5, "filtered_count": 3, "fallback_triggered": True, "scores": [0.85, 0.72, 0.5]}
    assert "threshold 0.800 left 1 chunks, 3 kept by min_chunks" in caplog.text


def test_C2_the_fallback_takes_by_score_and_keeps_the_order_given():
    shuffled = [CHUNKS[3], CHUNKS[4], CHUNKS[0], CHUNKS[2], CHUNKS[1]]
    kept, _ = filter_by_similarity(shuffled, 0.99, 3)
    assert texts(kept) == "acb"


def test_C2_a_chunk_without_a_score_comes_back_last():
    kept, report = filter_by_similarity(CHUNKS, 0.99, 5)
    assert texts(kept) == "abcde"
    assert report["scores"] == [0.85, 0.72, 0.5, 0.3, None]
    assert texts(filter_by_similarity(CHUNKS, 0.99, 4)[0]) == "abcd"


def test_C3_scores_and_metadata_are_kept_and_the_input_is_not_changed():
    before = deepcopy(CHUNKS)
    kept, _ = filter_by_similarity(CHUNKS, 0.8, 2)
    assert kept[0] == CHUNKS[0]
    kept[1]["score"] = 7
    assert before == CHUNKS


def test_C4_the_defaults_let_everything_through():
    kept, report = filter_by_similarity(CHUNKS)
    assert kept == CHUNKS
    assert (report["filtered_count"], report["fallback_triggered"]) == (5, False)


def test_min_chunks_beyond_what_there_is_is_no_fallback():
    assert filter_by_similarity(CHUNKS[:1], 0.5, 2)[1]["fallback_triggered"] is False
    assert filter_by_similarity([], 0.5, 2) == (
        [],
        {"original_count": 0, "filtered_count": 0, "fallback_triggered": False, "scores": []},
    )


@pytest.mark.parametrize("score", [None, "0.9", True, float("nan"), float("inf")])
def test_a_score_that_is_no_number_counts_as_none(score):
    kept, report = filter_by_similarity([{"content": "a", "score": score}], 0.5, 0)
    assert (kept, report["scores"]) == ([], [])


@pytest.mark.parametrize(
    ("threshold", "min_chunks"),
    [
        (float("nan"), 2),
        (float("inf"), 2),
        ("0.5", 2),
        (True, 2),
        (None, 2),
        (0.5, -1),
        (0.5, True),
        (0.5, 1.5),
        (0.5, "2"),
    ],
)
def test_arguments_that_cannot_be_used(threshold, min_chunks):
    with pytest.raises(InvalidRequest, match="must be a"):
        filter_by_similarity(CHUNKS, threshold, min_chunks)


@pytest.mark.parametrize(
    ("chunks", "problem"),
    [
        (None, "chunks must be a sequence of chunk dicts, got NoneType"),
        ("abc", "chunks must be a sequence of chunk dicts, got str"),
        ({"score": 1.0}, "chunks must be a sequence of chunk dicts, got dict"),
        ([{"score": 1.0}, 0.5], r"chunks\[1\] must be a chunk dict, got float"),
    ],
)
def test_what_is_no_list_of_chunks_is_refused(chunks, problem):
    with pytest.raises(InvalidRequest, match=problem):
        filter_by_similarity(chunks, 0.5)
