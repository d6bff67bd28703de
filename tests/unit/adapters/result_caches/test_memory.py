"""Kept results in the memory of a process, and in front of a shared store."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from context_engine.adapters.result_caches import ErasableCache, MemoryCache, TieredCache
from context_engine.core.models import KeptSearch
from context_engine.core.protocols import EpochCache


@pytest.fixture(scope="module")
def kept(ask, chunk_of) -> KeptSearch:
    result = ask([(1, [chunk_of(name, 0.9) for name in "abc"])])
    return KeptSearch(result, (), result.now + timedelta(seconds=60))


def test_what_was_put_comes_back_equal_and_its_own(kept):
    cache = MemoryCache(2**20)
    assert cache.get("k") is None
    cache.put("k", kept)
    assert cache.get("k") == kept and cache.get("k").result is not kept.result
    cache.close()
    assert cache.get("k") is None


def test_bytes_and_entries_are_bounded_and_the_longest_unused_goes_first(kept):
    cache = MemoryCache(3 * 4096)
    for key in "abc":
        cache.put(key, kept)
    assert cache.get("a") == kept
    cache.put("d", kept)
    assert [key for key in "abcd" if cache.get(key)] == ["a", "c", "d"]
    small = MemoryCache(1000)
    small.put("a", kept)
    assert small.get("a") is None, "larger than all there is"


def test_a_result_that_cannot_be_packed_is_not_kept(kept):
    chunk = kept.result.raw[0].chunks[0]._replace(metadata={"own": lambda: 0})
    odd = replace(kept.result, raw=(replace(kept.result.raw[0], chunks=(chunk,)),))
    cache = MemoryCache(2**20)
    cache.put("k", kept._replace(result=odd))
    assert cache.get("k") is None


def test_a_forked_child_begins_empty(kept):
    cache = MemoryCache(2**20)
    cache.put("k", kept)
    cache.forget()
    assert cache.get("k") is None


class Counting(MemoryCache):
    def __init__(self) -> None:
        super().__init__(2**20)
        self.calls: list[tuple[str, str]] = []

    def get(self, key: str) -> Any:
        self.calls.append(("get", key))
        return super().get(key)


def test_the_shared_store_is_asked_once_for_what_is_not_near(kept):
    near, shared = MemoryCache(2**20), Counting()
    tiers = TieredCache(near, shared)
    tiers.put("k", kept)
    assert tiers.get("k") == kept and shared.calls == []
    near.forget()
    assert tiers.get("k") == tiers.get("k") == kept and shared.calls == [("get", "k")]
    assert tiers.get("other") is None
    tiers.close()
    assert near.get("k") is None and shared.get("k") is None


def test_what_this_process_kept_is_dropped_as_soon_as_the_mark_is_another(kept):
    marks, memory = iter(["", "", None, "a", "a"]), MemoryCache(2**20)
    cache = ErasableCache(memory, lambda: next(marks), forget=memory.forget, close=lambda: None)
    assert isinstance(cache, EpochCache)
    assert cache.epoch() == ""
    cache.put("k", kept)
    assert cache.epoch() == "" and cache.get("k") == kept
    assert cache.epoch() is None and cache.get("k") == kept, "it is not known that anything was erased"
    assert cache.epoch() == "a" and cache.get("k") is None
    cache.put("k", kept)
    assert cache.epoch() == "a" and cache.get("k") == kept
    cache.close()
    assert cache.get("k") is None
