"""The front page: a question, its answer, the passages behind it, all from one search, and thumbs for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import ValidationError

from context_engine.answer.asking import answered
from context_engine.answer.contract import AnswerRequest, ChatTurn
from context_engine.apps.server.service import request_id_of, service_of
from context_engine.apps.server.slots import Turn
from context_engine.apps.web.addresses import own_address, search_address, with_query
from context_engine.apps.web.rendering import Page, respond
from context_engine.apps.web.search_view import answer_view, search_view
from context_engine.apps.web.steps import steps_view
from context_engine.core.models import Authenticated, Caller, Principal
from context_engine.core.query.follow_up import needs_subject
from context_engine.errors import CursorExpired, InvalidRequest
from context_engine.jobs.asking import finder_of
from context_engine.service.contract.comparison import Comparison
from context_engine.service.contract.domains import DomainsResponse
from context_engine.service.contract.feedback import Feedback, FeedbackKept
from context_engine.service.deployment import Deployment
from context_engine.service.domains import domains_known_to
from context_engine.service.judging import keep_feedback

_ACTIVE: Final = "ask"
_CALLER: Final = Caller(app="pages")
_MOST_TURNS: Final = 6
_MOST_QUESTION: Final = 10_000
_EXAMPLES: Final = (
    ("NPA", "notional threshold for a material change"),
    ("ORM", "time limit for reporting a Severe event to the regulator"),
    ("DESK", "single-issuer concentration limit of the Rates desk"),
)
"""Domains and questions that the demo bank answers."""

router = APIRouter(include_in_schema=False)


class AskForm(NamedTuple):
    """The fields of the form, as text from the address.

    Attributes:
        steps: search again for parts, citations and what is missing.
        thread: search ids of the questions before, oldest first.
    """

    q: str
    domain: str
    persona: str
    as_of: str
    compare: bool
    steps: bool
    thread: tuple[str, ...]

    @property
    def here(self) -> str:
        """The address of the same question."""
        asked = {"domain": self.domain, "persona": self.persona, "as_of": self.as_of, "q": self.q}
        ticks = {"compare": "1" if self.compare else "", "steps": "1" if self.steps else ""}
        return with_query("/", {**asked, **ticks})

    @property
    def again(self) -> str:
        """The address of the same question with the other choice of a comparison, which is of one search."""
        return self._replace(compare=not self.compare, steps=False).here

    @property
    def workflow(self) -> Literal["simple", "agentic"] | None:
        """How the passages are found; None: as the settings of the domain say."""
        return "agentic" if self.steps else "simple" if self.compare else None


class PastTurn(NamedTuple):
    """A question asked before in the same thread, and the address of its search."""

    search_id: str
    question: str
    address: str


@router.get("/")
async def front_page(request: Request) -> Response:
    """Show the form, and the answer to the question in the address."""
    form, request_id = _form(request), request_id_of(request)
    settings = service_of(request).settings
    turn = Turn(domain=form.domain or None, patience_s=min(settings.deadline_s, settings.server_max_wait_s))
    return await respond(request, lambda deployment, caller: _page(deployment, caller, form, request_id), turn)


@router.get("/suggest")
async def suggest(request: Request) -> Response:
    """Give suggestions for the beginning of a question, as JSON."""
    domain, typed = request.query_params.get("domain", ""), request.query_params.get("q", "")[:200]

    def work(deployment: Deployment, caller: Authenticated) -> Sequence[str]:
        known = deployment.known_to(caller.principal).domains.get(domain)
        return () if known is None else deployment.suggestions.of(caller.principal, known, typed)

    return JSONResponse({"suggestions": list(await service_of(request).call(request, work))})


def _form(request: Request) -> AskForm:
    given = request.query_params
    return AskForm(
        q=" ".join(given.get("q", "").split()),
        domain=given.get("domain", ""),
        persona=given.get("persona", ""),
        as_of=given.get("as_of", ""),
        compare=given.get("compare", "") == "1",
        steps=given.get("steps", "") == "1",
        thread=tuple(given.getlist("thread")[-_MOST_TURNS:]),
    )


def _page(deployment: Deployment, caller: Authenticated, form: AskForm, request_id: str) -> Page:
    known = domains_known_to(deployment, caller.principal)
    names = [domain.domain for domain in known.domains if domain.usable]
    form = form if form.domain or not names else form._replace(domain=names[0])
    values = {
        "active": _ACTIVE,
        "known": known,
        "form": form,
        "problem": "",
        "search": None,
        "examples": _examples(known),
    }
    if not form.q:
        return Page("ask.html", values)
    try:
        return Page(
            "ask.html", {**values, **_answered(deployment, caller.principal, form, names, known.personas, request_id)}
        )
    except InvalidRequest as error:
        return Page("ask.html", {**values, "problem": str(error)}, 422)


def _answered(
    deployment: Deployment,
    principal: Principal,
    form: AskForm,
    domains: Sequence[str],
    personas: Sequence[str],
    request_id: str,
) -> Mapping[str, Any]:
    """Return what the page shows of an answer; one search gives the answer, the passages and the comparison.

    Raises:
        InvalidRequest: a field of the form cannot be used.
        ContextEngineError: as `answered`.
    """
    if form.compare and form.steps:
        raise InvalidRequest("a comparison is of one search: untick it, or 'Several steps'")
    past = list(_past_turns(deployment, principal, form.thread))
    asked = AnswerRequest(
        query=_checked_question(form.q),
        domain=_one_of(form.domain, domains, "domain"),
        persona_key=_one_of(form.persona, personas, "persona") if form.persona else None,
        as_of=_day(form.as_of),
        history=tuple(ChatTurn(role="user", content=turn.question) for turn in past),
        compare=form.compare,
        workflow=form.workflow,
    )
    finder = finder_of(deployment, asked)
    answer, comparison = answered(
        deployment, asked, principal=principal, caller=_CALLER, request_id=request_id, finder=finder
    )
    search_id = answer.result.search_id
    return {
        "search": search_view(deployment, answer.result),
        "answer": answer_view(answer),
        "steps": None if answer.gathering is None else steps_view(answer.gathering),
        "asked": answer.asked,
        "is_unclear": answer.refusal is not None and needs_subject(answer.result.query),
        "comparison": comparison,
        "reasons": {} if comparison is None else _reasons(comparison),
        "past": past,
        "thread": [*(turn.search_id for turn in past), search_id][-_MOST_TURNS:],
        "permalink": search_address(search_id),
    }


def _past_turns(deployment: Deployment, principal: Principal, thread: Iterable[str]) -> Iterable[PastTurn]:
    """Yield the questions of a thread that are still kept for their asker."""
    for search_id in thread:
        try:
            result = deployment.kept.get(principal, search_id).result
        except CursorExpired:
            continue
        yield PastTurn(search_id, result.query, search_address(search_id))


def _checked_question(text: str) -> str:
    if len(text) > _MOST_QUESTION:
        raise InvalidRequest(f"the question has {len(text):,} characters; {_MOST_QUESTION:,} are allowed: shorten it")
    return text


def _one_of(name: str, known: Sequence[str], kind: str) -> str:
    if name not in known:
        raise InvalidRequest(f"there is no {kind} {name[:100]!r} that you may use: choose one of the list")
    return name


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise InvalidRequest(f"the day {text[:40]!r} is none: write it as 2025-06-30") from None


def _reasons(comparison: Comparison) -> dict[tuple[str, str], str]:
    """Return why the rank of a passage differs between the two lists, by source and chunk."""
    changed = comparison.difference
    return {
        (change.source_id, change.chunk_id): change.reason
        for change in (*changed.moved, *changed.entered, *changed.left)
    }


def _examples(known: DomainsResponse) -> list[tuple[str, str, str]]:
    """Return (domain, question, address) of the demo's examples."""
    if not known.demo:
        return []
    return [(domain, text, with_query("/", {"domain": domain, "q": text})) for domain, text in _EXAMPLES]


JUDGEMENTS: Final = "/judgements"
_FIELDS: Final = ("search_id", "thumb", "source_id", "chunk_id", "answer_id")


@router.post(JUDGEMENTS)
async def judge(request: Request) -> Response:
    """Keep a judgement; a script gets an empty answer, a form a page that leads back."""
    fields = {name: values[0] for name, values in parse_qs((await request.body()).decode("utf-8", "replace")).items()}
    work = _keeping(fields)
    if "application/json" in request.headers.get("accept", ""):
        await service_of(request).call(request, work)
        return Response(status_code=204)

    def page(deployment: Deployment, caller: Authenticated) -> Page:
        work(deployment, caller)
        return Page("judged.html", {"active": _ACTIVE, "back": own_address(fields.get("back", "/"))})

    return await respond(request, page)


def _keeping(fields: Mapping[str, str]) -> Callable[[Deployment, Authenticated], FeedbackKept]:
    """Return the work that keeps the judgement of a form.

    Raises:
        InvalidRequest: the form names no search or no thumb.
    """
    given, at = {name: fields[name] for name in _FIELDS if fields.get(name)}, datetime.now(UTC)
    try:
        feedback = Feedback.model_validate(given)
    except ValidationError:
        raise InvalidRequest("the judgement needs search_id, and thumb as up or down") from None
    return lambda deployment, caller: keep_feedback(deployment, caller, feedback, at)
