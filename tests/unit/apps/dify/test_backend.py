"""Engines shared between calls: made once, kept a while, closed when nobody uses them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from context_engine.apps.dify.backend import Engines
from context_engine.apps.dify.credentials import Credentials
from context_engine.errors import ConfigError


class Fake:
    """Stands for an opened engine."""

    def __init__(self, key: str | None) -> None:
        self.key, self.closed = key, 0

    def close(self) -> None:
        self.closed += 1


class Maker:
    def __init__(self) -> None:
        self.made: list[Fake] = []
        self.fail = False

    def __call__(self, credentials: Credentials) -> Any:
        if self.fail:
            raise ConfigError("wrong")
        self.made.append(Fake(credentials.api_key))
        return self.made[-1]


def form(name: str) -> Credentials:
    return Credentials(api_key=name)


def test_one_engine_for_one_form() -> None:
    maker = Maker()
    engines = Engines(maker)
    for _ in range(3):
        with engines.use(form("a")) as opened:
            assert opened is maker.made[0]
    with engines.use(form("b")):
        pass
    assert [one.key for one in maker.made] == ["a", "b"] and not any(one.closed for one in maker.made)


def test_many_at_once_make_one() -> None:
    maker = Maker()
    engines = Engines(maker)
    together = threading.Barrier(8)

    def call(_: int) -> Any:
        together.wait(10)
        with engines.use(form("a")) as opened:
            return opened

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(call, range(8)))) == 1
    assert len(maker.made) == 1


def test_the_one_used_longest_ago_goes() -> None:
    maker = Maker()
    engines = Engines(maker, most=2)
    for name in ("a", "b", "a", "c"):
        with engines.use(form(name)):
            pass
    assert {one.key: one.closed for one in maker.made} == {"a": 0, "b": 1, "c": 0}


def test_one_in_use_is_closed_when_its_last_user_leaves() -> None:
    maker = Maker()
    engines = Engines(maker, most=1)
    with ExitStack() as users:
        first = users.enter_context(engines.use(form("a")))
        with engines.use(form("b")):
            assert first.closed == 0
        assert first.closed == 0
    assert first.closed == 1
    with engines.use(form("a")) as again:
        assert again is not first


def test_a_failure_is_not_kept() -> None:
    maker = Maker()
    engines = Engines(maker)
    maker.fail = True
    with pytest.raises(ConfigError), engines.use(form("a")):
        pass
    maker.fail = False
    with engines.use(form("a")) as opened:
        assert opened is maker.made[0]
