"""Every kind of problem that the service answers with: its code, its status, what it means and how it is mended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from context_engine import errors
from context_engine.errors import ContextEngineError

TYPE_PREFIX: Final = "urn:context-engine:problem:"


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """One kind of problem.

    Attributes:
        code: stable; its type is `urn:context-engine:problem:CODE`.
        status: of HTTP.
        meaning: one sentence.
        mend: what the caller does about it.
        shown: the error's own sentence is for the caller; False: it is the operator's, and stands in the log.
    """

    code: str
    status: int
    meaning: str
    mend: str
    shown: bool = True

    @property
    def type(self) -> str:
        """The URN that names the kind."""
        return TYPE_PREFIX + self.code

    @property
    def title(self) -> str:
        """The code in words."""
        return self.code.replace("_", " ")


_ASK_OPERATOR: Final = "Tell the operator the request id: the log of the service has the reason under it."
_LATER: Final = "Ask again after the seconds of Retry-After."

_OF_ERRORS: Final[tuple[tuple[type[ContextEngineError], int, str, bool], ...]] = (
    (errors.NotAuthenticated, 401, "Send a token that is in force as 'Authorization: Bearer TOKEN'.", True),
    (errors.TokensUnchecked, 503, _LATER, True),
    (errors.NotPermitted, 403, "Use a token that may do this, or ask the operator for one.", True),
    (errors.UnknownDomain, 404, "Name a domain that GET /api/v1/rag/domains lists.", True),
    (errors.RecordNotWritten, 404, "Ask again after the seconds of Retry-After: it is being written.", True),
    (errors.RecordNotFound, 404, "Send the search_id of an answer that this token was given.", True),
    (errors.CursorExpired, 410, "Ask the question again and take its parts one after the other.", True),
    (errors.InvalidRequest, 422, "Correct what 'detail' and 'errors' name.", True),
    (errors.EvidenceIncomplete, 409, "Ask without 'strict', or require less evidence.", True),
    (errors.AuditOff, 409, "It cannot be had: this service does not record its searches.", True),
    (errors.LedgerNotFound, 404, "Ask a question first: the first record makes the ledger.", True),
    (errors.QueryNotRecorded, 409, "It cannot be had: the question was not recorded, or was erased.", True),
    (errors.Overloaded, 503, _LATER, True),
    (errors.AllSourcesFailed, 502, "Ask again later; /readyz says which source is down.", True),
    (errors.RetrievalFailed, 502, "Ask again later; /readyz says which source is down.", True),
    (errors.FetchUnsupported, 501, "Search instead: the source cannot give chunks by their ids.", True),
    (errors.SourceTimeout, 504, "Ask again later.", True),
    (errors.SourceRateLimited, 503, _LATER, True),
    (errors.SourceBusy, 503, _LATER, True),
    (errors.SourceError, 502, "Ask again later; /readyz says which source is down.", True),
    (errors.AuditUnavailable, 503, _LATER, False),
    (errors.StoreLocked, 503, _LATER, False),
    (ContextEngineError, 500, _ASK_OPERATOR, False),
)


def kind_of(error: type[ContextEngineError]) -> ProblemKind:
    """Return the kind of an error's class."""
    found = next(one for one in _OF_ERRORS if issubclass(error, one[0]))
    meaning = (error.__doc__ or "").partition("\n")[0]
    return ProblemKind(error.code, found[1], meaning, found[2], found[3])


HTTP_KINDS: Final[Mapping[str, ProblemKind]] = {
    one.code: one
    for one in (
        ProblemKind("malformed_request", 400, "The request is no sound HTTP or JSON.", "Send what 'detail' asks for."),
        ProblemKind("not_found", 404, "There is nothing at this address.", "See /openapi.json for the addresses."),
        ProblemKind("method_not_allowed", 405, "The address has no such method.", "Use one that 'Allow' names."),
        ProblemKind("body_timeout", 408, "The body did not arrive in time.", "Send the request again, whole."),
        ProblemKind("body_too_large", 413, "The body is longer than this service takes.", "Send less."),
        ProblemKind("unsupported_media_type", 415, "The body is not JSON.", "Send JSON as 'application/json'."),
        kind_of(errors.InvalidRequest),
        ProblemKind("rate_exceeded", 429, "The principal has asked more often than its rate allows.", _LATER),
        ProblemKind("http_error", 400, "HTTP refused the request.", "See /openapi.json for what is taken."),
        ProblemKind("internal_error", 500, "The service failed.", _ASK_OPERATOR, shown=False),
        ProblemKind("not_ready", 503, "The service starts, stops, or can reach no source.", _LATER),
    )
}
"""What is no error of the engine, by code."""


def kinds() -> Iterator[ProblemKind]:
    """Yield every kind once, by status and code."""
    classes = (getattr(errors, name) for name in errors.__all__)
    of_errors = [kind_of(one) for one in classes if isinstance(one, type) and issubclass(one, ContextEngineError)]
    by_code = {one.code: one for one in (*of_errors, *HTTP_KINDS.values())}
    yield from sorted(by_code.values(), key=lambda one: (one.status, one.code))
