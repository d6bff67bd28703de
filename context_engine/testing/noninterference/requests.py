"""Questions made from a base's own words: those that are there, misspelt ones, unknown ones, and prying ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from random import Random
from typing import Any, Final

from context_engine.core.models import Chunk, Condition, FilterOp, SearchRequest
from context_engine.testing.noninterference.places import NO_SUCH_DOMAINS, NO_SUCH_SOURCES
from context_engine.testing.noninterference.wordings import (
    heading_of,
    misspelt,
    sentence_of,
    unknown_word,
    words_of,
)

_NARROWED: Final = 0.25
_ELSEWHERE: Final = 0.1
_TRIES: Final = 50


def made_requests(
    draw: Random,
    most: int,
    *,
    domains: Sequence[str],
    others: Sequence[str] = (),
    sources: Sequence[str] = (),
    readable: Sequence[Chunk] = (),
    hidden: Sequence[Chunk] = (),
) -> list[SearchRequest]:
    """Return different requests, a quarter of them narrowed, a tenth for domains that the caller may not know.

    Args:
        draw: what decides.
        most: how many; fewer where the texts do not give so many.
        domains: that the caller may search.
        others: that it may not; names that do not exist are asked for too.
        sources: that it may not search, and that requests name all the same.
        readable, hidden: texts that it may read, and some that it may not.
    """
    asking = _Asking(draw, domains, (*others, *NO_SUCH_DOMAINS), (*sources, *NO_SUCH_SOURCES), readable, hidden)
    found: dict[str, SearchRequest] = {}
    for request in asking.requests(_TRIES * most):
        found.setdefault(repr(request), request)
        if len(found) == most:
            break
    return list(found.values())


class _Asking:
    def __init__(
        self,
        draw: Random,
        domains: Sequence[str],
        others: Sequence[str],
        sources: Sequence[str],
        readable: Sequence[Chunk],
        hidden: Sequence[Chunk],
    ) -> None:
        self._draw, self._domains, self._others, self._sources = draw, domains, others, sources
        self._readable, self._hidden = readable, hidden
        self._words = words_of(chunk.content for chunk in (*readable, *hidden)[:500]) or ["approval", "limit"]
        own = {name for chunk in (*readable, *hidden) for name in chunk.metadata}
        self._fields = [*sorted(own), "owner", "project", "tier", "classification", "document_id"]

    def requests(self, tries: int) -> Iterator[SearchRequest]:
        for _ in range(tries):
            query = self._query().strip()
            if query:
                yield self._narrowed(SearchRequest(query=query, domain=self._domain()))

    def _domain(self) -> str:
        if not self._domains or self._draw.random() < _ELSEWHERE:
            name = self._draw.choice(self._others)
            return misspelt(name, self._draw) if self._draw.random() < 0.3 else name
        return self._draw.choice(self._domains)

    def _query(self) -> str:
        draw = self._draw
        words = draw.choices(self._words, k=draw.randint(1, 4))
        match draw.randrange(8):
            case 0 | 1 if self._readable:
                return sentence_of(draw.choice(self._readable), draw)
            case 2 | 3 if self._readable:
                return heading_of(draw.choice(self._readable))
            case 4 if self._hidden:
                return sentence_of(draw.choice(self._hidden), draw)
            case 5:
                return " ".join([misspelt(words[0], draw), *words[1:]])
            case 6:
                return " ".join([*words, unknown_word(draw)])
        return " ".join(words)

    def _narrowed(self, request: SearchRequest) -> SearchRequest:
        draw = self._draw
        if draw.random() > _NARROWED:
            return request
        match draw.randrange(5):
            case 0:
                return replace(request, filters=self._filter())
            case 1:
                return replace(request, as_of=date(2025, 6, 30))
            case 2:
                return replace(request, require_sources=(draw.choice(self._sources),))
            case 3:
                return replace(request, overrides={"sources": [draw.choice(self._sources)]})
        return replace(request, overrides=dict[str, Any](scope_threshold="auto", stage1_top_k=draw.choice((1, 3, 100))))

    def _filter(self) -> Condition:
        draw = self._draw
        name = draw.choice(self._fields)
        op = draw.choice((FilterOp.EQ, FilterOp.CONTAINS, FilterOp.NOT_EMPTY, FilterOp.NE))
        return Condition(name, op, None if op is FilterOp.NOT_EMPTY else draw.choice(self._words))
