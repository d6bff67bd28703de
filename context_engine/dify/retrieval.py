"""One call of the External Knowledge API, from its token to its answer."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

from context_engine.dify.credentials import Credentials, read_flag
from context_engine.dify.engines import OpenEngine
from context_engine.dify.external import (
    ExternalAnswer,
    ExternalRequest,
    authorised,
    notice_record,
    read_request,
    records_answer,
    refused,
)
from context_engine.dify.failure import ToolFailure, guarded
from context_engine.errors import AllSourcesFailed, InvalidRequest, UnknownDomain
from context_engine.models import Caller, SearchRequest, SearchResult

__all__ = ["DEADLINE_S", "answer_retrieval"]

logger = logging.getLogger(__name__)

DEADLINE_S: Final = 4.5
"""Dify waits five seconds, and then asks three times more."""

_LEAST_S: Final = 0.2
_WIDER: Final = 40
_UNKNOWN_KNOWLEDGE: Final = 2001
_NOT_AUTHORISED: Final = 1002
_BAD_REQUEST: Final = 4000
_NOT_ANSWERED: Final = 4240
_NO_TOKEN: Final = "the access token is missing or wrong; in the endpoint's settings it has at least 32 characters"

Use = Callable[[Credentials], AbstractContextManager[OpenEngine]]


def answer_retrieval(settings: Mapping[str, Any], header: str | None, body: bytes, use: Use) -> ExternalAnswer:
    """Answer a request.

    400 is a request that cannot be used, 424 a search that failed: neither is asked again by Dify.

    Args:
        settings: of the endpoint: the plugin's fields, `access_token`, `notice_records`.
        header: Authorization.
        body: of the request.
        use: opens the engine of the settings.
    """
    started = time.monotonic()
    if not authorised(settings.get("access_token"), header):
        return refused(401, _NOT_AUTHORISED, _NO_TOKEN)
    try:
        request = read_request(body)
    except InvalidRequest as error:
        return refused(400, _BAD_REQUEST, str(error))
    if request is None:
        return ExternalAnswer(200, {"records": []})
    asked = request
    notices = read_flag(settings.get("notice_records"), True)

    def search(credentials: Credentials) -> ExternalAnswer:
        with use(credentials) as opened:
            return _searched(asked, opened, started, notice_records=notices)

    try:
        return guarded(settings, search)
    except ToolFailure as error:
        return refused(424, _NOT_ANSWERED, str(error))


def _searched(request: ExternalRequest, opened: OpenEngine, started: float, *, notice_records: bool) -> ExternalAnswer:
    try:
        result = opened.engine.search(_search_request(request, DEADLINE_S - (time.monotonic() - started)))
    except UnknownDomain as error:
        return refused(400, _UNKNOWN_KNOWLEDGE, str(error))
    except InvalidRequest as error:
        return refused(400, _BAD_REQUEST, str(error))
    except AllSourcesFailed as error:
        if not notice_records or not isinstance(error.result, SearchResult):
            raise
        return _only_notice(error.result)
    return records_answer(result, request, notice_records=notice_records, demo=opened.plugin.demo)


def _only_notice(result: SearchResult) -> ExternalAnswer:
    logger.warning("search %s: no source answered", result.search_id)
    return ExternalAnswer(200, {"records": [notice_record(result.sources, result.search_id)]})


def _search_request(request: ExternalRequest, left_s: float) -> SearchRequest:
    """Ask for more than is wanted where a threshold takes some away: our order is not that of relevance."""
    wanted = request.top_k if request.score_threshold <= 0 else max(request.top_k, _WIDER)
    seconds = max(left_s, _LEAST_S)
    return SearchRequest(
        query=request.query,
        domain=request.knowledge_id,
        caller=Caller(app="external-knowledge"),
        filters=request.filters,
        overrides={"stage2_top_k": wanted, "deadline_s": seconds, "source_timeout_s": seconds},
    )
