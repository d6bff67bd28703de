"""A client for one server: keeps the rate limit, reloads a refused key once, and raises errors of this package."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import closing
from typing import Final, TypeVar
from urllib.parse import urlsplit

import httpx

from context_engine.adapters.http.access_tokens import AccessTokens
from context_engine.adapters.http.api import Api, refusal
from context_engine.adapters.http.deadline import PartLimit, TimeLimit
from context_engine.adapters.http.keys import BASIC, Access, ApiKey, KeyHeader, user_pair
from context_engine.adapters.http.transport import HttpAnswer, HttpCall, HttpStream, make_client, open_stream, send
from context_engine.core.concurrency.forking import Lock, forget_in_child
from context_engine.core.protocols import Clock
from context_engine.errors import (
    ConfigError,
    SourceAuthError,
    SourceError,
    SourceForbidden,
    SourceRateLimited,
    SourceUnavailable,
)
from context_engine.secrecy import redacted
from context_engine.settings.connections import Connection

PHASES: Final = 3
"""Connecting, waiting and reading may each take the longest allowed silence; all together at most three of them."""
T = TypeVar("T")
Turn = Callable[[Callable[[], HttpAnswer]], HttpAnswer]
"""Makes a call when its turn comes, and returns its answer."""


class ApiClient:
    """A client of one server. Thread-safe; `connect` returns its connection, with variables and files read anew."""

    def __init__(
        self, api: Api, connect: Callable[[], Connection], clock: Clock, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.api = api
        self._connect, self._clock, self._sleep = connect, clock, sleep
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Drop open connections: a forked child would share them with its parent."""
        self._lock = threading.Lock()
        self._clients: dict[Connection, httpx.Client] = {}
        self._tokens = AccessTokens(self._clock)

    def access(self) -> Access:
        """Read the connection.

        Raises:
            ConfigError: it cannot be used.
        """
        connection = self._connect()
        return Access(connection, self._key(connection), self._clock.monotonic())

    def free_calls(self, access: Access) -> int | None:
        """Return how many calls the plan's rate allows now; None: any number."""
        return _budget(access).free(access.limit, self._clock.monotonic())

    def call(
        self,
        call: HttpCall,
        access: Access,
        left: Callable[[], float],
        *,
        silence_s: float = 0.0,
        turn: Turn = lambda make: make(),
    ) -> HttpAnswer:
        """Make one call and return its good answer; once more if the key was refused and has changed since.

        Args:
            access: as read for this search or question; a changed key is stored in it.
            left: returns the seconds until the answer is useless.
            silence_s: longest silence allowed, if longer than the connection's own.
            turn: makes the call when its turn comes.

        Raises:
            SourceError: the server gave no good answer, or may not be called yet.
        """
        return self._with_fresh_key(access, lambda: self._exchange(call, access, left, silence_s, turn))

    def stream(
        self, call: HttpCall, access: Access, left: Callable[[], float], *, first_s: float, silence_s: float
    ) -> HttpStream:
        """Make one call and return its good answer while it still comes; with a changed key as in `call`.

        Args:
            access: as in `call`.
            left: returns the seconds until the answer is useless; asked several times a second.
            first_s: longest wait for the first part, in seconds.
            silence_s: longest wait for each further part.

        Raises:
            SourceError: the server gave no good answer, or may not be called yet.
        """
        return self._with_fresh_key(access, lambda: self._begin(call, access, left, first_s, silence_s))

    def close(self) -> None:
        with self._lock:
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()

    def _key(self, connection: Connection) -> ApiKey | None:
        if connection.api_key is None and connection.token_url is None and self.api.key_required:
            raise ConfigError(f"the connection to {connection.shown_url} has no api_key: {self.api.key_required}")
        if connection.aws_region is not None:
            from context_engine.adapters.http.signing import SignedAccess  # only here: it needs the extra `aws`

            return SignedAccess(connection.aws_region, connection.user, connection.api_key)
        header = KeyHeader(connection.api_key_header) if connection.api_key_header else self.api.key_header
        try:
            if connection.user is not None and connection.api_key is not None:
                return ApiKey(user_pair(connection.user, connection.api_key), BASIC)
            return None if connection.api_key is None else ApiKey(connection.api_key, header)
        except ConfigError as error:
            problem = f"the connection to {connection.shown_url} cannot be used: {error.problem}"
        raise ConfigError(problem)

    def _key_now(self, access: Access, client: httpx.Client, left: Callable[[], float]) -> ApiKey | None:
        """Return the key of the connection, or the access token of its token server."""
        connection = access.connection
        return access.key if connection.token_url is None else self._tokens.key(connection, client, left)

    def _with_fresh_key(self, access: Access, ask: Callable[[], T | SourceError]) -> T:
        """Return an answer; ask once more if the key was refused and has changed since."""
        used = access.key
        answer = ask()
        if isinstance(answer, SourceAuthError | SourceForbidden):
            answer = self._rotate(access, used, answer) or ask()
        if isinstance(answer, SourceError):
            raise answer  # here, because the frames of the exchange hold the answer, which may repeat the key
        return answer

    def _rotate(self, access: Access, used: ApiKey | None, refused: SourceError) -> SourceError | None:
        """Read the connection again after a refusal; return the refusal, or None if the key has changed."""
        if access.connection.token_url is not None and isinstance(refused, SourceAuthError):
            self._tokens.drop()
            return None
        try:
            fresh = self.access()
        except ConfigError as error:
            return type(refused)(f"{refused}; reading it again failed: {error}")
        if fresh.key == used:
            return refused
        access.connection, access.key = fresh.connection, fresh.key
        return None

    def _exchange(
        self, call: HttpCall, access: Access, left: Callable[[], float], silence_s: float, turn: Turn
    ) -> HttpAnswer | SourceError:
        """Make one call; return its good answer, or the error that another answer means."""
        connection, name = access.connection, self._name(access.connection)
        longest_s = max(connection.timeout_s, silence_s)
        client, url = self._client(connection), self.api.root(connection.base_url)

        def make() -> HttpAnswer:
            self._take(call, access, left)
            due = self._clock.monotonic() + PHASES * longest_s
            limit = TimeLimit(longest_s, lambda: min(left(), due - self._clock.monotonic()))
            key = self._key_now(access, client, limit.left)
            return send(client, url, call, key, limit=limit, max_bytes=self.api.max_bytes, name=name)

        answer = turn(make)
        return answer if answer.status in self.api.good else self._refusal(answer, access)

    def _begin(
        self, call: HttpCall, access: Access, left: Callable[[], float], first_s: float, silence_s: float
    ) -> HttpStream | SourceError:
        """Make one call; return its good answer, unread, or the error that another answer means."""
        connection, name = access.connection, self._name(access.connection)
        client, url = self._client(connection), self.api.root(connection.base_url)
        self._take(call, access, left)
        key = self._key_now(access, client, left)
        limit = PartLimit(first_s, silence_s, left, self._clock.monotonic)
        stream = open_stream(client, url, call, key, limit=limit, max_bytes=self.api.max_bytes, name=name)
        if stream.status in self.api.good:
            return stream
        with closing(stream):
            return self._refusal(stream.answer(), access)

    def _refusal(self, answer: HttpAnswer, access: Access) -> SourceError:
        key, name = access.key, self._name(access.connection)
        hide = redacted if key is None else key.hide
        error = refusal(answer, self.api.statuses, name=name, now=self._clock.now(), hide=hide)
        if isinstance(error, SourceRateLimited) and answer.status in self.api.counts_refusals:
            _budget(access).refused(self._clock.monotonic())
        return error

    def _take(self, call: HttpCall, access: Access, left: Callable[[], float]) -> None:
        """Count the call within the plan's rate; wait for it if the API's calls do."""
        if call.method not in self.api.counted_methods:
            return
        budget = _budget(access)
        while wait := budget.take(access.limit, self._clock.monotonic(), access.since):
            if not self.api.waits_for_rate or wait >= left():
                raise SourceRateLimited(
                    f"the budget of calls a minute is used up for another {wait:.0f} s, so "
                    f"{self._name(access.connection)} was not asked",
                    retryable=True,
                    retry_after_s=round(wait, 3),
                )
            self._sleep(wait)

    def _client(self, connection: Connection) -> httpx.Client:
        """Return the client of a connection; a new key needs no new client."""
        keyless = connection.model_copy(update={"api_key": None, "client_secret": None})
        with self._lock:
            if keyless not in self._clients:
                most = None if self.api.bounded_elsewhere else connection.max_connections
                try:
                    self._clients[keyless] = make_client(keyless, max_connections=most)
                except ConfigError as error:
                    raise SourceUnavailable(f"its connection cannot be used: {error}") from None
            return self._clients[keyless]

    def _name(self, connection: Connection) -> str:
        """Return the server's name in messages: the expression of its URL if it came from a variable."""
        shown = connection.shown_url
        return self.api.name or (shown if "${" in shown else str(urlsplit(shown).hostname))


def _budget(access: Access) -> RateBudget:
    return shared_budget(access.server, access.fingerprint)


WINDOW_S: Final = 60.0


class RateBudget:
    """The calls made with one key in the last 60 s. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._made: deque[float] = deque()
        self._limit: int | None = None
        self._refused: float | None = None

    def free(self, limit: int | None, now: float) -> int | None:
        """Return how many calls may be made now; None: any number."""
        with self._lock:
            if self._silence(now, now) > 0:
                return 0
            self._forget(now)
            return None if limit is None else max(limit - len(self._made), 0)

    def take(self, limit: int | None, now: float, planned: float) -> float:
        """Count a call before it is made and return 0; or return the seconds until it may be made, uncounted.

        Args:
            limit: calls in 60 s that this process may make; None for no limit.
            now: monotonic seconds.
            planned: when the search that makes the call began. A refusal since then stops only later searches: the
                server alone knows how many calls of one search it accepts.
        """
        with self._lock:
            self._limit = limit
            self._forget(now)
            wait = self._silence(now, planned)
            if limit is not None and len(self._made) >= limit:
                wait = max(wait, self._made[-limit] + WINDOW_S - now)
            if wait > 0:
                return wait
            if limit is not None:
                self._made.append(now)
            return 0.0

    def left(self, now: float) -> int | None:
        """Return how many calls may be made now under the limit of the last call; None: any number."""
        return self.free(self._limit, now)

    def refused(self, now: float) -> None:
        """Record a refusal for the rate limit: no calls are made until the window has passed."""
        with self._lock:
            self._refused = now

    def _silence(self, now: float, planned: float) -> float:
        """Return the seconds without calls that remain."""
        if self._refused is None or planned <= self._refused:
            return 0.0
        return self._refused + WINDOW_S - now

    def _forget(self, now: float) -> None:
        while self._made and self._made[0] <= now - WINDOW_S:
            self._made.popleft()


_LOCK: Final = Lock()
_BUDGETS: Final[dict[tuple[str, str], RateBudget]] = {}


def shared_budget(server: str, fingerprint: str) -> RateBudget:
    """Return this process's budget of a key at a server."""
    with _LOCK:
        return _BUDGETS.setdefault((server, fingerprint), RateBudget())


def budgets_left(now: float) -> dict[str, int]:
    """Return the calls left to each host that has a limit; of its keys that with the fewest.

    Args:
        now: monotonic seconds.
    """
    with _LOCK:
        budgets = list(_BUDGETS.items())
    left: dict[str, int] = {}
    for (server, _), budget in budgets:
        host, calls = str(urlsplit(server).hostname), budget.left(now)
        if calls is not None:
            left[host] = min(calls, left.get(host, calls))
    return left
