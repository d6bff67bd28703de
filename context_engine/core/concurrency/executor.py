"""Calls in daemon threads that are used again: starting one costs more than a call to a server that is near."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context
from functools import partial
from typing import Final, NamedTuple, TypeVar

from context_engine.core.concurrency.forking import forget_in_child

T = TypeVar("T")

_IDLE_S: Final = 20.0


class Busy(Exception):
    """The call was not made, for the reason that the message gives."""


class _Job(NamedTuple):
    name: str
    run: Callable[[], None]


class _Worker:
    """A thread and the job it is to run next."""

    __slots__ = ("job", "ready")

    def __init__(self, job: _Job) -> None:
        self.ready = threading.Semaphore(0)
        self.job: _Job | None = job


class DaemonExecutor:
    """Runs each call at once in a thread of its own, an idle one where there is one.

    A call that hangs keeps its thread and nobody else's, so there is no bound here: a bulkhead or a fan-out sets one.
    Idle threads end after a while, and none keeps the process from ending.

    Args:
        idle_s: seconds that a thread waits for another call.
    """

    def __init__(self, idle_s: float = _IDLE_S) -> None:
        self._idle_s = idle_s
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Forget the threads: a forked process has none of them."""
        self._lock = threading.Lock()
        self._idle: deque[_Worker] = deque()
        self._running = 0

    @property
    def busy(self) -> bool:
        """Whether a call runs, waited for or given up."""
        return self._running > 0

    def submit(self, call: Callable[[], T], name: str) -> Future[T]:
        """Start a call and return its future, which takes whatever the call raises.

        Args:
            call: made in another thread, which has no context variables of the caller or of earlier calls.
            name: of the thread while the call runs.

        Raises:
            Busy: no thread could be started.
        """
        future: Future[T] = Future()
        self._start(_Job(name, partial(resolve, future, call)))
        return future

    def _start(self, job: _Job) -> None:
        with self._lock:
            worker = self._idle.pop() if self._idle else None
            self._running += 1
        if worker is not None:
            worker.job = job
            worker.ready.release()
            return
        try:
            threading.Thread(target=self._run, args=(_Worker(job),), daemon=True).start()
        except RuntimeError:
            with self._lock:
                self._running -= 1
            raise Busy("no thread could be started") from None

    def _run(self, worker: _Worker) -> None:
        while worker.job is not None:
            job, worker.job = worker.job, None
            threading.current_thread().name = job.name
            Context().run(job.run)
            del job  # what it held is free while the thread is idle
            threading.current_thread().name = "idle"
            with self._lock:
                self._running -= 1
                self._idle.append(worker)
            if not worker.ready.acquire(timeout=self._idle_s) and not self._retire(worker):
                worker.ready.acquire()

    def _retire(self, worker: _Worker) -> bool:
        """Take a thread off the idle ones; False if it was just given a job."""
        with self._lock:
            if worker in self._idle:
                self._idle.remove(worker)
                return True
        return False


def resolve(future: Future[T], call: Callable[[], T]) -> None:
    """Make the call of a future, unless that was cancelled."""
    try:
        if future.set_running_or_notify_cancel():
            future.set_result(call())
    except BaseException as error:  # noqa: BLE001  whoever waits is always told
        future.set_exception(error)
    finally:
        del future, call  # the error's traceback holds this frame


EXECUTOR: Final = DaemonExecutor()
"""The threads of this process."""
