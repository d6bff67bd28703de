"""An answer with its evidence, its sentences and how it was made; and its text for people and chats."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from context_engine.answer.conflicts import Conflict, Side
from context_engine.answer.gathering import Gathering
from context_engine.answer.values import AnswerRefusal, Evidence, Sentence, Verdict
from context_engine.answer.writing import ModelCall
from context_engine.core.models import AnswerPolicy, Citation, Context, SearchResult

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
