"""Answers: `/api/v1/rag/answer`, as JSON or as a stream, and the OpenAI chat API, whose models are the domains."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import closing
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Scope

from context_engine.answer.answering import Event, last_of
from context_engine.answer.asking import answer_events, answer_question, check_given, compared_answers
from context_engine.answer.chat import (
    ChatCompletion,
    ChatError,
    ChatErrorAnswer,
    ChatModelOut,
    CompletionRequest,
    ModelList,
    chat_chunks,
    chat_completion,
    chat_question,
    model_of,
    models_of,
)
from context_engine.answer.contract import AnswerRequest, AnswerResponse, CheckRequest, event_json, event_name
from context_engine.answer.writing import Stopped
from context_engine.apps.server.openapi import operation_id
from context_engine.apps.server.problems import Problem, may_answer, problem_of
from context_engine.apps.server.service import Service, request_id_of, service_of
from context_engine.apps.server.slots import Turn
from context_engine.core.models import Authenticated, Caller
from context_engine.errors import UnknownDomain
from context_engine.jobs.asking import finder_of
from context_engine.service.contract.comparison import ComparisonAnswer
from context_engine.service.contract.rag import RAGQueryRequest
from context_engine.service.deployment import Deployment

router = APIRouter(tags=["answers"], generate_unique_id_function=operation_id)
_PROBLEMS: Final = may_answer(401, 404, 409, 422, 500, 502, 503)
_CALLER: Final = Caller(app="rag-api")
_CHAT: Final = Caller(app="chat-api")
_CHAT_ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": ChatErrorAnswer} for status in (400, 401, 404, 409, 422, 429, 500, 502, 503)
}
_STREAM: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
}
ModelName = Annotated[str, Path(description="A domain, or DOMAIN:PERSONA.", max_length=200)]


class _Question(NamedTuple):
    """The question of a request: what answers it whole, and what answers it event by event."""

    asked: AnswerRequest
    app: Caller
    request_id: str

    def answer(self, deployment: Deployment, caller: Authenticated) -> AnswerResponse:
        """Return the answer."""
        asked, finder = self.asked, finder_of(deployment, self.asked)
        return answer_question(
            deployment, asked, principal=caller.principal, caller=self.app, request_id=self.request_id, finder=finder
        )

    def events(
        self, deployment: Deployment, caller: Authenticated, stopped: Stopped | None
    ) -> Generator[Event, None, None]:
        """Return the events of the answer; `stopped`, if there is one, is asked while a model writes."""
        asked, finder, key = self.asked, finder_of(deployment, self.asked), self.request_id
        return answer_events(
            deployment,
            asked,
            principal=caller.principal,
            caller=self.app,
            request_id=key,
            stopped=stopped,
            finder=finder,
        )


@router.post(
    "/api/v1/rag/answer",
    summary="Answer a question",
    response_model=AnswerResponse,
    responses={**_PROBLEMS, **_STREAM},
)
async def answer(request: Request, body: AnswerRequest) -> Response:
    """Answer from the passages of a search; every sentence shows its quotes, and unsupported ones are left out.

    With `stream` the answer comes as server-sent events: `start` with the passages, `sentence` for each checked
    sentence, `end` with the whole answer, or `error` with a problem.
    """
    service, question = service_of(request), _Question(body, _CALLER, request_id_of(request))
    turn = _turn(service, body.domain)
    if not body.stream:
        return await service.json(request, question.answer, turn)

    def events(deployment: Deployment, caller: Authenticated, stopped: Stopped) -> Generator[str, None, None]:
        for number, event in enumerate(question.events(deployment, caller, stopped), start=1):
            yield sse(event_name(event), number, event_json(event, demo=deployment.demo))

    return await streamed(service, request, events, turn, lambda problem: sse("error", 0, problem.model_dump_json()))


@router.post(
    "/api/v1/rag/check",
    summary="Check the sentences of an answer",
    response_model=AnswerResponse,
    responses=may_answer(401, 410, 422, 500, 503),
)
async def check(request: Request, body: CheckRequest) -> Response:
    """Check an answer that a model of yours wrote from the context of a search, and record it with its verdicts."""

    def work(deployment: Deployment, caller: Authenticated) -> AnswerResponse:
        return check_given(deployment, body, principal=caller.principal)

    return await service_of(request).json(request, work)


@router.post(
    "/api/chat/compare",
    summary="Compare an answer with the baseline's",
    response_model=ComparisonAnswer,
    responses=_PROBLEMS,
)
async def compare(request: Request, body: RAGQueryRequest) -> Response:
    """Answer twice, from the ranked passages and from the baseline: the two answers stand in `choices`."""
    service, request_id = service_of(request), request_id_of(request)

    def work(deployment: Deployment, caller: Authenticated) -> ComparisonAnswer:
        return compared_answers(deployment, body, principal=caller.principal, caller=_CHAT, request_id=request_id)

    return await service.json(request, work, _turn(service, body.domain))


@router.post(
    "/v1/chat/completions",
    summary="Answer, for chat clients",
    response_model=ChatCompletion,
    responses={**_CHAT_ERRORS, **_STREAM},
)
async def chat_completions(request: Request, body: CompletionRequest) -> Response:
    """The OpenAI chat API: `model` is a domain, or `domain:persona`; the last user message is the question."""
    service, question = service_of(request), _Question(chat_question(body), _CHAT, request_id_of(request))
    turn = _turn(service, question.asked.domain)
    now = int(time.time())
    if not body.stream:

        def work(deployment: Deployment, caller: Authenticated) -> ChatCompletion:
            answer = last_of(question.events(deployment, caller, None))
            return chat_completion(answer, body, now, demo=deployment.demo)

        return await service.json(request, work, turn)

    def events(deployment: Deployment, caller: Authenticated, stopped: Stopped) -> Generator[str, None, None]:
        made = question.events(deployment, caller, stopped)
        yield from chat_chunks(made, body, now, demo=deployment.demo)

    return await streamed(service, request, events, turn, _chat_failure)


@router.get("/v1/models", summary="List the domains as models", response_model=ModelList, responses=_CHAT_ERRORS)
async def chat_models(request: Request) -> Response:
    """The OpenAI list of models: the domains that the caller may search, alone and with each persona."""
    return await service_of(request).json(request, lambda deployment, caller: models_of(deployment, caller.principal))


@router.get(
    "/v1/models/{model}", summary="Show a domain as a model", response_model=ChatModelOut, responses=_CHAT_ERRORS
)
async def chat_model(request: Request, model: ModelName) -> Response:
    """A model of the list by its id; 404 if the caller may not search the domain."""
    return await service_of(request).json(
        request, lambda deployment, caller: model_of(deployment, caller.principal, model)
    )


def chat_problem(problem: Problem, headers: Mapping[str, str], _scope: Scope) -> Response:
    """Return a problem as chat clients read it."""
    return Response(_chat_error(problem), problem.status, headers=dict(headers), media_type="application/json")


_CHAT_MENDS: Final = {
    UnknownDomain.code: "A model is a domain, or DOMAIN:PERSONA: GET /v1/models lists them.",
    "not_found": "Of the OpenAI API, this service has POST /v1/chat/completions and GET /v1/models.",
}
"""What to do instead, where a chat client has addresses of its own."""


def _chat_error(problem: Problem) -> str:
    fields = (f"{field.pointer or 'the body'} {field.detail}: {field.mend}".rstrip(": ") for field in problem.errors)
    mend = _CHAT_MENDS.get(problem.code, problem.mend)
    if problem.status in (400, 422):
        mend = ""  # it names fields that this form does not have
    parts = (part for part in (problem.detail, *fields, mend) if part)
    message = " ".join(part if part.endswith((".", "?")) else f"{part}." for part in parts)
    error = ChatError(message=message, type=problem.code, code=problem.code)
    return ChatErrorAnswer(error=error).model_dump_json()


def _chat_failure(problem: Problem) -> str:
    return f"data: {_chat_error(problem)}\n\ndata: [DONE]\n\n"


def _turn(service: Service, domain: str | None) -> Turn:
    settings = service.settings
    return Turn(domain=domain, patience_s=min(settings.deadline_s, settings.server_max_wait_s))


Events = Callable[[Deployment, Authenticated, Stopped], Generator[str, None, None]]
"""Makes the events of a request, each a whole block of lines; stops as soon as the callable returns True."""

_ALIVE: Final = ": keep-alive\n\n"
_ALIVE_EVERY_S: Final = 15.0
_HEADERS: Final = {"X-Accel-Buffering": "no"}


def sse(name: str, number: int, data: str) -> str:
    """Return a server-sent event; `data` is JSON without line breaks."""
    return f"id: {number}\nevent: {name}\ndata: {data}\n\n"


async def streamed(
    service: Service, request: Request, events: Events, turn: Turn, failed: Callable[[Problem], str]
) -> Response:
    """Return the events of a request as a stream; an error before the first event is raised.

    Args:
        failed: makes the last event from the problem of an error that came later.

    Raises:
        ContextEngineError: as `Service.call`, and as the events raise it before the first.
    """
    loop, queue, gone = asyncio.get_running_loop(), asyncio.Queue[str | None](), threading.Event()

    def work(deployment: Deployment, caller: Authenticated) -> None:
        with closing(events(deployment, caller, gone.is_set)) as made:
            for event in made:
                if gone.is_set():
                    return
                loop.call_soon_threadsafe(queue.put_nowait, event)

    task = asyncio.ensure_future(service.call(request, work, turn))
    task.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        first = await queue.get()
    except asyncio.CancelledError:
        gone.set()
        raise
    if first is None:
        await task
        return Response(status_code=204)
    return StreamingResponse(
        _body(first, queue, task, gone, lambda error: failed(problem_of(error, request_id_of(request))[0])),
        media_type="text/event-stream",
        headers=_HEADERS,
    )


async def _body(
    first: str,
    queue: asyncio.Queue[str | None],
    task: asyncio.Future[None],
    gone: threading.Event,
    failed: Callable[[BaseException], str],
) -> AsyncIterator[str]:
    event: str | None = first
    try:
        while event is not None:
            yield event
            event = await _next(queue)
            while event == "":
                yield _ALIVE
                event = await _next(queue)
        error = task.exception()
        if error is not None:
            yield failed(error)
    finally:
        gone.set()


async def _next(queue: asyncio.Queue[str | None]) -> str | None:
    """Return the next event; "" after a while without one, None at the end."""
    try:
        return await asyncio.wait_for(queue.get(), _ALIVE_EVERY_S)
    except TimeoutError:
        return ""
