"""Laws of stage 2 over random pools and settings."""

import random
from copy import deepcopy
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_engine.adapters.rerankers import CallableReranker
from context_engine.core.engine import recompute, stage_two_bytes
from context_engine.core.models import Chunk, Outcome, Score, ScoreKind, SearchRequest, Settings
from context_engine.core.ranking.select import final_score, overturnable_gap

WORDS = [
    *("approval", "rule", "limit", "committee", "desk", "product", "risk", "must", "not"),
    *("5", "7", "USD", "EUR", "before", "after", "NPA-001", "4.2.1(b)", "审批"),
]
UNIT = (0.0, 0.1, 0.15, 0.5, 0.5000001, 0.9, 1.0)


def number(rng, low, high):
    """Mostly anywhere, often at a place where something changes or ties."""
    return low + (high - low) * (rng.choice(UNIT) if rng.random() < 0.5 else rng.random())


def random_score(rng):
    return rng.choice(
        [
            Score(ScoreKind.RELEVANCE, number(rng, 0, 1)),
            Score(ScoreKind.COSINE, number(rng, -1, 1), rng.choice([None, "e5"])),
            Score(ScoreKind.BM25, number(rng, 0, 40), "index"),
            Score(ScoreKind.RERANK, number(rng, -9, 9), "model"),
            Score(ScoreKind.UNKNOWN, number(rng, -5, 5)),
        ]
    )


def random_chunk(rng):
    maybe = {
        "authority_tier": rng.randint(1, 5),
        "document_id": rng.choice("DE"),
        "document_version": rng.choice("12"),
        "effective_from": date(2025, 6, 1) + timedelta(days=rng.randint(0, 400)),
        "effective_to": date(2026, 2, 1) + timedelta(days=rng.randint(0, 400)),
        "superseded_by": "2",
        "fetched_at": datetime(2026, 3, 2, rng.randint(0, 9), tzinfo=UTC),
        "ttl_seconds": rng.choice([0, 3600, 10**9]),
    }
    scores = {score.kind: score for score in (random_score(rng) for _ in range(rng.randint(0, 2)))}
    return Chunk(
        content=" ".join(rng.choices(WORDS, k=rng.randint(1, 14))),
        chunk_id=rng.choice(["", *"abcdefgh"]),
        scores=tuple(scores.values()),
        **{key: value for key, value in maybe.items() if rng.random() < 0.25},
    )


def random_pool(seed):
    """1 to 4 sources of different tiers, with up to 8 chunks each, some of them copies of others."""
    rng = random.Random(seed)
    pool, seen = [], []
    for tier in rng.sample(range(1, 6), rng.randint(1, 4)):
        chunks = [random_chunk(rng) for _ in range(rng.randint(0, 8))]
        copies = [random_chunk(rng)._replace(content=rng.choice(seen)) for _ in range(rng.randint(0, 2)) if seen]
        seen += [chunk.content for chunk in chunks]
        pool.append((tier, chunks + copies))
    return pool


POOLS = st.integers(0, 2**32 - 1).map(random_pool)
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "stage2_top_k": st.integers(1, 12),
        "min_relevance_score": st.floats(0, 1),
        "scope_threshold": st.none() | st.floats(0, 1),
        "min_chunks": st.integers(0, 9),
        "dedup_method": st.sampled_from(["near", "exact", "off"]),
        "dedup_threshold": st.floats(0.3, 1),
        "expired": st.sampled_from(["flag", "demote", "refuse"]),
        "similarity_threshold": st.none() | st.floats(-1, 1),
        "relevance_weight": st.floats(0, 0.6),
        "authority_weight": st.floats(0, 0.4),
        "rerank_weight": st.floats(0, 1),
        "require_tiers": st.just((1,)),
    },
)
RERANKERS = st.sampled_from(
    [
        None,
        CallableReranker(lambda _query, texts: [len(text) % 11 / 11 for text in texts]),
        CallableReranker(lambda _query, _texts: [0.5]),
    ]
)


def told(result):
    """What a search decides, without the accounts that follow the order of declaration."""
    return (
        [chunk.to_dict() for chunk in result.chunks],
        sorted(result.fates),
        result.swaps,
        result.swap_count,
        result.decision,
        result.status,
        sorted(result.warnings),
    )


@given(POOLS, SETTINGS, RERANKERS)
def test_every_candidate_is_returned_merged_or_dropped(ask, pool, chosen, reranker):
    result = ask(pool, engine={"reranker": reranker}, **chosen)
    outcomes = [fate.outcome for fate in result.fates]
    assert len(outcomes) == sum(outcomes.count(outcome) for outcome in Outcome)
    keys = [(fate.source_id, fate.chunk_id) for fate in result.fates]
    assert len(set(keys)) == len(keys) == result.stages[0].left
    returned = {(chunk.source_id, chunk.chunk_id) for chunk in result.chunks}
    assert returned == {key for key, outcome in zip(keys, outcomes) if outcome is Outcome.RETURNED}
    merged = {key for key, outcome in zip(keys, outcomes) if outcome is Outcome.MERGED}
    listed = {(member.source_id, member.chunk_id) for chunk in result.chunks for member in chunk.also_in}
    assert listed <= merged
    for fate in result.fates:
        if fate.outcome is Outcome.MERGED:
            assert fate.into in keys
            assert fate.into not in merged
    texts = {chunk.content for _, chunks in pool for chunk in chunks if chunk.content}
    assert {chunk.content for chunk in result.chunks} <= texts
    entered = [stage.entered for stage in result.stages[1:]]
    assert entered == [stage.left for stage in result.stages[:-1]]
    assert result.stages[-1].left == len(result.chunks) <= result.settings.values.stage2_top_k


@given(POOLS, SETTINGS, RERANKERS, st.randoms(use_true_random=False))
def test_the_order_of_chunks_and_of_sources_does_not_matter(ask, pool, chosen, reranker, rng: random.Random):
    shuffled = [(tier, rng.sample(chunks, len(chunks))) for tier, chunks in pool]
    rng.shuffle(shuffled)
    first = ask(pool, engine={"reranker": reranker}, **chosen)
    second = ask(shuffled, engine={"reranker": reranker}, **chosen)
    assert told(first) == told(second)


@given(POOLS, SETTINGS, RERANKERS)
def test_the_same_again_is_the_same_to_the_byte_and_so_is_the_recomputation(ask, pool, chosen, reranker):
    before = deepcopy(pool)
    result = ask(pool, engine={"reranker": reranker}, **chosen)
    again = ask(pool, engine={"reranker": reranker}, **chosen)
    assert told(result) == told(again)
    assert stage_two_bytes(recompute(result)) == stage_two_bytes(result)
    assert pool == before


@given(POOLS, SETTINGS)
def test_scores_stay_in_range_and_the_order_is_the_rule(ask, pool, chosen):
    result = ask(pool, **chosen)
    for chunk in result.chunks:
        assert 0.0 <= chunk.relevance <= 1.0
        assert 0.0 <= chunk.absolute <= 1.0
        assert chunk.final == final_score(chunk.relevance, chunk.boost, result.settings.values)
    ranked = [(-chunk.final, -chunk.relevance) for chunk in result.chunks]
    assert ranked == sorted(ranked)
    assert [chunk.rank for chunk in result.chunks] == list(range(1, len(result.chunks) + 1))


@given(POOLS, st.fixed_dictionaries({}, optional={"authority_weight": st.floats(0, 0.4)}))
def test_swaps_are_the_difference_to_the_order_without_authority(ask, pool, chosen):
    """With weight 0 the same candidates stand in the recorded counterfactual order, and no gap is too large."""
    free = {"dedup_method": "off", "min_relevance_score": 0.0, "stage2_top_k": 100}
    result = ask(pool, **{**free, **chosen})
    flat = ask(pool, **{**free, "authority_weight": 0.0})
    rank = {(chunk.source_id, chunk.chunk_id): chunk.rank for chunk in result.chunks}
    rank_without = {(chunk.source_id, chunk.chunk_id): chunk.rank for chunk in flat.chunks}
    assert rank.keys() == rank_without.keys()
    turned = {
        (one, other)
        for one in rank
        for other in rank
        if rank[one] < rank[other] and rank_without[one] > rank_without[other]
    }
    assert {(swap.winner, swap.loser) for swap in result.swaps} == turned
    assert result.swap_count == len(turned)
    for swap in result.swaps:
        assert swap.rank_with == (rank[swap.winner], rank[swap.loser])
        assert swap.rank_without == (rank_without[swap.winner], rank_without[swap.loser])
        assert swap.winner_tier < swap.loser_tier
        limit = overturnable_gap(swap.winner_tier, swap.loser_tier, result.settings.values)
        assert 0.0 <= swap.gap <= limit + 1e-12


def distinct(tier, number, relevance):
    text = f"rule {number} {WORDS[number]} alone"
    return Chunk(content=text, chunk_id=f"c{number}", scores=(Score(ScoreKind.RELEVANCE, relevance),))


def place(result, chunk_id):
    """Rank, with what is not returned behind everything."""
    return next((chunk.rank for chunk in result.chunks if chunk.chunk_id == chunk_id), 10**6)


@given(st.lists(st.tuples(st.integers(1, 5), st.floats(0, 1)), min_size=2, max_size=8), st.floats(0, 1), SETTINGS)
def test_more_relevance_never_lowers_a_rank(ask, pairs, more, chosen):
    chosen = {**chosen, "dedup_method": "off"}
    chosen.pop("require_tiers", None)

    def placed(first):
        pool = {}
        for number, (tier, relevance) in enumerate(pairs):
            pool.setdefault(tier, []).append(distinct(tier, number, first if number == 0 else relevance))
        return place(ask(list(pool.items()), **chosen), "c0")

    low, high = sorted([pairs[0][1], more])
    assert placed(high) <= placed(low)


@given(st.lists(st.tuples(st.integers(1, 5), st.floats(0, 1)), min_size=2, max_size=8), st.integers(1, 5), SETTINGS)
def test_a_higher_tier_never_lowers_a_rank(ask, pairs, other, chosen):
    chosen = {**chosen, "dedup_method": "off"}
    chosen.pop("require_tiers", None)

    def placed(first):
        pool = {}
        for number, (tier, relevance) in enumerate(pairs):
            tier = first if number == 0 else tier
            pool.setdefault(tier, []).append(distinct(tier, number, relevance))
        return place(ask(list(pool.items()), **chosen), "c0")

    higher, lower = sorted([pairs[0][0], other])
    assert placed(higher) <= placed(lower)


@pytest.mark.slow
@settings(max_examples=25)
@given(POOLS, POOLS, SETTINGS, SETTINGS)
def test_two_engines_do_not_know_of_each_other(ask, make_engine, pool, other, chosen, others):
    alone = told(ask(pool, **chosen))
    tiers = chosen.pop("require_tiers", ())
    others.pop("require_tiers", None)
    request = SearchRequest(query="approval rule", domain="NPA", overrides=chosen, require_tiers=tiers)
    with make_engine(pool) as first, make_engine(other) as second:
        second.search(SearchRequest(query="committee limit", domain="NPA", overrides=others))
        beside = first.search(request)
        second.search(SearchRequest(query="product risk", domain="NPA", overrides=others))
    assert told(beside) == alone


def test_the_default_gap_of_tier_1_over_tier_3_is_0133():
    assert overturnable_gap(1, 3, Settings()) == pytest.approx(0.4 * 0.2 / 0.6)
