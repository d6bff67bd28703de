"""Answers that are kept for some minutes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.models import NOBODY, Principal, SearchResult
from context_engine.errors import CursorExpired
from context_engine.service.kept import KeptAnswer, KeptResults, PackedAnswers

TELLER = Principal(id="teller", roles=frozenset({"front_desk"}))


@pytest.fixture
def result(ask: Callable[..., SearchResult], chunk_of: Any) -> SearchResult:
    return ask([(1, [chunk_of("a", 0.9)])])


def named(result: SearchResult, search_id: str) -> KeptAnswer:
    return KeptAnswer(result=replace(result, search_id=search_id))


def test_an_answer_is_there_for_who_got_it(result: SearchResult) -> None:
    kept, answer = KeptResults(), named(result, "s-1")
    kept.keep(TELLER, answer)
    assert kept.get(TELLER, "s-1") == answer
    assert kept.holds(TELLER, "s-1") and not kept.holds(NOBODY, "s-1") and not kept.holds(TELLER, "s-2")


@pytest.mark.parametrize(
    "other",
    [NOBODY, Principal(id="auditor"), Principal(id="teller"), replace(TELLER, roles=frozenset({"front_desk", "risk"}))],
)
def test_for_others_it_looks_like_one_that_is_not_kept(result: SearchResult, other: Principal) -> None:
    kept = KeptResults()
    kept.keep(TELLER, named(result, "s-1"))
    with pytest.raises(CursorExpired) as not_theirs:
        kept.get(other, "s-1")
    with pytest.raises(CursorExpired) as absent:
        KeptResults().get(other, "s-1")
    assert not_theirs.value.to_dict() == absent.value.to_dict()


def test_it_is_gone_after_its_time(result: SearchResult) -> None:
    now = 0.0
    kept = KeptResults(packed := PackedAnswers(seconds=600, timer=lambda: now))
    kept.keep(TELLER, named(result, "s-1"))
    now = 599.0
    assert kept.get(TELLER, "s-1")
    now = 600.0
    with pytest.raises(CursorExpired):
        kept.get(TELLER, "s-1")
    assert packed.bytes_held() == 0


def test_what_was_used_longest_ago_goes_first(result: SearchResult) -> None:
    kept = KeptResults(PackedAnswers(most_bytes=3_000_000, most_entries=2))
    kept.keep(TELLER, named(result, "s-1"))
    kept.keep(TELLER, named(result, "s-2"))
    kept.get(TELLER, "s-1")
    kept.keep(TELLER, named(result, "s-3"))
    assert kept.get(TELLER, "s-1") and kept.get(TELLER, "s-3")
    with pytest.raises(CursorExpired):
        kept.get(TELLER, "s-2")


def test_one_that_is_larger_than_the_room_is_not_kept(result: SearchResult) -> None:
    kept = KeptResults(packed := PackedAnswers(most_bytes=1_000, most_entries=1))
    kept.keep(TELLER, named(result, "s-1"))
    assert packed.bytes_held() == 0


def test_one_that_cannot_be_packed_is_not_kept(result: SearchResult) -> None:
    odd = replace(result, rerank_scores={("t1", "a"): threading.Lock()})  # type: ignore[dict-item]
    kept = KeptResults()
    kept.keep(TELLER, named(odd, "s-1"))
    assert not kept.holds(TELLER, "s-1")


@given(st.lists(st.integers(0, 20), max_size=60), st.integers(1, 8))
def test_neither_bound_is_passed(
    ask: Callable[..., SearchResult], chunk_of: Any, numbers: list[int], entries: int
) -> None:
    result = ask([(1, [chunk_of("a", 0.9)])])
    kept = KeptResults(packed := PackedAnswers(most_bytes=100_000, most_entries=entries))
    for number in numbers:
        kept.keep(TELLER, named(result, f"s-{number}"))
    there = [number for number in range(21) if _is_there(kept, f"s-{number}")]
    assert len(there) <= entries and packed.bytes_held() <= 100_000
    assert not numbers or numbers[-1] in there


def test_without_the_process_that_holds_them_nothing_is_kept_and_no_answer_fails(result: SearchResult) -> None:
    kept = KeptResults(Gone())
    kept.keep(TELLER, named(result, "s-1"))
    assert not kept.holds(TELLER, "s-1")
    with pytest.raises(CursorExpired):
        kept.get(TELLER, "s-1")


class Gone(PackedAnswers):
    """The answers of a process that was killed."""

    def put(self, key: Any, packed: bytes) -> None:
        raise ConnectionRefusedError

    def get(self, key: Any) -> bytes | None:
        raise EOFError

    def holds(self, key: Any) -> bool:
        raise BrokenPipeError


def _is_there(kept: KeptResults, search_id: str) -> bool:
    try:
        return kept.get(TELLER, search_id) is not None
    except CursorExpired:
        return False


def test_deployments_that_share_a_place_do_not_see_each_others_answers(result: SearchResult) -> None:
    packed = PackedAnswers()
    before, after, beside = (KeptResults(packed, generation) for generation in (1, 2, 1))
    before.keep(TELLER, named(result, "s-1"))
    assert beside.get(TELLER, "s-1") == before.get(TELLER, "s-1")
    assert not after.holds(TELLER, "s-1")
