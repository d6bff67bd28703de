"""The parts of a context (blocks, citations, omissions), the record of an answer, and an event for other systems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from context_engine.core.models.chunk import utc_text

_TYPE: Final = "context-engine."


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextBlock:
    """One passage of the context, or several neighbouring passages of one document.

    Attributes:
        label: "[1]", "[2]" ..., in the order of the best passages' ranks.
        rank: of the best passage, 1-based.
        chunk_ids: all passages in it, in the order of the document.
        text: the passage without heading, origin and fence.
        span: characters [start, end) of the document; None if unknown.
        tokens: of the whole block, including heading, origin and fence.
        trusted: False if the text is fenced.
        truncated: whether the passage continues beyond the text.
        relevance, score: of the best passage; None if unknown.
    """

    label: str
    rank: int
    source_id: str
    chunk_ids: tuple[str, ...]
    text: str
    span: tuple[int, int] | None
    tokens: int
    trusted: bool
    truncated: bool
    relevance: float | None
    score: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """The source behind a label.

    Attributes:
        attribution: as in the text: "[Source: <title>, Section <section>, page <page>]"; unique in the context.
        path: the document's file, relative to the folder it was ingested from.
        page: the page the passage begins on, 1-based.
        url: the address of the passage, from the source's template or from the document.
    """

    label: str
    source_id: str
    chunk_ids: tuple[str, ...]
    document_id: str | None
    document_version: str | None
    title: str
    section: str | None
    attribution: str
    path: str | None
    page: int | None
    url: str | None
    authority_tier: int | None
    source_type: str | None


@dataclass(frozen=True, slots=True)
class OmittedPassage:
    """A passage that was left out of the text.

    Attributes:
        reason: budget (it does not fit), untrusted_share (the share of untrusted text is used up), out_of_scope.
        tokens: the tokens it would have added; None if not counted.
        room: the tokens left for it, >= 0; None if not counted.
    """

    source_id: str
    chunk_id: str
    rank: int
    reason: Literal["budget", "untrusted_share", "out_of_scope"]
    tokens: int | None = None
    room: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The text for a language model, and its parts: every passage is in one block or in `left_out`.

    Attributes:
        tokens: of `text`, by the token counter `counter`; at most `budget`.
        blocks, citations: in the order of the text, one citation a block.
        notes: the messages of the search's notices; in the text if they fit.
        form: markdown, text or full.
        nonce: the random mark of the fences; `parse_fences(text, nonce)` returns the untrusted texts.
        part: 1 for the first text; a later part holds what did not fit before and continues the labels.
    """

    text: str
    tokens: int
    budget: int
    blocks: tuple[ContextBlock, ...]
    citations: tuple[Citation, ...]
    left_out: tuple[OmittedPassage, ...]
    notes: tuple[str, ...]
    form: str
    nonce: str
    counter: str
    part: int = 1

    @property
    def chunk_count(self) -> int:
        """The number of passages in the text."""
        return sum(len(block.chunk_ids) for block in self.blocks)

    @property
    def max_score(self) -> float | None:
        """The highest score in the text, or None."""
        return max((block.score for block in self.blocks if block.score is not None), default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return the context as a JSON-ready dict."""
        return {**asdict(self), "chunk_count": self.chunk_count, "max_score": self.max_score}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRecord:
    """What is recorded of an answer; JSON values.

    Attributes:
        facts: what stays in the log for ever: model, hashes, verdicts, cost; no words of the question or of a text.
        words: the question as asked, the sentences and their quotes; kept, sealed or erased as the question is.
    """

    facts: Mapping[str, Any]
    words: Mapping[str, Any]


class Event(NamedTuple):
    """A change that other systems want to know of.

    Attributes:
        event_id: the same for the same change, so that a receiver recognises a repetition.
        kind: what has changed, such as "answer_changed".
        subject: the thing that has changed, by its id.
        time: when the change was noticed.
        data: ids, counts and differences, ready for JSON; texts only of what every receiver may read.
    """

    event_id: str
    kind: str
    subject: str
    time: datetime
    data: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, ready for JSON."""
        return {**self._asdict(), "data": dict(self.data), "time": utc_text(self.time)}

    def envelope(self, source: str) -> dict[str, Any]:
        """Return the event as an object of CloudEvents 1.0 in JSON (https://cloudevents.io).

        Args:
            source: the name of this deployment; with the id it is unique.
        """
        return {
            "specversion": "1.0",
            "id": self.event_id,
            "source": source,
            "type": f"{_TYPE}{self.kind}",
            "subject": self.subject,
            "time": utc_text(self.time),
            "datacontenttype": "application/json",
            "data": dict(self.data),
        }
