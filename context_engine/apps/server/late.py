"""Searches that take longer than a caller waits for one answer: the caller asks again, and gets the same search."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from typing import Final, Generic, NamedTuple, TypeVar

from context_engine.adapters.sources.dify.api import EXTERNAL_PAUSES_S

T = TypeVar("T")

_KEPT_S: Final = 10.0
"""Seconds for which an answer is kept that nobody asked for again."""


class LateSearch(NamedTuple, Generic[T]):
    """A running search, and how many requests for it ended without its answer."""

    answer: asyncio.Future[T]
    tries: int


class LateSearches(Generic[T]):
    """The searches that were not done when their last request ended; used from the event loop only.

    Two requests that are alike at the same time have a search each: only a repeated one takes an earlier search up.

    Args:
        monotonic: a monotonic clock in seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._late: dict[Hashable, list[tuple[float, LateSearch[T]]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._late.values()))

    def keep(self, key: Hashable, search: LateSearch[T], longest_s: float) -> None:
        """Keep a search for the next request like its own.

        Args:
            key: of the caller and the whole request.
            longest_s: seconds until the search is done at the latest.
        """
        self._forget_old()
        search.answer.add_done_callback(_note_failure)
        self._late.setdefault(key, []).append((self._monotonic() + longest_s + _KEPT_S, search))

    def take(self, key: Hashable) -> LateSearch[T] | None:
        """Return the search that has waited longest for a request like this one, or None; it is no longer kept."""
        self._forget_old()
        kept = self._late.get(key)
        if kept is None:
            return None
        _, search = kept.pop(0)
        if not kept:
            del self._late[key]
        return search

    def _forget_old(self) -> None:
        now = self._monotonic()
        for key, kept in list(self._late.items()):
            self._late[key] = [(until, search) for until, search in kept if until > now]
            if not self._late[key]:
                del self._late[key]


def all_tries_s(deadline_s: float, retries: int) -> float:
    """Return the seconds that a caller waits altogether: `retries` + 1 requests, and the pauses between them.

    Args:
        deadline_s: seconds for each request.
        retries: 0 to 3.
    """
    return (retries + 1) * deadline_s + sum(EXTERNAL_PAUSES_S[:retries])


def _note_failure(answer: asyncio.Future[T]) -> None:
    """Retrieve an exception, so that none is reported as lost if nobody asks again."""
    if not answer.cancelled():
        answer.exception()
