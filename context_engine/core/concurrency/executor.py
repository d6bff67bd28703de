"""Daemon threads that are used again: starting one costs more than a call to a dataset that is near."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from context_engine.core.concurrency.forking import forget_in_child

__all__ = ["WORKERS", "Workers"]

_IDLE_S: Final = 20.0

Job = Callable[[], None]


class _Worker:
    """A thread's letter box."""

    __slots__ = ("filled", "job")

    def __init__(self) -> None:
        self.filled = threading.Semaphore(0)
        self.job: Job | None = None


class Workers:
    """Runs each job at once in a thread of its own, an idle one where there is one.

    A job that hangs keeps its thread and nobody else's, so there is no bound here: whoever starts jobs bounds them. An
    idle thread ends after a while, and none keeps the process from ending.
    """

    def __init__(self, idle_s: float = _IDLE_S) -> None:
        self._idle_s = idle_s
        self.forget()
        forget_in_child(self)

    def start(self, job: Job) -> bool:
        """Run a job, which must not raise; return False if no thread could be started."""
        with self._lock:
            worker = self._idle.pop() if self._idle else None
        if worker is not None:
            worker.job = job
            worker.filled.release()
            return True
        worker = _Worker()
        worker.job = job
        try:
            threading.Thread(target=self._run, args=(worker,), name="dify", daemon=True).start()
        except RuntimeError:
            return False
        return True

    def _run(self, worker: _Worker) -> None:
        while worker.job is not None:
            job, worker.job = worker.job, None
            job()
            del job  # what it held is free while the thread is idle
            with self._lock:
                self._idle.append(worker)
            if not worker.filled.acquire(timeout=self._idle_s) and not self._leave(worker):
                worker.filled.acquire()

    def _leave(self, worker: _Worker) -> bool:
        """Leave the idle ones; False if a job was just given."""
        with self._lock:
            if worker in self._idle:
                self._idle.remove(worker)
                return True
        return False

    def forget(self) -> None:
        """Forget the threads: a forked process has none of them."""
        self._lock = threading.Lock()
        self._idle: deque[_Worker] = deque()


WORKERS: Final = Workers()
"""The threads of this process."""
