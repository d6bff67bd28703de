"""Quoted phrases, codes and other names, through both stages: whatever the tier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from context_engine import recompute
from context_engine.engine.recompute import stage_two_bytes
from context_engine.models import Chunk, SearchResult, SourceSpec
from context_engine.sources.local import LocalBase, LocalSource

TYPES = {"t1": "system_of_record", "t2": "bank_sop", "t4": "external_official", "t5": "general_web"}
TEXTS = {
    "t1": {
        "register": "Approval records of the bank list every proposal under NPA-002 and NPA 001.",
        "small": "A change that is material needs no approval when small.",
        "limits": "Section 4.2.1 applies to limits. 4.2.2 too.",
    },
    "t2": {
        "criteria": "New Product Approval criteria are set by the committee.",
        "signs": "Under 4.2.1(b) the desk head signs.",
    },
    "t4": {
        "capital": "MAS Notice 637 sets capital rules.",
        "laundering": "MAS Notice 626 sets rules on money laundering, Notice on 637 banks.",
    },
    "t5": {"pilot": "NPA-001 was a pilot.", "change": "A material change must be approved before launch."},
}


@pytest.fixture
def search(tmp_path: Any, make_engine: Callable[..., Any], ask: Any) -> Callable[..., SearchResult]:
    """Searches TEXTS, one source a tier, in one embedded base."""
    base = LocalBase.open(tmp_path / "base", create=True)
    with base.writer() as writer:
        for source, texts in TEXTS.items():
            chunks = [Chunk(content=text, chunk_id=name) for name, text in texts.items()]
            writer.put(source, f"doc-{source}", "", "1", chunks)

    def searched(query: str, **settings: Any) -> SearchResult:
        sources = [(SourceSpec(id=name, type=TYPES[name]), LocalSource(base, name)) for name in TEXTS]
        fields = {"glossary": {"NPA": ("New Product Approval",)}}
        return ask(sources, query, {"domain_fields": fields}, **settings)

    return searched


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("NPA-001", "pilot"),
        ("status of NPA\u2011001 in the approval records of the bank", "pilot"),
        ('does a "material change" need approval?', "change"),
        ("4.2.1(b)", "signs"),
        ("MAS Notice 637", "capital"),
        ("mas notice 637 approval records", "capital"),
    ],
)
def test_what_is_named_exactly_comes_first(search: Callable[..., SearchResult], query: str, best: str) -> None:
    result = search(query)
    assert result.chunks[0].chunk_id == best
    assert stage_two_bytes(recompute(result)) == stage_two_bytes(result)


def test_it_can_be_switched_off(search: Callable[..., SearchResult]) -> None:
    query = "status of NPA-001 in the approval records of the bank"
    assert search(query, exact_first=False).chunks[0].chunk_id == "register"


def test_a_text_under_another_name_is_relevant(search: Callable[..., SearchResult]) -> None:
    assert search("NPA criteria").chunks[0].chunk_id == "criteria"
    found = {chunk.chunk_id: chunk for chunk in search("what is the NPA", min_relevance_score=0.5).chunks}
    assert found["criteria"].absolute == 1.0
