"""The smallest change that shows a chunk: it does, and brute force over single changes finds none smaller."""

import random
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_engine.adapters.rerankers import CallableReranker
from context_engine.audit.review.case import Case
from context_engine.audit.review.smallest import smallest_changes
from context_engine.core.engine import recompute, stage_two_bytes
from context_engine.core.models import (
    And,
    Chunk,
    Condition,
    EffectiveSettings,
    FilterOp,
    Outcome,
    Score,
    ScoreKind,
    Settings,
    SourceSpec,
)
from context_engine.errors import InvalidRequest

TYPES = ("system_of_record", "bank_sop", "industry_standard", "external_official", "general_web")
WORDS = [
    *("approval", "rule", "limit", "committee", "desk", "product", "risk", "must", "not", "notes", "bonds", "review"),
    *("5", "7", "USD", "before", "after", "NPA-001", "4.2.1(b)"),
]
QUERIES = ("approval rule", "approval rule of the committee", "limit of NPA-001", '"desk risk" review')
SWITCH = 10


def random_chunk(rng, texts):
    content = rng.choice(texts) if texts and rng.random() < 0.15 else " ".join(rng.choices(WORDS, k=rng.randint(5, 14)))
    if texts and rng.random() < 0.15:
        content = f"{rng.choice(texts)} thereof"
    texts.append(content)
    maybe = {
        "document_id": rng.choice("DEF"),
        "document_version": rng.choice("12"),
        "effective_from": date(2025, 12, 1) + timedelta(days=rng.randint(0, 120)),
        "effective_to": date(2026, 2, 1) + timedelta(days=rng.randint(0, 60)),
        "superseded_by": "2",
        "authority_tier": rng.randint(1, 5),
        "fetched_at": datetime(2026, 3, 2, rng.randint(0, 9), tzinfo=UTC),
        "ttl_seconds": rng.choice([0, 3600, 10**9]),
    }
    scores = [
        Score(ScoreKind.RELEVANCE, round(rng.random(), rng.choice((1, 3)))),
        Score(ScoreKind.COSINE, round(rng.uniform(-0.2, 1), 2), "e5"),
    ]
    return Chunk(
        content=content,
        chunk_id=rng.choice(["", *"abcdefghijkl"]),
        scores=tuple(score for score in scores if rng.random() < 0.5),
        **{key: value for key, value in maybe.items() if rng.random() < 0.1},
    )


def random_case(ask, seed):
    """A chunk that a random search does not show, None where it shows all."""
    rng = random.Random(seed)
    texts = []
    tiers = rng.sample(range(1, 6), rng.randint(1, 4))
    pool = [(tier, [random_chunk(rng, texts) for _ in range(rng.randint(1, 6))]) for tier in tiers]
    choices = {
        "stage2_top_k": rng.randint(1, 5),
        "min_relevance_score": rng.choice((0.05, 0.3, rng.random())),
        "scope_threshold": rng.choice((None, 0.5, rng.random())),
        "similarity_threshold": rng.choice((0.6, rng.uniform(-1, 1))),
        "min_chunks": rng.randint(1, 3),
        "dedup_threshold": rng.choice((0.6, 0.7, rng.uniform(0.5, 1))),
        "dedup_method": rng.choice(("exact", "off")),
        "max_per_document": rng.randint(1, 2),
        "mmr_lambda": rng.choice((0.5, round(rng.random(), 2))),
        "relevance_weight": round(rng.uniform(0.2, 0.6), 2),
        "authority_weight": round(rng.uniform(0, 0.4), 2),
        "rerank_weight": round(rng.random(), 2),
        "rerank_top_n": rng.randint(1, 6),
        "expired": rng.choice(("demote", "refuse")),
        "filters": rng.choice(
            (
                Condition("tier", FilterOp.LTE, 3),
                And((Condition("tier", FilterOp.LTE, 4), Condition("document_id", FilterOp.NE, "D"))),
            )
        ),
    }
    chosen = {key: value for key, value in choices.items() if rng.random() < 0.3}
    reranker = CallableReranker(lambda _query, found: [len(text) % 11 / 11 for text in found])
    engine = {"reranker": reranker if rng.random() < 0.3 else None}
    result = ask(pool, query=rng.choice(QUERIES), engine=engine, **chosen)
    hidden = [fate for fate in result.fates if fate.outcome is not Outcome.RETURNED]
    if not hidden:
        return None
    stage = rng.choice(sorted({fate.stage for fate in hidden}))
    fate = rng.choice([fate for fate in hidden if fate.stage == stage])
    return Case.of(result, (fate.source_id, fate.chunk_id))


def with_setting(result, name, value):
    """A result with another setting, checked as one that somebody sets; None where it may not be set."""
    values = {key: getattr(result.settings.values, key) for key in Settings.model_fields}
    try:
        return replace(result, settings=EffectiveSettings(values=Settings(**{**values, name: value})))
    except ValueError:
        return None


def of_limit(values, was, off=None):
    """The numbers themselves, those just above them, and some of all from -1 to 1, each with its steps."""
    start, switch = (off, SWITCH) if was is None else (was, 0)
    for value in {*(one / 100 for one in range(-97, 101, 7)), *values, *(one + 1e-9 for one in values)}:
        yield value, abs(value - start) * 100 + switch


def of_grid(was, off=None):
    start, switch = (off, SWITCH) if was is None else (was, 0)
    return ((one / 100, abs(one / 100 - start) * 100 + switch) for one in range(101))


def of_count(was, most):
    for count in range(most + 1):
        if count != was:
            yield count, abs(count - was) + SWITCH * (0 in (count, was))


def brute_settings(case):
    """(name, value, steps) of single settings, good and bad ones, whatever was found to matter."""
    now, most = case.result.settings.values, len(case.candidates)
    signals = {one.absolute for one in case.unlimited.chunks}
    bodies = [set(one.text.body.tokens) for one in case.candidates.values()]
    alike = {len(a & b) / len(a | b) for a, b in combinations(bodies, 2) if a | b}
    cosines = {one.chunk.score(ScoreKind.COSINE) for one in case.candidates.values()} - {None}
    largest = max(
        [
            sum((key[0], one.chunk.document_id) == (other[0], two.chunk.document_id) for other, two in rows)
            for rows in [list(case.candidates.items())]
            for key, one in rows
            if one.chunk.document_id
        ],
        default=0,
    )
    tables = {
        "stage2_top_k": ((one, abs(one - now.stage2_top_k)) for one in range(1, most + 1)),
        "min_relevance_score": of_limit(signals, now.min_relevance_score),
        "scope_threshold": of_limit(signals, case.result.scope.value),
        "similarity_threshold": of_limit(cosines, now.similarity_threshold, -1.0),
        "min_chunks": of_count(now.min_chunks, most),
        "dedup_threshold": ((one, steps) for one, steps in of_limit(alike, now.dedup_threshold) if one >= 0.5),
        "relevance_weight": of_grid(now.relevance_weight),
        "authority_weight": of_grid(now.authority_weight),
        "rerank_weight": of_grid(now.rerank_weight),
        "mmr_lambda": of_grid(now.mmr_lambda, 1.0),
        "exact_first": [(not now.exact_first, SWITCH)],
        "max_per_document": (
            (one, largest + 1 - one + SWITCH if now.max_per_document is None else abs(one - now.max_per_document))
            for one in range(1, largest + 1)
        ),
    }
    for name, table in tables.items():
        yield from ((name, value, steps) for value, steps in table)
    for name, scale in (("dedup_method", ("near", "exact", "off")), ("expired", ("flag", "demote", "refuse"))):
        place = scale.index(getattr(now, name))
        yield from ((name, one, SWITCH * abs(scale.index(one) - place)) for one in scale if one != scale[place])
    for tier in range(1, 6):
        boosts = now.authority_boosts
        for value, steps in of_grid(boosts.of(tier)):
            yield "authority_boosts", {**boosts.model_dump(), f"tier_{tier}": value}, steps


def brute_others(case):
    """(result, steps) of single changes that are no settings."""
    result, spec = case.result, case.candidate.spec
    for tier in range(1, 6):
        other = SourceSpec(id=spec.id, type=TYPES[tier - 1])
        yield replace(result, specs=swapped(result.specs, other)), SWITCH * abs(tier - spec.tier)
    for trust in ("TRUSTED", "UNTRUSTED"):
        other = SourceSpec(id=spec.id, type=spec.type, trust_class=trust)
        yield replace(result, specs=swapped(result.specs, other)), SWITCH
    dated = {day for one in case.candidates.values() for day in (one.chunk.effective_from, one.chunk.effective_to)}
    edges = {(day - result.as_of).days for day in dated - {None}}
    for days in {*range(-120, 121, 9), *(edge + by for edge in {0, *edges} for by in (-1, 0, 1))}:
        day = result.as_of + timedelta(days=days)
        yield replace(result, as_of=day, today=days >= 0, request=replace(result.request, as_of=day)), abs(days)
    filters = result.request.filters
    if filters is not None:
        parts = getattr(filters, "parts", (filters,))
        for place in range(len(parts)):
            kept = And(parts[:place] + parts[place + 1 :])
            yield replace(result, request=replace(result.request, filters=kept)), SWITCH
    if result.rerank_scores:
        yield replace(result, rerank_scores={}), SWITCH


def swapped(specs, other):
    return tuple(other if spec.id == other.id else spec for spec in specs)


def brute_changes(case, below):
    for name, value, steps in brute_settings(case):
        if steps < below and (changed := with_setting(case.result, name, value)) is not None:
            yield (name, value), changed
    for changed, steps in brute_others(case):
        if steps < below:
            yield "other", changed


def shows(case, changed):
    try:
        return case.shown_in(recompute(changed, case.analyse)) is not None
    except InvalidRequest:
        return False


def check(case):
    """Return what was found, once it is proved to show the chunk and brute force found nothing smaller."""
    found = smallest_changes(case)
    if found.single is not None:
        (change,) = found.single.changes
        after = recompute(change.applied(case.result))
        assert case.shown_in(after).rank == found.single.rank, change
        assert stage_two_bytes(after) != stage_two_bytes(case.result)
    below = float("inf") if found.single is None else found.single.steps - 1e-6
    smaller = [told for told, changed in brute_changes(case, below) if shows(case, changed)]
    assert smaller == [], (case.fate, found.single)
    return found


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1))
@pytest.mark.slow
def test_the_change_shows_the_chunk_and_so_does_the_pair(ask, seed):
    case = random_case(ask, seed)
    if case is None:
        return
    found = smallest_changes(case)
    assert found.single is None or found.pair is None
    for one in (found.single, found.pair):
        if one is not None:
            result = case.result
            for change in one.changes:
                result = recompute(change.applied(result))
            assert case.shown_in(result).rank == one.rank
            shown = {(chunk.source_id, chunk.chunk_id) for chunk in result.chunks}
            before = {(chunk.source_id, chunk.chunk_id) for chunk in case.result.chunks}
            if all(change.kind != "text" for change in one.changes):
                assert set(one.left) == before - shown
                assert set(one.came) == shown - before - {case.key}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_brute_force_over_single_changes_finds_none_smaller(ask, part):
    """Fifteen dropped chunks each time, 45 in all."""
    cases = filter(None, (random_case(ask, seed) for seed in range(part * 10_000, part * 10_000 + 10_000)))
    found = [check(next(cases)) for _ in range(15)]
    assert sum(one.single is not None for one in found) >= 5
