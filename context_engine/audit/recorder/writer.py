"""The one thread of a process that writes to a ledger; waiting records share a transaction."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from context_engine.audit.recorder.jobs import Job, LedgerInUse, Make
from context_engine.audit.recorder.session import LedgerSession, Loss, Losses, reason_of, searches_are
from context_engine.audit.values import Draft
from context_engine.core.concurrency.forking import forget_in_child
from context_engine.core.protocols import Clock
from context_engine.errors import AuditUnavailable

logger = logging.getLogger(__name__)
_MOST_TOGETHER: Final = 256  # records per transaction
_LINGER_S: Final = 0.2  # a record that nobody waits for is held back this long, so that others can join it
_LEAVE_S: Final = 60.0  # without a record, after which the ledger is closed; the next record opens it again


class LedgerWriter:
    """Writes records to a ledger in a daemon thread, started by the first record. Thread-safe.

    When `write` returns, the record is durable. A forked child starts afresh; the parent writes what was waiting.

    Args:
        open_ledger: opens the ledger; called in the thread, again after a failure.
        place: the ledger's name for people, without a password.
        on_start: called in each process before its thread starts.
    """

    def __init__(
        self,
        open_ledger: Callable[[], LedgerInUse],
        *,
        clock: Clock,
        place: str,
        on_start: Callable[[], None] = lambda: None,
    ) -> None:
        self.place, self._on_start = place, on_start
        self._open_ledger, self._clock = open_ledger, clock
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Reset the thread and the waiting records, which belong to the parent."""
        self._changed = threading.Condition(threading.Lock())
        self._thread: threading.Thread | None = None
        self._awaited: deque[Job] = deque()
        self._offered: deque[Job] = deque()
        self._writing = 0
        self._ending = False
        self._problem = ""
        self._losses = Losses(self._clock, self.place)

    @property
    def lost(self) -> int:
        """The number of records lost in this process."""
        return self._losses.total

    @property
    def pending(self) -> int:
        """The number of records that wait to be written."""
        with self._changed:
            return len(self._awaited) + len(self._offered) + self._writing

    def write(self, make: Make, timeout_s: float) -> None:
        """Write a record and wait until it is durable.

        Raises:
            AuditUnavailable: it was not written in time; the message says why.
        """
        job = Job(make, at=self._clock.monotonic(), awaited=True)
        try:
            with self._changed:
                self._start()
                self._awaited.append(job)
                self._changed.notify_all()
        except RuntimeError as error:
            raise AuditUnavailable(f"no thread can be started to write it: {error}") from error
        if not job.done.wait(timeout_s) and self._withdraw(job):
            raise AuditUnavailable(self._problem or f"{self.place} did not take it within {timeout_s:g} s")
        if job.error is not None:
            raise AuditUnavailable(reason_of(job.error)) from job.error

    def offer(self, make: Make, most: int) -> None:
        """Queue a record. Never waits, never raises.

        Args:
            most: maximum number of waiting records; beyond it the record is lost.
        """
        with self._changed:
            if len(self._offered) + self._writing >= most:
                self._losses.add(1, f"{most} wait already. {self._problem}".rstrip())
                return
            try:
                self._start()
            except RuntimeError as error:
                self._losses.add(1, f"no thread can be started to write it: {error}")
                return
            self._offered.append(Job(make, at=self._clock.monotonic()))
            # The thread wakes by itself after _LINGER_S; waking it for each record would slow the search down.
            if len(self._offered) in (1, _MOST_TOGETHER):
                self._changed.notify_all()

    def close(self, timeout_s: float) -> str:
        """Write the waiting records, make a last checkpoint and close the ledger, as time permits.

        A later record opens it again.

        Returns:
            A sentence on what was not recorded; "" if everything was, or the ledger itself records the loss.
        """
        with self._changed:
            thread, self._ending = self._thread, self._thread is not None
            self._changed.notify_all()
        if thread is not None:
            thread.join(timeout_s)
        with self._changed:
            unreported = self._losses.unreported
            left = len(self._offered) + self._writing + (unreported.count if unreported is not None else 0)
        if not left:
            return ""
        problem = f"{searches_are(left)} not recorded in {self.place}: {self._problem or 'there was no time left'}"
        logger.warning("%s", problem)
        return problem

    def _start(self) -> None:
        """Start the thread if needed; the lock is held."""
        if self._thread is None or not self._thread.is_alive():
            self._ending = False
            self._on_start()
            thread = threading.Thread(target=self._run, name="context-engine-audit", daemon=True)
            thread.start()
            self._thread = thread

    def _withdraw(self, job: Job) -> bool:
        """Withdraw a record that was not written in time; return False if it was written after all."""
        with self._changed:
            if job in self._awaited:
                self._awaited.remove(job)
            return not job.done.is_set()

    def _run(self) -> None:
        session = LedgerSession(self._open_ledger, self._clock, self.place)
        while True:
            batch, leave = self._next_batch(session)
            if batch:
                self._write(session, batch)
            elif not leave:
                session.tidy()
            if leave:
                session.close()
                with self._changed:
                    gives_up = self._ending and session.retry_at is not None  # the ledger fails
                    if not self._awaited and (gives_up or not self._offered):
                        self._thread, self._ending = None, False
                        return

    def _next_batch(self, session: LedgerSession) -> tuple[Sequence[Job], bool]:
        """Wait for work; return the records to write, and whether to close the ledger."""
        with self._changed:
            since = self._clock.monotonic()
            while not self._awaited and not self._ending:
                left = self._wakes_at(session, since) - self._clock.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            now, batch = self._clock.monotonic(), self._take_batch(self._awaited)
            if session.may_be_tried(now, last=self._ending):
                batch += self._take_batch(self._offered, _MOST_TOGETHER - len(batch))
            self._writing = len(batch)
            return batch, not batch and (self._ending or now - since >= _LEAVE_S)

    def _write(self, session: LedgerSession, batch: Sequence[Job]) -> None:
        """Write records; those that nobody waits for stay queued if the ledger fails."""
        try:
            ledger = session.opened()
            written = write_batch(ledger, batch)
        except Exception as error:  # noqa: BLE001  opening may fail for any reason
            ledger, written = None, Written(left=list(batch), problem=error)
        for job in written.kept:
            job.finish()
        if written.problem is not None:
            session.failed(written.problem)
        else:
            session.wrote(len(written.kept))
        with self._changed:
            self._writing, self._problem = 0, session.problem
            self._offered.extendleft(job for job in reversed(written.left) if not job.awaited)
            for job, why in written.refused:
                if not job.awaited:
                    self._losses.add(1, f"a record cannot be kept: {reason_of(why)}")
            unreported = self._losses.unreported
        for job, why in written.refused:
            job.finish(why)
        for job in written.left:
            if job.awaited:
                job.finish(written.problem)
        if ledger is not None and unreported is not None and written.problem is None:
            self._report(session, ledger, unreported)

    def _report(self, session: LedgerSession, ledger: LedgerInUse, loss: Loss) -> None:
        """Record a loss in the ledger itself."""
        try:
            ledger.log.append([ledger.drafts.loss(loss.count, loss.since, loss.until)])
        except Exception as error:  # noqa: BLE001  retried with the next record
            session.failed(error)
            return
        session.wrote(1)
        with self._changed:
            self._losses.reported(loss)

    def _wakes_at(self, session: LedgerSession, since: float) -> float:
        """Return when there will be work if no record arrives."""
        tidies_at = session.tidies_at()
        moments = [] if tidies_at is None else [tidies_at]
        if not self._offered:
            moments.append(since + _LEAVE_S)
        elif session.retry_at is not None:
            moments.append(session.retry_at)
        else:
            full = len(self._offered) >= _MOST_TOGETHER
            moments.append(self._offered[0].at + (0.0 if full else _LINGER_S))
        return min(moments)

    @staticmethod
    def _take_batch(waiting: deque[Job], most: int = _MOST_TOGETHER) -> list[Job]:
        return [waiting.popleft() for _ in range(min(most, len(waiting)))]


_TRIES: Final = 2  # failed single records after which the ledger counts as down


@dataclass(slots=True)
class Written:
    """The outcome of a batch.

    Attributes:
        kept: durable.
        refused: records that cannot be written; the ledger itself works.
        left: records to retry, because the ledger failed.
        problem: why it failed.
    """

    kept: list[Job] = field(default_factory=list)
    refused: list[tuple[Job, Exception]] = field(default_factory=list)
    left: list[Job] = field(default_factory=list)
    problem: Exception | None = None


def write_batch(ledger: LedgerInUse, jobs: Sequence[Job]) -> Written:
    """Write records in one transaction, or as many of them as possible.

    A retry is safe: the ledger skips records that it has.
    """
    written = Written()
    drafts = [(job, draft) for job in jobs if (draft := _drafted(ledger, job, written)) is not None]
    if not drafts:
        return written
    try:
        ledger.log.append([draft for _, draft in drafts])
    except Exception as error:  # noqa: BLE001  on any error nothing of the batch was stored
        written.problem = error
        _one_by_one(ledger, drafts, written)
        return written
    written.kept = [job for job, _ in drafts]
    return written


def _drafted(ledger: LedgerInUse, job: Job, written: Written) -> Draft | None:
    try:
        return job.drafted(ledger.drafts)
    except Exception as error:  # noqa: BLE001  one record that cannot be composed must not block the others
        written.refused.append((job, error))
        return None


def _one_by_one(ledger: LedgerInUse, drafts: Sequence[tuple[Job, Draft]], written: Written) -> None:
    """Write each record alone. If any succeeds, those that fail are at fault; if none does, the ledger is."""
    failed: list[tuple[Job, Exception]] = []
    if len(drafts) > 1:
        for job, draft in drafts:
            if len(failed) >= _TRIES and not written.kept:
                failed.append((job, failed[-1][1]))
                continue
            try:
                ledger.log.append([draft])
                written.kept.append(job)
            except Exception as error:  # noqa: BLE001  see above
                failed.append((job, error))
    if written.kept:
        written.refused += failed
        written.problem = None
    else:
        written.left = [job for job, _ in drafts]
