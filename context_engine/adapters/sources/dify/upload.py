"""The upload of one document to Dify: created empty, awaited, filled with our chunks, and read back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from context_engine.adapters.sources.dify.content_digest import ContentDigest
from context_engine.adapters.sources.dify.document_marks import Key, Value, fields_of, marks_of
from context_engine.adapters.sources.dify.keywords import keywords_of
from context_engine.adapters.sources.dify.metadata import MARKS, UNFINISHED
from context_engine.adapters.sources.dify.writes import Writes
from context_engine.core.chunking import line_of, with_line
from context_engine.core.models import Chunk
from context_engine.errors import SourceNotFound, SourceProtocolError
from context_engine.secrecy import redacted

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


class UploadRefused(Exception):
    """Dify does not take this document; the text says why."""


class UploadLost(Exception):
    """The document is no longer what this run made: another run has taken its place or its name. It is made again."""


@dataclass(slots=True)
class DocumentUpload:
    """A document to be written.

    Attributes:
        key: (source id, document id, version).
        segments: its chunks, as Dify takes them.
        metadata: by Dify's names.
        name: in Dify; "" until one is chosen.
        dify_id, batch: "" until it is made.
        state: of its indexing, as Dify said last.
        lost: why it has to be made again; "" where it has not.
        collided: whether it met another run's document; then it gets a name that the other will hardly choose.
    """

    key: Key
    content_hash: str
    title: str | None
    segments: Sequence[Mapping[str, Any]]
    metadata: dict[str, Value] = field(default_factory=dict)
    name: str = ""
    dify_id: str = ""
    batch: str = ""
    state: str = ""
    lost: str = ""
    collided: bool = False

    @classmethod
    def of(
        cls,
        key: Key,
        content_hash: str,
        chunks: Sequence[Chunk],
        names: Mapping[str, str],
        technique: str,
        *,
        chunk_line: bool = False,
    ) -> DocumentUpload:
        """Return the upload of a document that was cut into chunks.

        Args:
            names: {our name of a field: Dify's}.
            technique: the dataset's; in an economy dataset the chunks are found by keywords of ours.
            chunk_line: whether each chunk says all of its document; else its place and the title.
        """
        title = chunks[0].title if chunks else None
        metadata = {**fields_of(chunks, names), **marks_of(*key, title)}
        segments: list[dict[str, Any]] = [{"content": _written(chunk, chunk_line)} for chunk in chunks]
        if technique == "economy":
            for segment, keywords in zip(segments, keywords_of(chunks), strict=True):
                segment |= {"keywords": keywords} if keywords else {}
        return cls(key, content_hash, title, segments, metadata)

    @property
    def contents(self) -> list[str]:
        """The texts of its chunks."""
        return [segment["content"] for segment in self.segments]

    @property
    def digest(self) -> ContentDigest:
        """What Dify has to hold of it."""
        return ContentDigest.of(self.contents)

    @property
    def begun(self) -> dict[str, Value]:
        """The metadata of the document while it is unfinished."""
        return {**self.metadata, MARKS.state: UNFINISHED}

    @property
    def whole(self) -> dict[str, Value]:
        """The metadata that makes it whole."""
        return {**self.metadata, MARKS.stored: str(self.digest), MARKS.content_hash: self.content_hash}


def checked(upload: DocumentUpload) -> None:
    """Refuse what Dify could not hold, before anything is written.

    Raises:
        UploadRefused: a chunk that is empty or too long.
    """
    for number, content in enumerate(upload.contents, start=1):
        size = len(content.encode("utf-8", "surrogatepass"))
        if size > MOST_SEGMENT:
            raise UploadRefused(
                f"chunk {number} has {size:,} bytes, at most {MOST_SEGMENT:,} can be stored: cut it smaller"
            )
        if "\x00" in content:
            raise UploadRefused(f"chunk {number} holds a NUL, which Dify's database does not take")
        if not content.strip():
            raise UploadRefused(f"chunk {number} has no text, which Dify does not take")


def batches(segments: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Yield the chunks of one call after the other."""
    start = size = 0
    for place, segment in enumerate(segments):
        length = len(segment["content"].encode("utf-8", "surrogatepass"))
        if place > start and (place - start == MOST_SEGMENTS or size + length > MOST_BYTES):
            yield segments[start:place]
            start, size = place, 0
        size += length
    if start < len(segments):
        yield segments[start:]


def wait(upload: DocumentUpload, dataset_id: str, writes: Writes, left: Callable[[], float]) -> None:
    """Poll a new document's indexing to its end.

    Args:
        left: seconds until it is given up.

    Raises:
        UploadRefused: it failed, or did not end in time.
        UploadLost: it is gone, or another run has made a document of the same name, which takes its place.
    """
    pause = _FIRST_POLL_S
    while True:
        try:
            indexed = writes.indexed(dataset_id, upload.batch, upload.dify_id)
        except SourceNotFound:
            raise UploadLost("another run made a document of its name") from None
        upload.state = indexed.state
        if indexed.state == "completed":
            if indexed.segments:
                raise UploadRefused(f"Dify made {indexed.segments} chunks of its own from an empty text")
            return
        if indexed.state in ("error", "paused"):
            said = " ".join(redacted(indexed.error).split())[:_MOST_SHOWN]
            raise UploadRefused(f"indexing ended as {indexed.state!r}{f': {said}' if said else ''}")
        if left() <= 0:
            raise UploadRefused(
                f"indexing did not end in time: it is still {indexed.state!r}. Is Dify's worker running?"
            )
        writes.pause(min(pause, max(left(), _FIRST_POLL_S)))
        pause = min(pause * 1.6, _SLOWEST_POLL_S)


def fill(upload: DocumentUpload, dataset_id: str, writes: Writes) -> None:
    """Write the chunks of a document.

    Raises:
        UploadRefused: Dify stored one differently, or could not embed it.
        UploadLost: the document is gone, or is indexed anew.
        SourceError: Dify gave no good answer; what it stored is not known.
    """
    done = 0
    for segments in batches(upload.segments):
        try:
            rows = writes.create_segments(dataset_id, upload.dify_id, segments)
        except SourceNotFound:
            raise UploadLost("it was deleted while it was written") from None
        if len(rows) != len(segments):
            raise UploadRefused(f"Dify took {len(rows)} of {len(segments)} chunks")
        for place, (row, segment) in enumerate(zip(rows, segments, strict=True), start=done + 1):
            _check_segment(row, segment["content"], place)
        done += len(segments)


def check(upload: DocumentUpload, dataset_id: str, writes: Writes) -> None:
    """Ask Dify what it holds of a document that was filled.

    Raises:
        UploadLost: not what was written; another run writes to it too.
    """
    try:
        held = ContentDigest.of(writes.contents(dataset_id, upload.dify_id))
    except SourceNotFound:
        raise UploadLost("it was deleted while it was written") from None
    if held != upload.digest:
        raise UploadLost(f"Dify held {held.chunks} chunks of it where {upload.digest.chunks} were written")


def _written(chunk: Chunk, of_document: bool) -> str:
    """Return a chunk's text below its line; the metadata say what the line leaves out."""
    line = line_of(chunk, document=of_document)
    if line and not of_document:
        line = replace(line, title=chunk.title)
    return with_line(line, chunk.content)


def _check_segment(row: Any, content: str, place: int) -> None:
    if not isinstance(row, dict):
        raise SourceProtocolError("Dify's answer to the chunks cannot be read")
    if row.get("status") not in ("completed", None) or row.get("enabled") is False:
        said = " ".join(redacted(str(row.get("error") or "")).split())[:_MOST_SHOWN]
        raise UploadRefused(f"Dify could not index chunk {place}{f': {said}' if said else ''}")
    if row.get("content") != content:
        raise UploadRefused(f"Dify changed the text of chunk {place}")
