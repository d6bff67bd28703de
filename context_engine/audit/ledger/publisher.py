"""The thread that hands out checkpoints while a process records: nobody who searches waits for it."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from context_engine.audit.ledger.publish import Rhythm, publish
from context_engine.core.concurrency.forking import forget_in_child
from context_engine.core.protocols import Clock
from context_engine.errors import AuditError

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger


logger = logging.getLogger(__name__)

_SHARE: Final = 8  # The ledger is looked at after that share of the records: other processes append some of them too.
_LONGEST_CLOSE_S: Final = 10.0


class PublisherCounts(NamedTuple):
    """What this process has handed out.

    Attributes:
        made: checkpoints.
        failures: what one could not be handed to, each time counted.
        problem: the last of those; "" if there is none.
    """

    made: int = 0
    failures: int = 0
    problem: str = ""


class Publisher:
    """Hands out a checkpoint whenever one is due. Safe for several threads; a forked child has a thread of its own.

    Args:
        ledger: open for writing.
        rhythm: when a checkpoint is due, and where it goes; closed behind the last one.
        clock: the time.
    """

    def __init__(self, ledger: Ledger, rhythm: Rhythm, clock: Clock) -> None:
        self._ledger, self._rhythm, self._clock = ledger, rhythm, clock
        self.counts = PublisherCounts()
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Have neither thread nor lock: a child has none of its parent's."""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._added, self._since = 0, self._clock.monotonic()
        self._owed = self._closing = False

    def added(self, count: int = 1) -> None:
        """Say that records were appended; never waits for a checkpoint.

        Args:
            count: of them.
        """
        with self._changed:
            if self._closing:
                return
            if not self._added:
                self._since = self._clock.monotonic()
            self._added += count
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="audit checkpoints", daemon=True)
                self._thread.start()
            elif self._enough():
                self._changed.notify_all()

    def close(self, timeout_s: float = _LONGEST_CLOSE_S) -> None:
        """Hand out the last checkpoint, where there are records without one; may be called twice.

        Args:
            timeout_s: seconds that it may take; a witness that is silent for longer is left behind.
        """
        with self._changed:
            self._closing, thread = True, self._thread
            self._changed.notify_all()
        if thread is not None:
            thread.join(timeout_s)

    def _enough(self) -> bool:
        return self._added >= max(1, self._rhythm.records // _SHARE)

    def _run(self) -> None:
        try:
            while not self._wait():
                self._publish()
            if self._added or self._owed:
                self._publish(at_once=True)
        finally:
            self._rhythm.close()

    def _wait(self) -> bool:
        """Wait until it is worth looking; return whether that was the last time."""
        with self._changed:
            while not self._closing and not self._enough():
                waiting = bool(self._added or self._owed)
                left = self._since + self._rhythm.seconds - self._clock.monotonic()
                if waiting and left <= 0:
                    break
                self._changed.wait(left if waiting else None)
            return self._closing

    def _publish(self, *, at_once: bool = False) -> None:
        with self._changed:
            self._added, self._since = 0, self._clock.monotonic()
        made = 0
        problems: tuple[str, ...] = ()
        try:
            if published := publish(self._ledger, self._rhythm, self._clock, at_once=at_once):
                made, problems = 1, published.problems
            self._owed = published is None or bool(problems)  # what was not due by count is due in time
        except (AuditError, ValueError) as error:  # the latter: a tile or a note that is damaged
            logger.warning("no checkpoint could be made: %s", error)
            problems, self._owed = (str(error),), True
        before = self.counts
        self.counts = PublisherCounts(
            before.made + made, before.failures + len(problems), problems[-1] if problems else before.problem
        )
