"""The embedded base as a graph: what stands beside a chunk, and the clauses and documents that it cites."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import pytest

from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.core.models import (
    AccessScope,
    Chunk,
    CitedClause,
    Classification,
    Condition,
    Edge,
    FilterOp,
    LinkOrigin,
    LinkQuery,
    SourceQuery,
)
from context_engine.core.protocols import GraphStore
from context_engine.core.query.citations import citations

EVERY = frozenset(Edge)


def document(name: str, texts: dict[str, str], **fields: object) -> list[Chunk]:
    return [
        Chunk(
            content=text, chunk_id=f"{name}#{section}", title=f"{name} rules", section=section, position=place, **fields
        )  # type: ignore[arg-type]
        for place, (section, text) in enumerate(texts.items())
    ]


LIMITS = document(
    "LIM-SOP-001",
    {
        "1": "This procedure sets limits for the desk.",
        "2.1": "A breach is reported under section 3.2(b), and to the board as ESC-SOP-002 says.",
        "2.2": "The limit is reviewed in March.",
        "3": "Reports.",
        "3.2.(a)": "A report names the desk and its limit.",
        "3.2.(b)": "A report of a breach is signed by the risk officer.",
    },
)
ESCALATION = document(
    "ESC-SOP-002",
    {"1": "Who is told.", "2": "The board hears of a breach within a day.", "3": "Coffee is served at noon."},
)
SECRET = document("SEC-SOP-003", {"1": "The hidden limit is one crown."}, classification=Classification.RESTRICTED)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBase]:
    with LocalBase.open(tmp_path_factory.mktemp("graph") / "base", create=True) as base:
        with base.writer() as writer:
            writer.put("sop", "LIM-SOP-001", "", "1", LIMITS)
            writer.put("sop", "SEC-SOP-003", "", "1", SECRET)
            writer.put("policy", "ESC-SOP-002", "", "1", ESCALATION)
        yield base


def linked(
    base: LocalBase,
    source_id: str,
    *chunk_ids: str,
    cites: str | None = None,
    edges: frozenset[Edge] = EVERY,
    **query: object,
) -> list[tuple[str, str, str]]:
    """Return (chunk that it begins at, edge, chunk) of each link; `cites` takes the place of what a chunk says."""
    chunks = {chunk.chunk_id: chunk for chunk in (*LIMITS, *ESCALATION, *SECRET)}
    origins = []
    for chunk_id in chunk_ids:
        source = "policy" if chunk_id.startswith("ESC") else "sop"
        text = chunks[chunk_id].content if cites is None else cites
        origins.append(LinkOrigin((source, chunk_id), chunks[chunk_id], citations(text)))
    asked = SourceQuery(**{"text": "who hears of a breach", "domain": "D", "top_k": 10, **query})  # type: ignore[arg-type]
    source = LocalSource(base, source_id)
    assert isinstance(source, GraphStore)
    links = source.linked(LinkQuery(query=asked, origins=origins, edges=edges))
    assert all(link.chunk.scores for link in links)
    return [(link.origin[1], str(link.edge), link.chunk.chunk_id) for link in links]


def test_a_chunk_leads_to_the_clause_it_cites_and_to_its_neighbours(filled):
    begin = "LIM-SOP-001#2.1"
    assert linked(filled, "sop", begin) == [
        (begin, "CITES", "LIM-SOP-001#3.2.(b)"),
        (begin, "NEXT_CHUNK", "LIM-SOP-001#2.2"),
        (begin, "NEXT_CHUNK", "LIM-SOP-001#1"),
    ]


def test_a_document_that_is_cited_as_a_whole_leads_to_its_best_chunks_in_its_own_source(filled):
    begin = "LIM-SOP-001#2.1"
    assert linked(filled, "policy", begin) == [(begin, "BELONGS_TO", "ESC-SOP-002#2")]


def test_a_clause_of_another_document_is_found_there(filled):
    begin = "LIM-SOP-001#1"
    assert linked(filled, "policy", begin, cites="see ESC-SOP-002, section 3") == [(begin, "CITES", "ESC-SOP-002#3")]


def test_only_the_edges_asked_for_are_followed(filled):
    edges = frozenset({Edge.CITES})
    assert linked(filled, "sop", "LIM-SOP-001#2.1", edges=edges) == [
        ("LIM-SOP-001#2.1", "CITES", "LIM-SOP-001#3.2.(b)")
    ]


def test_a_chunk_comes_once_from_the_first_chunk_that_leads_to_it(filled):
    links = linked(filled, "sop", "LIM-SOP-001#2.1", "LIM-SOP-001#3.2.(a)")
    assert [begin for begin, _, end in links if end == "LIM-SOP-001#3.2.(b)"] == ["LIM-SOP-001#2.1"]
    assert len({end for _, _, end in links}) == len(links)


def test_at_most_top_k_links_come_back(filled):
    assert len(linked(filled, "sop", "LIM-SOP-001#2.1", top_k=2)) == 2


def test_filter_and_day_hold_for_what_is_led_to(filled):
    none = Condition("section", FilterOp.EQ, "9")
    assert linked(filled, "sop", "LIM-SOP-001#2.1", filters=none) == []
    assert len(linked(filled, "sop", "LIM-SOP-001#2.1", as_of=date(2026, 1, 1))) == 3


def test_what_the_caller_may_not_read_is_neither_reached_nor_an_origin(filled):
    reader = AccessScope(clearance=Classification.INTERNAL)
    cites = "see SEC-SOP-003"
    assert linked(filled, "sop", "LIM-SOP-001#1", cites=cites, edges=EVERY - {Edge.NEXT_CHUNK}) == []
    open_edges = frozenset({Edge.BELONGS_TO})
    question = "the hidden limit"
    assert linked(filled, "sop", "LIM-SOP-001#1", cites=cites, edges=open_edges, text=question)
    assert not linked(filled, "sop", "LIM-SOP-001#1", cites=cites, edges=open_edges, text=question, access=reader)
    assert not linked(filled, "sop", "SEC-SOP-003#1", cites="ESC-SOP-002 section 2", access=reader)
    assert not linked(filled, "policy", "SEC-SOP-003#1", cites="ESC-SOP-002 section 2", access=reader)
    assert linked(filled, "policy", "SEC-SOP-003#1", cites="ESC-SOP-002 section 2")


def test_a_source_the_base_never_had_leads_nowhere(filled):
    assert linked(filled, "other", "LIM-SOP-001#2.1") == []


def test_long_lists_of_citations_are_cut(filled):
    assert CitedClause("", "3.2(b)") in citations("section 3.2(b)")
    many = "; ".join(f"section 9.{place}" for place in range(40)) + "; section 3.2(b)"
    assert linked(filled, "sop", "LIM-SOP-001#1", cites=many, edges=frozenset({Edge.CITES})) == []
