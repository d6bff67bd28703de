"""Calls in daemon threads, bounded in number and in time; a circuit breaker for what fails several times in a row."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context, ContextVar
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from context_engine.core.concurrency.forking import Lock, forget_in_child
from context_engine.core.tracing import carried
from context_engine.errors import ContextEngineError, MissingExtra

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
    """Runs each call at once in its own thread; idle threads are reused.

    A hanging call blocks only its own thread, so the number of threads has no limit here: a bulkhead or a fan-out sets
    one. Idle threads end after a while, and none keeps the process from ending.

    Args:
        idle_s: seconds that an idle thread waits for another call.
    """

    def __init__(self, idle_s: float = _IDLE_S) -> None:
        self._idle_s = idle_s
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Drop the threads, which do not exist in a forked process."""
        self._lock = threading.Lock()
        self._idle: deque[_Worker] = deque()
        self._running = 0

    @property
    def busy(self) -> bool:
        """Whether a call is running, including calls that nobody waits for any more."""
        return self._running > 0

    def submit(self, call: Callable[[], T], name: str) -> Future[T]:
        """Start a call and return its future, which also carries the call's exception.

        Args:
            call: runs in another thread, in the caller's span, without other context variables of the caller or of
                earlier calls.
            name: the name of the thread while the call runs.

        Raises:
            Busy: no thread could be started.
        """
        future: Future[T] = Future()
        self._start(_Job(name, partial(resolve, future, carried(call))))
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
        """Remove a thread from the idle threads; False if it was just given a job."""
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


def submit_all(
    calls: Sequence[Callable[[], T]], *, width: int, name: str, executor: DaemonExecutor = EXECUTOR
) -> list[Future[T]]:
    """Start calls in order, at most `width` at once; return a future for each, in order.

    Args:
        calls: the calls; a call whose future is cancelled before its turn never starts.

    Raises:
        Busy: not one thread could be started.
    """
    futures: list[Future[T]] = [Future() for _ in calls]
    todo = deque(zip(futures, calls, strict=True))

    def work() -> None:
        while True:
            try:
                resolve(*todo.popleft())
            except IndexError:
                return

    for started in range(min(width, len(calls))):
        try:
            executor.submit(work, name)
        except Busy:
            if not started:
                raise
            break
    return futures


def wait_all(futures: Sequence[Future[Any]], seconds: Sequence[float]) -> list[bool]:
    """Wait for futures, each for its own number of seconds from now; return for each, in order, whether it finished in
    time.

    A late future is cancelled: if its call has not begun, it never starts.
    """
    left = [countdown(second) for second in seconds]
    in_time = [False] * len(futures)
    for place in sorted(range(len(futures)), key=lambda place: seconds[place]):
        in_time[place] = done_within(futures[place], left[place]())
        if not in_time[place]:
            futures[place].cancel()
    return in_time


logger = logging.getLogger(__name__)


class DeadlineExceeded(Exception):
    """A call did not return in time.

    A plain one continues in its thread, and its result is dropped; an async one is cancelled.
    """


def countdown(seconds: float, monotonic: Callable[[], float] = time.monotonic) -> Callable[[], float]:
    """Return a function that returns the remaining seconds; negative after the deadline."""
    due = monotonic() + seconds
    return lambda: due - monotonic()


def done_within(future: Future[Any], seconds: float) -> bool:
    """Wait for a future, at most `seconds` of the machine's clock; return whether it is done."""
    left = countdown(seconds)
    while not future.done() and (patience := left()) > 0:
        with suppress(TimeoutError):  # of the waiting: what the call raises is returned here
            future.exception(patience)
    return future.done()


TIME_LEFT: Final[ContextVar[Callable[[], float] | None]] = ContextVar("time_left", default=None)
"""Returns the seconds until the call that this thread makes is overdue; None if it has no deadline."""


def _before(left: Callable[[], float], call: Callable[[], T]) -> T:
    """Make a call that has a deadline, in a thread whose context ends with the call."""
    TIME_LEFT.set(left)
    return call()


def call_within(seconds: float, call: Callable[[], T], *, name: str) -> T:
    """Make a call in a daemon thread and return its result.

    Args:
        seconds: the time limit.
        call: its exceptions are raised here.

    Raises:
        DeadlineExceeded: it has not returned by then.
        Busy: no thread could be started.
    """
    future = EXECUTOR.submit(partial(_before, countdown(seconds), call), name)
    if not done_within(future, seconds):
        raise DeadlineExceeded
    return future.result()


class DeadlineCaller:
    """Calls one model, each time with a deadline. While a call is overdue, no other call is made.

    Args:
        name: the model's name, for errors.
        verb: what the model does, for the names of threads.
        monotonic: a monotonic clock in seconds.
        error: the class of errors to raise.
    """

    def __init__(self, name: str, verb: str, monotonic: Callable[[], float], error: type[ContextEngineError]) -> None:
        self._name, self._monotonic, self._error = name, monotonic, error
        self._bulkhead = Bulkhead(f"{verb}-{name}")

    def call(self, call: Callable[[], T], seconds: float, *, nothing: str) -> T:
        """Return the result of a call.

        Args:
            seconds: the time limit; a negative limit counts as 0.
            nothing: names the missing result in the error, such as "no scores".

        Raises:
            ContextEngineError: of class `error`; the model failed, was too slow, or is stuck in an overdue call.
        """
        left = countdown(seconds, self._monotonic)
        try:
            future = self._bulkhead.submit(call, left)
        except Overdue as busy:
            raise self._error(f"{self._name} is {busy}") from None
        except Busy as busy:
            raise self._error(f"{self._name} could not be called: {busy}") from None
        error: BaseException | None = DeadlineExceeded()
        if done_within(future, seconds):
            error = future.exception()
        if isinstance(error, DeadlineExceeded):
            raise self._error(f"{self._name} gave {nothing} within {max(seconds, 0.0):.3g} s")
        if error is None:
            return future.result()
        if isinstance(error, self._error):
            raise error
        logger.debug("%s raised", self._name, exc_info=error)
        problem = str(error) if isinstance(error, MissingExtra) else f"{self._name} failed with {type(error).__name__}"
        raise self._error(problem) from error


class Overdue(Busy):
    """An earlier call has not returned though its time is up."""


class Bulkhead:
    """Bounds the running calls to one source or model. Safe for several threads.

    While a call is overdue, no other is made: a call that never returns costs one caller its deadline, and one thread.

    Args:
        name: the name of the threads.
        executor: runs the calls.
    """

    def __init__(self, name: str, executor: DaemonExecutor = EXECUTOR) -> None:
        self._name, self._executor = name, executor
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Forget the running calls: in a forked child there are none."""
        self._lock = threading.Lock()
        self._under_way: dict[object, Callable[[], float]] = {}

    def submit(self, call: Callable[[], T], left: Callable[[], float], *, limit: int | None = None) -> Future[T]:
        """Start a call and return its future, or refuse it at once.

        Args:
            left: seconds until the call is overdue.
            limit: most running calls, including this one; None: no limit.

        Raises:
            Overdue: an earlier call is overdue.
            Busy: as many calls as allowed are under way, or no thread could be started.
        """
        leave = self.enter(left, limit=limit)

        def tracked() -> T:
            try:
                return _before(left, call)
            finally:
                leave()

        try:
            return self._executor.submit(tracked, self._name)
        except Busy:
            leave()
            raise

    def enter(self, left: Callable[[], float], *, limit: int | None = None) -> Callable[[], None]:
        """Count a call that is made elsewhere as running; return the function to call when it has ended.

        Args:
            left, limit: as in `submit`.

        Raises:
            Overdue: an earlier call is overdue.
            Busy: as many calls as allowed are under way.
        """
        token = object()
        with self._lock:
            if any(left_of_one() <= 0 for left_of_one in self._under_way.values()):
                raise Overdue("still busy with an overdue call")
            if limit is not None and len(self._under_way) >= limit:
                calls = "1 call is" if limit == 1 else f"{limit} calls are"
                raise Busy(f"not asked, because {calls} under way, as many as it may have now")
            self._under_way[token] = left
        return lambda: self._leave(token)

    def _leave(self, token: object) -> None:
        with self._lock:
            self._under_way.pop(token, None)


class Breaker:
    """Counts failures in a row. After `most` no call is made for `pause_s`, then one at a time until one succeeds.

    Safe for several threads.

    Attributes:
        failures: in a row, so far.
    """

    def __init__(self, most: int, pause_s: float) -> None:
        self._most, self._pause_s = most, pause_s
        self._lock = Lock()
        self._open_until, self._failed_at = 0.0, 0.0
        self.failures = 0

    @property
    def is_open(self) -> bool:
        """Whether the last calls failed, so that at most one call at a time is made."""
        return self.failures >= self._most

    def wait_s(self, now: float) -> float:
        """Return the seconds for which no call is made; 0: make it. After a pause only the first caller gets 0."""
        with self._lock:
            wait = self._open_until - now
            if not self.is_open or wait > 0:
                return wait if self.is_open else 0.0
            self._open_until = now + self._pause_s
            return 0.0

    def note(self, now: float, *, failed: bool, started: float | None = None) -> None:
        """Record how a call ended.

        Args:
            started: when it began, on the clock of `now`. A failure is not counted if the call began before the last
                counted one: a burst of calls that fail together counts once. None: it is counted.
        """
        with self._lock:
            if failed and self.failures and started is not None and started < self._failed_at:
                return
            self.failures = self.failures + 1 if failed else 0
            if failed:
                self._failed_at, self._open_until = now, now + self._pause_s
