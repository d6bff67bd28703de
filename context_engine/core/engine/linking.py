"""Graph expansion: what the best chunks of a search lead to joins the candidates of stage 1.

Each hop asks the sources that are graph stores what one edge leads to. The chunks of a hop pass the access check before
the next hop begins, so a chunk that the caller may not read is neither shown nor a bridge. What an untrusted source
cites, or a text that reads like instructions, is not followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Final, NamedTuple

from context_engine.core.concurrency.calls import Busy, wait_all
from context_engine.core.engine.search_plan import Recalled, SearchPlan, SourceOutcome
from context_engine.core.models import (
    Chunk,
    Edge,
    Key,
    Link,
    LinkedChunk,
    LinkOrigin,
    Notice,
    NoticeCode,
    PathStep,
    RankedChunk,
    SourceSpec,
    TrustClass,
    hops_of,
)
from context_engine.core.policy.injection import INJECTION_SUSPECTED, injection_kinds
from context_engine.core.policy.trust import effective_authority
from context_engine.core.query.features import citations
from context_engine.errors import SourceTimeout, source_error_from

_ORIGINS: Final = 8
"""Chunks whose edges are followed in one hop: as many as an answer has by default."""

Follow = Callable[[Sequence[LinkOrigin], frozenset[Edge]], Future[tuple[Link, ...]]]
"""Begins to follow the edges of some chunks into one source; the future may raise anything."""


class _Step(NamedTuple):
    """A chunk that was reached: its source, and the path to it; () for a returned chunk."""

    key: Key
    chunk: Chunk
    path: tuple[PathStep, ...]

    @property
    def origin(self) -> LinkOrigin:
        return LinkOrigin(self.key, self.chunk, citations(self.chunk.content))


def with_linked(
    plan: SearchPlan,
    recalled: Recalled,
    returned: Sequence[RankedChunk],
    follow: Mapping[str, Follow],
    seconds: float,
) -> Recalled | None:
    """Return stage 1 with the chunks that the returned ones lead to; None if there are none and nothing failed.

    Args:
        returned: what a first ranking would return, best first.
        follow: follows edges into a source, by the source's id.
        seconds: for each hop.
    """
    settings, specs = plan.settings, {spec.id: spec for spec in plan.specs}
    chosen = list(map(Edge, settings.graph_edges))
    steps = [_Step((chunk.source_id, chunk.chunk_id), chunk.chunk, ()) for chunk in returned if _is_followed(chunk)]
    reached: dict[Key, _Step] = {}
    problems: dict[str, str] = {}
    for hop in range(1, settings.graph_hops + 1):
        edges = frozenset(edge for edge in chosen if hop - 1 + edge.hops <= settings.graph_hops)
        links = _links(steps[:_ORIGINS], edges, follow, seconds, problems) if steps and edges else ()
        steps = list(_new(steps, links, reached, settings.graph_most))
        steps = [step for step in steps if hops_of(step.path) == hop and _is_trusted(step.chunk, specs[step.key[0]])]
    if not reached and not problems:
        return None
    outcomes = tuple(
        _with(outcome, reached.values(), problems.get(outcome.status.source_id)) for outcome in recalled.outcomes
    )
    return recalled._replace(outcomes=outcomes)


def _is_followed(chunk: RankedChunk) -> bool:
    return chunk.trust_class is TrustClass.TRUSTED and INJECTION_SUSPECTED not in chunk.flags


def _is_trusted(chunk: Chunk, spec: SourceSpec) -> bool:
    return effective_authority(chunk, spec).trust is TrustClass.TRUSTED and not injection_kinds(chunk.content)


def _links(
    steps: Sequence[_Step],
    edges: frozenset[Edge],
    follow: Mapping[str, Follow],
    seconds: float,
    problems: dict[str, str],
) -> Iterator[tuple[str, Link]]:
    """Yield the links of one hop, each with the source it leads into; note the problem of each source that failed."""
    origins = [step.origin for step in steps]
    calls: dict[str, Future[tuple[Link, ...]]] = {}
    for source_id, ask in follow.items():
        try:
            calls[source_id] = ask(origins, edges)
        except Busy as busy:
            problems[source_id] = str(busy)
    in_time = wait_all(list(calls.values()), [seconds] * len(calls))
    for (source_id, call), done in zip(calls.items(), in_time, strict=True):
        error = call.exception() if done else SourceTimeout(f"no answer within {seconds:.3g} s")
        if error is not None:
            problems[source_id] = source_error_from(error, source_id).problem
        else:
            yield from ((source_id, link) for link in call.result())


def _new(
    steps: Sequence[_Step], links: Iterable[tuple[str, Link]], reached: dict[Key, _Step], most: int
) -> Iterator[_Step]:
    """Yield the chunks that are reached for the first time, those of the best origins first, and add them."""
    ranks = {step.key: rank for rank, step in enumerate(steps)}
    for source_id, link in sorted(links, key=lambda entry: ranks[entry[1].origin]):
        key = (source_id, link.chunk.chunk_id)
        if key in reached or key == link.origin or len(reached) >= most:
            continue
        path = (*steps[ranks[link.origin]].path, PathStep(*link.origin, link.edge))
        reached[key] = _Step(key, link.chunk, path)
        yield reached[key]


def _with(outcome: SourceOutcome, reached: Iterable[_Step], problem: str | None) -> SourceOutcome:
    """Return the outcome of a source with the chunks reached in it, and a notice if links into it were not followed."""
    status, answer = outcome
    if problem is not None:
        message = f"chunks of it that the best ones cite or stand beside were not added: {problem}"
        notice = Notice(NoticeCode.LINKS_NOT_FOLLOWED, status.source_id, message, {"problem": problem})
        status = replace(status, notices=(*status.notices, notice))
    own = [step for step in reached if step.key[0] == status.source_id]
    if answer is None or not own:
        return SourceOutcome(status, answer)
    recalled = {chunk.chunk_id for chunk in answer.chunks}
    links = tuple(LinkedChunk(step.key[1], step.path, step.key[1] not in recalled) for step in own)
    chunks = (*answer.chunks, *(step.chunk for step in own if step.key[1] not in recalled))
    return SourceOutcome(replace(status, chunks=len(chunks)), replace(answer, chunks=chunks, links=links))
