"""An answer as text for people and chats: sentences with their labels, disagreements, and the passages cited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from context_engine.answer.values import Sentence, Verdict
from context_engine.core.models import Citation

if TYPE_CHECKING:
    from context_engine.answer.composed import Answer
    from context_engine.answer.conflicts import Conflict, Side

_MARKS: Final = {
    Verdict.PARTLY: "(only partly in the sources)",
    Verdict.UNSUPPORTED: "(not supported by the sources)",
    Verdict.UNCITED: "(no source)",
}


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
