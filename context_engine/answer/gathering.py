"""The passages of several searches as one result: what the answer of a workflow rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from context_engine.answer.writing import ModelCall
from context_engine.core.models import Decision, Key, RankedChunk, SearchResult, SourceStatus, Status, distinct
from context_engine.core.query.features import belongs_to
from context_engine.errors import InvalidRequest

MOST_ROUNDS: Final = 20
MOST_HOPS: Final = 2


class RunLimits(NamedTuple):
    """What no policy can exceed.

    Attributes:
        rounds: most searches, 1 to 20.
        hops: most citations that are followed one after the other, 0 to 2.
        deadline_s: seconds after which no search begins, > 0; a search that has begun gets what is left.
    """

    rounds: int = 6
    hops: int = 1
    deadline_s: float = 60.0

    def checked(self) -> RunLimits:
        """Return the limits.

        Raises:
            InvalidRequest: one of them is out of range.
        """
        for name, value, least, most in (("rounds", self.rounds, 1, MOST_ROUNDS), ("hops", self.hops, 0, MOST_HOPS)):
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise InvalidRequest(f"{name} of a workflow must be a whole number from {least} to {most}, got {value}")
        if not self.deadline_s > 0.0:
            raise InvalidRequest(f"deadline_s of a workflow must be more than 0 seconds, got {self.deadline_s}")
        return self


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
        stopped: why it ended; see `Stop` in `context_engine.jobs.workflow`.
        picks: the passages of the answer, best first.
        calls: what a model was asked to decide; () without one.
    """

    workflow: str
    policy: str
    limits: RunLimits
    rounds: tuple[SearchRound, ...]
    stopped: str
    picks: tuple[Pick, ...]
    calls: tuple[ModelCall, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the question that were searched; () if it has only one."""
        return tuple(searched.query for searched in self.rounds if searched.why == "part")

    def facts(self) -> dict[str, Any]:
        """Return what is recorded beside the words: the searches in order, why each was made, and the passages."""
        return {
            "name": self.workflow,
            "policy": self.policy,
            "limits": self.limits._asdict(),
            "rounds": [
                {"search": searched.search_id, "why": searched.why, "hops": searched.hops, "chunks": len(searched.keys)}
                for searched in self.rounds
            ],
            "stopped": self.stopped,
            "picks": [[pick.round, *pick.key] for pick in self.picks],
        }

    def words(self, mask: Callable[[str], str] = str) -> list[dict[str, str]]:
        """Return the words of each search: what was searched, masked, and the document that was cited."""
        return [{"query": mask(searched.query), "cites": searched.cites} for searched in self.rounds]


def read_gathering(facts: Mapping[str, Any], words: Sequence[Mapping[str, str]]) -> Gathering:
    """Return a recorded gathering; the chunks of its rounds follow from the records of the searches."""
    rounds = tuple(
        SearchRound(said["query"], made["why"], said["cites"], made["hops"], made["search"], ())
        for made, said in zip(facts["rounds"], words, strict=True)
    )
    picks = tuple(Pick(number, (source_id, chunk_id)) for number, source_id, chunk_id in facts["picks"])
    return Gathering(facts["name"], facts["policy"], RunLimits(**facts["limits"]), rounds, facts["stopped"], picks)


def keys_of(result: SearchResult, cites: str) -> tuple[Key, ...]:
    """Return the chunks that a result is read for: all, or those of the cited document, if it is among them.

    Outside the domain's scope there are none.
    """
    if result.decision is Decision.OUT_OF_SCOPE:
        return ()
    own = [chunk for chunk in result.chunks if cites and belongs_to(chunk.chunk, cites)]
    return tuple((chunk.source_id, chunk.chunk_id) for chunk in own or result.chunks)


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
