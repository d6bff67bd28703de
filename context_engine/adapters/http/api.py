"""The description of a kind of server: its paths, key header and the meaning of its error statuses."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from context_engine.adapters.http.keys import BEARER, KeyHeader
from context_engine.adapters.http.retry import retry_after
from context_engine.adapters.http.transport import HttpAnswer
from context_engine.errors import (
    SourceAuthError,
    SourceError,
    SourceForbidden,
    SourceNotFound,
    SourceProtocolError,
    SourceRateLimited,
    SourceUnavailable,
)
from context_engine.secrecy import redacted

logger = logging.getLogger(__name__)
_MOST_LOGGED: Final = 500
_MOST_CODE: Final = 64


class Meaning(NamedTuple):
    """The error that a status means; `{name}` in its words is the server's name, `{status}` the status.

    Attributes:
        retryable: whether the same call may succeed later.
        pause_s: seconds to wait if the answer has no Retry-After.
    """

    error: type[SourceError]
    problem: str
    remedy: str = ""
    retryable: bool = False
    pause_s: float | None = None


Statuses = Mapping[int, Meaning | Callable[[str, str], Meaning]]
"""{status: its meaning, or a function from (code, message) of the answer's body to the meaning}."""
_DEBUG: Final = "the debug log holds its words"
_REFUSED: Final = Meaning(SourceProtocolError, "{name} refused the request ({status})", _DEBUG)
_TOO_MANY: Final = Meaning(SourceRateLimited, "too many requests ({status})", "lower the load", retryable=True)
_FAILED: Final = Meaning(SourceUnavailable, "{name} failed inside ({status})", "its log says why", retryable=True)
_CANNOT: Final = Meaning(
    SourceUnavailable, "{name} cannot do what it was asked ({status})", "check that base_url is the API's"
)

USUAL: Final[Mapping[int, Meaning]] = {
    401: Meaning(SourceAuthError, "the API key was refused", "correct api_key of the connection"),
    403: Meaning(SourceForbidden, "{name} refused access (403)", "give the connection a key that may do this"),
    404: Meaning(SourceNotFound, "{name} knows no such address (404)", "correct base_url of the connection"),
    408: _TOO_MANY,
    413: Meaning(SourceProtocolError, "{name} refused the request as too large (413)", "ask for less at once"),
    425: _TOO_MANY,
    429: _TOO_MANY,
    501: _CANNOT,
    505: _CANNOT,
}
"""Any other 5xx means a failure that may pass, any other status a refused request."""


def refusal(
    answer: HttpAnswer, statuses: Statuses, *, name: str, now: datetime, hide: Callable[[str], str] = redacted
) -> SourceError:
    """Return the error that an unsuccessful answer means, without a source id.

    Args:
        statuses: the server's own.
        name: the server's name in messages.
        now: for a Retry-After that is a date.
        hide: removes keys from text for the debug log.
    """
    code, message = _code_and_message(answer)
    logger.debug("%s answered %d %s: %s", name, answer.status, hide(code), hide(message)[:_MOST_LOGGED])
    meaning = statuses.get(answer.status) or USUAL.get(answer.status) or (_FAILED if answer.status >= 500 else _REFUSED)
    meaning = meaning if isinstance(meaning, Meaning) else meaning(code, message)
    words = f"{meaning.problem}: {meaning.remedy}" if meaning.remedy else meaning.problem
    asked = retry_after(answer.headers, now) if meaning.retryable else None
    return meaning.error(
        words.replace("{name}", name).replace("{status}", str(answer.status)),
        retryable=meaning.retryable,
        retry_after_s=meaning.pause_s if asked is None else asked,
    )


def _code_and_message(answer: HttpAnswer) -> tuple[str, str]:
    """Return code and message of a body in one of the usual forms, else its beginning as the message."""
    try:
        body: Any = json.loads(answer.body)
    except (ValueError, RecursionError):
        body = None
    inner = body.get("error") if isinstance(body, Mapping) else None
    fields = inner if isinstance(inner, Mapping) else body
    if not isinstance(fields, Mapping) or not {"code", "message"} & fields.keys():
        return "", answer.body[:_MOST_LOGGED].decode("utf-8", "replace")
    return str(fields.get("code", ""))[:_MOST_CODE], str(fields.get("message", ""))


MAX_BYTES: Final = 16 * 1024 * 1024


def _as_written(base_url: str) -> str:
    return base_url


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """How one kind of server is called.

    Attributes:
        name: its name in messages; None: the host of the connection.
        root: maps the base URL of a connection to the URL below which the paths lie.
        statuses: meanings that differ from the usual ones.
        good: statuses of success.
        key_required: if it needs a key, how to give the connection one; empty: a key is optional.
        max_bytes: longest answer that is read.
        counted_methods: methods that count towards its rate limit.
        counts_refusals: statuses that report an exhausted rate limit, if refused calls count too; then no further
            search calls the server until the window has passed.
        waits_for_rate: whether a call waits until the plan's rate allows it; else it is refused at once.
        bounded_elsewhere: whether a queue in front of this client enforces `max_connections`; else this client does.
    """

    name: str | None = None
    root: Callable[[str], str] = _as_written
    statuses: Statuses = field(default_factory=dict)
    good: frozenset[int] = frozenset({200})
    key_header: KeyHeader = BEARER
    key_required: str = ""
    max_bytes: int = MAX_BYTES
    counted_methods: frozenset[str] = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
    counts_refusals: frozenset[int] = frozenset()
    waits_for_rate: bool = False
    bounded_elsewhere: bool = False


def versioned(version: str) -> Callable[[str], str]:
    """Return a function from a base URL to a root that ends in the API's version.

    >>> versioned("v1")("https://kb.example"), versioned("v1")("https://kb.example/v1")
    ('https://kb.example/v1', 'https://kb.example/v1')
    """
    return lambda base_url: f"{base_url.removesuffix(f'/{version}')}/{version}"


def below_host(prefix: str) -> Callable[[str], str]:
    """Return a function that adds the API's prefix to a base URL without a path; a base URL with a path stays
    unchanged.

    >>> below_host("v1")("https://models.example"), below_host("v1")("https://models.example/openai")
    ('https://models.example/v1', 'https://models.example/openai')
    """
    return lambda base_url: base_url if urlsplit(base_url).path or not prefix else f"{base_url}/{prefix}"
