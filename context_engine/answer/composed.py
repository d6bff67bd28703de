"""An answer with its evidence, its sentences and how it was made; its text for people and chats, and its record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from context_engine.answer.budget import Cost, money_text
from context_engine.answer.conflicts import Conflict, Side
from context_engine.answer.gathering import Gathering
from context_engine.answer.values import AnswerRefusal, Evidence, Quote, Sentence, Verdict
from context_engine.answer.writing import ModelCall
from context_engine.core.models import AnswerPolicy, AnswerRecord, Citation, Context, SearchResult
from context_engine.core.protocols import Mask
from context_engine.core.text import content_sha256

Mode = Literal["extractive", "model"]
_MARKS: Final = {
    Verdict.PARTLY: "(only partly in the sources)",
    Verdict.UNSUPPORTED: "(not supported by the sources)",
    Verdict.UNCITED: "(no source)",
}


@dataclass(slots=True, kw_only=True)
class Answer:
    """An answer with its evidence; complete when it has an id.

    Attributes:
        answer_id: id of its record; "" before it is recorded.
        asked: the question as asked; `result.query` is the question as searched.
        mode: extractive, or by a model.
        policy: what happens to unsupported sentences.
        wants: what the question asks for; "" if a model answered.
        sentences: all of them, in order, including those that may not be shown.
        refusal: why there is no answer; None if there is one.
        conflicts: passages that disagree about what is answered.
        notes: what a model read of the job of the question; "" without a job or a model.
        written: what a model was asked and wrote; None without one.
        rewriting: what a model was asked to rewrite the question; None without one.
        warnings: sentences for people.
        gathering: the searches of a workflow; None: of one search.
    """

    answer_id: str = ""
    result: SearchResult
    context: Context
    evidence: tuple[Evidence, ...]
    asked: str
    mode: Mode
    policy: AnswerPolicy
    wants: str = ""
    sentences: list[Sentence] = field(default_factory=list)
    refusal: AnswerRefusal | None = None
    conflicts: tuple[Conflict, ...] = ()
    notes: str = ""
    written: ModelCall | None = None
    rewriting: ModelCall | None = None
    warnings: list[str] = field(default_factory=list)
    gathering: Gathering | None = None

    @property
    def shown(self) -> tuple[Sentence, ...]:
        """The sentences that may be shown."""
        return () if self.refusal is not None else self.allowed

    @property
    def own_warnings(self) -> tuple[str, ...]:
        """The warnings about the answer itself, beside those of its search."""
        return tuple(self.warnings[len(self.result.warnings) :])

    @property
    def allowed(self) -> tuple[Sentence, ...]:
        """The sentences that the policy lets through, each by itself."""
        return tuple(sentence for sentence in self.sentences if self.allows(sentence))

    def allows(self, sentence: Sentence) -> bool:
        """Return whether the policy lets a sentence through."""
        return sentence.verdict is Verdict.SUPPORTED or self.policy in ("show", "mark")


def answer_text(answer: Answer) -> str:
    """Return an answer in words, each sentence with its labels, or the refusal."""
    if answer.refusal is not None:
        return answer.refusal.message
    text = separator(answer).join(sentence_text(sentence, marked=answer.policy == "mark") for sentence in answer.shown)
    return "\n\n".join([text, *map(conflict_text, answer.conflicts)])


def separator(answer: Answer) -> str:
    """Return what stands between the sentences: quoted ones are set apart."""
    return "\n" if answer.mode == "extractive" else " "


def sentence_text(sentence: Sentence, *, marked: bool) -> str:
    """Return a sentence with its labels; `marked` says what its sources do not support."""
    mark = [_MARKS[sentence.verdict]] if marked and sentence.verdict in _MARKS else []
    return " ".join([sentence.text, "".join(sentence.labels), *mark]).rstrip()


def conflict_text(conflict: Conflict) -> str:
    """Return a disagreement in words, with both quotes and which of them yields."""
    codes = ", ".join(dict.fromkeys(difference.code for difference in conflict.differences))
    yields = {"first": conflict.first, "second": conflict.second}.get(conflict.yields)
    end = "Neither has more authority." if yields is None else f"{yields.quote.label} has less authority."
    return f"The sources disagree ({codes}): {_side(conflict.first)}, but {_side(conflict.second)}. {end}"


def _side(side: Side) -> str:
    tier = "" if side.tier is None else f", tier {side.tier}"
    date = f", in force from {side.effective_from}" if side.effective_from else ""
    return f"{side.quote.label}{tier}{date} says “{' '.join(side.quote.text.split())}”"


def cited(answer: Answer) -> tuple[Citation, ...]:
    """Return the passages that the shown sentences and conflicts cite, in the order of the context; if the answer is
    refused, those that were found.
    """
    if answer.refusal is not None:
        return answer.context.citations
    labels = {label for sentence in answer.shown for label in sentence.labels}
    labels |= {side.quote.label for conflict in answer.conflicts for side in (conflict.first, conflict.second)}
    return tuple(citation for citation in answer.context.citations if citation.label in labels)


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
