"""Errors for the author of a workflow: what failed, where, and what to do."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, Final, TypeVar

from context_engine.adapters.http import HttpAnswer
from context_engine.apps.dify.credentials import Credentials, Redactor
from context_engine.apps.dify.dify_json import plain_text
from context_engine.core.models import SearchResult, SourceStatus, Status
from context_engine.errors import (
    AllSourcesFailed,
    AuditUnavailable,
    ContextEngineError,
    EvidenceIncomplete,
    NotAuthenticated,
    SourceBusy,
    SourceError,
    SourceTimeout,
)

logger = logging.getLogger(__name__)
T = TypeVar("T")

_NOT_RECORDED: Final = (
    "the answer could not be recorded, and audit_mode is 'required': unrecorded answers are withheld. The log of the "
    "plugin or the server says why; 'context-engine doctor' tries the ledger"
)
_STARVED: Final = (
    ". If the sources are knowledge bases of the Dify that runs this workflow, raise SERVER_WORKER_CONNECTIONS in its "
    ".env: it has ten connections as delivered, and each workflow that waits keeps one from the search"
)


class ToolFailure(Exception):
    """A failed call; its class name reaches the workflow's fail branch as `error_type`."""


class SourceMissing(EvidenceIncomplete):
    """A source did not answer, and the search was set to fail in that case."""

    code = "source_missing"


def failure(error: BaseException, redactor: Redactor) -> ToolFailure:
    """Return the error to raise instead: same name, message without secrets, no chained exception.

    Raise it outside the `except` block, because Dify logs the whole traceback.
    """
    if isinstance(error, AuditUnavailable):  # the message names the ledger's server, which callers must not see
        logger.error("an answer could not be recorded: %s", redactor.hide(str(error)))
        return _named(type(error).__name__, _NOT_RECORDED)
    if isinstance(error, ContextEngineError):
        return _named(type(error).__name__, redactor.hide(str(error)) + _advice(error))
    logger.error("a call failed with %s", type(error).__name__)
    logger.debug("the failure", exc_info=error)
    name = type(error).__name__
    return _named("InternalError", f"internal error {name}: report it with the version and the log")


def _advice(error: ContextEngineError) -> str:
    """Return what to do if no source answered because some were too busy or too slow; else nothing."""
    statuses = error.statuses if isinstance(error, AllSourcesFailed) else ()
    codes = {status.error["code"] for status in statuses if status.error}
    return _STARVED if codes & {SourceBusy.code, SourceTimeout.code} else ""


def guarded(fields: Mapping[str, Any], call: Callable[[Credentials], T]) -> T:
    """Call with the credentials of a form.

    Raises:
        ToolFailure: instead of any other error; see `failure`.
    """
    redactor = Redactor()
    try:
        credentials = Credentials.read(fields)
        redactor = credentials.redactor
        return call(credentials)
    except Exception as error:  # noqa: BLE001  any error may contain secrets
        failed = failure(error, redactor)
    raise failed


def guarded_tool(fields: Mapping[str, Any], call: Callable[[Credentials], T]) -> T:
    """Call as `guarded` does; a failure's message begins with its name.

    Dify writes a class of its own into the fail branch's `error_type`. So the name is the first word of the message,
    where a condition on `error_message` finds it.

    Raises:
        ToolFailure: instead of any other error.
    """
    try:
        return guarded(fields, call)
    except ToolFailure as error:
        named = _by_name(error)
    raise named


def guarded_stream(
    fields: Mapping[str, Any], call: Callable[[Credentials], Generator[T, None, None]]
) -> Generator[T, None, None]:
    """Yield what a call yields, guarded as by `guarded_tool` until its end.

    Raises:
        ToolFailure: instead of any other error.
    """
    redactor = Redactor()
    try:
        credentials = Credentials.read(fields)
        redactor = credentials.redactor
        yield from call(credentials)
        return
    except Exception as error:  # noqa: BLE001  any error may contain secrets
        failed = _by_name(failure(error, redactor))
    raise failed


def _by_name(error: ToolFailure) -> ToolFailure:
    """Return a failure whose message begins with its name."""
    name = type(error).__name__
    return _named(name, f"{name}: {error}")


def refuse_incomplete(result: SearchResult) -> None:
    """Fail if a source did not answer, or answered in part.

    Raises:
        SourceMissing: names the sources and the remedy.
    """
    if result.status is Status.COMPLETE:
        return
    reasons = [_failure_of(source) for source in result.sources if source.error is not None] or list(result.warnings)
    raise SourceMissing(
        f"search {result.search_id}: not every source answered: {'; '.join(reasons)}. Fix it, or set 'If a source is "
        "missing' to 'Continue' to go on without it."
    )


def _failure_of(source: SourceStatus) -> str:
    message: Any = source.error["message"] if source.error else ""
    return f"{source.title or source.source_id}: {message}"


def _named(name: str, message: str) -> ToolFailure:
    made: ToolFailure = type(name, (ToolFailure,), {})(plain_text(message))
    return made


SERVER: Final = "context-engine"
TOOLS_VERSION: Final = 1
"""The API version that this plugin needs; a server states its own."""

_CODE: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_NO_SERVER: Final = (404, 405, 501)
_REFUSED: Final = (401, 403)
_LONGEST: Final = 4000
_RENAMED: Final = {"base_url": "server_url", "ca_bundle": "the CA certificate", "api_key": "server_token"}


class ServerUnavailable(ContextEngineError):
    """The server gave no answer; a later call may succeed."""

    code = "server_unavailable"


class NoServer(ContextEngineError):
    """The address is not a context-engine server, or one that is too old."""

    code = "no_server"


def renamed(message: str) -> str:
    """Return a message about a connection with the field names of the plugin's form."""
    for name, field in _RENAMED.items():
        message = message.replace(name, field)
    return message


def checked_hello(answer: HttpAnswer, url: str) -> None:
    """Check a server's greeting.

    Raises:
        ContextEngineError: this plugin cannot use the server; the message says why and what to do.
    """
    if answer.status != 200:
        raise refused_by(answer, url)
    body = body_of(answer)
    if body.get("service") != SERVER:
        raise unusable_answer(url)
    version = body.get("tools_version")
    if not isinstance(version, int) or version < TOOLS_VERSION:
        raise NoServer(
            f"the server {url} is too old for this plugin (version {body.get('version')}): upgrade it, then save again"
        )


def refused_by(answer: HttpAnswer, url: str) -> ContextEngineError:
    """Return the error for a server's refusal: the engine's own error class if the answer names one."""
    body = body_of(answer)
    code, detail = body.get("code"), body.get("detail")
    if answer.status in _REFUSED and code in (None, NotAuthenticated.code):
        return NotAuthenticated(
            f"the server {url} refuses server_token: have its operator make one with 'context-engine token add'"
        )
    if isinstance(code, str) and _CODE.fullmatch(code) and isinstance(detail, str) and code != "not_found":
        log = f" (request {body.get('instance')})" if answer.status >= 500 else ""
        return _engine_error(code, detail[:_LONGEST] + log)
    if answer.status in _NO_SERVER:
        return NoServer(
            f"{url} answers {answer.status}: there is no context-engine, or one that is too old for this plugin. Give "
            "the address that 'context-engine serve' prints, without a path of the API; upgrade an old server"
        )
    return ServerUnavailable(
        f"the server {url} answers {answer.status} without an error of context-engine: see its log"
    )


def unusable_answer(url: str) -> ContextEngineError:
    """Return the error for an answer that is not a context-engine server's."""
    return NoServer(
        f"{url} answers, but not as a context-engine server: correct server_url, and check that no proxy or sign-in "
        "page answers instead"
    )


def _engine_error(code: str, detail: str) -> ContextEngineError:
    """Return the error with the class name that an engine in the plugin would raise."""
    names = {kind.code: kind.__name__ for kind in _errors(ContextEngineError) if not issubclass(kind, SourceError)}
    name = names.get(code) or "".join(part.capitalize() for part in code.split("_"))
    made: ContextEngineError = type(name, (ContextEngineError,), {"code": code})(detail)
    return made


def _errors(kind: type[ContextEngineError]) -> Iterator[type[ContextEngineError]]:
    for subclass in kind.__subclasses__():
        # Only classes of this package: a class added by an adapter may share a code.
        if subclass.__module__.startswith("context_engine.errors.") or subclass.__module__ == SourceMissing.__module__:
            yield subclass
        yield from _errors(subclass)


def body_of(answer: HttpAnswer) -> Mapping[str, Any]:
    """Return the JSON object in an answer, or an empty one."""
    try:
        body = json.loads(answer.body)
    except (ValueError, RecursionError):
        body = None
    return body if isinstance(body, Mapping) else {}
