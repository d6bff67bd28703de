from __future__ import annotations

import copy
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from context_engine.core.models import Chunk, SearchResult
from context_engine.core.policy.tag_check import CHECKS, CheckedText, CheckState, check_tags
from context_engine.core.policy.tag_forms import read_tagged

AT = datetime(2026, 3, 2, 10, tzinfo=UTC)


@pytest.fixture(scope="module")
def answer(ask: Callable[..., SearchResult], chunk_of: Callable[..., Chunk]) -> dict[str, Any]:
    fetched = AT - timedelta(minutes=10)
    sources = [
        (1, [chunk_of("a", 0.8, fetched_at=fetched)]),
        (3, [chunk_of("b", 0.9, fetched_at=fetched)]),
        (5, [chunk_of("c", 0.7, fetched_at=fetched)]),
    ]
    published: dict[str, Any] = json.loads(json.dumps(ask(sources).to_dict()))
    return published


@pytest.fixture
def saved(answer: dict[str, Any]) -> dict[str, Any]:
    return copy.deepcopy(answer)


def check(saved: Any, at: datetime = AT) -> list[CheckedText]:
    return check_tags(read_tagged(saved), at=at)


def failed(one: CheckedText) -> dict[str, str]:
    return {name: found.message for name, found in one.findings.items() if found.state is CheckState.FAILED}


def test_what_the_engine_returns_passes_every_check(saved: dict[str, Any]) -> None:
    checked = check(saved)
    assert len(checked) == 3
    for one in checked:
        assert one.ok
        assert {name: found.state for name, found in one.findings.items()} == dict.fromkeys(CHECKS, CheckState.OK)


@pytest.mark.parametrize(
    "settings",
    [{"relevance_weight": 0.9, "authority_weight": 0.1}, {"expired": "demote"}, {"dedup_method": "off"}],
)
def test_an_answer_is_checked_with_its_own_settings(
    ask: Callable[..., SearchResult], chunk_of: Callable[..., Chunk], settings: dict[str, Any]
) -> None:
    old = AT - timedelta(days=9)
    result = ask([(1, [chunk_of("a", 0.8123456, fetched_at=old)]), (4, [chunk_of("b", 0.7777777)])], **settings)
    assert all(one.ok for one in check(result.to_dict()))


def test_a_missing_tag_fails(saved: dict[str, Any]) -> None:
    del saved["chunks"][0]["_provenance"]
    assert failed(check(saved)[0])["tag"] == "there is no _provenance"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("source_id", "", "must be text"),
        ("source_type", "wiki", "is no source type"),
        ("authority_tier", True, "from 1 to 5"),
        ("authority_tier", 9, "from 1 to 5"),
        ("trust_class", "trusted", "TRUSTED or UNTRUSTED"),
        ("fetched_at", "2026-01-01T00:00:00+01:00", "ending in Z"),
        ("fetched_at", "yesterdayZ", "ending in Z"),
        ("ttl_seconds", 60.0, "whole number"),
        ("ttl_seconds", -1, "whole number"),
        ("extra", [], "must be a mapping"),
        ("colour", "red", "not part of a tag: colour"),
    ],
)
def test_a_tag_with_something_wrong_in_it_fails(saved: dict[str, Any], key: str, value: Any, message: str) -> None:
    saved["chunks"][0]["_provenance"][key] = value
    assert message in failed(check(saved)[0])["tag"]


def test_missing_keys_are_named(saved: dict[str, Any]) -> None:
    del saved["chunks"][0]["_provenance"]["ttl_seconds"]
    assert failed(check(saved)[0])["tag"] == "missing: ttl_seconds"


def test_a_changed_text_fails_and_only_there(saved: dict[str, Any]) -> None:
    saved["chunks"][1]["content"] = saved["chunks"][1]["content"].replace("on approval", "on the approval")
    first, second, third = check(saved)
    assert first.ok
    assert third.ok
    assert failed(second) == {"text": "the text is not the one the tag was made for"}


def test_a_tag_without_a_hash_cannot_be_verified(saved: dict[str, Any]) -> None:
    del saved["chunks"][0]["_provenance"]["extra"]["content_sha256"]
    assert "cannot be verified" in failed(check(saved)[0])["text"]


def test_type_and_tier_must_agree(saved: dict[str, Any]) -> None:
    chunk = saved["chunks"][0]
    chunk["_provenance"]["authority_tier"] = chunk["authority_tier"] = 2
    assert failed(check(saved)[0])["authority"] == "source_type 'system_of_record' and tier 2 do not agree"


def test_what_stands_beside_the_tag_must_agree_with_it(saved: dict[str, Any]) -> None:
    saved["chunks"][0]["source_id"] = "elsewhere"
    assert "source_id is 'elsewhere' beside the tag and 't1' in it" in failed(check(saved)[0])["authority"]


def test_the_formula_is_checked_within_a_ten_thousandth(saved: dict[str, Any]) -> None:
    chunk = saved["chunks"][0]
    assert chunk["_rag_score"] == 0.64 == round(0.6 * 0.8 + 0.4 * 0.4, 4)
    for score, fine in ((0.64005, True), (0.6402, False)):
        chunk["_rag_score"] = chunk["_provenance"]["extra"]["rag_score"] = score
        assert ("score" not in failed(check(saved)[0])) is fine
    assert failed(check(saved)[0])["score"] == "0.6 × 0.8 + 0.4 × 0.4 = 0.6400, not 0.6402"


@pytest.mark.parametrize("key", ["_authority_boost", "_relevance_score", "_rag_score"])
def test_a_changed_number_fails(saved: dict[str, Any], key: str) -> None:
    saved["chunks"][0][key] -= 0.01
    assert "score" in failed(check(saved)[0])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "0.64", True, None])
def test_a_score_that_is_no_number_fails(saved: dict[str, Any], value: Any) -> None:
    chunk = saved["chunks"][0]
    chunk["_rag_score"] = chunk["_provenance"]["extra"]["rag_score"] = value
    assert "score" in failed(check(saved)[0])


def test_a_tag_alone_is_enough_for_the_score(saved: dict[str, Any]) -> None:
    bare = [{"content": one["content"], "metadata": {"_provenance": one["_provenance"]}} for one in saved["chunks"]]
    assert all(one.ok for one in check({"result": bare}))


def test_expired_is_told_and_does_not_fail(saved: dict[str, Any]) -> None:
    fetched = AT - timedelta(minutes=10)
    at_the_end = check(saved, fetched + timedelta(seconds=3600))[0]
    after = check(saved, fetched + timedelta(seconds=3601))[0]
    assert at_the_end.findings["fresh"].state is CheckState.OK
    assert after.findings["fresh"] == (CheckState.NOTED, "expired: fetched 2026-03-02T09:50:00Z, fresh for 60 minutes")
    assert after.ok


def test_a_ttl_beyond_all_time_is_fresh(saved: dict[str, Any]) -> None:
    saved["chunks"][0]["_provenance"]["ttl_seconds"] = 10**30
    assert check(saved)[0].findings["fresh"].state is CheckState.OK


def test_the_age_of_what_was_only_retrieved_is_not_known(saved: dict[str, Any]) -> None:
    saved["chunks"][0]["_provenance"]["extra"]["fetched_at_basis"] = "retrieved"
    found = check(saved)[0].findings["fresh"]
    assert found.state is CheckState.NOTED
    assert "age unknown" in found.message


def test_a_moment_before_the_fetch_is_told(saved: dict[str, Any]) -> None:
    assert check(saved, AT - timedelta(days=1))[0].findings["fresh"].message == "fetched after 2026-03-01T10:00:00Z"


def test_an_order_against_the_scores_fails(saved: dict[str, Any]) -> None:
    saved["chunks"].reverse()
    first, second, third = check(saved)
    assert first.ok
    assert "ranks below" in failed(second)["order"]
    assert "ranks below" in failed(third)["order"]


def test_two_searches_in_one_file_are_not_compared(saved: dict[str, Any]) -> None:
    other = copy.deepcopy(saved["chunks"])
    for one in other:
        one["_provenance"]["extra"]["search_id"] = "another"
    assert all(one.ok for one in check([*saved["chunks"], *other]))


def test_a_chunk_that_stands_twice_fails(saved: dict[str, Any]) -> None:
    assert failed(check([saved["chunks"][0], saved["chunks"][0]])[1]) == {"order": "the same chunk appears twice"}


def test_every_check_answers_on_rubbish() -> None:
    (one,) = check([{"content": None, "_provenance": {"extra": {"flags": None, "rag_score": "x"}}}])
    assert not one.ok
    assert set(one.findings) == set(CHECKS)
    assert one.to_dict()["checks"]["text"] == {"state": "failed", "message": "there is no text in 'content'"}


def bare(score: float, relevance: float = 0.0, **extra: Any) -> dict[str, Any]:
    """An untrusted text, whose boost is 0: its score is 0.6 times its relevance."""
    tag = {"source_type": "general_web", "authority_tier": 5, "trust_class": "UNTRUSTED", "ttl_seconds": 60}
    numbers = {"rag_score": score, "relevance": relevance}
    tag |= {"source_id": "s", "fetched_at": "2026-03-02T09:59:30Z", "extra": {**numbers, **extra}}
    return {"content": "x", "_provenance": tag}


@pytest.mark.parametrize(("score", "fine"), [(0.0, True), (0.0001, True), (0.00011, False)])
def test_a_score_may_be_a_ten_thousandth_off(score: float, fine: bool) -> None:
    assert ("score" not in failed(check([bare(score)])[0])) is fine


@pytest.mark.parametrize(
    ("key", "said", "message"),
    [
        ("_rag_score", 0.5, "0.6 × 0.8 + 0.4 × 0 = 0.4800, not 0.5; rag_score is 0.5 beside the tag and 0.48 in it"),
        (
            "_relevance_score",
            0.801,
            "0.6 × 0.801 + 0.4 × 0 = 0.4806, not 0.48; relevance is 0.801 beside the tag and 0.8 in it",
        ),
        ("_authority_boost", 0.1, "boost 0.1, tier has 0"),
    ],
)
def test_a_number_beside_the_tag_must_be_the_one_in_it(key: str, said: float, message: str) -> None:
    assert failed(check([{**bare(0.48, 0.8), key: said}])[0])["score"] == message


@pytest.mark.parametrize("key", ["source_id", "source_type", "authority_tier", "trust_class"])
def test_each_part_of_the_authority_beside_the_tag_must_be_the_one_in_it(key: str) -> None:
    text = bare(0.0)
    assert "authority" not in failed(check([{**text, key: text["_provenance"][key]}])[0])
    assert f"{key} is 'x' beside the tag" in failed(check([{**text, key: "x"}])[0])["authority"]


@pytest.mark.parametrize(
    ("key", "value", "fine"),
    [
        ("ttl_seconds", 0, True),
        ("ttl_seconds", -1, False),
        ("ttl_seconds", True, False),
        ("authority_tier", 1, True),
        ("authority_tier", 5, True),
        ("authority_tier", 0, False),
        ("authority_tier", 6, False),
        ("authority_tier", 2.0, False),
        ("source_id", 3, False),
    ],
)
def test_the_least_and_the_greatest_value_of_a_key(key: str, value: Any, fine: bool) -> None:
    text = bare(0.0)
    text["_provenance"][key] = value
    assert ("tag" not in failed(check([text])[0])) is fine


@pytest.mark.parametrize(
    ("ttl", "span"),
    [
        (0, "0 seconds"),
        (119, "119 seconds"),
        (120, "2 minutes"),
        (121, "121 seconds"),
        (3600, "60 minutes"),
        (7200, "2 hours"),
        (86_400, "24 hours"),
        (172_800, "2 days"),
        (172_860, "2881 minutes"),
    ],
)
def test_a_span_is_told_in_its_largest_whole_unit_of_two_or_more(ttl: int, span: str) -> None:
    text = bare(0.0)
    text["_provenance"]["ttl_seconds"] = ttl
    fresh = check([text], AT + timedelta(days=9))[0].findings["fresh"]
    assert fresh.message == f"expired: fetched 2026-03-02T09:59:30Z, fresh for {span}"


@pytest.mark.parametrize(
    "change", [{"ttl_seconds": -1}, {"ttl_seconds": None}, {"ttl_seconds": True}, {"fetched_at": 5}]
)
def test_what_freshness_is_reckoned_from_must_be_readable(change: dict[str, Any]) -> None:
    text = bare(0.0)
    text["_provenance"] |= change
    assert failed(check([text])[0])["fresh"] == "fetched_at or ttl_seconds cannot be read"


def test_a_text_fetched_at_this_moment_is_fresh() -> None:
    text = bare(0.0)
    text["_provenance"] |= {"fetched_at": "2026-03-02T10:00:00Z", "ttl_seconds": 0}
    assert check([text])[0].findings["fresh"] == (CheckState.OK, "")


def test_equal_scores_may_stand_in_either_order() -> None:
    one, other = bare(0.48, 0.8, chunk_id="a"), bare(0.48, 0.8, chunk_id="b")
    assert not any("order" in failed(checked) for checked in check([one, other, one | {"_rag_score": None}])[:2])


def test_only_a_chunk_with_an_id_can_stand_twice() -> None:
    assert [failed(one).get("order") for one in check([bare(0.0), bare(0.0)])] == [None, None]
    named = bare(0.0, chunk_id="a")
    assert [failed(one).get("order") for one in check([named, named])] == [None, "the same chunk appears twice"]


def test_texts_are_numbered_from_one_and_named(saved: dict[str, Any]) -> None:
    told = [one.to_dict() for one in check(saved)]
    assert [(one["number"], one["source_id"], one["chunk_id"], one["ok"]) for one in told] == [
        (1, "t1", "a", True),
        (2, "t3", "b", True),
        (3, "t5", "c", True),
    ]
