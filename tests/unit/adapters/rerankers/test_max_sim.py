"""Max-sim by arithmetic, its cache, and what it needs of an embedder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log, sqrt
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.adapters.model_access import ModelContext
from context_engine.adapters.rerankers.max_sim import MaxSimReranker, open_max_sim
from context_engine.core.models import Chunk
from context_engine.core.protocols import Reranker, TokenVectors
from context_engine.errors import ConfigError, EmbedderError, RerankerError
from context_engine.testing import FakeEmbedder

VECTORS = {"limit": (1.0, 0.0), "cap": (0.8, 0.6), "risk": (0.0, 1.0), "cake": (-1.0, 0.0)}


class Maps(NamedTuple):
    """An adapter. A question's (x, y) becomes (y, x), a passage's (x, y) becomes (x, 3y)."""

    model_id: str = "words"
    adapter_id: str = "0f3a"
    query: Any = ((0.0, 1.0), (1.0, 0.0))
    passage: Any = ((1.0, 0.0), (0.0, 3.0))


class Words:
    """Every word has the vector of the table; remembers what it was asked."""

    model_id = "words"

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.fails = False

    def embed_tokens(self, texts: Sequence[str], *, query: bool = False) -> Sequence[TokenVectors]:
        if self.fails:
            raise EmbedderError("the model is gone")
        if not query:
            self.asked.append(list(texts))
        return [TokenVectors(text.split(), [VECTORS[word] for word in text.split()]) for text in texts]


def test_the_score_is_the_idf_weighted_mean_of_the_best_matches(chunks: Any) -> None:
    scores = MaxSimReranker(Words()).rerank("limit risk", chunks("limit", "cap risk", "cap"))

    # idf over the three passages: "limit" and "risk" stand in one each, so both weigh ln(1 + 3/1).
    # limit against "limit" 1, "cap" .8; risk against "limit" 0, "risk" 1, "cap" .6.
    # Means .5, .9 and .7, normalised from .45, half of the best, to .9.
    assert scores == pytest.approx([0.05 / 0.45, 1.0, 0.25 / 0.45], abs=3e-3)


def test_a_power_counts_the_best_matches_more(chunks: Any) -> None:
    def one(power: float) -> float:
        (score,) = MaxSimReranker(Words(), power=power).rerank("limit risk", chunks("cap")) or ()
        return score

    # One passage holds neither word: both weigh ln 2. limit against "cap" is .8, risk .6.
    assert one(1.0) == pytest.approx(0.7, abs=1e-3)
    assert one(2.0) == pytest.approx(sqrt((0.64 + 0.36) / 2), abs=1e-3)
    assert one(32.0) == pytest.approx(0.8 * 0.5 ** (1 / 32), abs=1e-3)


def test_what_speaks_against_a_question_is_nothing_in_any_power(chunks: Any) -> None:
    scores = MaxSimReranker(Words(), power=2.0).rerank("limit risk", chunks("cake", "limit"))
    assert scores == [0.0, 1.0]


def test_a_power_below_the_mean_is_refused(context: ModelContext) -> None:
    with pytest.raises(ConfigError, match="power"):
        open_max_sim({"power": 0.5}, context)


def test_a_word_that_every_passage_holds_weighs_least(chunks: Any) -> None:
    scores = MaxSimReranker(Words()).rerank("limit risk", chunks("limit cap", "risk cap", "limit"))

    # Two of three hold "limit", one holds "risk".
    common, rare = log(1 + 3 / 2), log(1 + 3 / 1)
    first, best, least = (part / (common + rare) for part in (common + 0.6 * rare, 0.8 * common + rare, common))
    assert least < best / 2
    assert scores == pytest.approx([(first - least) / (best - least), 1.0, 0.0], abs=3e-3)


def test_a_single_passage_keeps_its_score(chunks: Any) -> None:
    assert MaxSimReranker(Words()).rerank("limit", chunks("cap")) == pytest.approx([0.8], abs=1e-3)


def test_a_passage_against_the_question_scores_0_not_less(chunks: Any) -> None:
    assert MaxSimReranker(Words()).rerank("limit", chunks("cake", "")) == [0.0, 0.0]


def test_a_question_without_tokens_gives_no_opinion(chunks: Any) -> None:
    assert MaxSimReranker(Words()).rerank("", chunks("limit")) is None
    assert MaxSimReranker(Words()).rerank("limit", []) == []


def test_a_passage_seen_before_is_not_embedded_again(chunks: Any) -> None:
    words = Words()
    reranker = MaxSimReranker(words)

    first = reranker.rerank("limit", chunks("limit", "risk", "limit"))
    again = reranker.rerank("limit", chunks("risk", "limit", "limit"))
    reranker.rerank("limit", chunks("cap", "risk"))

    assert words.asked == [["limit"], ["risk"], ["cap"]]
    assert first is not None and again is not None
    assert list(again) == [first[1], first[0], first[0]]


def test_the_passages_used_longest_ago_are_forgotten_first(chunks: Any) -> None:
    words = Words()
    # A passage of n words takes 2 * 2 * n bytes; two of 131,072 words fill one MiB.
    large, other, third = ("limit " * 131_072).strip(), ("risk " * 131_072).strip(), "cap"
    reranker = MaxSimReranker(words, cache_mib=1)

    for text in (large, other, large, third, large, other):
        reranker.rerank("limit", chunks(text))

    assert [texts[0][:4] for texts in words.asked] == ["limi", "risk", "cap", "risk"]


def test_what_another_caller_asked_for_changes_no_score(chunks: Any) -> None:
    """Models pad a batch to its longest text, which moves the last bits of every vector in it."""

    class Padding(Words):
        def embed_tokens(self, texts: Sequence[str], *, query: bool = False) -> Sequence[TokenVectors]:
            shift = 0.01 * max(map(len, texts))
            return [
                TokenVectors(one.tokens, [(x - shift, y) for x, y in one.vectors])
                for one in super().embed_tokens(texts, query=query)
            ]

    alone, after = MaxSimReranker(Padding()), MaxSimReranker(Padding())
    after.rerank("cap", chunks("limit", "risk risk risk risk risk"))
    assert after.rerank("cap", chunks("limit", "risk")) == alone.rerank("cap", chunks("limit", "risk"))


def test_without_a_cache_the_scores_are_the_same(chunks: Any) -> None:
    words = Words()
    reranker, kept = MaxSimReranker(words, cache_mib=0), MaxSimReranker(Words())

    for _ in range(2):
        assert reranker.rerank("cap", chunks("limit", "risk")) == kept.rerank("cap", chunks("limit", "risk"))
    assert len(words.asked) == 2 * 2


def under(reranker: MaxSimReranker, adapter: Maps) -> Reranker:
    found = reranker.under(adapter)
    assert found is not None
    return found


def test_under_an_adapter_both_sides_are_mapped_and_of_unit_length_again(chunks: Any) -> None:
    adapted = under(MaxSimReranker(Words()), Maps())

    # "limit" (1, 0) is asked as (0, 1). "cap" (.8, .6) is read as (.8, 1.8), which is sqrt(.64 + 3.24) long.
    assert adapted.rerank("limit", chunks("cap")) == pytest.approx([1.8 / sqrt(0.64 + 3.24)], abs=1e-3)
    # "limit" is read as (1, 0), "risk" (0, 1) as (0, 3), which is (0, 1): the pool's ends.
    assert adapted.rerank("limit", chunks("limit", "risk")) == [0.0, 1.0]
    assert adapted.name == "max_sim+0f3a"


def test_a_vector_that_is_mapped_to_nothing_is_like_no_question(chunks: Any) -> None:
    nothing = Maps(passage=((0.0, 0.0), (0.0, 1.0)))
    assert under(MaxSimReranker(Words()), nothing).rerank("risk", chunks("limit")) == [0.0]


def test_nothing_is_embedded_again_under_an_adapter_nor_are_plain_scores_others_after_it(chunks: Any) -> None:
    words = Words()
    reranker, passages = MaxSimReranker(words), chunks("limit", "cap risk", "cap")

    before = reranker.rerank("limit risk", passages)
    first, second = under(reranker, Maps()), under(reranker, Maps(passage=((3.0, 0.0), (0.0, 1.0))))
    assert first.rerank("limit risk", passages) != second.rerank("limit risk", passages)
    assert reranker.rerank("limit risk", passages) == before
    assert words.asked == [["limit"], ["cap risk"], ["cap"]]


def test_an_adapter_of_another_model_is_none_of_its(chunks: Any) -> None:
    assert MaxSimReranker(Words()).under(Maps(model_id="words[:1]")) is None


def test_an_embedder_that_fails_is_a_reranker_that_fails(chunks: Any) -> None:
    words = Words()
    words.fails = True

    with pytest.raises(RerankerError, match="the model is gone"):
        MaxSimReranker(words).rerank("limit", chunks("limit"))


def test_it_reads_with_the_engines_embedder(context: ModelContext, chunks: Any) -> None:
    reranker = open_max_sim({}, context)

    scores = reranker.rerank("approval limit", chunks("The approval limits.", "A cake recipe."))

    assert scores is not None
    assert scores[0] == pytest.approx(1.0, abs=1e-3)
    assert scores[1] < 0.5


def test_an_embedder_without_token_vectors_is_refused(context: ModelContext) -> None:
    class Plain:
        model_id, dimension = "plain", 1

        def embed_query(self, text: str) -> Sequence[float]:
            return [1.0]

        def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
            return [[1.0] for _ in texts]

    with pytest.raises(ConfigError, match="needs token vectors, which this embedder does not give"):
        open_max_sim({}, replace(context, embedder=Plain))


@given(
    st.text("abc ", max_size=12), st.lists(st.text("abcd ", max_size=20), max_size=6), st.randoms(use_true_random=False)
)
def test_scores_are_in_range_and_know_no_order(query: str, texts: list[str], chance: Any) -> None:
    reranker = MaxSimReranker(FakeEmbedder(16))
    pairs = dict(zip(texts, reranker.rerank(query, [Chunk(content=text) for text in texts]) or []))
    shuffled = list(texts)
    chance.shuffle(shuffled)
    again = reranker.rerank(query, [Chunk(content=text) for text in shuffled]) or []

    assert all(0.0 <= score <= 1.0 for score in pairs.values())
    assert [pairs[text] for text in shuffled[: len(again)]] == pytest.approx(list(again))
