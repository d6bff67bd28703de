"""Seed 002: from chunk dicts to the messages of a chat."""

import copy

import pytest

from context_engine import build_context_block, inject_rag_context
from context_engine.rag import rerank

pytestmark = pytest.mark.usefixtures("nothing_configured")

CHUNKS = [
    {
        "content": f"Rule {number} of the desk: the {word} limit is reviewed by market risk every quarter.",
        "chunk_id": f"c{number}",
        "title": f"Procedure {number}",
        "source_type": "bank_sop",
        "relevance_score": 0.9 - number / 100,
    }
    for number, word in enumerate(("notional", "tenor", "issuer", "currency", "delta", "vega"))
]
MESSAGES = [
    {"role": "system", "content": "You are an analyst."},
    {"role": "user", "content": "Who reviews the limits?"},
]


def test_C9_a_context_block_of_ranked_chunks_in_their_order():
    ranked = rerank("limit review of the desk", CHUNKS)
    text = build_context_block(ranked)
    places = [text.index(one["content"]) for one in ranked]
    assert places == sorted(places)
    assert text.startswith("## Context\n")


@pytest.mark.parametrize("max_chars", [400, 700, 1000, 1400])
def test_C9_C10_max_chars_is_never_exceeded_and_the_best_stay(max_chars):
    ranked = rerank("limit review of the desk", CHUNKS)
    text = build_context_block(ranked, max_chars)
    assert len(text) <= max_chars < len(build_context_block(ranked))
    inside = [one["content"] in text for one in ranked]
    assert inside[0] is True
    assert inside == sorted(inside, reverse=True)


def test_C9_the_context_is_put_into_the_system_message():
    context = build_context_block(rerank("limit review", CHUNKS), 600)
    before = copy.deepcopy(MESSAGES)
    out = inject_rag_context(MESSAGES, context)
    assert out == [{"role": "system", "content": f"You are an analyst.\n\n{context}"}, MESSAGES[1]]
    assert before == MESSAGES


def test_C10_ranking_adds_no_chunks_and_the_budget_does_not_grow():
    ranked = rerank("limit review", CHUNKS)
    assert {one["chunk_id"] for one in ranked} <= {one["chunk_id"] for one in CHUNKS}
    assert len(build_context_block(ranked, 500)) <= 500
    assert len(build_context_block(CHUNKS, 500)) <= 500
