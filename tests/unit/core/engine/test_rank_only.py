"""Chunks retrieved elsewhere are ranked as a search ranks them: the query is read in the same way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from context_engine.core.engine import rank_chunks, recompute, stage_two_bytes
from context_engine.core.models import Chunk, EffectiveSettings, SearchRequest, SearchResult, Settings, SourceSpec

Ask = Callable[..., SearchResult]


def ranked(spec: SourceSpec, chunks: list[Chunk], query: str, **settings: Any) -> SearchResult:
    effective = EffectiveSettings(values=Settings(**settings))
    return rank_chunks(SearchRequest(query=query, domain="NPA"), spec, chunks, settings=effective)


@pytest.mark.parametrize(
    ("query", "named"),
    [("what is NPA-001", "It is NPA-001."), ('who signs a "letter of comfort"', "A letter of comfort is signed.")],
)
def test_what_is_named_exactly_comes_first_as_in_a_search(
    ask: Ask, spec_of: Callable[..., SourceSpec], chunk_of: Callable[..., Chunk], query: str, named: str
) -> None:
    chunks = [chunk_of("strong", 0.9, "Another proposal, and who signs a letter."), chunk_of("named", 0.3, named)]
    result = ranked(spec_of(2), chunks, query)
    assert [chunk.chunk_id for chunk in result.chunks] == ["named", "strong"]
    searched = ask([(2, chunks)], query=query)
    assert [(one.chunk_id, one.final) for one in result.chunks] == [
        (one.chunk_id, one.final) for one in searched.chunks
    ]
    assert result.prepared == searched.prepared
    assert stage_two_bytes(recompute(result)) == stage_two_bytes(result)


def test_it_can_be_switched_off(spec_of: Callable[..., SourceSpec], chunk_of: Callable[..., Chunk]) -> None:
    chunks = [chunk_of("strong", 0.9, "Another proposal."), chunk_of("named", 0.3, "It is NPA-001.")]
    result = ranked(spec_of(2), chunks, "what is NPA-001", exact_first=False)
    assert [chunk.chunk_id for chunk in result.chunks] == ["strong", "named"]
