"""Errors of sources and searches, of models and of the embedded base."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from context_engine.errors.base import ConfigError, ContextEngineError

logger = logging.getLogger(__name__)


class SourceError(ContextEngineError):
    """One source could not answer.

    Args:
        message: what happened, safe to show to the caller (no key, no query, no host internals).
        source_id: the source that failed.
        retryable: whether the same call may succeed later.
        retry_after_s: seconds to wait before retrying, if known.
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
    """The credentials are valid but lack access."""

    code = "forbidden"


class SourceNotFound(SourceError):
    """The dataset, index or file does not exist."""

    code = "not_found"


class SourceRateLimited(SourceError):
    """The quota is used up."""

    code = "rate_limited"


class SourceBusy(SourceError):
    """Its limit of parallel calls is reached, or an earlier call is overdue."""

    code = "busy"


class SourceTimeout(SourceError):
    """No answer in time."""

    code = "timeout"


class SourceUnavailable(SourceError):
    """Down, unreachable or failing inside."""

    code = "unavailable"


class RepartitionRequired(SourceUnavailable):
    """Its access rules changed after its documents were written, which other callers may still read."""

    code = "repartition"


class FetchUnsupported(SourceError):
    """Its adapter cannot give chunks by their ids, so changes of them cannot be detected."""

    code = "fetch_unsupported"


class SourceProtocolError(SourceError):
    """An answer that breaks the contract."""

    code = "protocol"


def source_error_from(error: BaseException, source_id: str = "") -> SourceError:
    """Return a `SourceError` unchanged; for any other exception, return a `SourceError` that names only its type.

    The text of a foreign exception may contain secrets, so it goes only to the debug log; that of `ConfigError`
    and `EmbedderError` is ours, and names what to mend. The exception is the cause of the returned error.
    """
    if isinstance(error, SourceError):
        error.source_id = error.source_id or source_id
        return error
    logger.debug("source %s raised", source_id, exc_info=error)
    name = type(error).__name__
    is_ours = isinstance(error, ConfigError | EmbedderError)
    problem = str(error) if is_ours else f"failed with {name} (its text is in the debug log)"
    failure = SourceUnavailable(problem, source_id=source_id)
    failure.__cause__ = error
    return failure


class RetrievalFailed(ContextEngineError):
    """A search without an answer to give; `result` holds what is known, if anything."""

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


class RerankerError(ContextEngineError):
    """A reranker failed."""

    code = "reranker_error"


class RefinerError(ContextEngineError):
    """A query refiner failed or gave something unusable."""

    code = "refiner_error"


class EmbedderError(ContextEngineError):
    """An embedder failed; `retryable` says whether the same call may succeed later."""

    code = "embedder_error"

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        self.retryable = retryable
        super().__init__(message)

    def to_dict(self) -> dict[str, Any]:
        """Return the message with retryable."""
        return {**super().to_dict(), "retryable": self.retryable}


class ChatModelError(ContextEngineError):
    """A chat model failed.

    Args:
        message: what happened, and how to mend it.
        retryable: whether the same call may succeed later.

    Attributes:
        text: what the model had written before; the answer is truncated unless this is empty.
        usage: a `ChatUsage` of the tokens spent, estimated; None if no text came.
    """

    code = "chat_model_error"

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        self.retryable, self.text = retryable, ""
        self.usage: Any = None
        super().__init__(message)

    def to_dict(self) -> dict[str, Any]:
        """Return the message with retryable and truncated; the text is for the caller alone."""
        return {**super().to_dict(), "retryable": self.retryable, "truncated": bool(self.text)}


class CostLimitReached(ContextEngineError):
    """A call of a chat model was not made, because it could have exceeded a cost limit.

    Args:
        message: which limit, and what the call could have cost.
        setting: the name of the limit.
        limit, used, cost: the limit, what is spent and reserved, and the most that the call could have cost.
        currency: of the three.
    """

    code = "cost_limit"

    def __init__(
        self, message: str, *, setting: str = "", limit: str = "", used: str = "", cost: str = "", currency: str = ""
    ) -> None:
        self.setting, self.limit, self.used, self.cost, self.currency = setting, limit, used, cost, currency
        super().__init__(message)

    def to_dict(self) -> dict[str, Any]:
        """Return the message with the limit and the sums."""
        names = ("setting", "limit", "used", "cost", "currency")
        return {**super().to_dict(), **{name: getattr(self, name) for name in names}}


class StoreError(ContextEngineError):
    """The embedded base cannot be used."""

    code = "store_error"


class StoreLocked(StoreError):
    """Another process is writing to the embedded base."""

    code = "store_locked"


class StoreCorrupt(StoreError):
    """The files of the base are inconsistent."""

    code = "store_corrupt"


class StoreVersionMismatch(StoreError):
    """The base was written by another schema or analyser version."""

    code = "store_version"


class JobsUnavailable(StoreError):
    """The database that keeps the jobs cannot be used."""

    code = "jobs_unavailable"


class DegradedRetrieval(UserWarning):
    """An answer without one of its sources or stages."""
