"""Every error the engine raises.

ContextEngineError
├── InvalidRequest            a query, an option or a chunk that cannot be used
│   ├── UnknownDomain         the domain is not registered; lists the known ones
│   ├── CursorExpired         the rest of an answer is not kept any more: ask again
│   └── InvalidFilter         a filter that cannot be read
├── ConfigError               a file, key or variable that cannot be used; says where and how to fix it
│   ├── MissingVariable       ${NAME} is not set
│   └── MissingExtra          an optional dependency is not installed; names the extra
├── SourceError               one source could not answer (retryable, retry_after_s)
│   ├── SourceAuthError       the credentials were refused
│   ├── SourceForbidden       the credentials are good, the access is not
│   ├── SourceNotFound        the dataset, index or file is not there
│   ├── SourceRateLimited     the quota is used up
│   ├── SourceBusy            at its bound of parallel calls, or stuck in an overdue one
│   ├── SourceTimeout         no answer in time
│   ├── SourceUnavailable     down, unreachable or failing inside
│   │   └── RepartitionRequired   its access rules have changed since its documents were written
│   ├── FetchUnsupported      its adapter cannot give chunks by their ids
│   └── SourceProtocolError   an answer that does not keep the contract
├── RetrievalFailed           a search that has nothing to show for itself
│   ├── AllSourcesFailed      no source answered; carries every status
│   └── EvidenceIncomplete    strict search, and required evidence is missing
├── NotAuthenticated          no token, or one that opens nothing
├── TokensUnchecked           whether a token is good cannot be said now; ask again
├── NotPermitted              the token is good, and this is not for who has it
├── Overloaded                a service has as much to do as it may; ask again (retry_after_s)
├── PolicyError               the access policy failed; nothing is searched
├── RerankerError             a reranker failed; the engine degrades instead of raising it
├── EmbedderError             an embedder failed (retryable)
├── RefinerError              a query refiner failed; the query is searched as it stands instead
├── MaskingError              personal data could not be masked, so nothing of the text is given out
├── AuditError                the audit ledger cannot do what was asked
│   ├── AuditUnavailable      an answer could not be recorded, and none is given unrecorded
│   ├── AuditOff              searches are not recorded here
│   ├── LedgerNotFound        there is no ledger yet: the first record makes it
│   ├── RecordNotFound        the ledger has no record of that id
│   │   └── RecordNotWritten  it will have one in a moment: ask again
│   ├── QueryNotRecorded      it needs the question, which was not recorded, or was erased
│   ├── LedgerCorrupt         what is stored does not hold together; says how to find out more
│   └── LedgerVersionMismatch  written by a newer version
└── StoreError                the embedded base cannot be used
    ├── StoreLocked           another process is writing
    ├── StoreCorrupt          what is on disk does not hold together; says how to rebuild
    └── StoreVersionMismatch  written by another schema or analyser; says how to rebuild

DegradedRetrieval (a warning): the answer is there, but a source or a stage is missing from it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar

from context_engine.secrecy import hide_in_error

__all__ = [
    "AllSourcesFailed",
    "AuditError",
    "AuditOff",
    "AuditUnavailable",
    "ConfigError",
    "ContextEngineError",
    "CursorExpired",
    "DegradedRetrieval",
    "EmbedderError",
    "EvidenceIncomplete",
    "FetchUnsupported",
    "InvalidFilter",
    "InvalidRequest",
    "LedgerCorrupt",
    "LedgerNotFound",
    "LedgerVersionMismatch",
    "MaskingError",
    "MissingExtra",
    "MissingVariable",
    "NotAuthenticated",
    "NotPermitted",
    "Overloaded",
    "PolicyError",
    "QueryNotRecorded",
    "RecordNotFound",
    "RecordNotWritten",
    "RefinerError",
    "RepartitionRequired",
    "RerankerError",
    "RetrievalFailed",
    "SourceAuthError",
    "SourceBusy",
    "SourceError",
    "SourceForbidden",
    "SourceNotFound",
    "SourceProtocolError",
    "SourceRateLimited",
    "SourceTimeout",
    "SourceUnavailable",
    "StoreCorrupt",
    "StoreError",
    "StoreLocked",
    "StoreVersionMismatch",
    "TokensUnchecked",
    "UnknownDomain",
    "closest",
    "did_you_mean",
    "nearest",
    "source_error_from",
]

logger = logging.getLogger(__name__)


def closest(word: str, valid: Iterable[str]) -> str | None:
    """Return the valid word that is closest to a word; None where none is close."""
    folded = {name.casefold(): name for name in sorted(str(name) for name in valid)}
    close = get_close_matches(str(word).casefold(), list(folded), n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def did_you_mean(word: str, valid: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the closest valid word, or "" where none is close."""
    close = closest(word, valid)
    return "" if close is None else f" Did you mean {close!r}?"


def nearest(word: str, valid: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the closest valid word, or " Valid: a, b, c." where none is close."""
    names = sorted(str(name) for name in valid)
    return did_you_mean(word, names) or (f" Valid: {', '.join(names)}." if names else "")


class ContextEngineError(Exception):
    """Base of every error of this package; `code` is stable and machine-readable, and no message holds a key."""

    code: ClassVar[str] = "error"

    def __init__(self, *args: Any) -> None:
        super().__init__(*(hide_in_error(arg) if isinstance(arg, str) else arg for arg in args))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle an error as it stands, whatever its constructor takes."""
        return _restored, (type(self), self.args, self.__dict__)

    def to_dict(self) -> dict[str, Any]:
        """Return {"code", "message"} and the fields of the subclass, ready for JSON."""
        return {"code": self.code, "message": str(self)}


def _restored(kind: type[ContextEngineError], args: tuple[Any, ...], fields: dict[str, Any]) -> ContextEngineError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(fields)
    return error


class InvalidRequest(ContextEngineError):
    """A query, an option or a chunk that cannot be used."""

    code = "invalid_request"


class UnknownDomain(InvalidRequest):
    """The domain is not registered."""

    code = "unknown_domain"

    def __init__(self, domain: str, known: Sequence[str], unread: Sequence[ConfigError] = ()) -> None:
        self.domain = domain
        self.known = tuple(known)
        have = f" Registered: {', '.join(self.known)}." if self.known else ""
        hint = did_you_mean(domain, self.known)
        if unread:
            hint += f" A manifest that cannot be read may hold it: {'; '.join(map(str, unread))}"
        elif not self.known:
            have, hint = " No domain is registered.", " Write one with 'context-engine init DIR'."
        super().__init__(f"unknown domain {domain!r}.{have}{hint}")


class InvalidFilter(InvalidRequest):
    """A filter that cannot be read."""

    code = "invalid_filter"


class CursorExpired(InvalidRequest):
    """The rest of an answer is not kept any more."""

    code = "cursor_expired"


class NotAuthenticated(ContextEngineError):
    """No token, or one that opens nothing; the message never says which."""

    code = "not_authenticated"


class TokensUnchecked(ContextEngineError):
    """What the token would be checked with cannot be read now: it is neither good nor refused."""

    code = "tokens_unchecked"


class NotPermitted(ContextEngineError):
    """The token is good, and this is not for who has it."""

    code = "not_permitted"


class Overloaded(ContextEngineError):
    """A service has as much to do as it may, and its queue is full.

    Args:
        message: what there is too much of.
        retry_after_s: seconds after which to ask again.
    """

    code = "overloaded"

    def __init__(self, message: str, *, retry_after_s: float = 1.0) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)

    def to_dict(self) -> dict[str, Any]:
        """Return the message with retry_after_s."""
        return {**super().to_dict(), "retry_after_s": self.retry_after_s}


class ConfigError(ContextEngineError):
    """A file, key or variable of the configuration that cannot be used.

    Args:
        problem: what is wrong and how to fix it, one sentence or two.
        file: the file it stands in, if any.
        key: the dotted key inside the file, if any.

    Attributes:
        others: what else was found wrong in the same reading.
    """

    code = "config_error"
    others: tuple[ConfigError, ...] = ()

    def __init__(self, problem: str, *, file: str | None = None, key: str | None = None) -> None:
        self.problem, self.file, self.key = hide_in_error(problem), file, None if key is None else hide_in_error(key)
        where = ": ".join(part for part in (file, self.key) if part)
        super().__init__(f"{where}: {problem}" if where else problem)

    @property
    def each(self) -> tuple[ConfigError, ...]:
        """This problem and the others."""
        return (self, *self.others)

    @classmethod
    def together(cls, problems: Sequence[ConfigError]) -> ConfigError:
        """Return several problems, at least one, as the first of them with the others."""
        first, *others = dict.fromkeys(single for problem in problems for single in problem.each)
        first.others = tuple(others)
        return first

    def to_dict(self) -> dict[str, Any]:
        """Return the message with the file and the key it is about."""
        return {**super().to_dict(), "file": self.file, "key": self.key}


class MissingVariable(ConfigError):
    """A ${NAME} in a configuration value is not set."""

    code = "missing_variable"


class MissingExtra(ConfigError):
    """An optional dependency is not installed."""

    code = "missing_extra"

    def __init__(self, feature: str, extra: str) -> None:
        self.extra = extra
        install = f"pip install 'dify-context-engine[{extra}]'"
        super().__init__(f"{feature} needs an optional dependency. Install it with: {install}")


class SourceError(ContextEngineError):
    """One source could not answer.

    Args:
        message: what happened, safe to show to the caller (no key, no query, no host internals).
        source_id: the source it happened at.
        retryable: whether the same call may succeed later.
        retry_after_s: seconds to wait before it may, if known.
    """

    code = "source_error"

    def __init__(
        self, message: str, *, source_id: str = "", retryable: bool = False, retry_after_s: float | None = None
    ) -> None:
        self.source_id, self.retryable, self.retry_after_s = source_id, retryable, retry_after_s
        super().__init__(message)

    @property
    def problem(self) -> str:
        """The message without the name of the source."""
        return super().__str__()

    def __str__(self) -> str:
        return f"source {self.source_id!r}: {self.problem}" if self.source_id else self.problem

    def to_dict(self) -> dict[str, Any]:
        """Return the message with source id, retryable and retry_after_s."""
        fields = {"source_id": self.source_id, "retryable": self.retryable, "retry_after_s": self.retry_after_s}
        return {**super().to_dict(), **fields}


class SourceAuthError(SourceError):
    """The credentials were refused."""

    code = "auth"


class SourceForbidden(SourceError):
    """The credentials are good, the access is not."""

    code = "forbidden"


class SourceNotFound(SourceError):
    """The dataset, index or file is not there."""

    code = "not_found"


class SourceRateLimited(SourceError):
    """The quota is used up."""

    code = "rate_limited"


class SourceBusy(SourceError):
    """At its bound of parallel calls, or stuck in an overdue one."""

    code = "busy"


class SourceTimeout(SourceError):
    """No answer in time."""

    code = "timeout"


class SourceUnavailable(SourceError):
    """Down, unreachable or failing inside."""

    code = "unavailable"


class RepartitionRequired(SourceUnavailable):
    """Its access rules have changed since its documents were written: they stand where other callers may read them."""

    code = "repartition"


class FetchUnsupported(SourceError):
    """Its adapter cannot give chunks by their ids, so nobody can tell whether they have changed."""

    code = "fetch_unsupported"


class SourceProtocolError(SourceError):
    """An answer that does not keep the contract."""

    code = "protocol"


def source_error_from(error: BaseException, source_id: str = "") -> SourceError:
    """Return a source's error as it is, and for any other exception one that shows its type alone.

    The text of an exception that is not ours may hold secrets: it goes to the debug log. The exception itself is the
    cause of the error that is returned.
    """
    if isinstance(error, SourceError):
        error.source_id = error.source_id or source_id
        return error
    logger.debug("source %s raised", source_id, exc_info=error)
    name = type(error).__name__
    failure = SourceUnavailable(f"failed with {name} (its text is in the debug log)", source_id=source_id)
    failure.__cause__ = error
    return failure


class RetrievalFailed(ContextEngineError):
    """A search that has nothing to show for itself; `result` holds what is known, if anything."""

    code = "retrieval_failed"

    def __init__(self, message: str, *, result: Any = None, statuses: Sequence[Any] = ()) -> None:
        self.result, self.statuses = result, tuple(statuses)
        super().__init__(message)


class AllSourcesFailed(RetrievalFailed):
    """No source answered."""

    code = "all_sources_failed"


class EvidenceIncomplete(RetrievalFailed):
    """A strict search, and required evidence is missing."""

    code = "evidence_incomplete"


class PolicyError(ContextEngineError):
    """An access policy failed: who may search what is not known, so nothing is searched."""

    code = "policy_error"


class RerankerError(ContextEngineError):
    """A reranker failed."""

    code = "reranker_error"


class RefinerError(ContextEngineError):
    """A query refiner failed or gave something unusable."""

    code = "refiner_error"


class MaskingError(ContextEngineError):
    """Personal data could not be masked: the text that should have been is not given out."""

    code = "masking_error"


class AuditError(ContextEngineError):
    """The audit ledger cannot do what was asked."""

    code = "audit_error"


class AuditUnavailable(AuditError):
    """An answer could not be recorded, and `audit_mode` is `required`: it is not given."""

    code = "audit_unavailable"


class RecordNotFound(AuditError):
    """The ledger has no record of that id."""

    code = "record_not_found"


class RecordNotWritten(RecordNotFound):
    """The ledger has no record of that id yet; the answer was given a moment ago.

    Attributes:
        retry_after_s: seconds after which it is there, unless the ledger is down.
    """

    code = "record_not_written"

    def __init__(self, message: str, *, retry_after_s: float = 1.0) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)

    def to_dict(self) -> dict[str, Any]:
        """Return the message with retry_after_s."""
        return {**super().to_dict(), "retry_after_s": self.retry_after_s}


class LedgerNotFound(AuditError):
    """There is no ledger yet: the first record makes it."""

    code = "ledger_not_found"


class AuditOff(AuditError):
    """Searches are not recorded here."""

    code = "audit_off"


class QueryNotRecorded(AuditError):
    """What was asked for needs the question, which was not recorded, or was erased."""

    code = "query_not_recorded"


class LedgerCorrupt(AuditError):
    """What the ledger holds does not fit together."""

    code = "ledger_corrupt"


class LedgerVersionMismatch(AuditError):
    """The ledger was written by a newer version of this package."""

    code = "ledger_version"


class EmbedderError(ContextEngineError):
    """An embedder failed; `retryable` says whether the same call may succeed later."""

    code = "embedder_error"

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        self.retryable = retryable
        super().__init__(message)

    def to_dict(self) -> dict[str, Any]:
        """Return the message with retryable."""
        return {**super().to_dict(), "retryable": self.retryable}


class StoreError(ContextEngineError):
    """The embedded base cannot be used."""

    code = "store_error"


class StoreLocked(StoreError):
    """Another process is writing to the embedded base."""

    code = "store_locked"


class StoreCorrupt(StoreError):
    """What is on disk does not hold together."""

    code = "store_corrupt"


class StoreVersionMismatch(StoreError):
    """The base was written by another schema or analyser version."""

    code = "store_version"


class DegradedRetrieval(UserWarning):
    """The answer is there, but a source or a stage is missing from it."""
