"""Searches that outlast a request: who gets them, how long they are kept, and how long all tries take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest

from context_engine.apps.server.late import LateSearch, LateSearches, all_tries_s


def in_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def search_of(tries: int = 1) -> LateSearch[str]:
    return LateSearch(asyncio.get_running_loop().create_future(), tries)


def test_all_tries_and_the_pauses_between_them() -> None:
    """4 · 4.5 s and 0.5 + 1 + 2 s between them; one try has no pause."""
    assert all_tries_s(4.5, 3) == 21.5
    assert all_tries_s(4.5, 1) == 9.5
    assert all_tries_s(3.0, 0) == 3.0


@in_a_loop
async def test_two_requests_that_are_alike_keep_a_search_each() -> None:
    late, first, second = LateSearches[str](), search_of(1), search_of(2)
    late.keep("a", first, 5.0)
    late.keep("a", second, 5.0)
    assert late.take("b") is None
    assert [late.take("a"), late.take("a"), late.take("a")] == [first, second, None]
    assert len(late) == 0


@in_a_loop
async def test_a_search_nobody_asks_for_again_is_dropped_ten_seconds_after_its_end() -> None:
    clock = Clock()
    late = LateSearches[str](clock)
    late.keep("a", search_of(), 5.0)
    clock.now += 14.9
    late.keep("b", search_of(), 5.0)
    assert len(late) == 2
    clock.now += 0.2
    assert late.take("a") is None
    assert len(late) == 1


@pytest.mark.filterwarnings("error")
@in_a_loop
async def test_the_failure_of_a_kept_search_is_not_reported_as_lost() -> None:
    late, search = LateSearches[str](), search_of()
    late.keep("a", search, 5.0)
    search.answer.set_exception(ValueError("down"))
    await asyncio.sleep(0)
    assert late.take("a") == search and isinstance(search.answer.exception(), ValueError)
