"""What a retriever asks: an engine in this process, or a server over HTTP. Both give the answer of the RAG API."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from pydantic import SecretStr, ValidationError

from context_engine import errors
from context_engine.adapters.http import Api, ApiClient, Backoff, HttpAnswer, HttpCall, RetryBudget, retried
from context_engine.adapters.http.retry import retry_after
from context_engine.core.concurrency.forking import Lock
from context_engine.core.engine import SystemClock
from context_engine.core.models import Principal
from context_engine.errors import (
    ConfigError,
    ContextEngineError,
    NotAuthenticated,
    NotPermitted,
    Overloaded,
    SourceError,
    SourceUnavailable,
)
from context_engine.service.contract.rag import RAGPipelineResponse, RAGQueryRequest
from context_engine.service.pipeline import RAGPipeline
from context_engine.settings.connections import Connection
from context_engine.settings.messages import config_error

T = TypeVar("T")
_API: Final = Api(good=frozenset(range(200, 300)) | frozenset(range(400, 600)), bounded_elsewhere=True)
_PATH: Final = "api/v1/rag/query"
_ATTEMPTS: Final = 3
_BACKOFF: Final = Backoff(0.3, 2.0)
_BUSY: Final = (429, 503)
_NAMES: Final = {"base_url": "server_url", "api_key": "token"}


class Knowledge(Protocol):
    """Answers questions of the RAG API. Thread-safe; a copy, pickled or deep, opens connections of its own."""

    def ask(self, request: RAGQueryRequest) -> RAGPipelineResponse:
        """Return the answer to a question.

        Raises:
            ContextEngineError: there is no answer; the same class in this process and from a server.
        """
        ...

    def close(self) -> None:
        """Close what is open; the next question opens it again."""
        ...


class _OpenedLater(ABC):
    """Keeps what was opened at the first use, and leaves it out of copies."""

    def __init__(self) -> None:
        self._opened: Any = None
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_opened", "_lock")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        _OpenedLater.__init__(self)
        vars(self).update(state)

    @abstractmethod
    def _open(self) -> Any:
        """Open the knowledge."""

    def _open_now(self) -> Any:
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def close(self) -> None:
        """Close what is open; the next question opens it again."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()


class InProcess(_OpenedLater):
    """The configured domains in this process.

    Args:
        config_dir, stage, data_dir: as for `RAGPipeline`.
        principal: the caller, whose rights decide what is searched: a `Principal`, or a dict of id, roles, groups and
            clearance. None: an anonymous caller.
    """

    def __init__(
        self,
        config_dir: str | Path | None = None,
        *,
        stage: str | None = None,
        data_dir: Path | None = None,
        principal: Principal | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._config_dir, self._stage, self._data_dir = config_dir, stage, data_dir
        self._principal = principal

    def ask(self, request: RAGQueryRequest) -> RAGPipelineResponse:
        """Return the answer to a question.

        Raises:
            ContextEngineError: as `RAGPipeline.run`; ConfigError if the configuration cannot be used.
        """
        pipeline: RAGPipeline = self._open_now()
        return pipeline.run(request, principal=self._principal)

    def _open(self) -> RAGPipeline:
        return RAGPipeline(self._config_dir, stage=self._stage, data_dir=self._data_dir)


class Server(_OpenedLater):
    """A server, `context-engine serve`; the token decides what is searched.

    Args:
        server_url: its address, without a path of the API.
        token: the caller's; shown in no repr, message or log.
        ca_bundle, proxy: as in `connections.yaml`.
        timeout_s: seconds for an answer, all attempts together.

    Raises:
        ConfigError: one of them cannot be used.
    """

    def __init__(
        self,
        server_url: str,
        token: str | SecretStr | None = None,
        *,
        ca_bundle: str | Path | None = None,
        proxy: str | SecretStr | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        super().__init__()
        fields = {
            "base_url": server_url,
            "api_key": token or None,
            "ca_bundle": ca_bundle,
            "proxy": proxy,
            "timeout_s": timeout_s,
        }
        try:
            self._connection = Connection.model_validate(fields)
        except ValidationError as error:
            problem = config_error(error, fields, Connection, file="", show_values=False)
            problem = ConfigError(problem.problem, key=_NAMES.get(problem.key or "", problem.key))
        else:
            return
        raise problem  # here, because the frames above hold the token

    def ask(self, request: RAGQueryRequest) -> RAGPipelineResponse:
        """Return the server's answer to a question; asked again while it is busy or cannot be reached.

        Raises:
            ContextEngineError: the server's error, by its own class.
            ServerUnavailable: no answer, or not one of a context-engine server.
        """
        answer = self._answer(HttpCall("POST", _PATH, request.model_dump(mode="json", exclude_unset=True)))
        if answer.status != 200:
            raise refusal(answer, self._server)
        try:
            return RAGPipelineResponse.model_validate_json(answer.body)
        except ValidationError:
            raise self._server.not_ours() from None

    @property
    def server_url(self) -> str:
        """The address of the server."""
        return self._connection.base_url

    @property
    def _server(self) -> LocatedServer:
        return LocatedServer(self.server_url)

    def _open(self) -> ApiClient:
        return ApiClient(_API, lambda: self._connection, SystemClock())

    def _answer(self, call: HttpCall) -> HttpAnswer:
        client: ApiClient = self._open_now()
        clock, seconds = SystemClock(), self._connection.timeout_s
        due = clock.monotonic() + seconds
        last: list[HttpAnswer] = []

        def left() -> float:
            return due - clock.monotonic()

        def once() -> HttpAnswer:
            last[:] = [client.call(call, client.access(), left, silence_s=seconds)]
            if last[0].status in _BUSY:
                pause = retry_after(last[0].headers, clock.now())
                raise SourceUnavailable("it is busy", retryable=True, retry_after_s=pause)
            return last[0]

        try:
            return retried(once, RetryBudget(_ATTEMPTS), left, _BACKOFF, outages=(SourceUnavailable,))
        except SourceError as error:
            if last and last[0].status in _BUSY:
                return last[0]  # its own words say more
            problem = str(error)
        raise self._server.no_answer(problem)


_KINDS: Final = {
    kind.code: kind
    for kind in map(errors.__dict__.__getitem__, errors.__all__)
    if isinstance(kind, type) and issubclass(kind, ContextEngineError) and kind is not NotAuthenticated
}
_LONGEST: Final = 4000


class ServerUnreachable(ContextEngineError):
    """The server gave no answer, or it is not a context-engine server."""

    code = "server_unavailable"


class LocatedServer(NamedTuple):
    """A server in messages."""

    url: str

    def no_answer(self, problem: str) -> ServerUnreachable:
        """Return the error for a server that cannot be reached."""
        return ServerUnreachable(f"the server {self.url} gave no answer: {problem}")

    def not_ours(self) -> ServerUnreachable:
        """Return the error for an answer that is not a context-engine server's."""
        return ServerUnreachable(
            f"{self.url} answers, but not as a context-engine server of this version: give the address that "
            "'context-engine serve' prints, and check that no proxy or sign-in page answers instead"
        )


def refusal(answer: HttpAnswer, server: LocatedServer) -> ContextEngineError:
    """Return the error for an answer that is a problem: of the class that its code names."""
    problem = _problem(answer)
    code, detail = str(problem.get("code", "")), str(problem.get("detail", ""))[:_LONGEST]
    if answer.status == 401:
        return NotAuthenticated(
            f"the server {server.url} refuses the token: have its operator make one with 'context-engine token add'"
        )
    if code == Overloaded.code:
        return Overloaded(f"the server {server.url} is busy: {detail}")
    if not code or not detail:
        return server.not_ours()
    request = f" (request {problem['instance']})" if answer.status >= 500 and problem.get("instance") else ""
    return _restored(_KINDS.get(code, NotPermitted if answer.status == 403 else ContextEngineError), detail + request)


def _restored(kind: type[ContextEngineError], message: str) -> ContextEngineError:
    """Return an error of a class with the server's message instead of what its constructor takes."""
    error = kind.__new__(kind)
    vars(error).update(_UNKNOWN)
    ContextEngineError.__init__(error, message)
    if isinstance(error, ConfigError):
        error.problem = message
    return error


_UNKNOWN: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("source_id", "domain", "text", "setting", "currency", "extra"), ""),
    **dict.fromkeys(("file", "key", "retry_after_s", "result", "limit", "used", "cost")),
    **dict.fromkeys(("known", "statuses"), ()),
    "retryable": False,
}
"""What the errors' constructors keep and a server's answer does not say."""


def _problem(answer: HttpAnswer) -> Mapping[str, Any]:
    try:
        body = json.loads(answer.body)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, Mapping) else {}
