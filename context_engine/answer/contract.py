"""The published answer: the request of `POST /api/v1/rag/answer`, its response, and the events of its stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from context_engine.answer.answering import Event, Finished, Started, Stated
from context_engine.answer.budget import money_text, total
from context_engine.answer.composed import Answer, answer_text, cited, conflict_text
from context_engine.answer.conflicts import Conflict
from context_engine.answer.gathering import MOST_ROUNDS, Gathering
from context_engine.answer.values import Evidence, Quote, Sentence
from context_engine.core.models import AnswerPolicy, Citation, Context, ContextBlock, SearchResult
from context_engine.service.answers import context_citation
from context_engine.service.contract.chunks import Namespace
from context_engine.service.contract.comparison import Comparison
from context_engine.service.contract.context import ContextCitation
from context_engine.service.contract.rag import Answered, Asked, Day, Flag, Name, Query, TopK

ANSWER_VERSION: Final = "v1"
_MOST_TURNS: Final = 100


class ChatTurn(Asked):
    """A turn of the conversation before the question."""

    role: Literal["system", "user", "assistant"]
    content: Annotated[str, Field(max_length=100_000)]


class AnswerRequest(Asked):
    """A question to be answered from one domain; omitted values come from the persona, then the settings."""

    query: Query = Field(description="The question, in words.")
    domain: Name | None = Field(None, description="A registered domain; may be omitted if there is only one.")
    persona_key: Name | None = Field(None, description="A persona: GET /api/v1/rag/personas lists them.")
    namespaces: Annotated[tuple[Name, ...], Field(max_length=200)] | None = Field(
        None, description="Namespaces or ids of sources to search; null: those of the persona, else all of the domain."
    )
    filters: dict[str, Any] | str | None = Field(None, description="Conditions, as in /api/v1/rag/query.")
    top_k: TopK | None = Field(None, description="Most passages that the answer may rest on.")
    as_of: Day | None = Field(None, description="The day for which the answer must hold; null: today.")
    history: Annotated[tuple[ChatTurn, ...], Field(max_length=_MOST_TURNS)] = Field(
        (), description="The turns before the question, oldest first; a chat model rewrites the question from them."
    )
    use_model: Flag = Field(True, description="Have the configured chat model write; false: quote sentences only.")
    unsupported: AnswerPolicy | None = Field(
        None, description="What happens to a sentence that its quotes do not support; null: as configured."
    )
    compare: Flag = Field(
        False, description="Also answer from the baseline, the candidates by relevance alone; not with `stream`."
    )
    stream: Flag = Field(False, description="Send server-sent events instead of one JSON object.")
    settings: Annotated[dict[Name, Any], Field(max_length=200)] = Field(
        {}, description="Settings of the search for this question only, by name."
    )
    workflow: Literal["simple", "agentic"] | None = Field(
        None,
        description="simple: one search. agentic: searches again for parts of the question, for what passages cite, "
        "and for what is missing. null: as configured.",
    )
    rounds: Annotated[int, Field(strict=True, ge=1, le=MOST_ROUNDS)] | None = Field(
        None, description="Most searches of an agentic workflow, at most as configured; null: as configured."
    )


class CheckRequest(Asked):
    """An answer that a model elsewhere wrote from the context of a search."""

    search_id: Name = Field(description="Of an answer of the last minutes, given to this caller.")
    text: Annotated[str, Field(min_length=1, max_length=100_000)] = Field(
        description="The answer, with labels such as [1] at the statements that rest on a passage."
    )
    model: Name | None = Field(None, description="Who wrote it, for the record.")
    unsupported: AnswerPolicy | None = Field(
        None, description="What happens to a sentence that its quotes do not support; null: as configured."
    )


class QuoteOut(Answered):
    """A verbatim part of a passage."""

    label: str = Field(description="Of the passage, as in `citations`.")
    namespace: Namespace
    source_id: str
    chunk_id: str
    text: str
    start: int = Field(ge=0, description="First character in the passage as shown.")
    end: int = Field(ge=0, description="After the last character.")


class FindingOut(Answered):
    """Why a sentence is not supported."""

    code: str
    detail: str


class SentenceOut(Answered):
    """A sentence with its evidence."""

    text: str
    verdict: Literal["supported", "partly", "unsupported", "uncited"]
    coverage: float = Field(ge=0.0, le=1.0, description="Share of the sentence's information that its quotes hold.")
    labels: tuple[str, ...]
    quotes: tuple[QuoteOut, ...]
    findings: tuple[FindingOut, ...]


class RefusalOut(Answered):
    """Why there is no answer."""

    code: str
    message: str


class DifferenceOut(Answered):
    """What two passages say otherwise."""

    code: str = Field(description="number, unit, currency, date, modal, negation, bound or opposite.")
    first: str
    second: str


class ConflictOut(Answered):
    """Two passages that disagree."""

    message: str
    first: QuoteOut
    second: QuoteOut
    first_tier: int | None
    second_tier: int | None
    differences: tuple[DifferenceOut, ...]
    yields: Literal["first", "second", "undecided"] = Field(description="The side with less authority.")


class UsageOut(Answered):
    """What the model used."""

    input_tokens: int
    output_tokens: int
    estimated: bool = Field(description="Counted here, because the server reported none.")
    cost: str | None = Field(description="In the currency of the price table; null without a price.")
    currency: str | None


class RoundOut(Answered):
    """One search of a workflow."""

    query: str
    why: str = Field(description="question, part, citation, gap, translation or model.")
    cites: str = Field(description="The document that an earlier passage cites; empty without one.")
    hops: int = Field(description="Citations between the question and this search.")
    search_id: str
    passages: int = Field(description="Passages that were read.")


class PassageOrigin(Answered):
    """The search that found a passage of the answer."""

    label: str = Field(description="Of the passage, as in `citations`.")
    round: int = Field(ge=1, description="The search among `rounds`, counted from 1.")
    hops: int = Field(description="Citations between the question and the passage.")


class WorkflowOut(Answered):
    """The searches of an agentic workflow, in order."""

    policy: str = Field(description="What decided the steps: rules, or a model.")
    rounds: tuple[RoundOut, ...]
    passages: tuple[PassageOrigin, ...] = Field(description="The passages of the context, each with its search.")
    stopped: str = Field(description="Why it ended: complete, nothing_new, rounds, hops, deadline, budget, ...")


class AnswerResponse(Answered):
    """An answer, sentence by sentence."""

    version: Literal["v1"] = ANSWER_VERSION
    answer_id: str = Field(description="Id of the record of this answer.")
    search_id: str = Field(description="Id of the record of its search.")
    request_id: str | None
    asked: str
    question: str = Field(description="The question as searched.")
    domain: str
    persona: str | None
    status: str
    decision: str
    mode: Literal["extractive", "model"]
    model: str | None
    wants: str = Field(description="What the question asks for; empty if a model wrote.")
    text: str = Field(description="The answer with labels, or the refusal, for people.")
    sentences: tuple[SentenceOut, ...] = Field(description="Those that may be shown.")
    withheld: int = Field(description="Number of sentences that were not supported and are not shown.")
    refusal: RefusalOut | None
    conflicts: tuple[ConflictOut, ...]
    citations: tuple[ContextCitation, ...] = Field(description="The passages cited; if refused, those found.")
    usage: UsageOut | None
    warnings: tuple[str, ...] = Field(description="Sources that did not answer, and other notes for people.")
    demo: bool = Field(description="The documents are those of a fictitious bank.")
    comparison: Comparison | None = Field(
        None, description="The baseline and the enhanced answer, if requested; `choices` hold their answers."
    )
    workflow: WorkflowOut | None = Field(None, description="The searches of an agentic workflow; null: one search.")


def response_of(answer: Answer, *, demo: bool = False) -> AnswerResponse:
    """Return the published form of an answer."""
    result, refusal = answer.result, answer.refusal
    return AnswerResponse(
        answer_id=answer.answer_id,
        search_id=result.search_id,
        request_id=result.request_id,
        asked=answer.asked,
        question=result.query,
        domain=result.domain,
        persona=None if result.request is None else result.request.persona,
        status=str(result.status),
        decision=str(result.decision),
        mode=answer.mode,
        model=None if answer.written is None else answer.written.model,
        wants=answer.wants,
        text=answer_text(answer),
        sentences=tuple(sentence_out(sentence, answer) for sentence in answer.shown),
        withheld=len(answer.sentences) - len(answer.shown),
        refusal=None if refusal is None else RefusalOut(**refusal._asdict()),
        conflicts=tuple(_conflict(answer, conflict) for conflict in answer.conflicts),
        citations=_citations(answer),
        usage=_usage(answer),
        warnings=(*missing_sources(result), *answer.warnings),
        demo=demo,
        workflow=None if answer.gathering is None else _workflow(answer.gathering, answer.context),
    )


def _workflow(gathering: Gathering, context: Context) -> WorkflowOut:
    rounds = tuple(
        RoundOut(
            query=searched.query,
            why=searched.why,
            cites=searched.cites,
            hops=searched.hops,
            search_id=searched.search_id,
            passages=len(searched.keys),
        )
        for searched in gathering.rounds
    )
    origins = {pick.key: pick.round for pick in gathering.picks}
    found_by = ((block.label, origins[block.source_id, block.chunk_ids[0]]) for block in context.blocks)
    passages = tuple(
        PassageOrigin(label=label, round=number + 1, hops=gathering.rounds[number].hops) for label, number in found_by
    )
    return WorkflowOut(policy=gathering.policy, rounds=rounds, passages=passages, stopped=gathering.stopped)


def missing_sources(result: SearchResult) -> Iterator[str]:
    """Yield a sentence for the sources that failed alike, wholly or in part."""
    for sources in result.failed_alike:
        names = ", ".join(source.title or source.source_id for source in sources)
        yield f"{names} did not answer{'' if sources[0].state == 'failed' else ' in full'}: {sources[0].problem}"


def sentence_out(sentence: Sentence, answer: Answer) -> SentenceOut:
    """Return the published form of a sentence."""
    known = {item.label: item for item in answer.evidence}
    return SentenceOut(
        text=sentence.text,
        verdict=sentence.verdict.value,
        coverage=sentence.coverage,
        labels=sentence.labels,
        quotes=tuple(_quote(quote, known, answer.result) for quote in sentence.quotes),
        findings=tuple(FindingOut(**finding._asdict()) for finding in sentence.findings),
    )


def _quote(quote: Quote, known: Mapping[str, Evidence], result: SearchResult) -> QuoteOut:
    evidence = known[quote.label]
    namespace = result.namespace_of(evidence.source_id)
    return QuoteOut(**quote._asdict(), namespace=namespace, source_id=evidence.source_id, chunk_id=evidence.chunk_id)


def _conflict(answer: Answer, conflict: Conflict) -> ConflictOut:
    known = {item.label: item for item in answer.evidence}
    return ConflictOut(
        message=conflict_text(conflict),
        first=_quote(conflict.first.quote, known, answer.result),
        second=_quote(conflict.second.quote, known, answer.result),
        first_tier=conflict.first.tier,
        second_tier=conflict.second.tier,
        differences=tuple(DifferenceOut(**difference._asdict()) for difference in conflict.differences),
        yields=conflict.yields,
    )


def _citations(answer: Answer) -> tuple[ContextCitation, ...]:
    blocks = {block.label: block for block in answer.context.blocks}
    return tuple(_citation(answer, citation, blocks[citation.label]) for citation in cited(answer))


def _citation(answer: Answer, citation: Citation, block: ContextBlock) -> ContextCitation:
    return context_citation(citation, block, answer.result.namespace_of(citation.source_id))


def citation_line(citation: ContextCitation) -> str:
    """Return a cited passage in a line for people: its label, title and place."""
    place = [f"§{citation.section}"] if citation.section else []
    place += [f"page {citation.page}"] if citation.page else []
    place += [citation.canonical_url] if citation.canonical_url else []
    return f"{citation.citation_label} {', '.join([citation.title, *place])}"


def _usage(answer: Answer) -> UsageOut | None:
    deciding = () if answer.gathering is None else answer.gathering.calls
    calls = [
        call for call in (answer.rewriting, *deciding, answer.written) if call is not None and call.usage is not None
    ]
    usages = [call.usage for call in calls if call.usage is not None]
    costs = [call.cost for call in calls if call.cost is not None]
    if not usages:
        return None
    return UsageOut(
        input_tokens=sum(usage.input_tokens for usage in usages),
        output_tokens=sum(usage.output_tokens for usage in usages),
        estimated=any(usage.estimated for usage in usages),
        cost=money_text(total(cost.amount for cost in costs)) if costs else None,
        currency=costs[0].currency if costs else None,
    )


def event_name(event: Event) -> str:
    """Return the name of an event of the stream: start, sentence or end."""
    return "start" if isinstance(event, Started) else "sentence" if isinstance(event, Stated) else "end"


def event_json(event: Event, *, demo: bool) -> str:
    """Return the data of an event as JSON on one line."""
    match event:
        case Started(answer):
            known = {"search_id": answer.result.search_id, "decision": str(answer.result.decision), "mode": answer.mode}
            pairs = zip(answer.context.citations, answer.context.blocks, strict=True)
            passages = [_citation(answer, *pair).model_dump(mode="json") for pair in pairs]
            return json.dumps({**known, "citations": passages}, ensure_ascii=False)
        case Stated(answer, number, sentence):
            fields = sentence_out(sentence, answer).model_dump(mode="json")
            return json.dumps({"number": number, **fields}, ensure_ascii=False)
        case Finished(answer):
            return response_of(answer, demo=demo).model_dump_json()
