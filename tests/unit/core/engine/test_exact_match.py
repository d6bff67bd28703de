"""Quoted phrases, codes and other names, through both stages: whatever the tier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from context_engine import recompute
from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.core.engine.recompute import stage_two_bytes
from context_engine.core.models import Chunk, SearchResult, SourceSpec

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


@pytest.fixture
def bank(tmp_path: Any, make_engine: Callable[..., Any], ask: Any) -> Callable[..., SearchResult]:
    """Searches a tier-4 notice and the tier-1 and tier-2 texts that cite it."""
    base = LocalBase.open(tmp_path / "bank", create=True)
    texts = {
        "t1": [Chunk(content="See MAS Notice 637 and 4.2.1(b) for MAS filings.", chunk_id="register", title="Filings")],
        "t2": [
            Chunk(
                content="Capital reporting follows MAS Notice 637.", chunk_id="sop", title="Capital SOP", section="1"
            ),
            Chunk(content="(a) over 10 million; (b) a new channel.", chunk_id="tests", title="SOP", section="4.2.1"),
        ],
        "t4": [
            Chunk(
                content="(a) Banks hold capital; (b) and report.", chunk_id="four", title="MAS Notice 637", section="4"
            ),
            Chunk(content="Scope: all banks.", chunk_id="scope", title="MAS Notice 637", section="1"),
            Chunk(content="See MAS Notice 637(4)(b).", chunk_id="laundering", title="MAS Notice 626", section="4"),
        ],
    }
    with base.writer() as writer:
        for source, chunks in texts.items():
            for chunk in chunks:
                writer.put(source, str(chunk.chunk_id), "", "1", [chunk])

    def searched(query: str, **settings: Any) -> SearchResult:
        return ask([(SourceSpec(id=one, type=TYPES[one]), LocalSource(base, one)) for one in texts], query, **settings)

    return searched


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("MAS Notice 637", {"four", "scope"}),
        ("mas notice 637", {"four", "scope"}),
        ("MAS 637", {"four", "scope"}),
        ("MAS Notice 637(4)(b)", {"four"}),
        ("4.2.1(b)", {"tests"}),
        ("clause 4.2.1 (b)", {"tests"}),
    ],
)
def test_what_is_called_so_leads_what_cites_it_whatever_the_tier(
    bank: Callable[..., SearchResult], query: str, best: set[str]
) -> None:
    result = bank(query)
    assert {one.chunk_id for one in result.chunks[: len(best)]} == best
    assert stage_two_bytes(recompute(result)) == stage_two_bytes(result)
