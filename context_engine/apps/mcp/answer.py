"""The `answer` tool: an answer whose sentences show their evidence."""

from __future__ import annotations

from typing import Final

from context_engine.answer.asking import answer_question
from context_engine.answer.contract import AnswerRequest, AnswerResponse, QuoteOut
from context_engine.apps.dify.node_output import inert_values
from context_engine.apps.mcp.answers import AnsweredSentence, CheckedAnswer, CitedPassage, QuotedEvidence
from context_engine.apps.mcp.arguments import AnswerArguments
from context_engine.apps.mcp.reply import Call, Reply, passage_id
from context_engine.core.models import Caller
from context_engine.jobs.asking import finder_of

_CALLER: Final = Caller(app="mcp")


def answer(call: Call, asked: AnswerArguments) -> Reply:
    """Answer a question from what the caller may search.

    Raises:
        InvalidRequest: invalid arguments.
        ContextEngineError: see `answer_events`.
    """
    request = AnswerRequest(
        query=asked.question,
        domain=asked.domain,
        persona_key=asked.persona,
        namespaces=asked.namespaces,
        filters=asked.filters,
        as_of=asked.as_of,
        workflow=asked.workflow,
        rounds=asked.rounds,
    )
    principal = call.caller.principal
    response = answer_question(
        call.deployment,
        request,
        principal=principal,
        caller=_CALLER,
        request_id=call.request_id,
        finder=finder_of(call.deployment, request),
    )
    content = CheckedAnswer.model_validate(inert_values(_answered(response).model_dump(mode="json")))
    reply = Reply(content, _text(content))
    while not reply.fits and content.citations:  # the passages of a refusal may be many
        content = content.model_copy(update={"citations": content.citations[:-1]})
        reply = Reply(content, _text(content))
    return reply


def _answered(response: AnswerResponse) -> CheckedAnswer:
    domain = response.domain
    return CheckedAnswer(
        answer=response.text,
        refused=None if response.refusal is None else response.refusal.code,
        sentences=[
            AnsweredSentence(
                text=sentence.text,
                verdict=sentence.verdict,
                labels=list(sentence.labels),
                quotes=[_quote(domain, quote) for quote in sentence.quotes],
            )
            for sentence in response.sentences
        ],
        conflicts=[conflict.message for conflict in response.conflicts],
        citations=[
            CitedPassage(
                label=citation.citation_label,
                id=passage_id(domain, citation.source_id, citation.chunk_ids[0]),
                title=citation.title,
                section=citation.section,
                page=citation.page,
                url=citation.canonical_url,
                authority_tier=citation.authority_tier,
            )
            for citation in response.citations
        ],
        withheld=response.withheld,
        decision=response.decision,
        status=response.status,
        answer_id=response.answer_id,
        search_id=response.search_id,
        domain=domain,
        notes=list(response.warnings),
        demo=response.demo,
        searches=[] if response.workflow is None else [searched.query for searched in response.workflow.rounds],
    )


def _quote(domain: str, quote: QuoteOut) -> QuotedEvidence:
    return QuotedEvidence(label=quote.label, id=passage_id(domain, quote.source_id, quote.chunk_id), text=quote.text)


def _text(content: CheckedAnswer) -> str:
    """Return the answer as text for a model: outcome, sentences, quotes and places."""
    lines = ["This is a fictitious demo bank."] if content.demo else []
    outcome = "Answered" if content.refused is None else f"No answer ({content.refused})"
    lines.append(
        f"{outcome}. Decision: {content.decision}. Status: {content.status}. Domain {content.domain}, answer_id "
        f"{content.answer_id}, search_id {content.search_id}."
    )
    lines += [f"Note: {note}" for note in content.notes]
    lines += [f"Searched: {query}" for query in content.searches]
    lines += ["", content.answer, ""]
    if content.withheld:
        lines.append(f"{content.withheld} sentences were not supported by their passages and are left out.")
    for sentence in content.sentences:
        lines += [f"Quoted {quote.label} {quote.id}: {' '.join(quote.text.split())}" for quote in sentence.quotes]
    lines += [_place(citation) for citation in content.citations]
    return "\n".join(lines).rstrip()


def _place(citation: CitedPassage) -> str:
    page = None if citation.page is None else f"page {citation.page}"
    tier = None if citation.authority_tier is None else f"authority_tier {citation.authority_tier}"
    facts = [f"id {citation.id}", citation.title, citation.section, page, tier, citation.url]
    return f"{citation.label} {' · '.join(fact for fact in facts if fact)}"
