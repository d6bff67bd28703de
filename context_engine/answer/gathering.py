"""The passages of several searches as one result: what the answer of a workflow rests on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from context_engine.core.models import Decision, Key, RankedChunk, SearchResult, SourceStatus, Status, distinct


class Pick(NamedTuple):
    """A passage that an answer rests on.

    Attributes:
        round: of the search that found it, 0-based.
        key: source and chunk.
    """

    round: int
    key: Key


class SearchRound(NamedTuple):
    """One search of a workflow.

    Attributes:
        query: as searched.
        why: question, part, citation, gap or model.
        cites: the document or clause that an earlier passage cites and that is searched; "" without one.
        hops: citations between the question and this search, at least 0.
        search_id: of the record of the search.
        keys: the chunks that it was read for, best first.
    """

    query: str
    why: str
    cites: str
    hops: int
    search_id: str
    keys: tuple[Key, ...]


class Gathering(NamedTuple):
    """The searches of a workflow, and what an answer takes from them.

    Attributes:
        workflow: its name.
        policy: the name of what decided its steps.
        stopped: why it ended.
        picks: the passages of the answer, best first.
    """

    workflow: str
    policy: str
    rounds: tuple[SearchRound, ...]
    stopped: str
    picks: tuple[Pick, ...]


def in_turns(lists: Sequence[Sequence[Key]], most: int) -> tuple[Pick, ...]:
    """Return at most `most` passages: the best of each search, then the second of each, and so on.

    A search whose passage an earlier one gave has had its turn.
    """
    picks: dict[Key, Pick] = {}
    for place in range(max(map(len, lists), default=0)):
        for number, keys in enumerate(lists):
            if place < len(keys) and len(picks) < most:
                picks.setdefault(keys[place], Pick(number, keys[place]))
    return tuple(picks.values())


def gathered(results: Sequence[SearchResult], picks: Iterable[Pick]) -> SearchResult:
    """Return the first result with the picked chunks of all, in this order.

    Its decision is `answered` if one of the searches found something, unless the first one lacks required evidence. It
    is degraded if one of them is.
    """
    first, chunks = results[0], tuple(_ranked(results, picks))
    degraded = any(result.status is not Status.COMPLETE for result in results)
    answered = chunks and first.decision is not Decision.INCOMPLETE
    return replace(
        first,
        chunks=chunks,
        status=Status.DEGRADED if degraded else first.status,
        decision=Decision.ANSWERED if answered else first.decision,
        sources=_worst(results),
        notices=distinct(notice for result in results for notice in result.notices),
    )


def _ranked(results: Sequence[SearchResult], picks: Iterable[Pick]) -> Iterator[RankedChunk]:
    chunks = [{(chunk.source_id, chunk.chunk_id): chunk for chunk in result.chunks} for result in results]
    for rank, pick in enumerate(picks, start=1):
        yield replace(chunks[pick.round][pick.key], rank=rank)


def _worst(results: Sequence[SearchResult]) -> tuple[SourceStatus, ...]:
    """Return the status of each source in the first search in which it failed, else in the first one."""
    statuses: dict[str, SourceStatus] = {}
    for status in (status for result in results for status in result.sources):
        known = statuses.setdefault(status.source_id, status)
        if known.error is None and status.error is not None:
            statuses[status.source_id] = status
    return tuple(statuses.values())
