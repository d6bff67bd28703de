"""A library of four fictitious documents that a workflow searches without an engine."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from context_engine.core.engine import rank_chunks
from context_engine.core.models import Chunk, EffectiveSettings, SearchRequest, SearchResult, Settings, SourceSpec
from context_engine.core.text import terms
from context_engine.jobs.workflow import Kit, Policy

TEXTS = {
    "OPS-SOP-001": "A loss is reported to the register within four hours.",
    "OPS-SOP-002": "After an incident a review is held; its actions follow section 7 of OPS-SOP-001.",
    "OPS-SOP-003": "The head of the desk signs the mandate.",
    "OPS-SOP-004": "A mandate ends on 31 December. See OPS-SOP-002.",
}


class Library:
    """Searches the texts by the words that they share with a query; each search has an id of its own.

    Attributes:
        asked: the queries, with the seconds that each was given.
        read: ids of the searches whose passages were read.
    """

    def __init__(self, texts: dict[str, str] = TEXTS) -> None:
        self.asked: list[tuple[str, float]] = []
        self.read: list[str] = []
        self.now = 0.0
        self._chunks = [
            Chunk(content=text, chunk_id=name, document_id=name, title=f"Procedure {name}")
            for name, text in texts.items()
        ]
        self._numbers = count(1)

    def search(self, query: str, seconds: float) -> SearchResult:
        self.asked.append((query, seconds))
        wanted = set(terms(query))
        chunks = [chunk for chunk in self._chunks if wanted.intersection(terms(f"{chunk.content} {chunk.title}"))]
        request = SearchRequest(query=query, domain="OPS")
        settings = EffectiveSettings(values=Settings(scope_threshold=0.0, min_relevance_score=0.0))
        return rank_chunks(request, SourceSpec(id="ops", type="bank_sop"), chunks, settings=settings)

    def kit(self, policy: Policy, *, lasts: Callable[[], float] | None = None) -> Kit:
        """What a workflow works with; `lasts` gives the seconds that each search takes."""

        def search(query: str, seconds: float) -> SearchResult:
            result = self.search(query, seconds)
            self.now += 0.0 if lasts is None else lasts()
            return result

        return Kit(policy, search, lambda result: self.read.append(result.search_id), lambda: self.now)
