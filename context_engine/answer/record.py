"""What is recorded of an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from context_engine.answer.conflicts import Conflict
from context_engine.answer.cost import Cost, money_text
from context_engine.answer.values import Evidence, Quote, Sentence
from context_engine.core.models import AnswerRecord, Context
from context_engine.core.protocols import Mask
from context_engine.core.text import content_sha256

if TYPE_CHECKING:
    from context_engine.answer.composed import Answer
    from context_engine.answer.gathering import Gathering
    from context_engine.answer.writing import ModelCall


def answer_record(answer: Answer, mask: Mask | None) -> AnswerRecord:
    """Return what is recorded of an answer.

    Args:
        mask: masks personal data in the question, and in what a model wrote, if the domain sets `mask_stored_queries`;
            the words of passages are masked already.
    """
    shown = set(map(id, answer.shown))
    facts = {
        "mode": answer.mode,
        "policy": answer.policy,
        "wants": answer.wants,
        "refusal": None if answer.refusal is None else answer.refusal.code,
        "sentences": [_facts(sentence, id(sentence) in shown) for sentence in answer.sentences],
        "conflicts": [_conflict(conflict) for conflict in answer.conflicts],
        "context": _context(answer.context),
        "model": None if answer.written is None else _written(answer.written),
        "rewriting": None if answer.rewriting is None else _written(answer.rewriting),
        **_workflow(answer.gathering),
        **({"notes": {"sha256": content_sha256(answer.notes)}} if answer.notes else {}),
    }
    kept: Mask = mask if mask is not None and answer.result.settings.values.mask_stored_queries else str
    written = None if answer.written is None else answer.written.text
    sentences = answer.sentences if answer.mode == "extractive" else [_masked(each, kept) for each in answer.sentences]
    words = {
        "asked": kept(answer.asked),
        "question": kept(answer.result.query),
        "refusal": None if answer.refusal is None else kept(answer.refusal.message),
        "sentences": [sentence_words(sentence, answer.evidence) for sentence in sentences],
        "written": None if written is None else kept(written),
        "masked": written is not None and kept(written) != written,
        "judge": _judge(answer.written),
        **({} if answer.gathering is None else {"searches": answer.gathering.words(kept)}),
        **({"notes": kept(answer.notes)} if answer.notes else {}),
    }
    return AnswerRecord(facts=facts, words=words)


def _workflow(gathering: Gathering | None) -> dict[str, Any]:
    """Return the searches of a workflow and what a model was asked to decide; {} without a workflow."""
    if gathering is None:
        return {}
    return {"workflow": gathering.facts(), "deciding": [_written(call) for call in gathering.calls]}


def _masked(sentence: Sentence, mask: Mask) -> Sentence:
    """Return a model's sentence with masked words; its quotes are words of passages."""
    findings = tuple(finding._replace(detail=mask(finding.detail)) for finding in sentence.findings)
    return sentence._replace(text=mask(sentence.text), findings=findings)


def _facts(sentence: Sentence, shown: bool) -> dict[str, Any]:
    return {
        "verdict": str(sentence.verdict),
        "shown": shown,
        "labels": list(sentence.labels),
        "findings": [finding.code for finding in sentence.findings],
    }


def sentence_words(sentence: Sentence, evidence: Sequence[Evidence]) -> dict[str, Any]:
    """Return a sentence with its quotes, verdict and findings as JSON values."""
    known = {item.label: item for item in evidence}
    return {
        "text": sentence.text,
        "verdict": str(sentence.verdict),
        "coverage": sentence.coverage,
        "findings": [finding._asdict() for finding in sentence.findings],
        "quotes": [_quote(quote, known.get(quote.label)) for quote in sentence.quotes],
    }


def _quote(quote: Quote, evidence: Evidence | None) -> dict[str, Any]:
    place = {} if evidence is None else {"source": evidence.source_id, "chunk": evidence.chunk_id}
    return {**quote._asdict(), **place}


def _conflict(conflict: Conflict) -> dict[str, Any]:
    return {
        "labels": [conflict.first.quote.label, conflict.second.quote.label],
        "codes": [difference.code for difference in conflict.differences],
        "yields": conflict.yields,
    }


def _context(context: Context) -> dict[str, Any]:
    return {
        "budget": context.budget,
        "form": context.form,
        "nonce": context.nonce,
        "counter": context.counter,
        "sha256": content_sha256(context.text),
    }


def _written(written: ModelCall) -> dict[str, Any]:
    return {
        "name": written.model,
        "prompt_sha256": written.prompt_sha256,
        "parameters": written.parameters,
        "finish": written.finish,
        "usage": None if written.usage is None else written.usage._asdict(),
        "cost": None if written.cost is None else _cost(written.cost),
    }


def _judge(written: ModelCall | None) -> dict[str, Any] | None:
    judge = None if written is None else written.judge
    return None if judge is None else {"name": judge.name, "opinions": judge.opinions}


def _cost(cost: Cost) -> dict[str, str]:
    return {"amount": money_text(cost.amount), "currency": cost.currency}
