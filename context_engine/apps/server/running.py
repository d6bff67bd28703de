"""Runs the service as one process: start, listen, reload on SIGHUP, orderly stop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from context_engine.apps.server.problems import PROBLEM_JSON, HttpProblem, problem_of
from context_engine.apps.server.service import Service
from context_engine.core.concurrency.calls import EXECUTOR, DeadlineExceeded, call_within
from context_engine.errors import ConfigError, ContextEngineError
from context_engine.service.deployment import Deployment, open_deployment
from context_engine.service.kept import KeptResults
from context_engine.settings import find_config
from context_engine.wiring.audit_writers import close_writers
from context_engine.wiring.check import check
from context_engine.wiring.setup import Setup, load_setup

logger = logging.getLogger(__name__)
_KEEP_ALIVE_S: Final = 75
"""Longer than the idle timeout of common load balancers, so that they close first."""

_FOR_RECORDS: Final = 0.25
"""Share of `server_stop_s` reserved for writing records."""

_LEAST_S: Final = 0.5
_CUT_OFF: Final = 1
Handlers = dict[int, Callable[[int], None]]
Obey = Callable[[Handlers], AbstractContextManager[None]]


def run(
    app: FastAPI,
    service: Service,
    listening: socket.socket,
    started: Callable[[], None],
    obey: Obey | None = None,
) -> int:
    """Serve until a signal; return the exit code: 0, or 1 if requests were cut off or records lost.

    Args:
        listening: a bound socket, which is closed at the end.
        obey: calls the handlers of signals, by number, for as long as its context is open; None: the signals of this
            process do. Other processes may then accept from the socket too.
    """
    return _Process(app, service, started, obey).run(listening)


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell = started

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(_BACKLOG)
        self._tell()


_BACKLOG: Final = 2048
_ONE: Final = 1
"""Connections that a worker accepts at each look, so that the first to look does not take all that wait."""


class _Process:
    def __init__(self, app: FastAPI, service: Service, started: Callable[[], None], obey: Obey | None) -> None:
        self._service, self._obey = service, obey or handled
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
            backlog=_BACKLOG if obey is None else _ONE,
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
        with self._obey(self._handlers(loop)):
            self._service.readiness.look()
            await self._server.serve(sockets=[listening])

    def _handlers(self, loop: asyncio.AbstractEventLoop) -> Handlers:
        """Return the handler of each signal; they run in the main thread, between any two instructions."""
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

        handlers: Handlers = {int(signal.SIGTERM): end, int(signal.SIGINT): end}
        if hasattr(signal, "SIGHUP"):
            handlers[int(signal.SIGHUP)] = reload
        return handlers

    async def _stop(self) -> None:
        """Report not ready, wait for load balancers to notice, then let uvicorn finish the running requests."""
        settings = self._service.settings
        drain_s, stop_s = settings.server_drain_s, settings.server_stop_s
        logger.info("stopping: the port closes in %g s, requests have %g s", drain_s, stop_s)
        self._service.jobs.close()
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
                logger.error("the new configuration is refused, the previous one stays in force: %s", error)
            except Exception:
                logger.exception("the new configuration is refused, the previous one stays in force")
            else:
                logger.info("the new configuration is in force")

    def _left(self) -> float:
        """Return the seconds that are left before the process must have ended."""
        return _LEAST_S if self._until is None else max(_LEAST_S, self._until - time.monotonic())

    def _closed(self) -> int:
        """Write pending records and close everything in the remaining time; return the exit code."""
        self._service.jobs.close(self._left() / 2)
        left = self._left()
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
def handled(handlers: Handlers) -> Iterator[None]:
    """Handle signals within a block; restore the previous handlers afterwards."""
    before = {number: signal.signal(number, _handler(handle)) for number, handle in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _handler(handle: Callable[[int], None]) -> Any:
    return lambda number, _frame: handle(number)


class ConfiguredLoader:
    """Opens the current configuration; thread-safe.

    At the start an unusable domain is set aside, as in every command, so that the others are served. At a reload any
    problem refuses the new configuration, because the one in force is better.

    Args:
        config_dir, stage: see `load_setup`.
        data_dir: see `Setup.data_dir`.
        kept: returns what keeps the answers of the next deployment.
    """

    def __init__(
        self,
        config_dir: str | None,
        stage: str | None,
        data_dir: str | None,
        kept: Callable[[], KeptResults] = KeptResults,
    ) -> None:
        self._config_dir, self._stage, self._data_dir, self._kept = config_dir, stage, data_dir, kept
        self._loaded = False

    def __call__(self) -> Deployment:
        """Return the deployment.

        Raises:
            ConfigError: unusable, without a domain, or with a receiver of events that cannot be used.
        """
        if self._loaded:
            _check_whole(self._config_dir, self._stage)
        setup = load_setup(config_dir=self._config_dir, stage=self._stage)
        _check_domains(setup)
        deployment = open_deployment(setup, data_dir=setup.data_dir(self._data_dir), kept=self._kept())
        try:
            deployment.events.opened()  # they deliver what waits from before
        except ConfigError:
            deployment.close()
            raise
        self._loaded = True
        return deployment


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address.

    Raises:
        ConfigError: it cannot be bound.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}. Name another with --host or --port."
        ) from None
    return bound


def _check_domains(setup: Setup) -> None:
    if setup.registry.names or setup.registry.unread:
        return
    raise ConfigError(
        "no domain is configured, and a service never serves the demo bank unasked: name your configuration with "
        "--config-dir, write one with 'context-engine init DIR', or start with --demo"
    )


def _check_whole(config_dir: str | None, stage: str | None) -> None:
    report = check(find_config(config_dir, env=os.environ, cwd=Path.cwd()), env=os.environ, stage=stage)
    if not report.ok:
        raise ConfigError.together(report.problems)


_HEAD_S: Final = 20.0
"""Seconds for the head of a request, and for the rest of a body that was answered early."""

_READ_S: Final = 60.0
"""Seconds for a caller to read a ready answer; then the connection is dropped."""


_TLS: Final = b"\x16\x03"
"""The first bytes of a TLS handshake."""


class ProblemProtocol(H11Protocol):
    """Answers malformed requests like every other error, and limits every wait."""

    _slow: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer of the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Read on; an incomplete request keeps its timer."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers."""
        super().connection_lost(exc)
        self._unwatch()
        self._was_read()

    def on_response_complete(self) -> None:
        """Limit the wait for an unread body like that for the headers."""
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            self._watch()

    def pause_writing(self) -> None:
        """Start the timer for the caller to read."""
        super().pause_writing()
        self._unread = self.loop.call_later(_READ_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop that timer."""
        super().resume_writing()
        self._was_read()

    def _was_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _watch(self) -> None:
        unwanted = self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY
        if self.conn.their_state is not h11.IDLE and not unwanted:
            self._unwatch()
        elif self._slow is None:
            self._slow = self.loop.call_later(_HEAD_S, self.transport.close)

    def _unwatch(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def send_400_response(self, msg: str) -> None:
        """Answer 400 and close the connection."""
        request_id = uuid4().hex
        detail = _malformed(self.conn.trailing_data[0])
        logger.warning("request %s: %s", request_id, detail)  # not every client shows its answer
        problem, _ = problem_of(HttpProblem("malformed_request", detail), request_id)
        body = problem.model_dump_json().encode()
        headers = [
            (b"content-type", PROBLEM_JSON.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"x-request-id", request_id.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"cache-control", b"no-store"),
            (b"connection", b"close"),
        ]
        if self.conn.our_state is h11.IDLE or self.conn.our_state is h11.SEND_RESPONSE:
            self.transport.write(self.conn.send(h11.Response(status_code=400, headers=headers, reason=b"Bad Request")))
            self.transport.write(self.conn.send(h11.Data(data=body)))
            self.transport.write(self.conn.send(h11.EndOfMessage()))
        self.transport.close()


def _malformed(sent: bytes) -> str:
    if sent.startswith(_TLS):
        return "the connection began with TLS, and this port takes plain HTTP: use http, or the proxy's https address"
    return "the request is not well-formed HTTP/1.1: send a request line, then one header on each line, with one Host"
