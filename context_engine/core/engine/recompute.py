"""Stage 2 again, from a result alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from context_engine.core.engine.assemble import assemble, stage_two
from context_engine.core.engine.stage2 import rank
from context_engine.core.models import Chunk, Key, NoticeCode, SearchResult, canonical_json
from context_engine.errors import InvalidRequest, RerankerError

__all__ = ["recompute", "stage_two_bytes"]


def recompute(result: SearchResult) -> SearchResult:
    """Compute stage 2 from a result's raw answers, clock reading, settings and reranker scores.

    What comes out is the same to the byte (`stage_two_bytes`); only the times differ: they are 0.

    Raises:
        InvalidRequest: the result does not hold its request.
    """
    if result.request is None:
        raise InvalidRequest("this result does not hold its request: it cannot be computed again")
    given = stage_two(
        result.request,
        result.settings,
        result.specs,
        result.raw,
        now=result.now,
        as_of=result.as_of,
        today=result.today,
        search_id=result.search_id,
        prepared=result.prepared,
    )
    failure = next((notice for notice in result.notices if notice.code is NoticeCode.RERANK_FAILED), None)

    def recorded(_query: str, _pairs: Sequence[tuple[Key, Chunk]]) -> Mapping[Key, float]:
        if failure is not None:
            raise RerankerError(failure.detail["problem"])
        return result.rerank_scores

    return assemble(
        given,
        rank(given, recorded),
        request=result.request,
        settings=result.settings,
        specs=result.specs,
        statuses=result.sources,
        recall_ms=0.0,
    )


def stage_two_bytes(result: SearchResult) -> bytes:
    """Return everything stage 2 decides, as canonical JSON: the published form without the times."""
    published = result.to_dict()
    for name in ("stages", "sources"):
        published[name] = [{**one, "elapsed_ms": 0} for one in published[name]]
    return canonical_json(published).encode("utf-8", "surrogatepass")
