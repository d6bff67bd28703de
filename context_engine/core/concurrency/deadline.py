"""One call to something slow: in time or not at all."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from context_engine.core.concurrency.forking import forget_in_child
from context_engine.core.protocols import Clock
from context_engine.errors import ContextEngineError

__all__ = ["CallLane"]

logger = logging.getLogger(__name__)

_Replies = SimpleQueue[tuple[Any, BaseException | None]]


class CallLane:
    """Asks one model, each call in a daemon thread of its own; while a call is overdue it is not asked again.

    Args:
        name: of what is asked, for errors.
        verb: what it does, for the names of threads.
        clock: the time.
        error: the class of its errors.
    """

    def __init__(self, name: str, verb: str, clock: Clock, error: type[ContextEngineError]) -> None:
        self._name, self._verb, self._clock, self._error = name, verb, clock, error
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Know of no call under way: in a forked child none is."""
        self._lock = threading.Lock()
        self._due: dict[object, float] = {}

    def ask(self, call: Callable[[], Any], seconds: float, *, nothing: str) -> Any:
        """Return what the call returns.

        Args:
            call: made in another thread.
            seconds: until it is given up; less than 0 is 0.
            nothing: what was not given, for the error.

        Raises:
            ContextEngineError: of the class given; it failed, gave nothing in time, or is stuck in an overdue call.
        """
        token, now = object(), self._clock.monotonic()
        with self._lock:
            if any(due <= now for due in self._due.values()):
                raise self._error(f"{self._name} is still busy with an overdue call")
            self._due[token] = now + seconds
        replies: _Replies = SimpleQueue()
        arguments = (token, call, replies)
        threading.Thread(target=self._run, args=arguments, name=f"{self._verb}-{self._name}", daemon=True).start()
        try:
            answer, error = replies.get(timeout=max(seconds, 0.0))
        except Empty:
            raise self._error(f"{self._name} gave {nothing} within {max(seconds, 0.0):.3g} s") from None
        if isinstance(error, self._error):
            raise error
        if error is not None:
            logger.debug("%s raised", self._name, exc_info=error)
            raise self._error(f"{self._name} failed with {type(error).__name__}") from error
        return answer

    def _run(self, token: object, call: Callable[[], Any], replies: _Replies) -> None:
        try:
            reply: tuple[Any, BaseException | None] = (call(), None)
        except BaseException as error:  # noqa: BLE001  the thread must always leave its lane
            reply = (None, error)
        with self._lock:
            self._due.pop(token, None)
        replies.put(reply)
