"""Whatever is written, replaced, deleted and filtered, a search by vectors is the one done by hand."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_engine.adapters.sources.local import LocalBase, SearchOptions
from context_engine.adapters.sources.stores.options import merged, ranked, trust
from context_engine.core.models import Chunk, Condition, ScoreKind
from context_engine.testing.fakes import FakeEmbedder

WORDS = ("limit", "buffer", "haircut", "desk", "margin")
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
EMBEDDER = FakeEmbedder(8)


@pytest.mark.slow
@settings(max_examples=15)
@given(
    texts=st.lists(TEXTS, min_size=1, max_size=20),
    again=st.lists(st.tuples(st.integers(0, 19), TEXTS), max_size=6),
    gone=st.sets(st.integers(0, 19), max_size=6),
    query=TEXTS,
    approximate=st.booleans(),
)
def test_vectors_alone_are_the_cosines_by_hand(
    texts: list[str], again: list[tuple[int, str]], gone: set[int], query: str, approximate: bool
) -> None:
    """With cells of which all are looked at, and without; under a filter, and without."""
    options = SearchOptions(keyword_weight=0.0, approximate_from=1 if approximate else 10_000, probe=1.0)
    held = dict(enumerate(texts))
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalBase.open(Path(folder), create=True, embedder=EMBEDDER, options=options) as base,
    ):
        write(base, held)
        base.search(query, source_id="s", top_k=1)
        changed = {number: text for number, text in again if number in held}
        write(base, changed)
        with base.writer() as writer:
            for number in gone & held.keys():
                writer.delete("s", str(number), "")
        held = {number: text for number, text in {**held, **changed}.items() if number not in gone}
        for filters, wanted in ((None, held), (Condition("odd", "eq", True), odd(held))):
            found = base.search(query, source_id="s", top_k=50, filters=filters)
            assert {chunk.chunk_id for chunk in found} == {str(number) for number in wanted}
            cosines = [chunk.score(ScoreKind.COSINE) or 0.0 for chunk in found]
            for chunk, cosine in zip(found, cosines):
                assert abs(cosine - by_hand(query, wanted[int(chunk.chunk_id)])) < 1e-5
            shown = [max(cosine, 0.0) for cosine in cosines]
            assert all(first >= second - 1e-6 for first, second in pairwise(shown))
        assert base.verify().ok


@given(
    text=st.dictionaries(st.integers(1, 9), st.floats(0.0, 50.0), min_size=1),
    cosine=st.dictionaries(st.integers(1, 9), st.floats(-1.0, 1.0)),
    weight=st.floats(0.0, 1.0),
    method=st.sampled_from(["weighted", "rrf"]),
    trusted=st.floats(0.0, 1.0),
)
def test_a_better_score_never_ranks_lower(
    text: dict[int, float], cosine: dict[int, float], weight: float, method: str, trusted: float
) -> None:
    cosine = {row: value for row, value in cosine.items() if row in text}
    options = SearchOptions(keyword_weight=weight, vector_weight=1.0, merge_method=method)  # type: ignore[arg-type]
    best = max(text.values())
    before = merged(text, best, cosine, options, trusted)
    assert before.keys() == text.keys() and all(0.0 <= score <= 1.0 for score in before.values())
    row = min(text)
    after = merged({**text, row: best}, best, {**cosine, row: 1.0}, options, trusted)
    assert after[row] >= before[row]
    assert ranked(after).index(row) <= ranked(before).index(row)


@given(
    best=st.floats(0.0, 500.0),
    more=st.floats(0.0, 500.0),
    chunks=st.integers(1, 10**7),
    others=st.integers(0, 10**7),
    held=st.floats(0.0, 1.0),
)
def test_more_evidence_is_trusted_no_less(best: float, more: float, chunks: int, others: int, held: float) -> None:
    trusted = trust(best, chunks, held)
    assert 0.0 <= trusted <= trust(best + more, chunks, held) <= 1.0
    assert trust(best, chunks + others, held) <= trusted <= trust(best, chunks, max(held, 0.9))


@pytest.mark.slow
@settings(max_examples=10)
@given(texts=st.lists(TEXTS, min_size=2, max_size=12), query=TEXTS, start=st.integers(1, 11))
def test_a_score_is_the_same_in_whichever_source_a_text_stands(texts: list[str], query: str, start: int) -> None:
    """Coverage, best and trust are of what may be read of the base, not of the source that is asked."""
    found = []
    for cut in (0, start):
        with (
            tempfile.TemporaryDirectory() as folder,
            LocalBase.open(Path(folder), create=True, embedder=EMBEDDER) as base,
        ):
            with base.writer() as writer:
                for number, text in enumerate(texts):
                    chunk = Chunk(content=text, chunk_id=str(number))
                    writer.put("one" if number < cut else "two", str(number), "", text, [chunk])
            chunks = [one for source in ("one", "two") for one in base.search(query, source_id=source, top_k=20)]
            found.append({one.chunk_id: one.score(ScoreKind.WEIGHTED) for one in chunks})
    assert found[0].keys() == found[1].keys() and len(found[0]) == len(texts)
    for name, score in found[0].items():
        assert abs((score or 0.0) - (found[1][name] or 0.0)) < 1e-6


def write(base: LocalBase, texts: dict[int, str]) -> None:
    with base.writer() as writer:
        for number, text in texts.items():
            chunk = Chunk(content=text, chunk_id=str(number), metadata={"odd": number % 2 == 1})
            writer.put("s", str(number), "", text, [chunk])


def odd(texts: dict[int, str]) -> dict[int, str]:
    return {number: text for number, text in texts.items() if number % 2 == 1}


def by_hand(query: str, text: str) -> float:
    return sum(one * other for one, other in zip(EMBEDDER.embed_query(query), EMBEDDER.embed_query(text)))
