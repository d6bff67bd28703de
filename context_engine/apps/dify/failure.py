"""Errors as the author of a workflow reads them: what failed, where, what to do; no secret, no traceback of ours."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from context_engine.apps.dify.credentials import Credentials, Redactor
from context_engine.apps.dify.plain import plain_text
from context_engine.core.models import SearchResult, SourceStatus, Status
from context_engine.errors import AuditUnavailable, ContextEngineError, EvidenceIncomplete

logger = logging.getLogger(__name__)

T = TypeVar("T")

_NOT_RECORDED: Final = (
    "the answer could not be recorded, and audit_mode is 'required': none is given unrecorded. The log of the "
    "plugin or the server says why; 'context-engine doctor' tries the ledger"
)


class ToolFailure(Exception):
    """A call that failed; the name of its class goes to the fail branch as `error_type`."""


class SourceMissing(EvidenceIncomplete):
    """A source did not answer, and the search was to fail then."""

    code = "source_missing"


def failure(error: BaseException, redactor: Redactor) -> ToolFailure:
    """Return what is raised in the place of an error: the same name, its message without secrets, nothing chained.

    Raise it outside the `except` block, for Dify writes the whole traceback into its log.
    """
    if isinstance(error, AuditUnavailable):  # why names the ledger's server, which is no caller's business
        logger.error("an answer could not be recorded: %s", redactor.hide(str(error)))
        return _named(type(error).__name__, _NOT_RECORDED)
    if isinstance(error, ContextEngineError):
        return _named(type(error).__name__, redactor.hide(str(error)))
    logger.error("a call failed with %s", type(error).__name__)
    logger.debug("the failure", exc_info=error)
    name = type(error).__name__
    return _named("InternalError", f"the engine failed inside with {name}: report it with the version and the log")


def guarded(fields: Mapping[str, Any], call: Callable[[Credentials], T]) -> T:
    """Call with the credentials of a form.

    Raises:
        ToolFailure: in the place of whatever was raised; see `failure`.
    """
    redactor = Redactor()
    try:
        credentials = Credentials.read(fields)
        redactor = credentials.redactor
        return call(credentials)
    except Exception as error:  # noqa: BLE001  an error of any kind may hold what nobody may see
        failed = failure(error, redactor)
    raise failed


def guarded_tool(fields: Mapping[str, Any], call: Callable[[Credentials], T]) -> T:
    """Call as `guarded` does; a failure's message begins with its name.

    Dify writes its own class into the fail branch's `error_type` and keeps our name in the message alone: there it
    is, as its first word, for a condition on `error_message`.

    Raises:
        ToolFailure: in the place of whatever was raised.
    """
    try:
        return guarded(fields, call)
    except ToolFailure as error:
        name = type(error).__name__
        named = _named(name, f"{name}: {error}")
    raise named


def refuse_incomplete(result: SearchResult) -> None:
    """Fail where a source did not answer, or answered in part.

    Raises:
        SourceMissing: names the sources and what to do.
    """
    if result.status is Status.COMPLETE:
        return
    reasons = [_failure_of(source) for source in result.sources if source.error is not None] or list(result.warnings)
    raise SourceMissing(
        f"search {result.search_id}: not every source answered: {'; '.join(reasons)}. Mend it, or set 'If a source is "
        "missing' to 'Continue' to go on without it."
    )


def _failure_of(source: SourceStatus) -> str:
    message: Any = source.error["message"] if source.error else ""
    return f"{source.title or source.source_id}: {message}"


def _named(name: str, message: str) -> ToolFailure:
    made: ToolFailure = type(name, (ToolFailure,), {})(plain_text(message))
    return made
