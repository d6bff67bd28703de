"""`search`: passages that answer a question, labelled to be cited, with what may be concluded from them."""

from __future__ import annotations

from typing import Final, NamedTuple

from context_engine.apps.mcp.arguments import LEAST_TOKENS, MOST_TOKENS, SearchArguments
from context_engine.apps.mcp.found import search_answer, search_text, shorter
from context_engine.apps.mcp.reply import Call, Reply
from context_engine.core.context import ApproxTokenCounter, for_a_model
from context_engine.core.models import Caller, SearchRequest, SearchResult
from context_engine.errors import CursorExpired, InvalidRequest
from context_engine.service.contract.rag import RAGQueryRequest
from context_engine.service.deployment import Deployment
from context_engine.service.kept import KeptAnswer
from context_engine.service.request.asking import check_limits, only_domain, search_request

_CALLER: Final = Caller(app="mcp")
_MOST_DIGITS: Final = 4


def search(call: Call, asked: SearchArguments) -> Reply:
    """Answer a question with what the caller may search, or go on with an answer of theirs.

    Raises:
        InvalidRequest: arguments that cannot be used.
        CursorExpired: the answer is not kept any more, or is somebody else's.
        ContextEngineError: see `Engine.search`.
    """
    deployment, principal = call.deployment, call.caller.principal
    if asked.cursor is not None:
        place = _Place.read(asked.cursor)
        return _reply(deployment, deployment.kept.get(principal, place.search_id).result, asked, place)
    result = deployment.engine.search(_request(call, asked))
    deployment.kept.keep(principal, KeptAnswer(result=result))
    return _reply(deployment, result, asked, _Place(result.search_id, 1, asked.max_tokens))


class _Place(NamedTuple):
    """A place in an answer: a part, where each has so many tokens."""

    search_id: str
    part: int
    budget: int

    @classmethod
    def read(cls, cursor: str) -> _Place:
        search_id, _, numbers = cursor.partition(".")
        part, _, budget = numbers.partition(".")
        whole = all(one.isascii() and one.isdecimal() and len(one) <= _MOST_DIGITS for one in (part, budget))
        if not (whole and LEAST_TOKENS <= int(budget) <= MOST_TOKENS):
            raise CursorExpired("this is no cursor of an answer: send one as it was given, or the question again")
        return cls(search_id, int(part), int(budget))

    @property
    def next(self) -> str:
        return f"{self.search_id}.{self.part + 1}.{self.budget}"


def _request(call: Call, asked: SearchArguments) -> SearchRequest:
    request = RAGQueryRequest(
        query=_question(asked),
        domain=asked.domain,
        persona_key=asked.persona,
        filters=asked.filters,
        top_k=asked.top_k,
        as_of=asked.as_of,
    )
    principal = call.caller.principal
    check_limits(request, call.deployment.settings)
    domain = only_domain(call.deployment.known_to(principal), asked.domain)
    return search_request(request, domain, principal=principal, caller=_CALLER, request_id=call.request_id)


def _question(asked: SearchArguments) -> str:
    if asked.question is not None and asked.query is not None and asked.question != asked.query:
        raise InvalidRequest("question and query are two names of one argument: send one of them")
    question = asked.question if asked.question is not None else asked.query
    if question is None:
        raise InvalidRequest("question is missing: send the question in full words")
    return question


def _reply(deployment: Deployment, result: SearchResult, asked: SearchArguments, place: _Place) -> Reply:
    """Return the passages of a part; what takes more tokens than a client reads is left out, and named."""
    engine = deployment.engine
    context = engine.context(result, counter=ApproxTokenCounter(), budget=place.budget, part=place.part)
    answer = search_answer(
        for_a_model(result, engine.mask), context, full=asked.detail == "full", more=place.next, demo=deployment.demo
    )
    as_json = asked.query is not None
    reply = Reply(answer, None if as_json else search_text(answer, context))
    while not reply.fits and (less := shorter(answer)) is not None:
        answer = less
        reply = Reply(answer, None if as_json else search_text(answer, context))
    return reply
