"""One document on its way into Dify: made empty, waited for, filled with our chunks, word for word."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from context_engine.errors import SourceProtocolError
from context_engine.models import Chunk
from context_engine.sources.dify.secret import redacted
from context_engine.sources.dify.writes import Writes
from context_engine.sources.dify.written import Value, document_name, fields_of, marks_of

__all__ = ["Draft", "Refusal", "Refused", "batches", "checked", "fill", "wait"]

MOST_SEGMENT: Final = 65_535
"""Bytes of a chunk that every vector store of Dify can hold; Milvus takes no more."""
MOST_SEGMENTS: Final = 20
MOST_BYTES: Final = 256 * 1024
"""Chunks and bytes of one call: Dify embeds them before it answers."""

_MOST_SHOWN: Final = 200
_FIRST_POLL_S: Final = 0.05
_SLOWEST_POLL_S: Final = 5.0


class Refusal(NamedTuple):
    """A document that Dify did not take, and why; what it held of it before is still there."""

    source_id: str
    document_id: str
    version: str
    reason: str


class Refused(Exception):
    """Dify does not take this document; the text says why."""


@dataclass(slots=True)
class Draft:
    """A document to be written.

    Attributes:
        key: (source id, document id, version).
        metadata: by Dify's names.
        dify_id, batch: "" until it is made.
        state: of its indexing, as Dify said last.
    """

    key: tuple[str, str, str]
    content_hash: str
    title: str | None
    contents: Sequence[str]
    metadata: dict[str, Value] = field(default_factory=dict)
    dify_id: str = ""
    batch: str = ""
    attempt: int = 0
    state: str = ""

    @classmethod
    def of(cls, key: tuple[str, str, str], content_hash: str, chunks: Sequence[Chunk], names: dict[str, str]) -> Draft:
        """Return the draft of a document.

        Args:
            names: {our name of a field: Dify's}.
        """
        title = chunks[0].title if chunks else None
        metadata = {**fields_of(chunks, names), **marks_of(*key, title)}
        return cls(key, content_hash, title, [chunk.content for chunk in chunks], metadata)

    @property
    def name(self) -> str:
        """The document's name in Dify, another for each attempt."""
        return document_name(self.key, self.title, self.content_hash, self.attempt)


def checked(draft: Draft) -> None:
    """Refuse what Dify could not hold, before anything is written.

    Raises:
        Refused: a chunk that is empty or too long.
    """
    for number, content in enumerate(draft.contents, start=1):
        size = len(content.encode("utf-8", "surrogatepass"))
        if size > MOST_SEGMENT:
            raise Refused(f"chunk {number} has {size:,} bytes, at most {MOST_SEGMENT:,} can be stored: cut it smaller")
        if not content.strip():
            raise Refused(f"chunk {number} has no text, which Dify does not take")


def batches(contents: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the chunks of one call after the other."""
    start = size = 0
    for place, content in enumerate(contents):
        length = len(content.encode("utf-8", "surrogatepass"))
        if place > start and (place - start == MOST_SEGMENTS or size + length > MOST_BYTES):
            yield contents[start:place]
            start, size = place, 0
        size += length
    if start < len(contents):
        yield contents[start:]


def wait(draft: Draft, dataset_id: str, writes: Writes, left: Callable[[], float]) -> None:
    """Poll a new document's indexing to its end.

    Args:
        left: seconds until it is given up.

    Raises:
        Refused: it failed, or did not end in time.
    """
    pause = _FIRST_POLL_S
    while True:
        indexed = writes.indexed(dataset_id, draft.batch, draft.dify_id)
        draft.state = indexed.state
        if indexed.state == "completed":
            if indexed.segments:
                raise Refused(f"Dify made {indexed.segments} chunks of its own from an empty text")
            return
        if indexed.state in ("error", "paused"):
            said = " ".join(redacted(indexed.error).split())[:_MOST_SHOWN]
            raise Refused(f"indexing ended as {indexed.state!r}{f': {said}' if said else ''}")
        if left() <= 0:
            raise Refused(f"indexing did not end in time: it is still {indexed.state!r}. Is Dify's worker running?")
        writes.pause(min(pause, max(left(), _FIRST_POLL_S)))
        pause = min(pause * 1.6, _SLOWEST_POLL_S)


def fill(draft: Draft, dataset_id: str, writes: Writes) -> None:
    """Write the chunks of a document.

    Raises:
        Refused: Dify stored one differently, or could not embed it.
        SourceError: Dify gave no good answer; what it stored is not known.
    """
    done = 0
    for contents in batches(draft.contents):
        rows = writes.create_segments(dataset_id, draft.dify_id, contents)
        if len(rows) != len(contents):
            raise Refused(f"Dify took {len(rows)} of {len(contents)} chunks")
        for place, (row, content) in enumerate(zip(rows, contents, strict=True), start=done + 1):
            _check_segment(row, content, place)
        done += len(contents)


def _check_segment(row: Any, content: str, place: int) -> None:
    if not isinstance(row, dict):
        raise SourceProtocolError("Dify's answer to the chunks cannot be read")
    if row.get("status") not in ("completed", None) or row.get("enabled") is False:
        said = " ".join(redacted(str(row.get("error") or "")).split())[:_MOST_SHOWN]
        raise Refused(f"Dify could not index chunk {place}{f': {said}' if said else ''}")
    if row.get("content") != content:
        raise Refused(f"Dify changed the text of chunk {place}")
