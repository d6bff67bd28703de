"""The texts of a chunk to embed, and the vectors of questions within their time limit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from context_engine.core.concurrency.calls import DeadlineCaller
from context_engine.core.models import Chunk, QueryEmbedding
from context_engine.core.protocols import Clock, Embedder
from context_engine.errors import EmbedderError

_WINDOW: Final = 350

_OVERLAP: Final = 50

_UNIT: Final = r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\s\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+"


def passages(chunk: Chunk) -> list[str]:
    """Return the texts to embed for a chunk: its text, or overlapping windows of a long one.

    Models read at most 512 tokens and ignore the rest; the best window counts for the chunk. Headings are left out:
    embedded with the text they cost .038 R@10 of a search by vectors, and the text search finds them anyway.
    """
    units = [match.span() for match in re.finditer(_UNIT, chunk.content)]
    if len(units) <= _WINDOW:
        return [chunk.content]
    step = _WINDOW - _OVERLAP
    windows = (units[start : start + _WINDOW] for start in range(0, len(units) - _OVERLAP, step))
    return [chunk.content[window[0][0] : window[-1][1]] for window in windows]


_SLOW_S: Final = 1.0

_PAUSE_S: Final = 30.0

_LOADING: Final = (
    "the first question of a process loads the model, in half of deadline_s: raise it, or keep a service running"
)


class QueryVectors:
    """Asks one embedder, in a separate thread, for the vectors of questions. Thread-safe.

    The first call may load the model, and may be given more time for that (`prepare`). After a failure that took more
    than a second, the embedder is not called for 30 seconds.
    """

    def __init__(self, embedder: Embedder, clock: Clock) -> None:
        self._embedder, self._clock = embedder, clock
        self._model_id = embedder.model_id  # read once: it may block while a model is loading
        self._caller = DeadlineCaller(self._model_id, "embed", clock.monotonic, EmbedderError)
        self._paused_until = float("-inf")
        self._problem = ""
        self._asked = False
        self._first: tuple[str, Sequence[float]] | None = None

    def prepare(self, text: str, seconds: float) -> None:
        """Embed a question, unless one was embedded before, and keep the vector for the next `ask`.

        Failures are not raised here: `ask` reports them.
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
        """Return the vector of a question, its model and the time it took; see `ask`."""
        started = self._clock.monotonic()
        vector = self.ask(text, seconds)
        return vector, QueryEmbedding(self._model_id, (self._clock.monotonic() - started) * 1000.0)

    def ask(self, text: str, seconds: float) -> Sequence[float]:
        """Return the vector of a question.

        Args:
            seconds: time limit.

        Raises:
            EmbedderError: the model failed, was late, is stuck in an overdue call, or failed slowly a moment ago.
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
