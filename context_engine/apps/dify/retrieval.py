"""One call of the External Knowledge API, from its token to its answer."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

from context_engine.apps.dify.credentials import Credentials
from context_engine.apps.dify.engines import OpenEngine
from context_engine.apps.dify.external import (
    ExternalAnswer,
    ExternalRequest,
    authorised,
    failed_answer,
    read_request,
    records_answer,
    refused,
)
from context_engine.apps.dify.failure import ToolFailure, guarded
from context_engine.apps.dify.fields import flag_field, text_field
from context_engine.apps.dify.missing_knowledge import missing_sources, of_missing_sources
from context_engine.core.engine import SystemClock
from context_engine.core.models import Caller, Principal, SearchRequest, SearchResult
from context_engine.errors import AllSourcesFailed, InvalidRequest, UnknownDomain

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

_UNKNOWN_TITLE: Final = "Knowledge incomplete: nothing was searched"
_FAILED_TITLE: Final = "Knowledge incomplete: the search failed"
_MEND_ID: Final = "Correct the External Knowledge ID of this knowledge base in Dify."
_MEND: Final = "Tell the reader that nothing could be looked up. An administrator can fix it."

EXTERNAL_KNOWLEDGE: Final = Principal(id="external-knowledge")
"""Who asks with an access token that `access.yaml` gives to no principal: without roles, cleared for what is public."""

Use = Callable[[Credentials], AbstractContextManager[OpenEngine]]


def answer_retrieval(settings: Mapping[str, Any], header: str | None, body: bytes, use: Use) -> ExternalAnswer:
    """Answer a request as the principal of its access token.

    403 is a wrong token, 400 a request that cannot be used. An unknown domain, as is one that the principal may not
    know, and a search that failed are a 200 with one record that says so; without notice records they are a 400 and a
    424. Dify asks none of these again.

    Args:
        settings: of the endpoint: the plugin's fields, `access_token`, `notice_records`, `persona`.
        header: Authorization.
        body: of the request.
        use: opens the engine of the settings.
    """
    started = time.monotonic()
    if not authorised(settings.get("access_token"), header):
        logger.warning("external knowledge: a request was refused, its access token is missing or wrong")
        return refused(403, _NOT_AUTHORISED, _NO_TOKEN)
    try:
        request = read_request(body)
    except InvalidRequest as error:
        return _unusable(error)
    if request is None:
        return ExternalAnswer(200, {"records": []})
    try:
        notices = flag_field(settings, "notice_records", True)
        persona = text_field(settings, "persona")
    except InvalidRequest as error:
        return _failed(str(error), notice_records=True)
    asked = request

    def search(credentials: Credentials) -> ExternalAnswer:
        with use(credentials) as opened:
            opened.plugin.setup.resolver.base(persona=persona)  # an unknown one is a mistake in these settings
            hide = credentials.redactor.hide
            principal = _principal(opened, credentials)
            return _searched(asked, opened, principal, started, persona=persona, hide=hide, notice_records=notices)

    try:
        return guarded(settings, search)
    except ToolFailure as error:
        logger.warning("external knowledge: a search failed with %s", type(error).__name__)
        return _failed(str(error), notice_records=notices)


def _searched(
    request: ExternalRequest,
    opened: OpenEngine,
    principal: Principal,
    started: float,
    *,
    persona: str | None,
    hide: Callable[[str], str],
    notice_records: bool,
) -> ExternalAnswer:
    try:
        left_s = DEADLINE_S - (time.monotonic() - started)
        result = opened.engine.search(_search_request(request, principal, persona, left_s))
    except UnknownDomain as error:
        logger.warning("external knowledge: the domain %r is not registered", request.knowledge_id)
        if notice_records:
            return failed_answer(_UNKNOWN_TITLE, _sentences(str(error), _MEND_ID))
        return refused(400, _UNKNOWN_KNOWLEDGE, str(error))
    except InvalidRequest as error:
        return _unusable(error)
    except AllSourcesFailed as error:
        if not notice_records or not isinstance(error.result, SearchResult):
            raise
        return _only_notice(error.result, hide(str(error)))
    return records_answer(
        result, request, notice_records=notice_records, demo=opened.plugin.demo, mask=opened.engine.mask
    )


def _failed(what: str, *, notice_records: bool) -> ExternalAnswer:
    if notice_records:
        return failed_answer(_FAILED_TITLE, _sentences(what, _MEND))
    return refused(424, _NOT_ANSWERED, what)


def _sentences(what: str, mend: str) -> str:
    return f"{what} {mend}" if what.endswith((".", "!", "?")) else f"{what}. {mend}"


def _unusable(error: InvalidRequest) -> ExternalAnswer:
    logger.warning("external knowledge: a request cannot be used: %s", type(error).__name__)
    return refused(400, _BAD_REQUEST, str(error))


def _only_notice(result: SearchResult, what: str) -> ExternalAnswer:
    logger.warning("search %s: no source answered", result.search_id)
    missing = missing_sources(result)
    title = of_missing_sources(missing, "these records").title
    return failed_answer(
        title, _sentences(what, _MEND), search_id=result.search_id, source_ids=[one.source_id for one in missing]
    )


def _principal(opened: OpenEngine, credentials: Credentials) -> Principal:
    """Return as whom the endpoint acts: its token is the only thing about a request that anybody has checked."""
    token = credentials.access_token or ""
    return opened.principals.for_token(token, now=SystemClock().now()) or EXTERNAL_KNOWLEDGE


def _search_request(
    request: ExternalRequest, principal: Principal, persona: str | None, left_s: float
) -> SearchRequest:
    """Ask for more than is wanted where a threshold takes some away: our order is not that of the absolute signal."""
    wanted = request.top_k if request.score_threshold <= 0 else max(request.top_k, _WIDER)
    seconds = max(left_s, _LEAST_S)
    return SearchRequest(
        query=request.query,
        domain=request.knowledge_id,
        caller=Caller(app="external-knowledge"),
        principal=principal,
        filters=request.filters,
        persona=persona,
        overrides={"stage2_top_k": wanted, "deadline_s": seconds, "source_timeout_s": seconds},
    )
