"""The upload of one document to Dify: created empty, awaited, filled with our chunks, and read back.

In an economy dataset Dify compares the words of a query with each chunk's keyword list, letter by letter. Dify picks
ten keywords, rarely a code. This package picks terms that questions use: codes and clause numbers, the titles of the
document and its sections, defined terms, then the words that distinguish the chunk within its document. Dify splits
codes of a query (`NPA-001` into `NPA` and `001`, `4.2.1` into `4.2` and its numbers), so the parts are listed too."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import log
from typing import Any, Final, NamedTuple

from context_engine.adapters.sources.dify.document_marks import ContentDigest, Key, Value, fields_of, marks_of
from context_engine.adapters.sources.dify.metadata import MARKS, UNFINISHED
from context_engine.adapters.sources.dify.writes import Writes
from context_engine.core.chunking.chunk_line import line_of, with_line
from context_engine.core.models import Chunk
from context_engine.core.text import STOP_WORDS, has_cjk
from context_engine.errors import SourceNotFound, SourceProtocolError
from context_engine.secrecy import redacted

MOST_WORDS: Final = 40
MOST_RUNS: Final = 160
"""Most keywords of a chunk: words, and runs of Chinese, Japanese or Korean characters, whose words only a dictionary
knows. Dify keeps all keywords of a dataset in one table, which it reads for every search."""
_MOST_CODES: Final = 15
_WORD: Final = re.compile(r"\w+")
_PIECE: Final = re.compile(r"[A-Za-z0-9]{2,}")
_DECIMAL: Final = re.compile(r"(?<![\w.])[A-Za-z0-9]+\.\d+%?|(?<!\w)\d+%")
_TOKEN: Final = re.compile(r"\w[\w.\-/()]*")
_CJK_LENGTHS: Final = (2, 3, 4)


def keywords_of(chunks: Sequence[Chunk]) -> list[list[str]]:
    """Return the keywords of each chunk of one document, the most distinctive first."""
    words = [Counter(_words(chunk.content)) for chunk in chunks]
    spread = Counter(
        word.casefold() for counts in words for word in {variant.casefold(): variant for variant in counts}.values()
    )
    return [_chosen(chunk, counts, spread, len(chunks)) for chunk, counts in zip(chunks, words, strict=True)]


def _chosen(chunk: Chunk, counts: Counter[str], spread: Counter[str], total: int) -> list[str]:
    named = (chunk.document_id, chunk.document_version, chunk.title, *chunk.heading_path, chunk.section)
    labels = [str(label) for label in (*named, chunk.metadata.get("reference"), *_defined(chunk)) if label]
    codes = dict.fromkeys(token for token in _TOKEN.findall(chunk.content) if _is_code(token))
    telling = sorted(counts, key=lambda word: -counts[word] * log(1 + total / spread[word.casefold()]))
    first = dict.fromkeys(word for text in (*labels, *islice(codes, _MOST_CODES)) for word in _words(text))
    ranked = dict.fromkeys([*first, *telling])
    chosen = [word for word in ranked if not has_cjk(word)][:MOST_WORDS]
    chosen += [word for word in ranked if has_cjk(word)][:MOST_RUNS]
    return list(dict.fromkeys(form for word in chosen for form in (word, word.lower())))


def _is_code(token: str) -> bool:
    return token[:2].isupper() or any(char.isdigit() for char in token)


def _defined(chunk: Chunk) -> Iterable[str]:
    terms = chunk.metadata.get("defines")
    return [str(term) for term in terms] if isinstance(terms, list | tuple) else []


def _words(text: str) -> Iterator[str]:
    """Yield the pieces that Dify's analysis of the text as a query yields, without stop words and single characters."""
    yield from _DECIMAL.findall(text)
    for word in _WORD.findall(text):
        if has_cjk(word):
            yield from (word[start : start + size] for size in _CJK_LENGTHS for start in range(len(word) - size + 1))
        elif len(word) > 1 and word.casefold() not in STOP_WORDS:
            yield word
            if "_" in word or not word.isascii():
                yield from _PIECE.findall(word)


MOST_SEGMENT: Final = 65_535
"""Bytes of a chunk that every vector store of Dify can hold; Milvus has the lowest limit."""
MOST_SEGMENTS: Final = 20
MOST_BYTES: Final = 256 * 1024
"""Chunks and bytes of one call: Dify embeds them before it answers."""
_MOST_SHOWN: Final = 200
_FIRST_POLL_S: Final = 0.05
_SLOWEST_POLL_S: Final = 5.0


class Refusal(NamedTuple):
    """A document that Dify refused, and the reason; its previous version is kept."""

    source_id: str
    document_id: str
    version: str
    reason: str


class UploadRefused(Exception):
    """Dify does not accept this document; the message is the reason."""


class UploadLost(Exception):
    """Another run has replaced the document or taken its name; it is uploaded again."""


@dataclass(slots=True)
class DocumentUpload:
    """A document to be written.

    Attributes:
        segments: its chunks in the form Dify takes.
        metadata: by Dify's names.
        name: in Dify; "" until one is chosen.
        dify_id, batch: "" until it is created.
        state: of its indexing, as last reported by Dify.
        lost: the reason to upload it again, or "".
        collided: whether another run wrote a document of its name; its next name is then random.
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
            names: maps our field names to Dify's.
            technique: the dataset's; in an economy dataset the chunks are found by our keywords.
            chunk_line: whether each chunk's line identifies its document; else it has its place and the title.
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
        return [segment["content"] for segment in self.segments]

    @property
    def digest(self) -> ContentDigest:
        """The digest of the chunks that Dify must hold."""
        return ContentDigest.of(self.contents)

    @property
    def begun(self) -> dict[str, Value]:
        """The metadata of the document while it is unfinished."""
        return {**self.metadata, MARKS.state: UNFINISHED}

    @property
    def complete(self) -> dict[str, Value]:
        """The metadata that declares it complete."""
        return {**self.metadata, MARKS.stored: str(self.digest), MARKS.content_hash: self.content_hash}


def checked(upload: DocumentUpload) -> None:
    """Refuse what Dify cannot hold, before anything is written.

    Raises:
        UploadRefused: a chunk is empty or too long.
    """
    for number, content in enumerate(upload.contents, start=1):
        size = len(content.encode("utf-8", "surrogatepass"))
        if size > MOST_SEGMENT:
            raise UploadRefused(f"chunk {number} has {size:,} bytes, at most {MOST_SEGMENT:,} can be stored: split it")
        if "\x00" in content:
            raise UploadRefused(f"chunk {number} holds a NUL, which Dify's database does not accept")
        if not content.strip():
            raise UploadRefused(f"chunk {number} has no text, which Dify does not accept")


def batches(segments: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Divide chunks into calls."""
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
    """Poll a new document until its indexing ends; give up when `left` returns 0 seconds.

    Raises:
        UploadRefused: it failed, or did not end in time.
        UploadLost: it is gone, or replaced by another run's document of the same name.
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
                raise UploadRefused(f"Dify made {indexed.segments} chunks from an empty text")
            return
        if indexed.state in ("error", "paused"):
            reason = " ".join(redacted(indexed.error).split())[:_MOST_SHOWN]
            raise UploadRefused(f"indexing ended as {indexed.state!r}{f': {reason}' if reason else ''}")
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
        UploadLost: the document is gone, or is being indexed again.
        SourceError: Dify gave no valid answer; it may or may not have stored the chunks.
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
    """Compare a filled document in Dify with the upload.

    Raises:
        UploadLost: they differ, because another run writes to the document too.
    """
    try:
        digest = ContentDigest.of(writes.contents(dataset_id, upload.dify_id))
    except SourceNotFound:
        raise UploadLost("it was deleted while it was written") from None
    if digest != upload.digest:
        raise UploadLost(f"Dify has {digest.chunks} of its chunks, {upload.digest.chunks} were written")


def _written(chunk: Chunk, of_document: bool) -> str:
    """Return a chunk's line and text; fields omitted from the line are in the metadata."""
    line = line_of(chunk, document=of_document)
    if line and not of_document:
        line = replace(line, title=chunk.title)
    return with_line(line, chunk.content)


def _check_segment(row: Any, content: str, place: int) -> None:
    if not isinstance(row, dict):
        raise SourceProtocolError("Dify's answer to the chunks cannot be read")
    if row.get("status") not in ("completed", None) or row.get("enabled") is False:
        reason = " ".join(redacted(str(row.get("error") or "")).split())[:_MOST_SHOWN]
        raise UploadRefused(f"Dify could not index chunk {place}{f': {reason}' if reason else ''}")
    if row.get("content") != content:
        raise UploadRefused(f"Dify changed the text of chunk {place}")
