"""The graph of a knowledge base: chunks and documents as nodes, and the edges that a search may follow from a chunk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import Field

from context_engine.core.models.chunk import Chunk, Key
from context_engine.core.models.deployment_settings import SettingsGroup
from context_engine.core.models.question_settings import Unit
from context_engine.core.models.request import SourceQuery


class Edge(StrEnum):
    """What leads from one chunk to another.

    NEXT_CHUNK: the two stand side by side in a document; followed in both directions.
    CITES: the first cites the clause that the second is, or is part of.
    BELONGS_TO: the first cites a document, and the second belongs to it.
    """

    NEXT_CHUNK = "NEXT_CHUNK"
    CITES = "CITES"
    BELONGS_TO = "BELONGS_TO"

    @property
    def hops(self) -> int:
        """How many hops it counts: a document is a node of its own between the citing chunk and its chunks."""
        return 2 if self is Edge.BELONGS_TO else 1


MOST_HOPS: Final = 2


class GraphSettings(SettingsGroup):
    """Whether a search follows edges, which ones, and what the chunks that it reaches are worth.

    Measured in tests/benchmarks/bench_graph.py and bench_agentic.py.
    """

    graph_hops: Annotated[int, Field(strict=True, ge=0, le=MOST_HOPS)] = Field(
        0, description="Also return what the best chunks lead to, over at most so many edges; 0: off."
    )
    graph_edges: Annotated[
        tuple[Literal["NEXT_CHUNK", "CITES", "BELONGS_TO"], ...], Field(strict=False, min_length=1)
    ] = Field(
        ("CITES", "BELONGS_TO"),
        description="Edges that are followed: CITES the cited clause, BELONGS_TO the cited document (two hops), "
        "NEXT_CHUNK the chunks beside.",
    )
    graph_most: Annotated[int, Field(strict=True, ge=1, le=100)] = Field(12, description="Most chunks added this way.")
    graph_weight: Unit = Field(
        0.5, description="Share of its relevance that a chunk gives to one that it leads to, for each hop."
    )


class CitedClause(NamedTuple):
    """A clause or a document that a text cites.

    Attributes:
        document: its id, or its kind and number, as written; "" for the document of the text itself.
        clause: the number or the items of a clause; "" if the whole document is cited.
    """

    document: str
    clause: str

    @property
    def query(self) -> str:
        """The name as it is searched."""
        joined = f"{self.document}{self.clause}"
        return joined if self.clause.startswith("(") else f"{self.document} {self.clause}".strip()


class LinkOrigin(NamedTuple):
    """A chunk whose edges are followed, with its identity in the search and what it cites."""

    key: Key
    chunk: Chunk
    citations: tuple[CitedClause, ...]


class Link(NamedTuple):
    """An edge that was followed.

    Attributes:
        origin: the chunk that it begins at.
        chunk: the chunk that it leads to, with the scores of a search for the query.
    """

    origin: Key
    edge: Edge
    chunk: Chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkQuery:
    """A request to a graph store for the chunks of one source that some chunks lead to.

    Attributes:
        query: of the search; its filters, day and access hold for every chunk, and `top_k` is the most chunks wanted.
        origins: best first; some may belong to other sources of the search, also to those of other stores.
        edges: the kinds to follow.
    """

    query: SourceQuery
    origins: Sequence[LinkOrigin]
    edges: frozenset[Edge]


class PathStep(NamedTuple):
    """A step of a path: the chunk that it begins at, and the edge that it follows."""

    source_id: str
    chunk_id: str
    edge: Edge


def hops_of(path: Iterable[PathStep]) -> int:
    """Return the length of a path."""
    return sum(step.edge.hops for step in path)


class LinkedChunk(NamedTuple):
    """A chunk that another one leads to.

    Attributes:
        path: one step for each chunk on the way, that of one of the best chunks first.
        added: whether no source found it for the query.
    """

    chunk_id: str
    path: tuple[PathStep, ...]
    added: bool = True
