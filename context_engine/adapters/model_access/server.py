"""A server that runs a model: JSON over HTTP, as one answer or as a stream."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from tenacity.nap import sleep as nap

from context_engine.adapters.http import (
    Access,
    Api,
    ApiClient,
    Backoff,
    HttpCall,
    HttpStream,
    Meaning,
    RetryBudget,
    below_host,
    retried,
)
from context_engine.adapters.http.client import PHASES
from context_engine.adapters.model_access import ModelContext
from context_engine.core.protocols import Clock
from context_engine.errors import (
    ConfigError,
    ContextEngineError,
    SourceError,
    SourceForbidden,
    SourceNotFound,
    SourceProtocolError,
    SourceRateLimited,
    SourceUnavailable,
)
from context_engine.settings.connections import Connection

_BACKOFF: Final = Backoff(first_s=0.5, most_s=60.0)
T = TypeVar("T")
_LOOK_EVERY_S: Final = 0.25
_PAUSE_S: Final = 60.0  # allowed for the pause before each attempt
_ABOUT_THE_MODEL: Final = "check the model's name and options; the debug log holds its words"
_STATUSES: Final = {
    400: Meaning(SourceProtocolError, "{name} refused the request (400)", _ABOUT_THE_MODEL),
    403: Meaning(SourceForbidden, "{name} refused access (403)", "the key may not use this model"),
    404: Meaning(SourceNotFound, "{name} knows no such address or model (404)", "correct base_url or model"),
    409: Meaning(SourceUnavailable, "{name} is at work on the same (409)", "ask again later", retryable=True),
    413: Meaning(
        SourceProtocolError,
        "{name} refused the request as too large (413)",
        "lower batch_size or the length of texts",
    ),
    422: Meaning(SourceProtocolError, "{name} refused the request (422)", _ABOUT_THE_MODEL),
    429: Meaning(
        SourceRateLimited,
        "{name} has no room (429)",
        "lower rate_per_minute or batch_size, or raise the plan",
        retryable=True,
    ),
}


def model_api(prefix: str, *, more_statuses: Mapping[int, Meaning] = MappingProxyType({}), **more: Any) -> Api:
    """Return the description of a model server's API.

    Args:
        prefix: added to a base URL that is only a host.
        more_statuses: meanings of statuses that this API alone has.
        more: further fields of `Api`.
    """
    return Api(root=below_host(prefix), statuses={**_STATUSES, **more_statuses}, waits_for_rate=True, **more)


class StreamLimits(NamedTuple):
    """How long a streamed answer may take, in seconds; None: as long as an answer of `ModelServer.post`.

    Attributes:
        first_s: until its first byte.
        silence_s: between two parts.
        total_s: for all of it, with repeated calls and their pauses.
    """

    first_s: float | None = None
    silence_s: float | None = None
    total_s: float | None = None


class ModelServer:
    """A client of one server. Thread-safe.

    A question is answered or has failed within `attempts` times three times the connection's timeout_s and a minute,
    including pauses and the wait for the plan's rate.

    Args:
        connect: returns the connection, with its key read at the call.
        error: (problem, whether it may pass) -> the error that is raised.
        attempts: most calls for one question; a failure that cannot pass is not repeated.
    """

    def __init__(
        self,
        api: Api,
        connect: Callable[[], Connection],
        error: Callable[[str, bool], ContextEngineError],
        *,
        clock: Clock,
        attempts: int = 5,
        sleep: Callable[[float], None] = nap,
    ) -> None:
        self._client = ApiClient(api, connect, clock, sleep)
        self._error, self._attempts, self._clock, self._sleep = error, attempts, clock, sleep

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the parsed answer of a POST to a path of the API.

        Raises:
            ContextEngineError: the one that `error` makes: the connection cannot be read, or the server failed,
                refused or did not answer.
        """
        try:
            return self._post(path, body)
        except (ConfigError, SourceError) as error:
            failure = self._failure(error)
        raise failure  # outside the except, so that it carries no context

    def stream(
        self,
        call: HttpCall,
        read: Callable[[HttpStream], Generator[T]],
        limits: StreamLimits,
        cancelled: Callable[[], bool],
    ) -> Generator[T]:
        """Yield what is read of an answer while it comes. Until the first item, a call that failed is repeated.

        Closing the iterator ends the call.

        Args:
            read: yields the items of an answer, and closes it.
            cancelled: asked several times a second; once it is true, the call ends with an error.

        Raises:
            ContextEngineError: as in `post`.
        """
        try:
            first, rest = self._begun(call, read, limits, cancelled)
            with closing(rest):
                yield from first
                yield from rest
            return
        except (ConfigError, SourceError) as error:
            failure = self._failure(error)
        raise failure

    def access(self) -> Access:
        """Read the connection.

        Raises:
            ConfigError: it cannot be used.
        """
        return self._client.access()

    def close(self) -> None:
        self._client.close()

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        access = self.access()
        due = self._clock.monotonic() + self._attempts * (PHASES * access.connection.timeout_s + _PAUSE_S)

        def left() -> float:
            return due - self._clock.monotonic()

        def ask() -> Any:
            return self._client.call(HttpCall("POST", path, body), access, left).json()

        return retried(ask, RetryBudget(self._attempts), left, _BACKOFF, self._sleep)

    def _begun(
        self,
        call: HttpCall,
        read: Callable[[HttpStream], Generator[T]],
        limits: StreamLimits,
        cancelled: Callable[[], bool],
    ) -> tuple[list[T], Generator[T]]:
        """Return the first item of an answer, none if it is empty, and the rest."""
        access = self.access()
        timeout_s = access.connection.timeout_s
        total_s = limits.total_s or self._attempts * (PHASES * timeout_s + _PAUSE_S)
        due = self._clock.monotonic() + total_s

        def left() -> float:
            return 0.0 if cancelled() else due - self._clock.monotonic()

        def begin() -> tuple[list[T], Generator[T]]:
            first_s, silence_s = limits.first_s or timeout_s, limits.silence_s or timeout_s
            items = read(self._client.stream(call, access, left, first_s=first_s, silence_s=silence_s))
            return list(islice(items, 1)), items

        def pause(seconds: float) -> None:
            until = self._clock.monotonic() + seconds
            while left() > 0 and (rest_s := until - self._clock.monotonic()) > 0:
                self._sleep(min(rest_s, _LOOK_EVERY_S))

        return retried(begin, RetryBudget(self._attempts), left, _BACKOFF, pause)

    def _failure(self, error: ConfigError | SourceError) -> ContextEngineError:
        if isinstance(error, ConfigError):
            return self._error(f"its connection cannot be used: {error}", False)
        pause = f"; it asks for a pause of {error.retry_after_s:.0f} s" if error.retry_after_s else ""
        return self._error(f"{error}{pause}", error.retryable)


def open_server(
    api: Api, context: ModelContext, connection: str, error: Callable[[str, bool], ContextEngineError], *, attempts: int
) -> ModelServer:
    """Return the server of a connection by its name; nothing is sent yet.

    Raises:
        ConfigError: the connection does not exist or cannot be used.
    """
    server = ModelServer(api, lambda: context.connection(connection), error, clock=context.clock, attempts=attempts)
    server.access()
    return server
