"""The External Knowledge API: who gets in, what is read, and what the records say."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.apps.dify.external import (
    LEAST_TOKEN,
    ExternalRequest,
    authorised,
    read_request,
    record_scores,
    records_answer,
)
from context_engine.apps.dify.node_output import BELOW_NOTICE
from context_engine.core.models import Chunk, Score, ScoreKind, SearchResult
from context_engine.errors import InvalidFilter, InvalidRequest, SourceTimeout

TOKEN = "0123456789abcdef" * 2


def request(**fields: Any) -> ExternalRequest:
    values = {"knowledge_id": "NPA", "query": "q", "top_k": 10, "score_threshold": 0.0, "filters": None, **fields}
    return ExternalRequest(**values)


def down(_query: str, _domain: str, _top_k: int) -> Any:
    raise SourceTimeout("no answer within 4 s")


@pytest.mark.parametrize(
    ("token", "header", "let_in"),
    [
        (TOKEN, f"Bearer {TOKEN}", True),
        (TOKEN, f"bearer   {TOKEN} ", True),
        (f" {TOKEN} ", f"Bearer {TOKEN}", True),
        (TOKEN, f"Basic {TOKEN}", False),
        (TOKEN, TOKEN, False),
        (TOKEN, f"Bearer {TOKEN[:-1]}", False),
        (TOKEN, f"Bearer {TOKEN}x", False),
        (TOKEN, "Bearer ", False),
        (TOKEN, None, False),
        (TOKEN[:-1], f"Bearer {TOKEN[:-1]}", False),
        ("", "Bearer ", False),
        (None, None, False),
        (None, "Bearer None", False),
        ("ü" * 32, "Bearer " + "ü" * 32, True),
    ],
)
def test_who_gets_in(token: str | None, header: str | None, let_in: bool) -> None:
    assert len(TOKEN) == LEAST_TOKEN
    assert authorised(token, header) is let_in


@pytest.mark.parametrize("body", [b"", b"  ", b"{}", b'{"knowledge_id": "", "query": ""}'])
def test_probes_of_a_registration(body: bytes) -> None:
    assert read_request(body) is None


def test_fields_and_their_defaults() -> None:
    read = read_request(b'{"knowledge_id": " NPA ", "query": "q"}')
    assert read == request(top_k=4)
    setting = {"top_k": 500, "score_threshold": 0.5}
    read = read_request(json.dumps({"knowledge_id": "NPA", "query": "q", "retrieval_setting": setting}).encode())
    assert read == request(top_k=100, score_threshold=0.5)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"{", "must be a JSON object"),
        (b"[]", "must be a JSON object"),
        (b"\xff", "must be a JSON object"),
        (b'{"knowledge_id": 5, "query": "q"}', "must be texts"),
        (b'{"knowledge_id": "NPA"}', "must be texts"),
        (b'{"knowledge_id": "NPA", "query": "q", "retrieval_setting": {"top_k": 0}}', "top_k must be a whole number"),
        (b'{"knowledge_id": "NPA", "query": "q", "retrieval_setting": {"top_k": true}}', "top_k must be"),
        (b'{"knowledge_id": "NPA", "query": "q", "retrieval_setting": {"score_threshold": 2}}', "from 0 to 1"),
    ],
)
def test_a_request_that_cannot_be_used(body: bytes, told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        read_request(body)


def test_a_condition_that_cannot_be_read() -> None:
    body = {"knowledge_id": "NPA", "query": "q", "metadata_condition": {"conditions": [{"name": "x"}]}}
    with pytest.raises(InvalidFilter, match="unknown operator None"):
        read_request(json.dumps(body).encode())


def test_scores_fall_in_our_order_and_are_no_less_than_the_threshold() -> None:
    """From the last record up: 0.92; max(1.0, …) = 1.0; 0.95 < 1.0, so a millionth more, cut to 1; the others below."""
    assert record_scores([0.95, 1.0, 0.92]) == [1.0, 0.999999, 0.92]
    assert record_scores([0.4, 0.4, 0.7, 0.2, 0.2]) == [0.700002, 0.700001, 0.7, 0.200001, 0.2]
    assert record_scores([1.0], most=BELOW_NOTICE) == [0.999999]
    assert record_scores([0.0, 0.0]) == [0.000002, 0.000001]
    assert record_scores([]) == []


@given(st.lists(st.floats(0, 1), max_size=100), st.floats(0, 1))
def test_a_record_that_passed_a_threshold_is_never_shown_below_it(absolutes: list[float], threshold: float) -> None:
    shown = [absolute for absolute in absolutes if absolute >= threshold]
    scores = record_scores(shown)
    assert all(later < earlier for earlier, later in pairwise(scores)) and all(0 < score <= 1 for score in scores)
    assert all(score >= min(threshold, 1 - len(shown) * 1e-6) - 5e-7 for score in scores)  # six decimals


def test_the_threshold_is_compared_with_relevance(ask: Callable[..., SearchResult], chunk_of: Any) -> None:
    """0.6 · 0.45 + 0.4 · 0.4 = 0.43 > 0.6 · 0.6 = 0.36: the record ranks first and is below the threshold."""
    found = ask([(1, [chunk_of("record", 0.45)]), (5, [chunk_of("web", 0.6)])])
    assert [one.chunk_id for one in found.chunks] == ["record", "web"]
    answer = records_answer(found, request(score_threshold=0.5), notice_records=True)
    (record,) = answer.body["records"]
    assert record["metadata"]["chunk_id"] == "web" and record["score"] == 0.6


def test_top_k_holds_with_a_notice(ask: Callable[..., SearchResult], chunk_of: Any) -> None:
    found = ask([(1, [chunk_of("a", 0.9), chunk_of("b", 0.8)]), (2, down)])
    both = records_answer(found, request(top_k=2), notice_records=True).body["records"]
    assert [one["metadata"].get("notice", False) for one in both] == [True, False]
    assert both[0]["title"] == "Knowledge incomplete: t2 unavailable" and both[0]["score"] == 1.0
    assert both[1]["score"] < 1.0
    plain = records_answer(found, request(top_k=2), notice_records=False).body["records"]
    assert [one["metadata"]["chunk_id"] for one in plain] == ["a", "b"]


def test_a_complete_search_has_no_notice(ask: Callable[..., SearchResult], chunk_of: Any) -> None:
    records = records_answer(ask([(1, [chunk_of("a", 0.9)])]), request(), notice_records=True).body["records"]
    assert [one["metadata"]["chunk_id"] for one in records] == ["a"]


def test_out_of_scope_is_an_empty_answer(ask: Callable[..., SearchResult], chunk_of: Any) -> None:
    answer = records_answer(ask([(1, [chunk_of("a", 0.01)])]), request(), notice_records=True)
    assert (answer.status, answer.body) == (200, {"records": []})


def test_a_demo_says_so_in_every_record(ask: Callable[..., SearchResult], chunk_of: Any) -> None:
    (record,) = records_answer(ask([(1, [chunk_of("a", 0.9)])]), request(), notice_records=True, demo=True).body[
        "records"
    ]
    assert record["title"].startswith("DEMO: ") and record["metadata"]["demo"] is True


def test_an_answer_stays_small(ask: Callable[..., SearchResult], chunk_of: Any) -> None:
    long = [chunk_of(name, 0.9, f"{name} " * 100_000) for name in ("alpha", "bravo")]  # 1.2 MB of 1 MiB
    answer = records_answer(ask([(1, long)]), request(), notice_records=True)
    assert len(answer.encoded()) <= 1024 * 1024 and "records was cut" in answer.body["cut"]
    assert [one["content"].endswith("characters in all]") for one in answer.body["records"]] == [True, True]


def test_a_score_threshold_is_tested_on_the_absolute_signal_not_within_the_pool(
    ask: Callable[..., SearchResult],
) -> None:
    """The page repeats the question: within the pool it is 1, and the register and the procedure are far below it."""
    rule = "A new product is approved by the product committee before launch."
    page = "New product approved. " * 3 + "The product committee approved the new product before launch by committee."

    def near(name: str, text: str, cosine: float) -> Chunk:
        return Chunk(content=text, chunk_id=name, scores=(Score(ScoreKind.COSINE, cosine, "one-model"),))

    sources = [
        (1, [near("register", f"Register entry 17 of the group, kept by the secretary of the board. {rule}", 0.80)]),
        (2, [near("sop", f"Procedure of the bank for every desk; minutes are kept in the archive. {rule}", 0.78)]),
        (5, [near("page", page, 0.97)]),
    ]
    found = ask(sources, "new product approved by committee before launch")
    limit = 0.75
    assert [chunk.chunk_id for chunk in found.chunks if chunk.relevance >= limit] == ["page"]
    records = records_answer(found, request(score_threshold=limit), notice_records=False).body["records"]
    assert {one["metadata"]["chunk_id"] for one in records} == {"register", "sop", "page"}
    assert all(one["metadata"]["absolute_relevance"] >= limit for one in records)
    scores = [one["score"] for one in records]
    assert scores == sorted(set(scores), reverse=True)
