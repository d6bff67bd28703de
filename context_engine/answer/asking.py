"""Answers the questions of a service and a command: the request, the rights and the chat model of a deployment."""

from __future__ import annotations

from collections.abc import Callable, Generator
from decimal import Decimal
from typing import Any, Final, NamedTuple
from uuid import uuid4

from context_engine.answer.answering import Answerer, Event, FindPassages, Started, last_of
from context_engine.answer.budget import EXACT, Budget, CostLimits, PriceTable, Spender, Spending
from context_engine.answer.composed import Answer, answer_text
from context_engine.answer.contract import AnswerRequest, AnswerResponse, CheckRequest, response_of
from context_engine.answer.writing import Stopped, Writer
from context_engine.core.engine import SystemClock
from context_engine.core.models import AnswerPolicy, Caller, ChatMessage, Principal, SearchRequest, Settings
from context_engine.core.protocols import ChatModel
from context_engine.errors import InvalidRequest
from context_engine.service.comparing import compare
from context_engine.service.contract.comparison import Comparison, ComparisonAnswer
from context_engine.service.contract.rag import RAGQueryRequest
from context_engine.service.deployment import Deployment
from context_engine.service.kept import KeptAnswer
from context_engine.service.request import check_limits, only_domain, search_request

_THEIRS: Final = "the caller's"
Finder = Callable[[SearchRequest, Writer | None], FindPassages | None]
"""Returns what searches for a question in several steps, with the model that writes the answer; None: one search."""


class JobShare(NamedTuple):
    """What a job contributes to the answer of a question.

    Attributes:
        job_id: whose account the costs are booked on.
        notes: what it has noted, for the model.
        cost_limit: most money of the whole job; None: as the settings say.
        spent: what its answers have cost so far, on every machine.
    """

    job_id: str
    notes: str = ""
    cost_limit: Decimal | None = None
    spent: Decimal = Decimal(0)


def answer_question(
    deployment: Deployment,
    asked: AnswerRequest,
    *,
    principal: Principal,
    caller: Caller,
    request_id: str | None = None,
    finder: Finder | None = None,
) -> AnswerResponse:
    """Return the answer to a question.

    Raises:
        ContextEngineError: as `answer_events`.
    """
    answer, comparison = answered(
        deployment, asked, principal=principal, caller=caller, request_id=request_id, finder=finder
    )
    return response_of(answer, demo=deployment.demo).model_copy(update={"comparison": comparison})


def answered(
    deployment: Deployment,
    asked: AnswerRequest,
    *,
    principal: Principal,
    caller: Caller,
    request_id: str | None = None,
    finder: Finder | None = None,
) -> tuple[Answer, Comparison | None]:
    """Return the answer to a question with the result of its search, and the comparison if one is asked for.

    Raises:
        ContextEngineError: as `answer_events`.
    """
    events = answer_events(deployment, asked, principal=principal, caller=caller, request_id=request_id, finder=finder)
    answer = last_of(events)
    if not asked.compare:
        return answer, None
    answerer = answerer_of(deployment, answer.result.request, use_model=asked.use_model, policy=asked.unsupported)
    return answer, _compared(deployment, answerer, answer)


def compared_answers(
    deployment: Deployment, asked: RAGQueryRequest, *, principal: Principal, caller: Caller, request_id: str | None
) -> ComparisonAnswer:
    """Return a comparison of two answers: from the ranked passages, and from the candidates by relevance alone.

    Raises:
        InvalidRequest: a cursor, which asks for a part of a search; else as `answer_events`.
        ContextEngineError: as `answer_events`.
    """
    if asked.cursor is not None:
        raise InvalidRequest("cursor asks for a part of an answer, but a comparison covers the whole: leave it out")
    request = _search_request(deployment, asked, principal, caller, request_id)
    answerer = answerer_of(deployment, request, use_model=True, policy=None)
    answer = last_of(answerer.stream(request))
    return ComparisonAnswer(data=_compared(deployment, answerer, answer))


def _compared(deployment: Deployment, answerer: Answerer, answer: Answer) -> Comparison:
    comparison = compare(answer.result, mask=deployment.engine.mask, enhanced=answer.context)
    baseline = comparison.baseline.model_copy(update={"choices": _choices(answerer.baseline(answer))})
    enhanced = comparison.enhanced.model_copy(update={"choices": _choices(answer)})
    return comparison.model_copy(update={"baseline": baseline, "enhanced": enhanced})


def _choices(answer: Answer) -> tuple[dict[str, Any], ...]:
    message = {"role": "assistant", "content": answer_text(answer)}
    return ({"index": 0, "message": message, "finish_reason": "stop"},)


def answer_events(
    deployment: Deployment,
    asked: AnswerRequest,
    *,
    principal: Principal,
    caller: Caller,
    request_id: str | None = None,
    stopped: Stopped | None = None,
    finder: Finder | None = None,
) -> Generator[Event, None, None]:
    """Yield the events of an answer.

    Args:
        principal: the caller, whose rights decide what is searched.
        caller: the program that asks, for the record; it grants nothing.
        stopped: asked while a model writes; once it is true, the model is stopped.
        finder: returns what searches for the question in several steps; None: one search.

    Raises:
        UnknownDomain: not registered, or not for this principal.
        InvalidRequest: an unusable field, an unknown persona, or a looser treatment of unsupported sentences than
            configured.
        AuditUnavailable: the answer could not be recorded, and may not be given without a record.
        ContextEngineError: as `Engine.search`.
    """
    request = asked_request(deployment, asked, principal, caller, request_id)
    answerer = answerer_of(deployment, request, use_model=asked.use_model, policy=asked.unsupported)
    find = None if finder is None else finder(request, answerer.writer)
    for event in answerer.stream(request, _history(asked), stopped, find):
        if isinstance(event, Started) and event.answer.gathering is None:  # for a context, a check or an explanation
            deployment.kept.keep(principal, KeptAnswer(result=event.answer.result))
        yield event


def check_given(deployment: Deployment, asked: CheckRequest, *, principal: Principal) -> AnswerResponse:
    """Return an answer that the caller's own model wrote from a search, with the verdict of each sentence.

    Raises:
        CursorExpired: the search is no longer kept, or belongs to somebody else.
        InvalidRequest: a looser treatment of unsupported sentences than configured.
        AuditUnavailable: the verdicts could not be recorded.
    """
    result = deployment.kept.get(principal, asked.search_id).result
    answerer = answerer_of(deployment, use_model=False, policy=asked.unsupported)
    answer = answerer.check(result, asked.text, asked.model or _THEIRS)
    return response_of(answer, demo=deployment.demo)


def asked_request(
    deployment: Deployment, asked: AnswerRequest, principal: Principal, caller: Caller, request_id: str | None
) -> SearchRequest:
    """Return the search of a question.

    Raises:
        UnknownDomain, InvalidRequest: as `answer_events`.
    """
    query = RAGQueryRequest(
        query=asked.query,
        domain=asked.domain,
        persona_key=asked.persona_key,
        namespaces=asked.namespaces,
        filters=asked.filters,
        top_k=asked.top_k,
        as_of=asked.as_of,
        settings=asked.settings,
    )
    return _search_request(deployment, query, principal, caller, request_id)


def _search_request(
    deployment: Deployment, query: RAGQueryRequest, principal: Principal, caller: Caller, request_id: str | None
) -> SearchRequest:
    check_limits(query, deployment.settings)
    registry = deployment.known_to(principal)
    domain = only_domain(registry, query.domain)
    return search_request(query, domain, registry, principal=principal, caller=caller, request_id=request_id)


def _history(asked: AnswerRequest) -> list[ChatMessage]:
    return [ChatMessage(turn.role, turn.content) for turn in asked.history if turn.role != "system"]


def answerer_of(
    deployment: Deployment,
    request: SearchRequest | None = None,
    *,
    use_model: bool,
    policy: AnswerPolicy | None,
    model: ChatModel | None = None,
    job: JobShare | None = None,
) -> Answerer:
    """Return what answers questions over a deployment.

    Args:
        request: the question; the cost limits of its domain are those of the model. None: no model is asked.
        use_model: have the configured chat model write, if there is one.
        policy: for unsupported sentences; None: as the domain's settings say.
        model: writes instead of the configured one; what it costs is counted elsewhere.
        job: the question belongs to it; None: to none.

    Raises:
        ConfigError: the chat model cannot be opened.
    """
    if model is not None:
        return Answerer(deployment.engine, writer=Writer(model), policy=policy)
    configured = deployment.chat.model() if use_model else None
    if configured is None or request is None:
        return Answerer(deployment.engine, policy=policy)
    writer = Writer(configured, spending=_spending(deployment, request, job), entails=deployment.chat.entailment())
    return Answerer(deployment.engine, writer=writer, policy=policy, notes="" if job is None else job.notes)


def _spending(deployment: Deployment, request: SearchRequest, job: JobShare | None) -> Spending:
    settings = settings_of(deployment, request)
    domain = deployment.known_to(request.principal).domain(request.domain)
    budget = Budget(deployment.setup.data_dir(deployment.data_dir), PriceTable(settings.prices), SystemClock())
    spender = Spender(request.request_id or uuid4().hex, domain.domain, domain.timezone, job and job.job_id)
    limits = CostLimits.of(settings)
    if job is not None:
        limits = limits.for_job(job.cost_limit, _elsewhere(job, budget, spender))
    return Spending(budget, spender, limits)


def _elsewhere(job: JobShare, budget: Budget, spender: Spender) -> Decimal:
    """Return what the answers of a job have cost on other machines."""
    here = budget.spent(spender).get("job")
    return Decimal(0) if here is None else max(EXACT.subtract(job.spent, here.amount), Decimal(0))


def settings_of(deployment: Deployment, request: SearchRequest) -> Settings:
    """Return the settings of a request's domain and persona, without those of the call.

    Raises:
        InvalidRequest: the domain or the persona is unknown; the refusal is recorded like one of a search.
    """
    try:
        domain = deployment.known_to(request.principal).domain(request.domain)
        return deployment.setup.resolver.base(domain, request.persona).values
    except InvalidRequest:
        deployment.engine.search(request)  # refused for the same reason, and recorded
        raise
