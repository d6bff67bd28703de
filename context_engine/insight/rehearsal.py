"""The rehearsal of a change: what a recorded question is answered today, and what it would be under a draft."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from context_engine.core.models import Chunk, SearchResult
from context_engine.core.text import content_sha256


class AnswerChange(StrEnum):
    """How an answer changes, the gravest first.

    DECISION: answered becomes out of scope, or the other way round. LOST: a text that is shown today is shown no more.
    GAINED: only further texts are shown. ORDER: the same texts in another order. SCORES: the same texts in the same
    order, with another score, tag or note. SAME: none of these.
    """

    DECISION = "decision"
    LOST = "lost"
    GAINED = "gained"
    ORDER = "order"
    SCORES = "scores"
    SAME = "same"


class AnswerText(NamedTuple):
    """A text of an answer: where it comes from, and its words by their SHA-256."""

    source_id: str
    chunk_id: str
    document_id: str | None
    document_version: str | None
    sha256: str


class RehearsedAnswer(NamedTuple):
    """The change of one answer.

    Attributes:
        decisions: today's decision and the draft's.
        lost, gained: texts that only today's or only the draft's answer shows, in their order.
    """

    change: AnswerChange
    decisions: tuple[str, str]
    lost: tuple[AnswerText, ...]
    gained: tuple[AnswerText, ...]


class AnswerState(NamedTuple):
    """What an answer showed: its decision, and its texts in their order."""

    decision: str
    texts: tuple[AnswerText, ...]


def shown_answer(result: SearchResult) -> AnswerState:
    """Return what a result shows."""
    return AnswerState(
        str(result.decision), tuple(answer_text(chunk.source_id, chunk.chunk) for chunk in result.chunks)
    )


def answer_text(source_id: str, chunk: Chunk) -> AnswerText:
    """Return a chunk as a text of an answer."""
    sha256 = content_sha256(chunk.content)
    return AnswerText(source_id, chunk.chunk_id, chunk.document_id, chunk.document_version, sha256)


def rehearsed(today: SearchResult, draft: SearchResult) -> RehearsedAnswer:
    """Compare the answers to one question."""
    answer = compared(shown_answer(today), shown_answer(draft))
    if answer.change is AnswerChange.SAME and _published(today) != _published(draft):
        return answer._replace(change=AnswerChange.SCORES)
    return answer


def compared(today: AnswerState, draft: AnswerState) -> RehearsedAnswer:
    """Compare what two answers show, which does not tell their scores."""
    words, words_planned = [text.sha256 for text in today.texts], [text.sha256 for text in draft.texts]
    lost = tuple(text for text in today.texts if text.sha256 not in words_planned)
    gained = tuple(text for text in draft.texts if text.sha256 not in words)
    decisions = (today.decision, draft.decision)
    if today.decision != draft.decision:
        change = AnswerChange.DECISION
    elif lost or gained:
        change = AnswerChange.LOST if lost else AnswerChange.GAINED
    else:
        change = AnswerChange.SAME if words == words_planned else AnswerChange.ORDER
    return RehearsedAnswer(change, decisions, lost, gained)


def _published(result: SearchResult) -> list[tuple[object, ...]]:
    """Return what a reader sees of the chunks besides their words."""
    return [
        (chunk.source_id, chunk.chunk_id, chunk.final, chunk.confidence, chunk.authority_tier, chunk.flags)
        for chunk in result.chunks
    ]
