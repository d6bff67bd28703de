"""Before stage 1: what is searched for. A query refiner adds to it in time or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from context_engine.core.concurrency.deadline import DeadlineCaller
from context_engine.core.models import PreparedQuery, Settings
from context_engine.core.protocols import Clock, QueryRefiner
from context_engine.core.query import prepare
from context_engine.core.query.prepare import refined, unrefined
from context_engine.errors import RefinerError


class TimedRefiner:
    """A query refiner that is called with a deadline.

    Args:
        refiner: the refiner.
        clock: the time.
    """

    def __init__(self, refiner: QueryRefiner, clock: Clock) -> None:
        self._refiner = refiner
        self._caller = DeadlineCaller(refiner.name, "refine", clock.monotonic, RefinerError)

    def refined(self, query: PreparedQuery, *, seconds: float, weight: float) -> PreparedQuery:
        """Return the query with what the refiner adds to it, or with a note on why there is nothing."""
        name = self._refiner.name
        try:
            answer = self._caller.call(
                lambda: self._refiner.refine(query.text, query.language), seconds, nothing="nothing"
            )
            return refined(query, answer, refiner=name, weight=weight)
        except RefinerError as error:
            return unrefined(query, str(error), refiner=name)


def prepared_query(
    query: str, glossary: Mapping[str, Sequence[str]], settings: Settings, refiner: TimedRefiner | None
) -> PreparedQuery:
    """Return what is searched for.

    Args:
        query: the user's words.
        glossary: of the domain.
        settings: of the search.
        refiner: the query refiner; called where `query_refinement` is on, for at most half of the search's time: the
            sources get what it leaves.
    """
    weight = settings.query_expansion_weight if settings.query_expansion else 0.0
    prepared = prepare(
        query,
        entries=glossary,
        expansion_weight=weight,
        multi_query=settings.multi_query,
        most_chars=settings.query_max_chars,
        segmenter=settings.word_segmenter,
    )
    if refiner is None or not settings.query_refinement:
        return prepared
    return refiner.refined(
        prepared, seconds=min(settings.query_refiner_timeout_s, settings.deadline_s / 2.0), weight=weight
    )
