"""The vector of a question: in time or not at all, so that a slow model never takes the search by text with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from context_engine.core.concurrency.deadline import DeadlineCaller
from context_engine.core.models import QueryEmbedding
from context_engine.core.protocols import Clock, Embedder
from context_engine.errors import EmbedderError

_SLOW_S: Final = 1.0
_PAUSE_S: Final = 30.0
_LOADING: Final = (
    "the first question of a process loads the model, in half of deadline_s: raise it, or keep a service running"
)


class QueryVectors:
    """Asks one embedder for the vectors of questions. Safe for several threads.

    The first call may load the model, and may be given more time for that (`prepare`). A failure that took more than a
    second is not waited for again within 30 seconds.

    Args:
        embedder: asked in a thread of its own.
        clock: the time.
    """

    def __init__(self, embedder: Embedder, clock: Clock) -> None:
        self._embedder, self._clock = embedder, clock
        self._model_id = embedder.model_id  # asked once: a model that is being loaded may hold up who asks for its name
        self._caller = DeadlineCaller(self._model_id, "embed", clock.monotonic, EmbedderError)
        self._paused_until = float("-inf")
        self._problem = ""
        self._asked = False
        self._first: tuple[str, Sequence[float]] | None = None

    def prepare(self, text: str, seconds: float) -> None:
        """Ask for the vector of a question unless one was asked for before; it is kept for the next `ask`.

        What it fails with is not raised: `ask` says so.
        """
        if self._asked:
            return
        started = self._clock.monotonic()
        try:
            self._first = (text, self.ask(text, seconds))
        except EmbedderError:
            if self._clock.monotonic() - started >= seconds:
                self._problem += f" ({_LOADING})"

    def timed(self, text: str, seconds: float) -> tuple[Sequence[float], QueryEmbedding]:
        """Return the vector of a question with what made it, and in what time; see `ask`."""
        started = self._clock.monotonic()
        vector = self.ask(text, seconds)
        return vector, QueryEmbedding(self._model_id, (self._clock.monotonic() - started) * 1000.0)

    def ask(self, text: str, seconds: float) -> Sequence[float]:
        """Return the vector of a question.

        Args:
            text: the question.
            seconds: until it is given up.

        Raises:
            EmbedderError: the model failed, gave nothing in time, is stuck in an overdue call, or failed slowly a
                moment ago.
        """
        first = self._first
        if first is not None and first[0] == text:
            self._first = None
            return first[1]
        started = self._clock.monotonic()
        if started < self._paused_until:
            left = self._paused_until - started
            raise EmbedderError(
                f"{self._model_id} failed a moment ago and is asked again in {left:.0f} s: {self._problem}"
            )
        try:
            vector: Sequence[float] = self._caller.call(
                lambda: self._embedder.embed_query(text), seconds, nothing="no vector"
            )
        except EmbedderError as error:
            now = self._clock.monotonic()
            if now - started >= _SLOW_S:
                self._paused_until, self._problem = now + _PAUSE_S, str(error)
            raise
        finally:
            self._asked = True
        return vector
