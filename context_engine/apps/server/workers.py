"""Several processes that serve one port: they are started, told of signals, and replaced when one ends.

A worker ignores the signals of its process group: systemd and Ctrl-C send one to every process, and two of them would
end a worker at once. It obeys its supervisor alone, over a pipe, and stops in order if the supervisor is gone.
"""

from __future__ import annotations

import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from multiprocessing.managers import BaseManager
from typing import Any, Final, NamedTuple

from context_engine.apps.server.limits import RateLimits, SharedRates
from context_engine.apps.server.metrics import MetricsOfWorkers
from context_engine.apps.server.running import Handlers, handled
from context_engine.service.kept import KeptResults, PackedAnswers

logger = logging.getLogger(__name__)
SIGNALS: Final = tuple(int(getattr(signal, name)) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name))
_RELOAD: Final = int(getattr(signal, "SIGHUP", 0))
_SPAWN: Final = get_context("spawn")
_PAUSE_S: Final = 1.0
"""Seconds between the end of a worker and its replacement, so that one that cannot start does not fill the machine."""


class _Shared(BaseManager):
    """What the workers share, held in the memory of the supervisor."""


class Worker(NamedTuple):
    """What a worker gets from its supervisor.

    Attributes:
        number: 1 for the first.
        listening: the socket that all workers accept from.
        orders: signal numbers come from it; what is sent to it says that the worker serves.
        shared: address of what the workers share.
        announces: whether it tells the user where it listens.
    """

    number: int
    listening: socket.socket
    orders: Connection
    shared: Any
    announces: bool

    def joined(self) -> Joined:
        """Ignore the signals of the process group, and connect to what the workers share."""
        for number in SIGNALS:
            signal.signal(number, lambda _number, _frame: None)  # unlike SIG_IGN it ends with an exec
        _Shared.register("rates")
        _Shared.register("answers")
        _Shared.register("metrics")
        _Shared.register("reloads")
        manager: Any = _Shared(self.shared)
        manager.connect()
        return Joined(SharedRates(manager.rates()), manager.answers(), manager.metrics(), manager.reloads())

    def serves(self, announce: Callable[[], None]) -> None:
        """Tell the supervisor that this worker serves, and the user if it is the first."""
        self.orders.send(True)
        if self.announces:
            announce()

    def obey(self, handlers: Handlers) -> AbstractContextManager[None]:
        """Call the handler of each order in a thread; the end of the supervisor is an order to stop."""
        threading.Thread(target=self._obey, args=(handlers,), daemon=True, name="context-engine-orders").start()
        return nullcontext()

    def _obey(self, handlers: Handlers) -> None:
        try:
            while True:
                number = self.orders.recv()
                handlers[number](number)
        except (EOFError, OSError):
            logger.error("the supervisor is gone: worker %d stops", self.number)
            handlers[int(signal.SIGTERM)](int(signal.SIGTERM))


class Joined(NamedTuple):
    """What the workers share: rate limits, kept answers, the latest metrics of each, and the number of reloads."""

    rates: SharedRates
    answers: PackedAnswers
    metrics: MetricsOfWorkers
    reloads: Reloads

    def kept(self) -> KeptResults:
        """Return what keeps the answers of a deployment that is loaded now."""
        return KeptResults(self.answers, self.reloads.count())


class Reloads:
    """How often the configuration was to be loaded again."""

    def __init__(self) -> None:
        self._count = 0

    def add(self) -> None:
        """Count one more."""
        self._count += 1

    def count(self) -> int:
        """Return the number."""
        return self._count


class _Running(NamedTuple):
    process: SpawnProcess
    orders: Connection


def supervise(count: int, listening: socket.socket, target: Callable[[list[str], Worker], None]) -> int:
    """Serve a port by several processes until a signal; return the exit code: 0, or that of a worker that failed.

    Args:
        count: number of processes, at least 2.
        listening: a bound socket, which is closed at the end.
        target: what a worker runs, with the arguments of this command line.
    """
    return _Supervisor(count, listening, target).run()


class _Supervisor:
    """Handles signals and ended workers one after the other, so that no signal interrupts a start."""

    def __init__(self, count: int, listening: socket.socket, target: Callable[[list[str], Worker], None]) -> None:
        self._count, self._listening, self._target = count, listening, target
        self._running: dict[int, _Running] = {}
        self._codes: list[int] = []
        self._begun = self._stopping = False
        self._signals, self._noted = _SPAWN.Pipe(duplex=False)
        self._reloads, self._metrics = Reloads(), MetricsOfWorkers()
        self._shared = _served(self._reloads, self._metrics)

    def run(self) -> int:
        with handled(dict.fromkeys(SIGNALS, self._noted.send)):
            self._start(1)  # alone: what cannot be started is said once, and what is made at a first start is made once
            while self._running:
                self._look()
        return max((code if code >= 0 else 1 for code in self._codes), default=0)

    def _start(self, number: int) -> None:
        own, orders = _SPAWN.Pipe()
        worker = Worker(number, self._listening, orders, self._shared, announces=not self._begun)
        process = _SPAWN.Process(target=self._target, args=(sys.argv[1:], worker))
        process.start()
        orders.close()
        self._running[number] = _Running(process, own)

    def _look(self) -> None:
        """Wait for a signal, the first worker to serve, or the end of a worker."""
        first = () if self._begun else (self._running[1].orders,)
        ready = connection.wait([self._signals, *first, *(each.process.sentinel for each in self._running.values())])
        if self._signals in ready:
            self._pass_on(self._signals.recv())
        for number, worker in list(self._running.items()):
            if worker.process.exitcode is not None:
                self._ended(number, worker)
            elif worker.orders in ready and not self._stopping:
                self._begun = True
                for other in range(2, self._count + 1):
                    self._start(other)

    def _pass_on(self, number: int) -> None:
        """Give a signal to all workers; at the end it is left to them to close the port."""
        if number == _RELOAD:
            self._reloads.add()
        else:
            self._begun = self._stopping = True
            self._listening.close()
        for worker in self._running.values():
            with suppress(OSError):  # it has ended
                worker.orders.send(number)

    def _ended(self, number: int, worker: _Running) -> None:
        """Replace a worker that ended, unless all are to end or none has served yet."""
        code = worker.process.exitcode or 0
        worker.orders.close()
        self._metrics.drop(number)
        del self._running[number]
        if self._stopping or not self._begun:
            self._codes.append(code)
            return
        logger.error(
            "worker %d (process %s) ended with code %d: another takes its place", number, worker.process.pid, code
        )
        if self._signals.poll(_PAUSE_S):
            self._pass_on(self._signals.recv())
        if not self._stopping:
            self._start(number)


def _served(reloads: Reloads, metrics: MetricsOfWorkers) -> Any:
    """Serve what the workers share from a thread; return its address."""
    rates, answers = RateLimits(time.monotonic), PackedAnswers()
    _Shared.register("rates", callable=lambda: rates, exposed=("take", "least"))
    _Shared.register("answers", callable=lambda: answers, exposed=("put", "get", "holds", "bytes_held"))
    _Shared.register("metrics", callable=lambda: metrics, exposed=("put", "all"))
    _Shared.register("reloads", callable=lambda: reloads, exposed=("count",))
    server = _Shared().get_server()
    threading.Thread(target=server.serve_forever, daemon=True, name="context-engine-shared").start()
    return server.address
