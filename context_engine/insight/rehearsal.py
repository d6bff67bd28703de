"""The rehearsal of a change: what a recorded question is answered today, and what it would be under a draft."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from context_engine.core.models import RankedChunk, SearchResult
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


def rehearsed(today: SearchResult, draft: SearchResult) -> RehearsedAnswer:
    """Compare the answers to one question."""
    shown, planned = _shown(today.chunks), _shown(draft.chunks)
    words, words_planned = [text.sha256 for text in shown], [text.sha256 for text in planned]
    lost = tuple(text for text in shown if text.sha256 not in words_planned)
    gained = tuple(text for text in planned if text.sha256 not in words)
    decisions = (str(today.decision), str(draft.decision))
    return RehearsedAnswer(_change(today, draft, lost, gained), decisions, lost, gained)


def _change(
    today: SearchResult, draft: SearchResult, lost: Sequence[AnswerText], gained: Sequence[AnswerText]
) -> AnswerChange:
    if today.decision is not draft.decision:
        return AnswerChange.DECISION
    if lost or gained:
        return AnswerChange.LOST if lost else AnswerChange.GAINED
    if [chunk.content for chunk in today.chunks] != [chunk.content for chunk in draft.chunks]:
        return AnswerChange.ORDER
    return AnswerChange.SAME if _published(today) == _published(draft) else AnswerChange.SCORES


def _shown(chunks: Sequence[RankedChunk]) -> list[AnswerText]:
    return [
        AnswerText(
            chunk.source_id,
            chunk.chunk_id,
            chunk.chunk.document_id,
            chunk.chunk.document_version,
            content_sha256(chunk.content),
        )
        for chunk in chunks
    ]


def _published(result: SearchResult) -> list[tuple[object, ...]]:
    """Return what a reader sees of the chunks besides their words."""
    return [
        (chunk.source_id, chunk.chunk_id, chunk.final, chunk.confidence, chunk.authority_tier, chunk.flags)
        for chunk in result.chunks
    ]
