"""Facts of a search, an answer or a call as attributes of its span.

Without a `Show` they hold ids, counts, scores and names, but no question, no passage, no prompt and no answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from context_engine.adapters.telemetry import names
from context_engine.core.engine.recall import RepliesTogether, SourceReply
from context_engine.core.models import AnswerRecord, ChatPart, RankedChunk, SearchResult, SourceQuery, StageTrace
from context_engine.core.tracing import ChatAsked, HttpAnswered, Step
from context_engine.errors import ContextEngineError

Attributes = Mapping[str, str | bool | int | float | Sequence[str]]
Show = Callable[[str], str]
"""Returns a text as it may be shown."""

_MOST_DOCUMENTS: Final = 20
"""The SDK keeps 128 attributes of a span and drops the first; a document has four."""

_MOST_MESSAGES: Final = 20
_KINDS: Final = {
    Step.SEARCH: names.RETRIEVER,
    Step.SOURCE: names.RETRIEVER,
    Step.CHAT: names.LLM,
}


def span_name(step: Step, name: str) -> str:
    """Return the name of a span, as the conventions have it where they name such work."""
    if step in (Step.SEARCH, Step.SOURCE):
        return f"{names.RETRIEVAL} {name}"
    return f"{step} {name}".rstrip()


def attributes_of_step(step: Step, name: str) -> Attributes:
    """Return the attributes that a span has from its beginning."""
    kind = _KINDS.get(step, names.RERANKER if (step, name) == (Step.STAGE, "rerank") else names.CHAIN)
    known = {names.SPAN_KIND: kind}
    if step in (Step.SEARCH, Step.SOURCE):
        return {**known, names.OPERATION: names.RETRIEVAL, names.DATA_SOURCE: name}
    if step is Step.CHAT:
        return {**known, names.OPERATION: names.CHAT, names.REQUEST_MODEL: name, names.MODEL_NAME: name}
    return {**known, names.STAGE: name} if step is Step.STAGE else known


def error_type(error: BaseException) -> str:
    """Return what names an error: its code, else its class; its message may hold text and is left out."""
    return error.code if isinstance(error, ContextEngineError) else type(error).__name__


def _of_request(fact: HttpAnswered, show: Show | None) -> Attributes:
    known: Attributes = {
        names.METHOD: fact.method,
        names.ROUTE: fact.route,
        names.STATUS_CODE: fact.status,
        names.REQUEST_ID: fact.request_id,
    }
    return {**known, names.ERROR_TYPE: str(fact.status)} if fact.status >= 500 else known


def _of_result(fact: SearchResult, show: Show | None) -> Attributes:
    failed = [status.source_id for status in fact.sources if status.error is not None]
    known: dict[str, Any] = {
        names.TOP_K: float(fact.settings.values.stage2_top_k),
        names.SEARCH_ID: fact.search_id,
        names.STATUS: str(fact.status),
        names.DECISION: str(fact.decision),
        names.CANDIDATES: len(fact.fates),
        names.CHUNKS: len(fact.chunks),
        names.FAILED_SOURCES: failed,
    }
    if fact.request_id:
        known[names.REQUEST_ID] = fact.request_id
    if show is not None:
        known[names.QUERY_TEXT] = known[names.INPUT] = show(fact.query)
    for number, chunk in enumerate(fact.chunks[:_MOST_DOCUMENTS]):
        known |= _document(number, chunk, show)
    return known


def _document(number: int, chunk: RankedChunk, show: Show | None) -> Attributes:
    metadata = {
        "source_id": chunk.source_id,
        "document_id": chunk.chunk.document_id,
        "authority_tier": chunk.authority_tier,
        "relevance": round(chunk.relevance, 4),
        "confidence": str(chunk.confidence),
        "freshness": chunk.provenance.extra.get("freshness"),
        "flags": chunk.flags,
    }
    known: Attributes = {
        names.document(number, "id"): chunk.chunk_id,
        names.document(number, "score"): round(chunk.final, 4),
        names.document(number, "metadata"): json.dumps(metadata, ensure_ascii=False),
    }
    return known if show is None else {**known, names.document(number, "content"): show(chunk.chunk.content)}


def _of_query(fact: SourceQuery, show: Show | None) -> Attributes:
    return {names.TOP_K: float(fact.top_k), names.SEARCH_ID: fact.search_id}


def _of_reply(fact: SourceReply, show: Show | None) -> Attributes:
    return _replied([fact])


def _of_replies(fact: RepliesTogether, show: Show | None) -> Attributes:
    return _replied(fact.replies)


def _replied(replies: Sequence[SourceReply]) -> Attributes:
    known: Attributes = {names.CHUNKS: sum(len(reply.answer.chunks) for reply in replies if reply.answer is not None)}
    codes = dict.fromkeys(error_type(failure) for reply in replies for failure in reply.failures)
    return {**known, names.ERROR_TYPE: ", ".join(codes)} if codes else known


def _of_stage(fact: StageTrace, show: Show | None) -> Attributes:
    return {names.ENTERED: fact.entered, names.LEFT: fact.left}


def _of_answer(fact: AnswerRecord, show: Show | None) -> Attributes:
    sentences = fact.facts["sentences"]
    known: dict[str, Any] = {
        names.ANSWER_MODE: fact.facts["mode"],
        names.SENTENCES: len(sentences),
        names.SUPPORTED: sum(sentence["verdict"] == "supported" for sentence in sentences),
    }
    if fact.facts["refusal"]:
        known[names.ANSWER_REFUSAL] = fact.facts["refusal"]
    if show is not None:
        texts = [words["text"] for words, kept in zip(fact.words["sentences"], sentences) if kept["shown"]]
        known[names.INPUT] = show(fact.words["asked"])
        known[names.OUTPUT] = show(" ".join(texts) or fact.words["refusal"] or "")
    return known


def _of_prompt(fact: ChatAsked, show: Show | None) -> Attributes:
    known: dict[str, Any] = {names.MAX_TOKENS: fact.max_tokens, names.TEMPERATURE: fact.temperature}
    if show is not None:
        for number, (role, content) in enumerate(fact.messages[-_MOST_MESSAGES:]):
            known[names.message(names.INPUT_MESSAGES, number, "role")] = role
            known[names.message(names.INPUT_MESSAGES, number, "content")] = show(content)
    return known


def _of_part(fact: ChatPart, show: Show | None) -> Attributes:
    known: dict[str, Any] = {} if fact.finish is None else {names.FINISH_REASONS: [str(fact.finish)]}
    if fact.usage is not None:
        asked, written = fact.usage.input_tokens, fact.usage.output_tokens
        known |= {names.INPUT_TOKENS: asked, names.OUTPUT_TOKENS: written}
        known |= {names.PROMPT_TOKENS: asked, names.COMPLETION_TOKENS: written, names.TOTAL_TOKENS: asked + written}
    return known


_FACTS: Final[Mapping[type, Callable[[Any, Show | None], Attributes]]] = {
    HttpAnswered: _of_request,
    SearchResult: _of_result,
    SourceQuery: _of_query,
    SourceReply: _of_reply,
    RepliesTogether: _of_replies,
    StageTrace: _of_stage,
    AnswerRecord: _of_answer,
    ChatAsked: _of_prompt,
    ChatPart: _of_part,
}


def attributes_of(fact: object, show: Show | None) -> Attributes:
    """Return a fact as attributes; {} for one of an unknown kind.

    Args:
        show: for questions, passages, prompts and answers; None: they are left out.
    """
    describe = _FACTS.get(type(fact))
    return {} if describe is None else describe(fact, show)


def written_by_model(text: str, show: Show) -> Attributes:
    """Return what a chat model wrote."""
    return {
        names.message(names.OUTPUT_MESSAGES, 0, "role"): "assistant",
        names.message(names.OUTPUT_MESSAGES, 0, "content"): show(text),
    }
