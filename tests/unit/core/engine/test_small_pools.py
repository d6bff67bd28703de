"""Small pools of near-equal scores of every kind: the higher tier comes first, and nothing is dropped."""

import pytest

from context_engine.core.models import Chunk, Score, ScoreKind

WORDS = ["alder", "birch", "cedar", "dogwood", "elm", "fir", "ginkgo", "hazel", "ironwood", "juniper"]
BASE = {
    ScoreKind.RELEVANCE: 0.8,
    ScoreKind.COSINE: 0.8,
    ScoreKind.WEIGHTED: 0.8,
    ScoreKind.RERANK: 0.8,
    ScoreKind.RRF: 0.03,
    ScoreKind.BM25: 12.0,
    ScoreKind.FULLTEXT: 4.0,
    ScoreKind.LEXICAL: 7.0,
    ScoreKind.UNKNOWN: 0.3,
}
LOGIT = "logit"
NONE = "no score"


def pool(kind, size, descending):
    """Candidates within 1 % of each other, on tiers 1 to 5 in turn, the first scored best or worst."""
    chunks = {}
    for number in range(size):
        step = number / size * 0.01
        tier = number % 5 + 1
        share = step if descending else 0.01 - step
        scores = ()
        if kind == LOGIT:
            scores = (Score(ScoreKind.RERANK, 4.0 * (1 - share), "model"),)
        elif kind != NONE:
            scores = (Score(kind, BASE[kind] * (1 - share), "one"),)
        text = f"The approval rule of the {WORDS[number]} desk stands in its own {WORDS[number]} manual."
        chunks.setdefault(tier, []).append(Chunk(content=text, chunk_id=f"c{number}", scores=scores))
    return list(chunks.items())


@pytest.mark.parametrize("descending", [True, False], ids=["higher tier scores more", "higher tier scores less"])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 10])
@pytest.mark.parametrize("kind", [*BASE, LOGIT, NONE], ids=str)
def test_the_higher_tier_comes_first_and_nothing_is_dropped(ask, kind, size, descending):
    result = ask(pool(kind, size, descending), stage2_top_k=10)
    tiers = [chunk.authority_tier for chunk in result.chunks]
    assert tiers == sorted(tiers)
    assert len(tiers) == size
    assert all(chunk.relevance > 0.9 or size == 1 or kind == ScoreKind.RELEVANCE for chunk in result.chunks)


@pytest.mark.parametrize("size", [2, 3, 5, 10])
@pytest.mark.parametrize("kind", [*BASE, LOGIT, NONE], ids=str)
def test_a_clear_difference_is_not_overturned(ask, kind, size):
    """A tier-1 text that shares no word with the question stays below tier-5 texts that answer it."""
    good = [
        Chunk(
            content=f"The approval rule of the {WORDS[number]} desk.",
            chunk_id=f"good{number}",
            scores=_score(kind, 1.0 - number / 1000),
        )
        for number in range(size - 1)
    ]
    poor = Chunk(content="Canteen hours and parking.", chunk_id="poor", scores=_score(kind, 0.2))
    ranked = ask([(1, [poor]), (5, good)], stage2_top_k=10)
    assert [chunk.chunk_id for chunk in ranked.chunks if chunk.chunk_id != "poor"] == [
        chunk.chunk_id for chunk in ranked.chunks
    ][: size - 1]
    assert ranked.chunks[0].chunk_id.startswith("good")


def _score(kind, share):
    if kind == NONE:
        return ()
    if kind == LOGIT:
        return (Score(ScoreKind.RERANK, 8.0 * share - 4.0, "model"),)
    return (Score(kind, BASE[kind] * share, "one"),)
