"""Kept results in Redis: sealed, for one key and one question; a Redis that fails costs time and nothing else."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("redis", reason="the extra 'redis'")
pytest.importorskip("cryptography", reason="the extra 'redis'")

from context_engine.adapters.result_caches.redis import RedisCache, connected
from context_engine.core.models import Classification, KeptSearch, RankedChunk, WithheldChunk
from context_engine.errors import ConfigError, StoreError

SECRET = b"fictitious-secret-of-a-test-0123"
NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)


class Memory:
    """What is used of a Redis client, over a dict."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.lifetimes: list[int] = []
        self.calls = 0
        self.error: Exception | None = None
        self.free = threading.Event()
        self.free.set()

    def getrange(self, name: str, start: int, end: int) -> bytes:
        self._called()
        return self.values.get(name, b"")[start : end + 1]

    def set(self, name: str, value: bytes, *, px: int) -> None:
        self._called()
        self.values[name] = value
        self.lifetimes.append(px)

    def scan_iter(self, pattern: str, count: int) -> list[str]:
        self._called()
        return [name for name in self.values if name.startswith(pattern.removesuffix("*"))]

    def unlink(self, name: str) -> int:
        self._called()
        return int(self.values.pop(name, None) is not None)

    def close(self) -> None:
        self.values.clear()

    def _called(self) -> None:
        self.calls += 1
        self.free.wait(10)
        if self.error is not None:
            raise self.error


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return self.seconds + time.monotonic()


@pytest.fixture(scope="module")
def kept(ask, chunk_of) -> KeptSearch:
    chunks = [
        chunk_of("a", 0.9, metadata={"owner": "Desk \u2013 \ud83d\ude00", "level": 3}),
        chunk_of("b", 0.5, fetched_at=NOW),
    ]
    result = ask([(1, chunks), (3, [chunk_of("c", 0.7)])], query="Wer genehmigt \u4ea7\u54c1?")
    withheld = (WithheldChunk("t1", "x", Classification.RESTRICTED),)
    return KeptSearch(result, withheld, NOW + timedelta(seconds=60))


@pytest.fixture
def memory() -> Memory:
    return Memory()


def cache_on(memory: Any, secret: bytes = SECRET, **options: Any) -> RedisCache:
    return RedisCache(
        memory, secret, options.pop("clock", Clock()), timeout_s=options.pop("timeout_s", 10.0), **options
    )


def test_what_was_put_comes_back_equal_for_its_lifetime(memory, kept):
    cache = cache_on(memory)
    assert cache.get("k") is None
    cache.put("k", kept)
    assert cache.get("k") == kept and cache.get("other") is None
    returned = cache.get("k").result.chunks
    assert [chunk.fields() for chunk in returned] == [chunk.fields() for chunk in kept.result.chunks]
    assert [field.name for field in fields(RankedChunk) if not field.compare] == ["recalled"], "no record holds these"
    assert memory.lifetimes == [60_000]
    cache.put("k", kept._replace(until=NOW))
    assert memory.lifetimes == [60_000], "its time was over before"
    cache.close()
    assert memory.values == {}


def test_redis_sees_neither_question_nor_text_nor_key(memory, kept):
    cache_on(memory).put("the-key", kept)
    ((name, value),) = memory.values.items()
    assert "the-key" not in name and len(value) > 500
    for words in (b"genehmigt", b"approval", b"Desk", b"restricted", b"NPA", b"the-key"):
        assert words not in value


@pytest.mark.parametrize("change", ["bit", "cut", "empty", "json", "long"])
def test_a_value_that_somebody_changed_is_ignored(memory, kept, caplog, change):
    cache = cache_on(memory)
    cache.put("k", kept)
    ((name, value),) = memory.values.items()
    flipped = value[:40] + bytes([value[40] ^ 1]) + value[41:]
    changed = {"bit": flipped, "cut": value[:11], "empty": b"", "json": b'{"result": {}}', "long": value + b"0" * 2**22}
    memory.values[name] = changed[change]
    assert cache.get("k") is None
    assert change == "empty" or "is ignored" in caplog.text
    cache.put("k", kept)
    assert cache.get("k") == kept


def test_a_value_for_another_question_is_ignored(memory, kept):
    cache = cache_on(memory)
    cache.put("mine", kept)
    cache.put("yours", kept)
    mine, yours = memory.values
    memory.values[yours] = memory.values[mine]
    assert cache.get("yours") is None and cache.get("mine") == kept


@pytest.mark.parametrize("other", [{"secret": SECRET[::-1]}, {"namespace": "other servers"}])
def test_processes_with_another_key_or_other_servers_share_nothing(memory, kept, other):
    cache_on(memory).put("k", kept)
    cache = cache_on(memory, **other)
    assert cache.get("k") is None
    cache.put("k", kept)
    assert len(memory.values) == 2


def test_a_value_that_is_too_large_is_not_sent(memory, kept, monkeypatch):
    monkeypatch.setattr("context_engine.adapters.result_caches.redis._MOST_BYTES", 500)
    cache_on(memory).put("k", kept)
    assert memory.calls == 0


def test_a_redis_that_fails_is_left_alone_for_a_while_and_that_is_said_once(memory, kept, caplog):
    clock = Clock()
    cache = cache_on(memory, clock=clock)
    memory.error = ConnectionError("redis://:hidden@10.0.0.1 refused")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert cache.get("k") is None
        cache.put("k", kept)
        assert memory.calls == 3 and len(caplog.records) == 1
        assert "ConnectionError" in caplog.text and "hidden" not in caplog.text
        clock.seconds, memory.error = 31.0, None
        cache.put("k", kept)
        assert cache.get("k") == kept
    assert len(caplog.records) == 2


def test_a_search_does_not_wait_for_a_redis_that_hangs(memory, kept):
    cache = cache_on(memory, timeout_s=0.01)
    memory.free.clear()
    try:
        assert cache.get("k") is None
        assert cache.get("k") is None, "no second call while the first is overdue"
        assert memory.calls == 1
    finally:
        memory.free.set()


@pytest.mark.wording
@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://redis.bank.example", "CONTEXT_ENGINE_CACHE_URL: must begin with one of redis://, rediss://, unix://"),
        ("redis://:hidden@[bad", "CONTEXT_ENGINE_CACHE_URL: is not a valid address"),
        ("redis://h:port/0", "CONTEXT_ENGINE_CACHE_URL: is not a valid address"),
        ("redis://:pass?hidden=1@h/0", "CONTEXT_ENGINE_CACHE_URL: is not a valid address: write redis://"),
        (
            "rediss://h/0?ssl_cert_reqs=none",
            "CONTEXT_ENGINE_CACHE_URL: has the option 'ssl_cert_reqs': only db, ssl_ca",
        ),
    ],
)
def test_an_unusable_address_is_refused_without_repeating_it(url, problem):
    with pytest.raises(ConfigError) as refused:
        connected(url)
    assert str(refused.value).startswith(problem) and "hidden" not in str(refused.value)


def test_a_client_connects_only_when_it_is_used():
    cache = RedisCache(connected("redis://:pw@127.0.0.1:1/0"), SECRET, Clock(), timeout_s=10.0)
    assert cache.get("k") is None
    cache.close()


@pytest.mark.slow
def test_a_real_redis(redis_server, kept, caplog):
    client = connected(redis_server.url)
    cache = cache_on(client)
    assert cache.get("k") is None
    cache.put("k", kept)
    assert cache.get("k") == kept
    (name,) = client.keys("*")
    assert 0 < client.pttl(name) <= 60_000
    client.set(name, b"x" * 5_000_000)
    assert cache.get("k") is None
    client.rpush("list", 1)
    wrong = cache_on(connected(redis_server.url.replace("secret", "guess")))
    assert wrong.get("k") is None and wrong.get("k") is None
    redis_server.kill()
    cache.put("k", kept)
    assert cache.get("k") is None
    assert "secret-of-anybody" not in caplog.text
    redis_server.start()
    cache.put("k", kept)
    assert cache.get("k") == kept


def test_all_answers_of_the_database_are_dropped_and_nothing_else(memory, kept):
    cache_on(memory).put("k", kept)
    cache_on(memory, namespace="another release").put("k", kept)
    memory.values["of another program"] = b"1"
    assert cache_on(memory).drop() == 2
    assert memory.values == {"of another program": b"1"}


def test_a_redis_that_refuses_to_drop_is_an_error_without_its_words(memory, kept):
    memory.error = OSError("no way to 10.0.0.7")
    with pytest.raises(StoreError, match=r"could not be deleted \(OSError\)"):
        cache_on(memory).drop()


def test_a_check_says_what_to_mend_and_never_the_error_s_own_words():
    memory = Memory()
    cache = RedisCache(memory, SECRET, Clock())
    cache.check()
    memory.error = OSError("no route to hidden.bank.example")
    with pytest.raises(StoreError, match="Redis fails with OSError: check that it runs, CONTEXT_ENGINE_CACHE_URL"):
        cache.check()
    with pytest.raises(StoreError) as refused:
        cache.check()
    assert "hidden" not in str(refused.value)
