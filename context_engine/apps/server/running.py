"""The service as one process: it listens, reloads on SIGHUP, and stops in order on SIGTERM and SIGINT."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn
from fastapi import FastAPI

from context_engine.apps.server.protocol import ProblemProtocol
from context_engine.apps.server.service import Service
from context_engine.core.concurrency.deadline import DeadlineExceeded, call_within
from context_engine.core.concurrency.executor import EXECUTOR
from context_engine.errors import ContextEngineError
from context_engine.wiring.audit_writers import close_writers

logger = logging.getLogger(__name__)

_KEEP_ALIVE_S: Final = 75
"""Longer than the idle time of the usual load balancers, so that it is they who close."""

_FOR_RECORDS: Final = 0.25
"""Share of `server_stop_s` that is kept for the records when requests take all they may."""

_LEAST_S: Final = 0.5
_CUT_OFF: Final = 1


def run(app: FastAPI, service: Service, listening: socket.socket, started: Callable[[], None]) -> int:
    """Serve until a signal ends it; return the exit code: 0, or 1 where requests were cut off or records lost.

    Args:
        app: made by `create_app`.
        listening: a bound socket; it is closed.
        started: called when requests are taken.
    """
    return _Process(app, service, started).run(listening)


class _Server(uvicorn.Server):
    """uvicorn, which leaves the signals to us."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell = started

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._tell()


class _Process:
    def __init__(self, app: FastAPI, service: Service, started: Callable[[], None]) -> None:
        self._service = service
        config = uvicorn.Config(
            app,
            http=ProblemProtocol,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
        )
        self._server = _Server(config, started)
        self._until: float | None = None
        self._watchdog: threading.Timer | None = None
        self._reload_wanted, self._reloading = False, threading.Lock()

    def run(self, listening: socket.socket) -> int:
        with asyncio.Runner(loop_factory=self._server.config.get_loop_factory()) as runner:
            runner.run(self._serve(listening))
        return self._closed()

    async def _serve(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with _signals(self._handlers(loop)):
            self._service.readiness.look()
            await self._server.serve(sockets=[listening])

    def _handlers(self, loop: asyncio.AbstractEventLoop) -> dict[int, Callable[[int], None]]:
        """Return what each signal does; called in the main thread, between two steps of whatever it does."""
        stops: list[asyncio.Task[None]] = []

        def begin() -> None:
            stops.append(loop.create_task(self._stop()))

        def end(number: int) -> None:
            if self._service.readiness.draining:
                os._exit(128 + number)
            self._service.readiness.draining = True
            loop.call_soon_threadsafe(begin)

        def reload(_number: int) -> None:
            if not self._reload_wanted:
                self._reload_wanted = True
                EXECUTOR.submit(self._reload, "context-engine-reload")

        handlers: dict[int, Callable[[int], None]] = {int(signal.SIGTERM): end, int(signal.SIGINT): end}
        if hasattr(signal, "SIGHUP"):
            handlers[int(signal.SIGHUP)] = reload
        return handlers

    async def _stop(self) -> None:
        """Say that no more requests should come, wait for that to be noticed, then let uvicorn finish those at work."""
        settings = self._service.settings
        drain_s, stop_s = settings.server_drain_s, settings.server_stop_s
        logger.info("stopping: the port closes in %g s, requests have %g s", drain_s, stop_s)
        self._until = time.monotonic() + drain_s + stop_s
        self._watchdog = threading.Timer(drain_s + stop_s + _LEAST_S, os._exit, (_CUT_OFF,))
        self._watchdog.daemon = True
        self._watchdog.start()
        await asyncio.sleep(drain_s)
        self._server.config.timeout_graceful_shutdown = stop_s * (1 - _FOR_RECORDS)  # type: ignore[assignment]
        self._server.should_exit = True

    def _reload(self) -> None:
        with self._reloading:
            self._reload_wanted = False
            try:
                self._service.reload()
            except ContextEngineError as error:
                logger.error("the new configuration is refused, the one before stays in force: %s", error)
            except Exception:
                logger.exception("the new configuration is refused, the one before stays in force")
            else:
                logger.info("the new configuration is in force")

    def _closed(self) -> int:
        """Write the records that wait and close everything, in the time that is left; return the exit code."""
        left = _LEAST_S if self._until is None else max(_LEAST_S, self._until - time.monotonic())
        cut_off = self._service.slots.at_work
        if cut_off:
            logger.error("%d requests were not done in time and are cut off", cut_off)
        lost = close_writers(left)
        for sentence in lost:
            logger.error("%s", sentence)
        try:
            call_within(left, self._service.close, name="context-engine-close")
        except DeadlineExceeded:
            logger.warning("the engine did not close in time")
        if self._watchdog is not None:
            self._watchdog.cancel()
        return _CUT_OFF if cut_off or lost else 0


@contextmanager
def _signals(handlers: dict[int, Callable[[int], None]]) -> Iterator[None]:
    """Handle signals in a block; what handled them before does so afterwards."""
    before = {number: signal.signal(number, _handler(handle)) for number, handle in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _handler(handle: Callable[[int], None]) -> Any:
    return lambda number, _frame: handle(number)
