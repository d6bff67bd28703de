"""The embedded base as a graph: the contract by words alone, and which edges of a chunk come first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.adapters.sources.stores.chunk_rows import SourcePlace
from context_engine.core.models import Chunk, Edge, LinkOrigin, LinkQuery, SourceQuery
from context_engine.core.query.features import citations
from context_engine.testing import GraphStoreContract
from context_engine.testing.capability_conformance import CLOSED_RULES, CLOSED_SOURCE

TEXTS = {
    "1": "This procedure sets limits for the desk.",
    "2.1": "A breach is reported under section 3.2(b).",
    "2.2": "The limit is reviewed in March.",
    "3": "Reports.",
    "3.2.(a)": "A report names the desk and its limit.",
    "3.2.(b)": "A report of a breach is signed by the risk officer.",
}
BREACH = "LIM-SOP-001#2.1"


def place_of(source_id: str) -> SourcePlace:
    return SourcePlace(CLOSED_RULES if source_id == CLOSED_SOURCE else "")


class TestGraph(GraphStoreContract):
    @contextmanager
    def open_sink(self, data_dir: Path) -> Iterator[object]:
        with LocalBase.open(data_dir / "base", create=True, place=place_of) as base, base.writer() as writer:
            yield writer

    def open_source(self, source_id: str, data_dir: Path) -> LocalSource:
        return LocalSource(data_dir / "base", source_id, place=place_of(source_id))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBase]:
    with LocalBase.open(tmp_path_factory.mktemp("graph") / "base", create=True) as base:
        with base.writer() as writer:
            chunks = [
                Chunk(content=text, chunk_id=f"LIM-SOP-001#{section}", section=section)
                for section, text in TEXTS.items()
            ]
            writer.put("sop", "LIM-SOP-001", "", "1", chunks)
        yield base


def linked(base: LocalBase, cites: str, edges: frozenset[Edge], source_id: str = "sop") -> list[tuple[Edge, str]]:
    """Return (edge, section) of what the breach leads to if it cites a text."""
    chunk = Chunk(content=cites, chunk_id=BREACH)
    origins = [LinkOrigin(("sop", BREACH), chunk, citations(cites))]
    query = SourceQuery(text="who hears of a breach", domain="D", top_k=10)
    links = LocalSource(base, source_id).linked(LinkQuery(query=query, origins=origins, edges=edges))
    return [(link.edge, link.chunk.chunk_id.partition("#")[2]) for link in links]


def test_cited_clauses_come_before_the_chunk_after_and_the_chunk_before(filled):
    assert linked(filled, TEXTS["2.1"], frozenset(Edge)) == [
        (Edge.CITES, "3.2.(b)"),
        (Edge.NEXT_CHUNK, "2.2"),
        (Edge.NEXT_CHUNK, "1"),
    ]


def test_a_source_the_base_never_had_leads_nowhere(filled):
    assert linked(filled, TEXTS["2.1"], frozenset(Edge), "other") == []


def test_of_a_long_list_of_citations_sixteen_are_followed(filled):
    cites = frozenset({Edge.CITES})
    sixteen = "; ".join([*(f"section 9.{place}" for place in range(15)), "section 3.2(b)"])
    assert linked(filled, sixteen, cites) == [(Edge.CITES, "3.2.(b)")]
    assert linked(filled, f"section 9.15; {sixteen}", cites) == []
