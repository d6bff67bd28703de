"""The rehearsal of a change: what a recorded question is answered today, and what it would be under a draft."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

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


CHANGES: Final = ("decision", "lost", "gained", "order", "scores", "failed", "same")
"""The gravest first; "failed" is a question that could not be asked."""


class RehearsedSearch(NamedTuple):
    """One question and its change.

    Attributes:
        asker: a pseudonym; "" if nobody was named.
        problem: why it could not be asked; "" if it was.
        question: its text; "" if it was not asked.
        quotes: the lost and gained texts by their SHA-256.
    """

    search_id: str
    time: str
    domain: str
    asker: str
    change: str
    answer: RehearsedAnswer | None
    problem: str = ""
    question: str = ""
    quotes: Mapping[str, str] = {}

    def to_dict(self) -> dict[str, Any]:
        """Return it as `--json` writes it."""
        answer = self.answer
        return {
            "search_id": self.search_id,
            "time": self.time,
            "domain": self.domain,
            "asker": self.asker,
            "change": self.change,
            "problem": self.problem or None,
            "decisions": None if answer is None else list(answer.decisions),
            "lost": [] if answer is None else [text._asdict() for text in answer.lost],
            "gained": [] if answer is None else [text._asdict() for text in answer.gained],
        }


class ChangeCount(NamedTuple):
    """How many answers of a domain change in one way, and for how many askers; unnamed ones count as one."""

    domain: str
    change: str
    answers: int
    askers: int


def change_counts(searches: Iterable[RehearsedSearch]) -> list[ChangeCount]:
    """Return the counts by domain and change, the largest first."""
    askers: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    answers = Counter[tuple[str, str]]()
    for search in searches:
        answers[search.domain, search.change] += 1
        askers[search.domain, search.change].add(search.asker)
    counts = [ChangeCount(*key, count, len(askers[key])) for key, count in answers.items()]
    return sorted(counts, key=lambda count: (-count.answers, count.domain, CHANGES.index(count.change)))


def quotes_of(answer: RehearsedAnswer, results: Iterable[SearchResult]) -> dict[str, str]:
    """Return the lost and gained texts by their SHA-256, from the answers of today and of the draft."""
    wanted = {text.sha256 for text in (*answer.lost, *answer.gained)}
    texts = {content_sha256(chunk.content): chunk.content for result in results for chunk in result.chunks}
    return {digest: text for digest, text in texts.items() if digest in wanted}


def text_name(text: AnswerText) -> str:
    """Return the name of a text for people: its document and version, else source and chunk."""
    version = f" v{text.document_version.removeprefix('v')}" if text.document_version else ""
    return f"{text.document_id}{version}" if text.document_id else f"{text.source_id}/{text.chunk_id}"
