"""Before stage 1: what is searched for. A query refiner adds to it in time or not at all."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from context_engine.errors import RefinerError
from context_engine.models import PreparedQuery, Settings
from context_engine.protocols import Clock, QueryRefiner
from context_engine.query import prepare
from context_engine.query.refine import refined, unrefined

__all__ = ["RefineLane", "prepared_query"]

logger = logging.getLogger(__name__)


class RefineLane:
    """Asks one refiner, each call in a daemon thread of its own; while a call is overdue it is not asked again.

    Args:
        refiner: the refiner.
        clock: the time.
    """

    def __init__(self, refiner: QueryRefiner, clock: Clock) -> None:
        self._refiner, self._clock = refiner, clock
        self._lock = threading.Lock()
        self._due: dict[object, float] = {}

    def refined(self, query: PreparedQuery, *, seconds: float, weight: float) -> PreparedQuery:
        """Return the query with what the refiner adds to it, or with a note on why there is nothing."""
        name = self._refiner.name
        try:
            return refined(query, self._ask(query, seconds), refiner=name, weight=weight)
        except RefinerError as error:
            return unrefined(query, str(error), refiner=name)

    def _ask(self, query: PreparedQuery, seconds: float) -> Any:
        name, token, now = self._refiner.name, object(), self._clock.monotonic()
        with self._lock:
            if any(due <= now for due in self._due.values()):
                raise RefinerError(f"{name} is still busy with an overdue call")
            self._due[token] = now + seconds
        replies: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        threading.Thread(target=self._run, args=(token, query, replies), name=f"refine-{name}", daemon=True).start()
        try:
            answer, error = replies.get(timeout=max(seconds, 0.0))
        except Empty:
            raise RefinerError(f"{name} gave nothing within {max(seconds, 0.0):.3g} s") from None
        if error is None or isinstance(error, RefinerError):
            if error is not None:
                raise error
            return answer
        logger.debug("query refiner %s raised", name, exc_info=error)
        raise RefinerError(f"{name} failed with {type(error).__name__}")

    def _run(self, token: object, query: PreparedQuery, replies: SimpleQueue[tuple[Any, BaseException | None]]) -> None:
        try:
            reply: tuple[Any, BaseException | None] = (self._refiner.refine(query.text, query.language), None)
        except BaseException as error:  # noqa: BLE001  the thread must always leave its lane
            reply = (None, error)
        with self._lock:
            self._due.pop(token, None)
        replies.put(reply)


def prepared_query(
    query: str, glossary: Mapping[str, Sequence[str]], settings: Settings, lane: RefineLane | None
) -> PreparedQuery:
    """Return what is searched for.

    Args:
        query: the user's words.
        glossary: of the domain.
        settings: of the search.
        lane: the query refiner; asked where `query_refinement` is on, for at most half of the search's time: the
            sources get what it leaves.
    """
    weight = settings.query_expansion_weight if settings.query_expansion else 0.0
    prepared = prepare(
        query,
        entries=glossary,
        expansion_weight=weight,
        multi_query=settings.multi_query,
        most_chars=settings.query_max_chars,
    )
    if lane is None or not settings.query_refinement:
        return prepared
    return lane.refined(
        prepared, seconds=min(settings.query_refiner_timeout_s, settings.deadline_s / 2.0), weight=weight
    )
