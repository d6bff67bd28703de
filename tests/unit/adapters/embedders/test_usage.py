from __future__ import annotations

import pytest
import respx

from context_engine.adapters.embedders import CachedEmbedder
from context_engine.adapters.embedders.openai import open_openai
from context_engine.adapters.embedders.usage import EmbedderUse, embedder_use
from context_engine.adapters.model_access import ModelContext
from context_engine.testing import FakeEmbedder

OPTIONS = {"connection": "models", "model": "text-embedding-3-small", "dimensions": 2, "cache": False}


def test_questions_and_passages_are_counted_together() -> None:
    embedder = CachedEmbedder(FakeEmbedder(8))
    embedder.embed_documents(["one", "two", "one"])
    embedder.embed_query("limit")
    embedder.embed_query("limit")

    assert embedder_use(embedder) == EmbedderUse(embedded=2 + 1, from_cache=1 + 1)


def test_a_server_s_tokens_and_their_price_are_told(context: ModelContext) -> None:
    data = [{"index": place, "embedding": [1.0, 0.0]} for place in range(2)]
    with respx.mock() as router:
        router.post("https://models.example/v1/embeddings").respond(
            json={"data": data, "usage": {"total_tokens": 7_000}}
        )
        embedder = open_openai({**OPTIONS, "price_per_million_tokens": 0.13}, context)
        embedder.embed_documents(["first", "second"])

    use = embedder_use(embedder)

    assert (use.embedded, use.from_cache, use.tokens) == (2, 0, 7_000)
    assert use.cost == pytest.approx(7_000 * 0.13 / 1_000_000)
    assert str(use) == "embedder: 2 texts embedded, 0 from the cache, 7,000 tokens, cost 0.0009"


@pytest.mark.parametrize(
    ("use", "told"),
    [
        (EmbedderUse(embedded=1, from_cache=0), "embedder: 1 text embedded, 0 from the cache"),
        (EmbedderUse(embedded=0, tokens=0, cost=0.0), "embedder: 0 texts embedded, 0 tokens, cost 0.0000"),
        (EmbedderUse(tokens=1, cost=0.00000013), "embedder: 1 token, cost below 0.0001"),
        (EmbedderUse(), "embedder: it does not say what it did"),
    ],
)
def test_what_is_not_known_is_not_told_as_0(use: EmbedderUse, told: str) -> None:
    assert str(use) == told


def test_of_an_embedder_of_another_package_nothing_is_known() -> None:
    assert embedder_use(FakeEmbedder(8)) == EmbedderUse()
