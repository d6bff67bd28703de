"""What Dify means by an answer that is not 200.

Dify says 400 for outages behind it and 403 for its rate limit, so status alone decides little. Its messages may hold
SQL, hosts and the query: they are read here, logged at DEBUG without keys, and never passed on.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from context_engine.adapters.http.keys import ApiKey
from context_engine.adapters.http.transport import Response
from context_engine.errors import (
    SourceAuthError,
    SourceError,
    SourceForbidden,
    SourceNotFound,
    SourceProtocolError,
    SourceRateLimited,
    SourceUnavailable,
)

__all__ = ["RATE_WINDOW_S", "refusal"]

logger = logging.getLogger(__name__)

RATE_WINDOW_S: Final = 60.0
_MOST_LOGGED: Final = 500
_RATE: Final = re.compile(r"rate limit", re.IGNORECASE)
_SWITCHED_OFF: Final = re.compile(r"api access is not enabled", re.IGNORECASE)
_NO_INDEX: Final = re.compile(
    r"relation \"embedding_vector_index\S*\" does not exist|index_not_found|no such index|collection \S+ (?:not found|"
    r"does not exist)|can't find collection|could not find class",
    re.IGNORECASE,
)
_OUTAGE: Final = re.compile(
    r"plugin daemon|connection (?:refused|reset|aborted|timed out|error)|connect(?:ion)? timeout|could not connect|"
    r"failed to (?:connect|establish)|max retries exceeded|server closed the connection|remaining connection slots|"
    r"unreachable|timed? ?out|temporar(?:y|ily)|name or service not known|bad gateway|service unavailable",
    re.IGNORECASE,
)
_HARMLESS: Final = re.compile(
    r"Content is empty|Exceeded maximum segments limit of \d+|Metadata name already exists|"
    r"The dataset name already exists|Process rule rules is required|Document is not completed|Document is disabled|"
    r"doc_form is different from the dataset doc_form|Documents? not found|Segment not found|"
    r"indexing_technique is required"
)
"""What Dify says of a write, as far as it holds nothing but Dify's own words."""

_MODEL_CODES: Final = frozenset(
    {"provider_not_initialize", "provider_quota_exceeded", "model_currently_not_support", "completion_request_error"}
)
_MODEL: Final = re.compile(
    r"provider .* does not exist|no default model|default model not found|credentials|quota", re.IGNORECASE
)


def refusal(response: Response, key: ApiKey, now: datetime) -> SourceError:
    """Return the error that an answer stands for, without a source id.

    Args:
        response: any answer but a 200.
        key: hidden from the debug log.
        now: for a Retry-After that is a date.
    """
    code, message = _said(response)
    logger.debug("Dify answered %d %s: %s", response.status, code, key.hide(message)[:_MOST_LOGGED])
    special = _BY_STATUS.get(response.status)
    if special is not None:
        return special(code, message)
    if response.status in (408, 425, 429):
        after = _retry_after(response.headers, now)
        return SourceRateLimited("too many requests: lower the load", retryable=True, retry_after_s=after)
    if response.status >= 500:
        after = _retry_after(response.headers, now)
        problem = f"Dify failed inside ({response.status}): its log says why"
        return SourceUnavailable(problem, retryable=True, retry_after_s=after)
    return _unexpected(f"status {response.status}")


def _said(response: Response) -> tuple[str, str]:
    try:
        body: Any = response.json()
    except SourceProtocolError:
        body = None
    if not isinstance(body, Mapping):
        return "", response.body[:_MOST_LOGGED].decode("utf-8", "replace")
    return str(body.get("code", ""))[:64], str(body.get("message", ""))


def _bad_request(code: str, message: str) -> SourceError:
    if _OUTAGE.search(message):
        problem = "a part behind Dify is down (plugin daemon, model or vector store): Dify's log says which"
        return SourceUnavailable(problem, retryable=True)
    if _NO_INDEX.search(message):
        return SourceNotFound("has no index for this search method: it is empty, or indexed by another technique")
    if code in _MODEL_CODES or _MODEL.search(message):
        problem = "Dify cannot use the embedding or rerank model of the dataset: set it up in Dify"
        return SourceUnavailable(f"{problem}, or use a dataset of indexing_technique economy, which needs none")
    said = _HARMLESS.search(message)
    return _unexpected("400") if said is None else SourceProtocolError(f"Dify refused the request: {said[0]}")


def _unauthorised(_code: str, _message: str) -> SourceError:
    problem = "the API key was refused: give the connection a dataset key ('dataset-…') of the right workspace"
    return SourceAuthError(problem)


def _forbidden(code: str, message: str) -> SourceError:
    if code == "archived_document_immutable":
        return SourceForbidden("the document is archived in Dify, where it cannot be changed: unarchive it")
    if _RATE.search(message):
        problem = "the workspace's rate limit is used up: set rate_per_minute in the connection to the plan's number"
        return SourceRateLimited(problem, retryable=True, retry_after_s=RATE_WINDOW_S)
    if _SWITCHED_OFF.search(message):
        return SourceForbidden("API access to the dataset is switched off: switch it on in the dataset's settings")
    return SourceForbidden("the key has no access to the dataset: it belongs to another workspace, or was withdrawn")


def _not_found(code: str, message: str) -> SourceError:
    said = _HARMLESS.search(message)
    if said is not None:
        return SourceNotFound(f"Dify refused the request: {said[0]}")
    if code == "not_found":
        return SourceNotFound("no such dataset in the key's workspace: correct dataset_ids")
    return SourceNotFound("Dify's API is not at base_url: correct it in the connection")


def _unexpected(what: str) -> SourceError:
    return SourceProtocolError(f"Dify refused the request ({what}): the debug log holds its words")


_BY_STATUS: Final[Mapping[int, Callable[[str, str], SourceError]]] = {
    400: _bad_request,
    401: _unauthorised,
    403: _forbidden,
    404: _not_found,
}


def _retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds of a Retry-After header: a number, or an HTTP date."""
    given = headers.get("retry-after", "").strip()
    if given.isdecimal():
        return float(min(int(given), 86_400))
    try:
        moment = parsedate_to_datetime(given)
    except (TypeError, ValueError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max((moment - now).total_seconds(), 0.0)
