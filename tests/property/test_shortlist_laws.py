"""A search that reads the best candidates alone gives the answer of one that reads all of them."""

import random
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.engine import recompute, stage2, stage_two_bytes
from context_engine.core.models import Chunk, Score, ScoreKind, SourceAnswer, TermStatistics

WORDS = ("approval", "rule", "limit", "committee", "desk", "product", "risk", "must", "before", "after")
KNOWN = TermStatistics(collection="local:base", chunks=5000, document_frequency=dict.fromkeys(("approv", "rule"), 900))


class Source:
    score_kinds = frozenset({ScoreKind.BM25})

    def __init__(self, chunks):
        self.answer = SourceAnswer(chunks=tuple(chunks), statistics=KNOWN)

    def search(self, _query):
        return self.answer

    def close(self):
        pass


def random_pool(rng, spec_of):
    """Up to eight sources of forty chunks; texts differ by a number, which keeps them from being near-duplicates."""
    spread = rng.choice([0.0, 0.1, 1.0, 20.0])
    sources = []
    for place in range(rng.randint(3, 8)):
        chunks = [
            Chunk(
                content=f"{' '.join(rng.choices(WORDS, k=rng.randint(2, 12)))} {rng.randint(1, 10**9)}",
                chunk_id=f"c{number}",
                document_id=rng.choice("DEFG"),
                scores=(
                    Score(ScoreKind.BM25, max(20.0 + rng.choice([0.0, spread]) * rng.random(), 0.0), "local:base"),
                ),
            )
            for number in range(rng.randint(20, 40))
        ]
        sources.append((spec_of(rng.randint(1, 5), f"s{place}"), Source(chunks)))
    return sources


@pytest.mark.slow
@given(
    seed=st.integers(0, 2**32),
    top_k=st.integers(1, 20),
    most=st.sampled_from([None, None, 1, 2]),
    least=st.sampled_from([0.0, 0.15, 0.6, 0.9]),
    minimum=st.sampled_from([0, 0, 5]),
)
def test_the_answer_is_that_of_all_candidates(ask, spec_of, seed, top_k, most, least, minimum):
    options = {"stage2_top_k": top_k, "max_per_document": most, "min_relevance_score": least}
    options["min_chunks"] = min(minimum, top_k)

    def search():
        return ask(random_pool(random.Random(seed), spec_of), **options)

    result = search()
    with patch.object(stage2, "shortlist", lambda *_: None):
        whole = search()
    assert [chunk.to_dict() for chunk in result.chunks] == [chunk.to_dict() for chunk in whole.chunks]
    assert (result.decision, result.status) == (whole.decision, whole.status)
    assert len(result.fates) == len(whole.fates)
    assert stage_two_bytes(recompute(result)) == stage_two_bytes(result)
