"""The `search` tool: passages that answer a question, with citation labels and a conclusion."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from context_engine.apps.dify.node_output import chunk_for_model, inert_values
from context_engine.apps.mcp.answers import LeftOut, SearchAnswer, SearchedSourceState
from context_engine.apps.mcp.arguments import SearchArguments
from context_engine.apps.mcp.reply import MOST_REPLY_TOKENS, Call, Reply, labelled, passage_id
from context_engine.core.context import ApproxTokenCounter, for_a_model
from context_engine.core.context.render import quoted
from context_engine.core.models import (
    Caller,
    Citation,
    Context,
    ContextBlock,
    Decision,
    OmittedPassage,
    RankedChunk,
    SearchRequest,
    SearchResult,
    SourceStatus,
)
from context_engine.core.policy.injection import INJECTION_SUSPECTED
from context_engine.errors import InvalidRequest
from context_engine.service.contract.chunks import PassageFound
from context_engine.service.contract.rag import RAGQueryRequest
from context_engine.service.deployment import Deployment
from context_engine.service.kept import KeptAnswer, make_cursor, read_cursor
from context_engine.service.request import check_limits, only_domain, search_request

_CALLER: Final = Caller(app="mcp")


def search(call: Call, asked: SearchArguments) -> Reply:
    """Search what the caller may search, or continue one of their answers.

    Raises:
        InvalidRequest: invalid arguments.
        CursorExpired: the answer is no longer kept, or belongs to another caller.
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
    """A part of an answer, and the token budget of each part."""

    search_id: str
    part: int
    budget: int

    @classmethod
    def read(cls, cursor: str) -> _Place:
        search_id, (part, budget) = read_cursor(cursor, count=2)
        return cls(search_id, part, budget)

    @property
    def next(self) -> str:
        return make_cursor(self.search_id, self.part + 1, self.budget)


def _request(call: Call, asked: SearchArguments) -> SearchRequest:
    request = RAGQueryRequest(
        query=_question(asked),
        domain=asked.domain,
        persona_key=asked.persona,
        namespaces=asked.namespaces,
        filters=asked.filters,
        top_k=asked.top_k,
        as_of=asked.as_of,
    )
    principal = call.caller.principal
    check_limits(request, call.deployment.settings)
    registry = call.deployment.known_to(principal)
    domain = only_domain(registry, asked.domain)
    return search_request(request, domain, registry, principal=principal, caller=_CALLER, request_id=call.request_id)


def _question(asked: SearchArguments) -> str:
    if asked.question is not None and asked.query is not None and asked.question != asked.query:
        raise InvalidRequest("question and query are two names of one argument: send one of them")
    question = asked.question if asked.question is not None else asked.query
    if question is None:
        raise InvalidRequest("question is missing: send the question in full words")
    return question


def _reply(deployment: Deployment, result: SearchResult, asked: SearchArguments, place: _Place) -> Reply:
    """Return the passages of a part; those beyond a client's token limit are omitted and listed."""
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


_IN_BOTH_FORMS: Final = 2.6
"""Approximate tokens of an answer without details per token of its passages: as text and as JSON."""

_NO_ROOM: Final = "The details of some passages are omitted because the answer is long: use a smaller max_tokens."

_CONCLUSIONS: Final = {
    "answered": "the passages below answer the question",
    "no_match": "nothing relevant was found; say so instead of answering from memory",
    "out_of_scope": "the question is not one for this domain; say so instead of answering from memory",
    "incomplete": "required evidence is missing; say so with the answer",
}


def search_answer(result: SearchResult, context: Context, *, full: bool, more: str, demo: bool) -> SearchAnswer:
    """Return a result as structured content: the same passages as in its context.

    Args:
        result: as a model may read it (`for_a_model`).
        full: with metadata, scores, provenance and the outcome of each source.
        more: the cursor, used if some passages did not fit.
    """
    ranked = {chunk.rank: chunk for chunk in result.chunks}
    details = _Details(result.search_id, context.tokens) if full else None
    results = [
        _passage(block, citation, ranked[block.rank], result, context.nonce, details)
        for block, citation in zip(context.blocks, context.citations, strict=True)
    ]
    notes = [labelled(note) for note in (result.warnings if full else result.beside_the_answer)]
    return SearchAnswer(
        decision=str(result.decision),
        status=str(result.status),
        search_id=result.search_id,
        domain=result.domain,
        question=result.query,
        as_of=result.as_of.isoformat(),
        results=results,
        left_out=[_left_out(passage, result.domain) for passage in context.left_out],
        notes=[*notes, _NO_ROOM] if details is not None and details.left_out else notes,
        cursor=more if _goes_on(result, context) else None,
        sources=[_source(source) for source in result.sources] if full else None,
        demo=demo,
    )


def shorter(answer: SearchAnswer) -> SearchAnswer | None:
    """Return a shorter answer: first without details, then without its last passage; None if it cannot be shorter."""
    if any(result.details is not None for result in answer.results):
        plain = [result.model_copy(update={"details": None}) for result in answer.results]
        notes = answer.notes if _NO_ROOM in answer.notes else [*answer.notes, _NO_ROOM]
        return answer.model_copy(update={"results": plain, "notes": notes})
    if not answer.results:
        return None
    *kept, last = answer.results
    left_out = LeftOut(id=last.id, rank=last.rank, reason="budget")
    return answer.model_copy(update={"results": kept, "left_out": [left_out, *answer.left_out]})


def _goes_on(result: SearchResult, context: Context) -> bool:
    """Return whether another part follows; a passage of which not even one word fits gets a separate part."""
    return result.decision is not Decision.OUT_OF_SCOPE and len(context.left_out) > (0 if context.blocks else 1)


class _Details:
    """Published forms of passages, as many as fit in addition to the passages.

    Args:
        tokens: of the passages.

    Attributes:
        left_out: number of those that did not fit.
    """

    def __init__(self, search_id: str, tokens: int) -> None:
        self._search_id, self.left_out = search_id, 0
        self._room = (MOST_REPLY_TOKENS - _IN_BOTH_FORMS * tokens) / 2

    def of(self, chunk: RankedChunk) -> dict[str, Any] | None:
        published = chunk_for_model(chunk, self._search_id)
        del published["content"]
        tokens = ApproxTokenCounter().count(json.dumps(published, ensure_ascii=False, default=str))
        if tokens > self._room:
            self.left_out += 1
            return None
        self._room -= tokens
        return published


def _passage(
    block: ContextBlock,
    citation: Citation,
    chunk: RankedChunk,
    result: SearchResult,
    nonce: str,
    details: _Details | None,
) -> PassageFound:
    flags = _flags(result, block)
    text = block.text if block.trusted else quoted(block.text, nonce, suspected=INJECTION_SUSPECTED in flags)
    return PassageFound.of(
        inert_values({name: value for name, value in chunk.fields().items() if name != "content"}),
        id=passage_id(result.domain, block.source_id, chunk.chunk_id),
        label=block.label,
        title=labelled(citation.title),
        url=labelled(citation.url),
        text=text,
        truncated=block.truncated,
        attribution=labelled(citation.attribution),
        source=block.source_id,
        chunk_ids=inert_values(list(block.chunk_ids)),
        section=labelled(citation.section) or None,
        page=citation.page,
        relevance=round(chunk.relevance, 4),
        trusted=block.trusted,
        flags=flags,
        details=None if details is None else details.of(chunk),
    )


def _flags(result: SearchResult, block: ContextBlock) -> list[str]:
    parts = (
        chunk for chunk in result.chunks if chunk.source_id == block.source_id and chunk.chunk_id in block.chunk_ids
    )
    return list(dict.fromkeys(flag for part in parts for flag in part.flags))


def _left_out(passage: OmittedPassage, domain: str) -> LeftOut:
    return LeftOut(id=passage_id(domain, passage.source_id, passage.chunk_id), rank=passage.rank, reason=passage.reason)


def _source(source: SourceStatus) -> SearchedSourceState:
    return SearchedSourceState(
        source=source.source_id, state=source.state, chunks=source.chunks, problem=labelled(source.problem) or None
    )


def search_text(answer: SearchAnswer, context: Context) -> str:
    """Return the answer as text for a model: the conclusion, the context and the ids."""
    lines = ["This is a fictitious demo bank."] if answer.demo else []
    lines.append(
        f"Decision: {answer.decision} ({_CONCLUSIONS.get(answer.decision, 'see the notes')}). Status: {answer.status}. "
        f"Domain {answer.domain}, as of {answer.as_of}, search_id {answer.search_id}."
    )
    lines += [f"Note: {note}" for note in answer.notes]
    lines += ["", context.text, ""]
    lines += [_reference(result) for result in answer.results]
    lines += [
        f"Not shown ({omission.reason}): rank {omission.rank}, id {' '.join(omission.id.split())}"
        for omission in answer.left_out
    ]
    lines += [f"Source {source.source}: {source.state}, {source.chunks} candidates" for source in answer.sources or ()]
    if answer.cursor is not None:
        lines.append(f"More passages: call search with cursor {answer.cursor!r}.")
    return "\n".join(lines).rstrip()


def _reference(passage: PassageFound) -> str:
    facts = [
        f"{passage.label} id {' '.join(passage.id.split())}",
        passage.url,
        f"confidence {passage.confidence}",
        ", ".join(passage.flags),
    ]
    line = " · ".join(part for part in facts if part)
    return (
        line if passage.details is None else f"{line}\n{json.dumps(passage.details, ensure_ascii=False, default=str)}"
    )
