"""The keys of a provider, fetched beside the requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from context_engine.adapters.identity.remote_keys import RemoteKeys, fetch_keys
from context_engine.core.engine import SystemClock
from context_engine.errors import ContextEngineError, SourceNotFound
from context_engine.settings.connections import Connection

Opens = Callable[..., RemoteKeys]


def until(condition: Callable[[], bool]) -> bool:
    for _ in range(1000):
        if condition():
            return True
        time.sleep(0.01)
    return False


@pytest.fixture
def opened() -> Iterator[Opens]:
    made: list[RemoteKeys] = []

    def opened(fetch: Callable[[], Any], refresh_s: float = 3600.0, min_refresh_s: float = 0.05) -> RemoteKeys:
        made.append(RemoteKeys(fetch, refresh_s=refresh_s, min_refresh_s=min_refresh_s))
        return made[-1]

    yield opened
    for one in made:
        one.close()


def of(provider: Any) -> Callable[[], Any]:
    base, _, path = provider.jwks.rpartition("/")
    return lambda: fetch_keys(Connection(base_url=base), path, SystemClock())


def knows(keys: RemoteKeys, kid: str) -> bool:
    return keys.current is not None and keys.current.find(kid, "ES256") is not None


def test_a_new_key_is_found_once_a_token_names_it(opened: Opens, provider: Any, identity: Any) -> None:
    keys = opened(of(provider))
    assert until(lambda: knows(keys, "k1")) and keys.problem == ""
    provider.document = {"keys": [identity.jwk("k1"), identity.jwk("k2")]}
    assert not knows(keys, "k2")
    keys.want()
    assert until(lambda: knows(keys, "k2")) and knows(keys, "k1")
    provider.document = {"keys": [identity.jwk("k2")]}
    keys.want()
    assert until(lambda: not knows(keys, "k1"))


def test_equal_keys_stay_the_same_object(opened: Opens, provider: Any) -> None:
    keys = opened(of(provider))
    assert until(lambda: keys.current is not None)
    before, asked = keys.current, provider.asked
    keys.want()
    assert until(lambda: provider.asked > asked)
    assert keys.current is before


@pytest.mark.parametrize("document", [{"keys": []}, {}, "no keys"])
def test_what_is_no_key_set_changes_nothing(opened: Opens, provider: Any, document: Any) -> None:
    keys = opened(of(provider))
    assert until(lambda: knows(keys, "k1"))
    provider.document = document
    keys.want()
    assert until(lambda: keys.problem != "") and knows(keys, "k1")


def test_while_the_provider_is_down_the_keys_stay(opened: Opens, provider: Any) -> None:
    keys = opened(of(provider))
    assert until(lambda: knows(keys, "k1"))
    provider.down = True
    keys.want()
    assert until(lambda: keys.problem != "") and knows(keys, "k1")
    provider.down = False
    assert until(lambda: keys.problem == "")  # it is tried again by itself


def test_a_start_without_the_provider_has_no_keys_until_it_is_there(opened: Opens, provider: Any) -> None:
    provider.down = True
    keys = opened(of(provider))
    assert until(lambda: provider.asked >= 2 and "503" in keys.problem) and keys.current is None
    provider.down = False
    assert until(lambda: knows(keys, "k1"))


def test_they_are_fetched_again_from_time_to_time(opened: Opens, provider: Any, identity: Any) -> None:
    keys = opened(of(provider), refresh_s=0.05)
    assert until(lambda: knows(keys, "k1"))
    provider.document = {"keys": [identity.jwk("k2")]}
    assert until(lambda: knows(keys, "k2"))


def test_whoever_wants_them_does_not_drive_the_provider(opened: Opens) -> None:
    asked = threading.Semaphore(0)

    def fetch() -> Any:
        asked.release()
        raise ContextEngineError("down")

    keys = opened(fetch, min_refresh_s=3600.0)
    assert asked.acquire(timeout=10)
    for _ in range(1000):
        keys.want()
    assert not asked.acquire(timeout=0.1)


def test_a_fault_nobody_foresaw_does_not_end_it(opened: Opens, identity: Any) -> None:
    answers = iter([RuntimeError("odd"), {"keys": [identity.jwk("k1")]}])

    def fetch() -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    keys = opened(fetch)
    assert until(lambda: knows(keys, "k1"))


def test_closed_it_asks_nobody(opened: Opens, provider: Any) -> None:
    keys = opened(of(provider), refresh_s=0.05)
    assert until(lambda: knows(keys, "k1"))
    keys.close()
    keys.close()
    asked = provider.asked
    keys.want()
    time.sleep(0.2)
    assert provider.asked == asked and knows(keys, "k1")


def test_another_address_is_no_key_set(provider: Any) -> None:
    base = provider.jwks.rpartition("/")[0]
    with pytest.raises(SourceNotFound):
        fetch_keys(Connection(base_url=base), "other", SystemClock())


def test_nothing_is_asked_in_plain_text_over_a_network() -> None:
    with pytest.raises(ContextEngineError, match="https"):
        fetch_keys(Connection(base_url="http://id.example"), "keys", SystemClock())
