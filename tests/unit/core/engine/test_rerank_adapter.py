"""A reranker that compares vectors does so under the adapter of the search, and the result names it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from context_engine.adapters.rerankers import CallableReranker
from context_engine.core.engine import recompute, reranker_id, stage_two_bytes
from context_engine.core.models import (
    BlendTerm,
    Chunk,
    LearntBlend,
    NoticeCode,
    QueryEmbedding,
    Score,
    ScoreKind,
    SearchResult,
    SourceAnswer,
    SourceQuery,
    VectorAdapter,
)
from context_engine.core.protocols import Reranker

Ask = Callable[..., SearchResult]


class Maps:
    model_id, query, passage = "mini", None, None

    def __init__(self, adapter_id: str) -> None:
        self.adapter_id = adapter_id


class Near:
    """The order of the candidates; under an adapter the other way round."""

    name = "near"

    def under(self, adapter: VectorAdapter) -> Reranker | None:
        return CallableReranker(lambda _query, texts: [place / len(texts) for place, _ in enumerate(texts)])

    def rerank(self, query: str, chunks: Sequence[Chunk]) -> Sequence[float]:
        return [1.0 - place / len(chunks) for place, _ in enumerate(chunks)]


class Answering:
    """Answers with chunks that were found by the vector of some model, each call by the next; None: by words."""

    score_kinds: frozenset[Any] = frozenset()

    def __init__(self, chunks: Sequence[Chunk], *adapters: str | None) -> None:
        self.source_id, self._chunks = "", list(chunks)
        self._embeddings = [one if one is None else embedding(one) for one in adapters]

    def search(self, query: SourceQuery) -> SourceAnswer:
        found = self._embeddings.pop(0) if len(self._embeddings) > 1 else self._embeddings[0]
        return SourceAnswer(chunks=self._chunks[: query.top_k], embedding=found)

    def close(self) -> None:
        pass


def embedding(adapter: str) -> QueryEmbedding:
    """Of the model alone where the adapter is ""."""
    return QueryEmbedding(f"mini+{adapter}", 1.0, Maps(adapter)) if adapter else QueryEmbedding("mini", 1.0)


NEAR = {"engine": {"reranker": Near()}, "dedup_method": "off"}


@pytest.mark.parametrize(
    ("adapters", "used"),
    [
        (["0f3a"], "0f3a"),
        ([""], None),
        ([None], None),
        (["0f3a", "0f3a"], "0f3a"),
        (["0f3a", None], "0f3a"),
        (["0f3a", ""], None),
        (["0f3a", "77bc"], None),
    ],
    ids=str,
)
def test_it_is_the_one_of_all_sources_that_were_searched_by_vectors(
    ask: Ask, chunk_of: Any, adapters: list[str | None], used: str | None
) -> None:
    chunks = [chunk_of("a", 0.9), chunk_of("b", 0.8)]
    result = ask([(tier, Answering(chunks, adapter)) for tier, adapter in enumerate(adapters, 1)], **NEAR)
    assert result.rerank_scores["t1", "a"] == (1.0 if used is None else 0.0), "the first of them"
    assert result.rerank_adapter == used
    assert reranker_id(result.settings.values, result.rerank_adapter) == (f"noop+{used}" if used else "noop")


def test_it_is_computed_again_to_the_same_bytes_and_not_kept_with_the_maps(ask: Ask, chunk_of: Any) -> None:
    result = ask([(2, Answering([chunk_of("a", 0.9), chunk_of("b", 0.8)], "0f3a"))], **NEAR)
    assert result.sources[0].embedding == QueryEmbedding("mini+0f3a", 1.0)
    again = recompute(pickle.loads(pickle.dumps(result)))
    assert (again.rerank_adapter, again.rerank_scores) == ("0f3a", {("t2", "a"): 0.0, ("t2", "b"): 0.5})
    assert stage_two_bytes(again) == stage_two_bytes(result)


def test_between_two_calls_of_a_search_it_may_have_been_switched(ask: Ask, chunk_of: Any) -> None:
    """One chunk of a document is allowed and a second is wanted, so the source is asked for more."""
    chunks = [chunk_of(name, 0.9, document_id="one") for name in "abcdefgh"]
    source = Answering(chunks, "0f3a", "77bc")
    result = ask([(2, source)], **NEAR, max_per_document=1, stage1_top_k=2, stage2_top_k=2)
    assert result.sources[0].asked > 2
    assert result.rerank_adapter is None


@pytest.mark.parametrize(
    "reranker",
    [CallableReranker(lambda _query, texts: [0.5 for _ in texts]), CallableReranker(lambda _query, _texts: None)],
    ids=["reads texts", "no opinion"],
)
def test_a_reranker_that_compares_no_vectors_is_named_without(ask: Ask, chunk_of: Any, reranker: Reranker) -> None:
    result = ask([(2, Answering([chunk_of("a", 0.9)], "0f3a"))], engine={"reranker": reranker})
    assert result.rerank_adapter is None


def test_what_a_source_claims_of_its_scores_brings_no_adapter(ask: Ask) -> None:
    scores = (Score(ScoreKind.COSINE, 0.9, "mini+0f3a"),)
    chunks = [Chunk(content=f"The limit of desk {name}.", chunk_id=name, scores=scores) for name in "ab"]
    assert ask([(2, Answering(chunks, None))], **NEAR).rerank_adapter is None


def test_a_blend_is_of_the_scores_that_it_was_learnt_with(ask: Ask) -> None:
    chunks = [Chunk(content=f"The limit of desk {name}.", chunk_id=name) for name in "ab"]
    blend = LearntBlend(
        measured_by="lexical", reranker="noop+0f3a", terms={"reranker": BlendTerm(weight=1.0, mean=0.25, deviation=0.5)}
    )
    settings = {**NEAR, "min_relevance_score": 0.0, "scope_threshold": 0.0, "authority_weight": 0.0}

    def asked(adapter: str) -> SearchResult:
        return ask([(2, Answering(chunks, adapter))], **settings, learnt_blend=blend.model_dump())

    # Under the adapter "a" has 0 and "b" 1/2: (0 - .25) / .5 = -.5, and .5, which is 1 apart of the 6 that are certain.
    assert [(one.chunk_id, one.relevance) for one in asked("0f3a").chunks] == [
        ("b", 1.0), ("a", pytest.approx(1.0 - 1.0 / 6.0)),
    ]  # fmt: skip
    (notice,) = [one for one in asked("").notices if one.code is NoticeCode.LEARNT_BLEND_NOT_USED]
    assert notice.detail["problem"] == "there are scores of noop here, and of noop+0f3a where it was learnt"
