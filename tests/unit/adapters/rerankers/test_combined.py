"""Several rerankers as one, and one that is asked only where it matters."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.adapters.model_access import ModelContext
from context_engine.adapters.rerankers import CallableReranker, NoOpReranker
from context_engine.adapters.rerankers.combined import (
    AdaptiveReranker,
    EnsembleMember,
    EnsembleReranker,
    open_adaptive,
    open_ensemble,
)
from context_engine.core.models import Chunk, Score, ScoreKind, VectorAdapter
from context_engine.core.protocols import Reranker
from context_engine.core.ranking.relevance import logistic, unit_scores
from context_engine.errors import ConfigError, RerankerError


def fixed(*scores: float, name: str = "fixed") -> CallableReranker:
    return CallableReranker(lambda _query, _texts: list(scores), name)


def failing(error: Exception) -> CallableReranker:
    def fail(_query: str, _texts: Sequence[str]) -> Sequence[float]:
        raise error

    return CallableReranker(fail, "broken")


def test_an_ensemble_is_the_weighted_mean_of_its_members(chunks: Any) -> None:
    ensemble = EnsembleReranker(
        [EnsembleMember(fixed(1.0, 0.0, name="one"), 3.0), EnsembleMember(fixed(0.5, 0.5, name="two"), 1.0)]
    )

    assert ensemble.rerank("q", chunks("a", "b")) == [(3 * 1.0 + 0.5) / 4, (3 * 0.0 + 0.5) / 4]
    assert ensemble.name == "ensemble(one+two)"


def test_a_member_may_be_async(chunks: Any) -> None:
    async def half(_query: str, texts: Sequence[str]) -> Sequence[float]:
        return [0.5 for _ in texts]

    asynchronous: Any = CallableReranker(half, "async")  # type: ignore[arg-type]
    ensemble = EnsembleReranker([EnsembleMember(fixed(1.0, 0.0)), EnsembleMember(asynchronous)])
    assert ensemble.rerank("q", chunks("a", "b")) == [(1.0 + 0.5) / 2, (0.0 + 0.5) / 2]


@pytest.mark.parametrize(
    "broken",
    [
        failing(RerankerError("no answer")),
        failing(ValueError("query text")),
        fixed(0.5),
        fixed(0.5, 1.5),
        fixed(0.5, float("nan")),
    ],
)
def test_the_others_speak_for_a_member_that_fails(
    chunks: Any, caplog: pytest.LogCaptureFixture, broken: Reranker
) -> None:
    ensemble = EnsembleReranker([EnsembleMember(broken, 9.0), EnsembleMember(fixed(0.25, 0.75))])

    with caplog.at_level(logging.INFO):
        assert ensemble.rerank("q", chunks("a", "b")) == [0.25, 0.75]

    assert "a member of the ensemble failed" in caplog.text
    assert "query text" not in caplog.text


def test_with_no_member_left_the_ensemble_fails(chunks: Any) -> None:
    both = [EnsembleMember(failing(RerankerError("first down"))), EnsembleMember(failing(RerankerError("second down")))]

    with pytest.raises(RerankerError, match="first down; second down"):
        EnsembleReranker(both).rerank("q", chunks("a"))
    with pytest.raises(RerankerError, match="first down"):
        EnsembleReranker([both[0], EnsembleMember(NoOpReranker())]).rerank("q", chunks("a"))


def test_members_without_an_opinion_are_left_out(chunks: Any) -> None:
    none = EnsembleMember(NoOpReranker(), 5.0)

    assert EnsembleReranker([none, EnsembleMember(fixed(0.25))]).rerank("q", chunks("a")) == [0.25]
    assert EnsembleReranker([none, none]).rerank("q", chunks("a")) is None


class Adaptable:
    """Scores .5, and under any adapter 1."""

    name = "near"

    def under(self, adapter: VectorAdapter) -> Reranker:
        return fixed(1.0, 1.0, name=f"near+{adapter.adapter_id}")

    def rerank(self, query: str, chunks: Sequence[Chunk]) -> Sequence[float]:
        return [0.5, 0.5]


class Maps:
    model_id, adapter_id, query, passage = "words", "0f3a", None, None


def test_an_adapter_reaches_the_members_that_compare_vectors(chunks: Any) -> None:
    ensemble = EnsembleReranker([EnsembleMember(fixed(0.0, 0.4), 3.0), EnsembleMember(Adaptable())])
    adapted = ensemble.under(Maps())

    assert adapted is not None and adapted.name == "ensemble(fixed+near+0f3a)"
    assert adapted.rerank("q", chunks("a", "b")) == [(3 * 0.0 + 1.0) / 4, (3 * 0.4 + 1.0) / 4]
    assert ensemble.rerank("q", chunks("a", "b")) == [(3 * 0.0 + 0.5) / 4, (3 * 0.4 + 0.5) / 4]
    assert EnsembleReranker([EnsembleMember(fixed(0.0))]).under(Maps()) is None


def test_an_adapter_reaches_the_one_that_is_asked(chunks: Any) -> None:
    adapted = AdaptiveReranker(Adaptable(), fewest=2).under(Maps())

    assert adapted is not None and adapted.rerank("q", chunks("a", "b")) == [1.0, 1.0]
    assert adapted.rerank("q", chunks("a")) is None, "of fewer than two it is not asked"
    assert AdaptiveReranker(fixed(1.0)).under(Maps()) is None


SCORES = st.lists(st.floats(0, 1), min_size=3, max_size=3)


@given(st.lists(st.tuples(SCORES, st.floats(0.01, 100)), min_size=1, max_size=5))
def test_an_ensemble_stays_between_its_members(members: list[tuple[list[float], float]]) -> None:
    ensemble = EnsembleReranker([EnsembleMember(fixed(*scores), weight) for scores, weight in members])
    found = ensemble.rerank("q", [Chunk(content=text) for text in "abc"])

    assert found is not None
    for place, score in enumerate(found):
        column = [scores[place] for scores, _ in members]
        assert 0.0 <= score <= 1.0
        assert min(column) - 1e-9 <= score <= max(column) + 1e-9


def opener(**known: Reranker) -> Any:
    def open_one(name: str, options: Mapping[str, Any]) -> Reranker:
        if name not in known:
            raise ConfigError(f"unknown reranker {name!r}. Installed: {', '.join(known)}.", key="reranker")
        if options:
            raise ConfigError("unknown key.", key="depth")
        return known[name]

    return open_one


def test_members_are_opened_by_name(context: ModelContext, chunks: Any) -> None:
    with_two = replace(context, reranker=opener(one=fixed(1.0, name="one"), two=fixed(0.0, name="two")))

    ensemble = open_ensemble({"members": [{"reranker": "one", "weight": 3.0}, {"reranker": "two"}]}, with_two)

    assert ensemble.rerank("q", chunks("a")) == [0.75]


@pytest.mark.parametrize(
    ("members", "key", "words"),
    [
        ([], "members", "at least 2"),
        ([{"reranker": "one"}], "members", "at least 2"),
        ([{"reranker": "one"}, {"reranker": "three"}], "members.1.reranker", "Installed: one"),
        ([{"reranker": "one"}, {"reranker": "one", "options": {"depth": 1}}], "members.1.depth", "unknown key"),
        ([{"reranker": "one"}, {"reranker": "ensemble"}], "members.1.reranker", "list its members here"),
        ([{"reranker": "one"}, {"reranker": "one", "weight": 0}], "members.1.weight", "more than 0"),
    ],
)
def test_members_that_cannot_be_opened_are_named(context: ModelContext, members: Any, key: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as found:
        open_ensemble({"members": members}, replace(context, reranker=opener(one=fixed(1.0))))
    assert found.value.key == key


class Asked:
    """Counts how often it is asked."""

    name = "asked"

    def __init__(self) -> None:
        self.times = 0

    def rerank(self, query: str, chunks: Sequence[Chunk]) -> Sequence[float]:
        self.times += 1
        return [0.5 for _ in chunks]


def of_relevance(*values: float) -> list[Chunk]:
    return [
        Chunk(content=f"text {place}", scores=(Score(ScoreKind.RELEVANCE, value),))
        for place, value in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("relevance", "asked"),
    [
        ((0.9, 0.8), False),  # fewer than four
        ((0.9, 0.8, 0.7, 0.6), True),  # least 0.45: 1 and 0.78 lead by 0.22
        ((0.9, 0.6, 0.6, 0.6), False),  # 1 and 0.33 lead by 0.67
        ((0.9, 0.9, 0.1, 0.1), True),  # two lead together
        ((0.0, 0.0, 0.0, 0.0), True),
    ],
)
def test_it_is_asked_only_where_many_are_near_the_best(relevance: tuple[float, ...], asked: bool) -> None:
    inner = Asked()

    scores = AdaptiveReranker(inner).rerank("q", of_relevance(*relevance))

    assert (scores is not None, inner.times) == (asked, int(asked))


def test_relevance_alone_tells_of_a_lead(chunks: Any) -> None:
    inner = Asked()
    clear = of_relevance(0.9, 0.1, 0.1, 0.1)
    cosine = (Score(ScoreKind.COSINE, 0.9, "index"),)

    assert AdaptiveReranker(inner).rerank("q", clear) is None
    assert AdaptiveReranker(inner, clear_lead=1.0).rerank("q", clear) is not None
    assert AdaptiveReranker(inner).rerank("q", [*clear[:3], clear[3]._replace(scores=cosine)]) is not None
    assert AdaptiveReranker(inner).rerank("q", chunks("a", "b", "c", "d", cosines=(0.9, 0.1, 0.1, 0.1))) is not None


def test_one_chunk_leads_nothing() -> None:
    assert AdaptiveReranker(Asked(), fewest=1).rerank("q", of_relevance(0.9)) == [0.5]


def test_an_adaptive_reranker_opens_the_one_behind_it(context: ModelContext, chunks: Any) -> None:
    behind = replace(context, reranker=opener(one=fixed(0.2, 0.4, name="one")))

    reranker = open_adaptive({"reranker": "one", "fewest": 2}, behind)

    assert reranker.name == "adaptive(one)"
    assert reranker.rerank("q", chunks("a", "b")) == [0.2, 0.4]
    with pytest.raises(ConfigError, match="Installed: one"):
        open_adaptive({"reranker": "two"}, behind)


def test_the_logistic_function_takes_any_number() -> None:
    assert [logistic(value) for value in (0.0, 1e9, -1e9)] == pytest.approx([0.5, 1.0, 0.0])
    assert logistic(2.0) + logistic(-2.0) == pytest.approx(1.0)


@given(st.lists(st.floats(-50, 50), min_size=2))
def test_scores_keep_their_order(values: list[float]) -> None:
    scores = unit_scores("x", values)

    assert all(0.0 <= score <= 1.0 for score in scores)
    assert all(
        (a <= b) == (x <= y) or x == pytest.approx(y) for a, x in zip(values, scores) for b, y in zip(values, scores)
    )
