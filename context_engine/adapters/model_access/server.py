"""A server that runs a model: JSON in, JSON out, with retries, a rate limit and a key that shows nowhere."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import httpx
import tenacity

from context_engine.adapters.http.tls import tls_context
from context_engine.adapters.model_access.context import ModelContext
from context_engine.core.concurrency.forking import forget_in_child
from context_engine.errors import ContextEngineError
from context_engine.settings.connections import Connection

__all__ = ["ModelServer", "server_of"]

T = TypeVar("T")
logger = logging.getLogger(__name__)

MOST_BYTES: Final = 64 * 1024 * 1024
WINDOW_S: Final = 60.0
_MOST_WAIT_S: Final = 60.0
_PHASES: Final = 3  # to connect, to wait, to read: each may take the longest silence borne
_LATER: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


class _Refused(Exception):
    """An answer that is no success, in words that hold no secret; `wait` is what the server asks for, in seconds."""

    def __init__(self, problem: str, *, later: bool, wait: float | None = None) -> None:
        self.problem, self.later, self.wait = problem, later, wait
        super().__init__(problem)


class ModelServer:
    """Asks one server; safe for several threads.

    A base URL that is only a host gets the prefix of the API; one with a path is taken as it stands.

    Args:
        connection: returns how it is reached, its key read at the call.
        error: (problem, whether it may pass) -> the error that a failure becomes.
        attempts: calls made at most for one question; what cannot succeed later is not asked again.
        sleep, monotonic: the time, for tests.
    """

    def __init__(
        self,
        connection: Callable[[], Connection],
        error: Callable[[str, bool], ContextEngineError],
        *,
        attempts: int = 5,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read, self._error, self._attempts = connection, error, attempts
        self._sleep, self._monotonic = sleep, monotonic
        self._made: deque[float] = deque()
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Have no connection open: a forked child would share it with its parent."""
        self._lock = threading.Lock()
        self._open: tuple[Connection, httpx.Client] | None = None

    def post(self, prefix: str, name: str, body: Mapping[str, Any]) -> Any:
        """Return the parsed answer of POST <base URL><prefix>/<name>.

        Raises:
            ContextEngineError: the one that `error` makes; the server failed, refused or did not answer.
        """
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self._attempts),
            wait=_wait,
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, _Refused) and error.later),
            sleep=self._sleep,
            reraise=True,
        )
        try:
            return retrying(self._once, prefix, name, body)
        except _Refused as error:
            problem, later = error.problem, error.later
        raise self._error(
            problem, later
        )  # outside the except: the transport's error holds the request, and with it the key

    def close(self) -> None:
        """Close connections; may be called twice."""
        with self._lock:
            if self._open is not None:
                self._open[1].close()
                self._open = None

    def _once(self, prefix: str, name: str, body: Mapping[str, Any]) -> Any:
        connection, client = self._client(fresh=False)
        self._take(connection)
        status, answer = self._ask(connection, client, prefix, name, body)
        if status == 401:
            rotated, client = self._client(fresh=True)
            if rotated.api_key != connection.api_key:
                status, answer = self._ask(rotated, client, prefix, name, body)
        if status == 401:
            raise _Refused("the API key was refused: correct api_key of the connection", later=False)
        return answer

    def _client(self, *, fresh: bool) -> tuple[Connection, httpx.Client]:
        with self._lock:
            if self._open is None or fresh:
                connection = self._read()
                if self._open is None or self._open[0] != connection:
                    self._open = (connection, _client(connection))
            return self._open

    def _take(self, connection: Connection) -> None:
        """Wait until the plan's rate allows another call."""
        if connection.rate_per_minute is None:
            return
        limit = max(int(connection.rate_per_minute * connection.rate_share), 1)
        while True:
            with self._lock:
                now = self._monotonic()
                while self._made and self._made[0] <= now - WINDOW_S:
                    self._made.popleft()
                if len(self._made) < limit:
                    self._made.append(now)
                    return
                wait = self._made[0] + WINDOW_S - now
            self._sleep(wait)

    def _ask(
        self, connection: Connection, client: httpx.Client, prefix: str, name: str, body: Mapping[str, Any]
    ) -> tuple[int, Any]:
        headers = {"Accept": "application/json", "User-Agent": "context-engine"}
        if connection.api_key is not None:
            headers["Authorization"] = f"Bearer {connection.api_key.get_secret_value()}"
        path = name if urlsplit(connection.base_url).path else f"{prefix.strip('/')}/{name}".lstrip("/")
        most_s = _PHASES * connection.timeout_s
        until = self._monotonic() + most_s

        def call() -> tuple[httpx.Response, bytes] | str:
            try:
                with client.stream("POST", f"{connection.base_url}/{path}", json=dict(body), headers=headers) as answer:
                    return answer, _read(answer, lambda: until - self._monotonic())
            except (httpx.TimeoutException, httpx.TransportError, httpx.InvalidURL, httpx.StreamError) as error:
                return type(error).__name__

        found = _within(most_s, call)
        if found is None:
            self._leave(client)
            found = f"not all of it within {most_s:g} s, three times timeout_s"
        if isinstance(found, str):
            raise _Refused(f"{_host(connection)} did not answer ({found}): check base_url and network", later=True)
        response, content = found
        return response.status_code, None if response.status_code == 401 else _answer(connection, response, content)

    def _leave(self, client: httpx.Client) -> None:
        """Ask no more over a client of which a connection is held by an answer that does not end."""
        with self._lock:
            if self._open is not None and self._open[1] is client:
                self._open = None


def server_of(
    context: ModelContext, connection: str, error: Callable[[str, bool], ContextEngineError], *, attempts: int
) -> ModelServer:
    """Return the server of a connection by its name; nothing is asked yet.

    Raises:
        ConfigError: there is no such connection.
    """
    context.connection(connection)  # one that is not there is said now
    return ModelServer(lambda: context.connection(connection), error, attempts=attempts)


def _client(connection: Connection) -> httpx.Client:
    limits = httpx.Limits(max_connections=connection.max_connections)
    proxy = connection.proxy.get_secret_value() if connection.proxy else None
    return httpx.Client(
        verify=tls_context(connection), proxy=proxy, limits=limits, timeout=connection.timeout_s, follow_redirects=False
    )


def _within(seconds: float, call: Callable[[], T]) -> T | None:
    """Return what a call returns, None if that takes longer; the call goes on by itself until it fails.

    httpx bounds the silence between two bytes, not the answer, and a thread is what bounds its head too.
    """
    answers: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

    def run() -> None:
        try:
            answers.put((call(), None))
        except BaseException as error:  # noqa: BLE001  it is raised where the call was asked for
            answers.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    try:
        found, error = answers.get(timeout=seconds)
    except Empty:
        return None
    if error is not None:
        raise error
    return found


def _read(response: httpx.Response, left: Callable[[], float]) -> bytes:
    body = bytearray()
    for part in response.iter_bytes():
        if left() <= 0:
            raise httpx.ReadTimeout("the answer did not end in time")
        body += part
        if len(body) > MOST_BYTES:
            raise _Refused(f"the answer is longer than {MOST_BYTES // 1024 // 1024} MiB", later=False)
    return bytes(body)


def _answer(connection: Connection, response: httpx.Response, content: bytes) -> Any:
    status = response.status_code
    if status != 200:
        # A server may repeat the question in its refusal, so its words stay in the debug log.
        logger.debug("model server answered %d: %s", status, content[:300])
        wait = _retry_after(response.headers.get("retry-after", ""))
        raise _Refused(f"{_host(connection)} {_meaning(status)}", later=status in _LATER, wait=wait)
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        problem = f"{_host(connection)} did not answer with JSON: check that base_url is the API's"
    raise _Refused(problem, later=False)


def _meaning(status: int) -> str:
    words = {
        400: "refused the request (400): check the model's name and options; the debug log holds its words",
        403: "refused access (403): the key may not use this model",
        404: "knows no such address or model (404): correct base_url or model",
        413: "refused the request as too large (413): lower batch_size or the length of texts",
        422: "refused the request (422): check the model's options; the debug log holds its words",
        429: "has no room (429): lower rate_per_minute or batch_size, or raise the plan",
    }
    return words.get(status, f"failed ({status}): its log says why")


def _wait(state: tenacity.RetryCallState) -> float:
    """Return what the server asked for, else 0.5, 1, 2, 4 ... seconds with jitter; at most a minute."""
    error = state.outcome.exception() if state.outcome else None
    asked = error.wait if isinstance(error, _Refused) else None
    if asked is not None:
        return min(asked, _MOST_WAIT_S)
    return (tenacity.wait_exponential(multiplier=0.5, max=_MOST_WAIT_S) + tenacity.wait_random(0, 0.5))(state)


def _retry_after(given: str) -> float | None:
    """Return the seconds of a Retry-After header: a number, or an HTTP date."""
    if given.strip().isdecimal():
        return float(min(int(given), 86_400))
    try:
        moment = parsedate_to_datetime(given)
    except (TypeError, ValueError):
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max((moment - datetime.now(UTC)).total_seconds(), 0.0)


def _host(connection: Connection) -> str:
    shown = connection.shown_url
    return shown if "${" in shown else str(urlsplit(shown).hostname)
