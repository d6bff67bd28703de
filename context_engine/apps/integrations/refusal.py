"""Errors of a server as the errors that an engine in this process raises."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from context_engine import errors
from context_engine.adapters.http import HttpAnswer
from context_engine.errors import ContextEngineError, NotAuthenticated, NotPermitted, Overloaded, RetrievalFailed

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
    ContextEngineError.__init__(error, message)
    if isinstance(error, RetrievalFailed):
        error.result, error.statuses = None, ()
    return error


def _problem(answer: HttpAnswer) -> Mapping[str, Any]:
    try:
        body = json.loads(answer.body)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, Mapping) else {}
