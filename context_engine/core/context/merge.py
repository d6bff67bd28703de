"""Neighbours of one document as one text, without repeating what they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from context_engine.core.context.passage import Passage


class JoinedPassage(NamedTuple):
    """One passage, or several that touch.

    Attributes:
        parts: in the order of the document.
        text: where there are several, the document's text from the first start to the last end.
    """

    parts: tuple[Passage, ...]
    text: str

    @property
    def best(self) -> Passage:
        """The part that ranks highest; it names the block."""
        return min(self.parts, key=lambda part: part.rank)

    @property
    def suspected(self) -> bool:
        """Whether a part of it reads like instructions to a model, or fakes marks."""
        return any(part.suspected for part in self.parts)

    @property
    def start(self) -> int:
        """Where the text begins in the document; 0 where no span is known."""
        return self.parts[0].chunk.span[0] if self.parts[0].chunk.span else 0

    @property
    def truncated(self) -> bool:
        """Whether the text ends where a passage was cut."""
        return max(self.parts, key=_end).truncated


def document_key(passage: Passage) -> tuple[object, ...]:
    """Return what passages must share to be neighbours; a passage that states no exact span is its own.

    A span is exact if the text is as long as the span says. Trust is part of the key: a fence holds all or nothing.
    """
    chunk = passage.chunk
    if chunk.document_id is None or chunk.span is None or chunk.span[1] - chunk.span[0] != len(chunk.content):
        return (passage.source_id, passage.chunk_id)
    return (passage.source_id, chunk.document_id, chunk.document_version, passage.trusted)


def joined(passages: Sequence[Passage]) -> list[JoinedPassage]:
    """Return the passages of one `document_key` as texts, by span; those that overlap or touch become one text.

    Passages that claim the same place with different words are not neighbours, whatever their spans say.
    """
    out: list[JoinedPassage] = []
    for passage in sorted(passages, key=lambda one: (one.chunk.span or (0, 0), one.rank)):
        text = _continued(out[-1], passage) if out else None
        if text is None:
            out.append(JoinedPassage((passage,), passage.chunk.content))
        else:
            out[-1] = JoinedPassage((*out[-1].parts, passage), text)
    return out


def _continued(before: JoinedPassage, passage: Passage) -> str | None:
    """Return the text of both, None if they do not touch or do not agree where they overlap."""
    span = passage.chunk.span
    if span is None or span[0] > before.start + len(before.text):
        return None
    shared = before.text[span[0] - before.start :]
    content = passage.chunk.content
    if not (content.startswith(shared) or shared.startswith(content)):
        return None
    return before.text + content[len(shared) :]


def _end(passage: Passage) -> tuple[int, bool]:
    """Where a passage ends; of two that end there, the uncut one counts."""
    return (passage.chunk.span[1] if passage.chunk.span else 0, not passage.truncated)
