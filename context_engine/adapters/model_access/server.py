"""A server that runs a model: JSON over HTTP, and the OpenAI chat API (POST /v1/chat/completions)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

from pydantic import Field
from tenacity.nap import sleep as nap

from context_engine.adapters.http import (
    Access,
    Api,
    ApiClient,
    Backoff,
    HttpCall,
    Meaning,
    RetryBudget,
    below_host,
    retried,
)
from context_engine.adapters.http.client import PHASES
from context_engine.adapters.model_access import ModelContext, Options
from context_engine.core.protocols import Clock
from context_engine.core.text.strict_json import read_strict
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


def model_api(prefix: str, **limits: Any) -> Api:
    """Return the description of a model server's API; `prefix` is added to a base URL that is only a host."""
    return Api(root=below_host(prefix), statuses=_STATUSES, waits_for_rate=True, **limits)


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
        failure: ContextEngineError
        try:
            return self._post(path, body)
        except ConfigError as error:
            failure = self._error(f"its connection cannot be used: {error}", False)
        except SourceError as error:
            pause = f"; it asks for a pause of {error.retry_after_s:.0f} s" if error.retry_after_s else ""
            failure = self._error(f"{error}{pause}", error.retryable)
        raise failure  # outside the except, so that it carries no context

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


CHAT_API: Final = model_api("v1")


class ChatOptions(Options):
    """The model to ask.

    Attributes:
        connection: name of the connection.
        model: the server's name for the model.
        json_mode: request a JSON object; off for a server that does not know `response_format`.
    """

    connection: Annotated[str, Field(min_length=1)]
    model: Annotated[str, Field(min_length=1)]
    json_mode: bool = True


def ask_json(server: ModelServer, options: ChatOptions, rules: str, text: str) -> Any:
    """Return the JSON value that a model answers with.

    Raises:
        ValueError: the answer is not JSON, or an object in it has a key twice.
    """
    messages = [{"role": "system", "content": rules}, {"role": "user", "content": text}]
    body: dict[str, Any] = {"model": options.model, "messages": messages, "temperature": 0}
    if options.json_mode:
        body["response_format"] = {"type": "json_object"}
    answer = server.post("chat/completions", body)
    try:
        return read_strict(answer["choices"][0]["message"]["content"])
    except (KeyError, IndexError, TypeError, RecursionError):
        raise ValueError("no message with JSON in it") from None
