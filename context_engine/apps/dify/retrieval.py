"""Requests of the External Knowledge API, answered by an engine in the plugin's endpoint or in a server.

Dify's node shows any status but 200 as "succeeded, nothing found", so failures are reported in a record.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from context_engine.apps.dify.credentials import Redactor
from context_engine.apps.dify.external import (
    ExternalAnswer,
    ExternalRequest,
    failed_answer,
    read_request,
    records_answer,
    refused,
)
from context_engine.apps.dify.failure import failure
from context_engine.apps.dify.node_output import missing_sources, of_missing_sources
from context_engine.apps.dify.reader_texts import reader_text, tongue_of
from context_engine.core.models import MAX_QUERY_CHARS, Caller, Principal, SearchRequest, SearchResult
from context_engine.errors import AllSourcesFailed, InvalidRequest, SourceBusy, UnknownDomain, nearest
from context_engine.secrecy import hide
from context_engine.service.deployment import Deployment

logger = logging.getLogger(__name__)
_LEAST_S: Final = 0.2
_PAUSE_S: Final = 0.5
_WIDER: Final = 40
_UNKNOWN_KNOWLEDGE: Final = 2001
_NO_HEADER: Final = 1001
_NOT_AUTHORISED: Final = 1002
_BAD_REQUEST: Final = 4000
_NOT_ANSWERED: Final = 4240
_NOT_YET: Final = 5030
EXTERNAL_KNOWLEDGE: Final = Principal(id="external-knowledge")
"""The principal of an access token that `access.yaml` gives to nobody: no roles, cleared for public text only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieval:
    """A request to search for, and how to answer it.

    Attributes:
        due: the deadline on the monotonic clock; if a source was too busy, another search follows while time is left.
        notice_records: whether a record reports missing knowledge.
        persona: for a request whose knowledge id names none.
        hide: removes secrets from a text.
        request_id: of the request in the log of a server.
    """

    request: ExternalRequest
    due: float
    notice_records: bool = True
    persona: str | None = None
    hide: Callable[[str], str] = hide
    request_id: str | None = None

    @property
    def left_s(self) -> float:
        """The seconds left."""
        return self.due - time.monotonic()


def unauthorised(why: str, *, missing: bool = False) -> ExternalAnswer:
    """Return a 403 for a wrong token, because Dify would register an endpoint that answers 401 to its probe.

    Args:
        missing: whether there is no Authorization header in the form `Bearer TOKEN`; Dify has a code of its own for it.
    """
    logger.warning("external knowledge: a request was refused, its access token is missing or wrong")
    return refused(403, _NO_HEADER if missing else _NOT_AUTHORISED, why)


def read_retrieval(body: bytes) -> ExternalRequest | ExternalAnswer:
    """Return the request parsed from a body, or its answer if there is nothing to search for.

    The probes of a registration get no records; an invalid request gets a 400, after which Dify does not retry.
    """
    try:
        request = read_request(body)
    except InvalidRequest as error:
        return _unusable(error)
    return ExternalAnswer(200, {"records": []}) if request is None else request


def answer_request(
    body: bytes,
    deployment: Deployment,
    principal: Principal,
    *,
    due: float,
    notice_records: bool = True,
    persona: str | None = None,
    request_id: str | None = None,
    most_records: int = 100,
    most_query_chars: int = MAX_QUERY_CHARS,
) -> ExternalAnswer:
    """Answer the body of a request as a principal; failures are in the answer.

    Args:
        due: the deadline on the monotonic clock.
        notice_records, persona, request_id: see `Retrieval`.
        most_records: upper limit of `top_k`; larger values are reduced to it.
        most_query_chars: a longer question is refused.
    """
    request = read_retrieval(body)
    if isinstance(request, ExternalAnswer):
        return request
    if len(request.query) > most_query_chars:
        return _unusable(InvalidRequest(f"query has {len(request.query)} characters, at most {most_query_chars}"))
    request = replace(request, top_k=min(request.top_k, most_records))
    asked = Retrieval(
        request=request,
        due=due,
        notice_records=notice_records,
        persona=persona,
        request_id=request_id,
    )
    try:
        return search_records(asked, deployment, principal)
    except Exception as error:  # noqa: BLE001  any error may contain secrets
        failed = failure(error, Redactor())
    return unanswered(failed, notice_records=notice_records, question=request.query)


def search_records(asked: Retrieval, deployment: Deployment, principal: Principal) -> ExternalAnswer:
    """Return the records of a search.

    An unknown domain (or one that the principal may not know), and a search without an answer of any source, give a 200
    with one record that reports it. Without notice records the unknown domain gives a 400.

    Raises:
        ContextEngineError: the search failed.
    """
    try:
        deployment.setup.resolver.base(
            persona=asked.persona
        )  # refuses an unknown persona of the address or the endpoint
    except InvalidRequest as error:
        return (
            _unusable(error)
            if not asked.notice_records
            else _failure("nothing_searched", str(error), "mend_persona", asked.request.query)
        )
    try:
        place = _knowledge(asked.request.knowledge_id, deployment, principal)
    except InvalidRequest as error:
        return _unknown(error, asked)
    try:
        result = _searched(asked, place, principal, deployment)
    except UnknownDomain as error:
        return _unknown(error, asked)
    except InvalidRequest as error:
        return _unusable(error)
    except AllSourcesFailed as error:
        if not asked.notice_records or not isinstance(error.result, SearchResult):
            raise
        return _only_notice(error.result, asked.hide(str(error)))
    return records_answer(
        result,
        asked.request,
        notice_records=asked.notice_records,
        demo=deployment.demo,
        mask=deployment.engine.mask,
    )


def _searched(asked: Retrieval, place: _Knowledge, principal: Principal, deployment: Deployment) -> SearchResult:
    """Search, and again after a wait if a source was too busy to answer in time, while enough time is left.

    A source that forecasts when it can answer is waited for; one that does not is tried once more.

    Raises:
        ContextEngineError: the last search failed.
    """
    repeated = 0
    while True:
        try:
            result = deployment.engine.search(_search_request(asked, place, principal))
        except AllSourcesFailed as error:
            if not isinstance(error.result, SearchResult) or not _may_wait(asked, error.result, repeated):
                raise
        else:
            if not _may_wait(asked, result, repeated):
                return result
        repeated += 1


def _may_wait(asked: Retrieval, result: SearchResult, repeated: int) -> bool:
    """Wait until a source that was too busy may answer; return False at once if there is none, or no time for it."""
    busy = [source.error for source in result.sources if source.error and source.error["code"] == SourceBusy.code]
    forecasts = [error["retry_after_s"] for error in busy if error.get("retry_after_s") is not None]
    if not forecasts and (not busy or repeated):
        return False
    wait_s = max(forecasts, default=_PAUSE_S)
    if asked.left_s < wait_s + _LEAST_S:
        return False
    time.sleep(wait_s)
    return True


def unanswered(error: Exception, *, notice_records: bool, question: str = "") -> ExternalAnswer:
    """Return the answer for a failed search: a record about the failure, or a 424.

    Args:
        notice_records: see `Retrieval`.
        question: its language is the record's; "" for English.
    """
    logger.warning("external knowledge: a search failed with %s", type(error).__name__)
    if notice_records:
        return _failure("search_failed", str(error), "mend_search", question)
    return refused(424, _NOT_ANSWERED, str(error))


def not_yet() -> ExternalAnswer:
    """Return the answer to a request whose search goes on, after which Dify repeats the request."""
    return refused(503, _NOT_YET, "the search is not done: the same request again gets its answer")


class _Knowledge(NamedTuple):
    """What a knowledge id names: a domain, and perhaps a persona or a namespace of it."""

    domain: str
    persona: str | None = None
    namespace: str | None = None


def _knowledge(knowledge_id: str, deployment: Deployment, principal: Principal) -> _Knowledge:
    """Return what is named by `domain`, `domain:persona` or `domain:namespace`; no domain's name holds a colon.

    Raises:
        InvalidRequest: the domain exists, but neither the persona nor the namespace.
    """
    registry, personas = deployment.known_to(principal), deployment.setup.config.personas
    before, colon, after = knowledge_id.partition(":")
    domain, name = before.strip(), after.strip()
    if not colon or not (domain in registry.names or (domain and name in personas)):
        return _Knowledge(knowledge_id)
    spec = registry.domains.get(domain)
    if spec is None or not name or name in personas:
        return _Knowledge(domain, name or None)
    if name not in spec.names:
        known = nearest(name, [*personas, *spec.names])
        raise InvalidRequest(f"{name!r} is neither a persona nor a namespace of domain {domain!r}.{known}")
    return _Knowledge(domain, namespace=name)


def _search_request(asked: Retrieval, place: _Knowledge, principal: Principal) -> SearchRequest:
    """Request more chunks if a threshold removes some, because our order is not that of the absolute signal.

    Each source has its configured time: a call may take longer than one of the tries that Dify makes.
    """
    request = asked.request
    wanted = request.top_k if request.score_threshold <= 0 else max(request.top_k, _WIDER)
    overrides: dict[str, Any] = {"stage2_top_k": wanted, "deadline_s": max(asked.left_s, _LEAST_S)}
    if place.namespace is not None:
        overrides["sources"] = (place.namespace,)
    return SearchRequest(
        query=request.query,
        domain=place.domain,
        caller=Caller(app="external-knowledge"),
        principal=principal,
        request_id=asked.request_id,
        filters=request.filters,
        persona=place.persona or asked.persona,
        overrides=overrides,
    )


def _unknown(error: InvalidRequest, asked: Retrieval) -> ExternalAnswer:
    logger.warning("external knowledge: %r is not a searchable domain", asked.request.knowledge_id)
    if asked.notice_records:
        return _failure("nothing_searched", str(error), "mend_knowledge_id", asked.request.query)
    return refused(400, _UNKNOWN_KNOWLEDGE, str(error))


def _unusable(error: InvalidRequest) -> ExternalAnswer:
    logger.warning("external knowledge: an invalid request: %s", type(error).__name__)
    return refused(400, _BAD_REQUEST, str(error))


def _only_notice(result: SearchResult, problem: str) -> ExternalAnswer:
    logger.warning("search %s: no source answered", result.search_id)
    missing = missing_sources(result)
    tongue = tongue_of(result.query)
    title = of_missing_sources(missing, "records", tongue).title
    return failed_answer(
        title,
        _sentences(problem, reader_text("mend_search", tongue)),
        search_id=result.search_id,
        source_ids=[source.source_id for source in missing],
    )


def _failure(title: str, problem: str, mend: str, question: str) -> ExternalAnswer:
    """Return a record in the language of the question; the problem is the error's own, in English.

    Args:
        title, mend: names of sentences.
    """
    tongue = tongue_of(question)
    return failed_answer(reader_text(title, tongue), _sentences(problem, reader_text(mend, tongue)))


def _sentences(problem: str, mend: str) -> str:
    return f"{problem} {mend}" if problem.endswith((".", "!", "?")) else f"{problem}. {mend}"
