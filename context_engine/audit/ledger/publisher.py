"""The thread that publishes checkpoints while a process records, so that no search waits for it."""

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
_SHARE: Final = 8  # look after 1/8 of the records of the rhythm, because other processes append some of them
_LONGEST_CLOSE_S: Final = 10.0  # a process that ends must not hang on a silent witness


class PublisherCounts(NamedTuple):
    """What this process has published.

    Attributes:
        made: number of checkpoints.
        failures: number of failed deliveries.
        problem: the last failure; "" if none.
    """

    made: int = 0
    failures: int = 0
    problem: str = ""


class Publisher:
    """Publishes a checkpoint whenever one is due; thread-safe, and a forked child starts a thread of its own.

    Args:
        rhythm: closed after the last checkpoint.
    """

    def __init__(self, ledger: Ledger, rhythm: Rhythm, clock: Clock) -> None:
        self._ledger, self._rhythm, self._clock = ledger, rhythm, clock
        self.counts = PublisherCounts()
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Reset thread and lock, which a forked child does not inherit."""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._added, self._since = 0, self._clock.monotonic()
        self._owed = self._closing = False

    def added(self, count: int = 1) -> None:
        """Count appended records; never waits for a checkpoint."""
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
        """Publish the last checkpoint if records lack one; may be called twice.

        Args:
            timeout_s: seconds to wait at most; a witness silent for longer is abandoned.
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
        """Wait until a checkpoint may be due; return whether the publisher is closing."""
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
            self._owed = published is None or bool(problems)  # not due by count, it becomes due by time
        except (AuditError, ValueError) as error:  # ValueError: a damaged tile or note
            logger.warning("no checkpoint could be made: %s", error)
            problems, self._owed = (str(error),), True
        before = self.counts
        self.counts = PublisherCounts(
            before.made + made, before.failures + len(problems), problems[-1] if problems else before.problem
        )
