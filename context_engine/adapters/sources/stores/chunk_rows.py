"""Chunks as stored rows and as texts of an index, and rows as chunks: a digest proves a row unchanged.

The access class of a document says where it lies. Words of a question that no text of a source has are found here too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import cache, lru_cache
from itertools import chain, groupby
from typing import Any, Final, NamedTuple, Protocol

from context_engine.core.chunking.strategy import BOOKKEEPING_KEYS
from context_engine.core.models import (
    AccessClass,
    Chunk,
    Classification,
    FetchedAtBasis,
    SourceSpec,
    SourceType,
    TrustClass,
    UnknownWord,
)
from context_engine.core.policy.access import access_class
from context_engine.core.query.spelling import is_offered
from context_engine.core.text import content_sha256, terms, tokens
from context_engine.errors import InvalidRequest, StoreCorrupt

_APART: Final = ("content", "chunk_id", "scores", "source_id")
_STORED: Final = tuple(name for name in Chunk._fields if name not in _APART)
_READERS: Final[dict[str, Any]] = {
    "heading_path": tuple,
    "span": tuple,
    "source_type": SourceType,
    "trust_class": TrustClass,
    "classification": Classification,
    "fetched_at": datetime.fromisoformat,
    "fetched_at_basis": FetchedAtBasis,
    "effective_from": date.fromisoformat,
    "effective_to": date.fromisoformat,
}
JOINT: Final = "_"
"""Joins the words of a defined term."""
_FIRST: Final = 5
"""Chunks that are read before the index is queried: the best few contain most words."""


class ChunkRow(NamedTuple):
    """A stored chunk: its id, its text, its other fields as JSON, and a digest of all three."""

    chunk_id: str
    content: str
    fields: str
    digest: bytes


def encode(chunk: Chunk, document_id: str, version: str) -> ChunkRow:
    """Return the row of a chunk; scores are not stored, and the text's hash replaces a missing id.

    Raises:
        InvalidRequest: no text, text that is not Unicode, or metadata that JSON cannot represent.
    """
    where = f"document {document_id!r}, chunk {chunk.position if chunk.chunk_id == '' else chunk.chunk_id!r}"
    if not isinstance(chunk.content, str) or not chunk.content.strip():
        raise InvalidRequest(f"{where}: the chunk has no text")
    chunk = chunk._replace(
        chunk_id=chunk.chunk_id or content_sha256(chunk.content),
        document_id=chunk.document_id or document_id,
        document_version=chunk.document_version or version or None,
        metadata=dict(chunk.metadata),
        extra=dict(chunk.extra),
    )
    kept = {name: value for name in _STORED if (value := getattr(chunk, name)) not in (None, (), "", {})}
    try:
        fields = canonical(kept)
        proof = digest(chunk.chunk_id.encode(), chunk.content.encode(), fields.encode())
        return ChunkRow(chunk.chunk_id, chunk.content, fields, proof)
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"{where}: cannot be stored: {error}") from error


def document_rows(
    chunks: Sequence[Chunk],
    document_id: str,
    version: str,
    taken: Callable[[list[str]], Mapping[str, tuple[str, str]]],
) -> list[ChunkRow]:
    """Return the rows of a document; a chunk without an id whose text occurs already gets an id from its place.

    Args:
        taken: from ids to {id: (document_id, version)} of those that another document of the source has.

    Raises:
        InvalidRequest: a chunk cannot be stored, or its id exists in the source.
    """
    rows = [encode(chunk, document_id, version) for chunk in chunks]
    holders = dict(taken([row.chunk_id for row in rows]))
    out = []
    for number, (chunk, row) in enumerate(zip(chunks, rows, strict=True)):
        if holder := holders.get(row.chunk_id):
            if chunk.chunk_id:
                raise id_taken(document_id, row.chunk_id, holder)
            own = content_sha256("\0".join((document_id, version, str(number), chunk.content)))
            row = encode(chunk._replace(chunk_id=own), document_id, version)
        holders[row.chunk_id] = (document_id, version)
        out.append(row)
    return out


def file_of(chunks: Sequence[Chunk]) -> str | None:
    """Return the path of a document's file; None if its chunks do not state it."""
    file = chunks[0].metadata.get("source_file") if chunks else None
    return file if isinstance(file, str) else None


def id_taken(document_id: str, chunk_id: str, holder: tuple[str, str]) -> InvalidRequest:
    """Return the error for a chunk id that a document of the source has already.

    Args:
        holder: the document and its version.
    """
    return InvalidRequest(
        f"document {document_id!r}: chunk id {chunk_id!r} is in document {holder[0]!r} version {holder[1]!r} already: "
        "give each chunk of a source a unique id"
    )


def decode(row: tuple[str, str, str], indexed_at: str) -> Chunk:
    """Return the chunk of (chunk_id, content, fields).

    A missing `fetched_at` is taken from its metadata, as the origin's, or else from `indexed_at`.
    """
    chunk_id, content, text = row
    fields = _fields(text)
    if "fetched_at" not in fields:
        origin = _moment(fields.get("metadata", {}).get("fetched_at"))
        fields["fetched_at"] = origin or datetime.fromisoformat(indexed_at)
        fields["fetched_at_basis"] = FetchedAtBasis.ORIGIN if origin else FetchedAtBasis.INDEXED
    return Chunk(content=content, chunk_id=chunk_id, **fields)


def as_written(row: ChunkRow) -> Chunk:
    """Return the chunk of a row whose `encode` is this row again.

    Raises:
        StoreCorrupt: the row is not as it was written.
    """
    if digest(row.chunk_id.encode(), row.content.encode(), row.fields.encode()) != row.digest:
        raise StoreCorrupt(f"chunk {row.chunk_id!r} is damaged: ingest its document again")
    return Chunk(content=row.content, chunk_id=row.chunk_id, **_fields(row.fields))


def _fields(text: str) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(text)
    for name in _READERS.keys() & fields.keys():
        fields[name] = _READERS[name](fields[name])
    return fields


def digest(chunk_id: bytes, content: bytes, fields: bytes) -> bytes:
    """Return the SHA-256 that proves a row unchanged; the arguments are UTF-8."""
    return hashlib.sha256(b"\0".join((chunk_id, fields, content))).digest()


def canonical(value: Any) -> str:
    """Return a JSON text that is the same for equal values; dates become ISO texts.

    Raises:
        TypeError, ValueError: the value cannot be written as JSON.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"), default=_iso)


def _iso(value: Any) -> str:
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _moment(value: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class SourcePlace(NamedTuple):
    """Who may read a source, according to the configuration.

    Attributes:
        rules: all of its access rules (`AccessPolicy.rules_of`), or "".
        classification: the declared one.
    """

    rules: str = ""
    classification: Classification = Classification.INTERNAL

    def holds(self, claimed: str | None) -> AccessClass:
        """Return the class of a document of the source, by the classification that it claims, or "" or None."""
        return access_class(self.rules, self.classification, Classification(claimed) if claimed else None)


Place = Callable[[str], SourcePlace | None]
"""From a source's id to its place; None if unknown."""


def places(specs: Iterable[SourceSpec], rules_of: Callable[[str], str]) -> Place:
    """Return the places of some sources."""
    return {spec.id: SourcePlace(rules_of(spec.id), spec.classification) for spec in specs}.get


def claimed_by(chunks: Iterable[Chunk]) -> Classification | None:
    """Return the highest classification claimed by a chunk of a document, which is placed as a whole."""
    claims = (chunk.classification for chunk in chunks if chunk.classification is not None)
    return max(claims, key=lambda claim: claim.rank, default=None)


_MOST_DEFINED: Final = 6
"""Most words of a defined term; the rest of a longer one is ignored."""


class IndexText(NamedTuple):
    """The words of one chunk.

    Attributes:
        body: the terms of its text, in order.
        title: the terms of title and headings.
        head: those, and the terms of document id, type and metadata; of a bare heading also those of its text.
        bare: whether it is a heading without text below it.
        first: the place, in the document, of the first chunk of its section.
    """

    body: list[str]
    title: frozenset[str]
    head: frozenset[str]
    bare: bool
    first: int


def index_texts(chunks: Sequence[Chunk]) -> list[IndexText]:
    """Return the words of the chunks of one document, in order."""
    bodies = [terms(chunk.content) for chunk in chunks]
    titles = [_words(_joined((chunk.title, chunk.section, *chunk.heading_path))) for chunk in chunks]
    sections: dict[Hashable, int] = {}
    out = []
    for place, (chunk, body, title) in enumerate(zip(chunks, bodies, titles, strict=True)):
        bare = chunk.metadata.get("is_heading") is True or title.issuperset(body)
        first = sections.setdefault(chunk.heading_path or chunk.section or place, place)
        out.append(IndexText(body, title, title | _about(chunk, bare), bare, first))
    return out


def written_words(chunk: Chunk) -> list[str]:
    """Return the distinct words of a chunk and its headings that may be suggested for a misspelt word."""
    written = tokens(_joined((chunk.title, chunk.section, *chunk.heading_path, chunk.content)))
    return sorted(word for word in frozenset(written) if is_offered(word))


def defined_terms(chunk: Chunk) -> list[str]:
    """Return each term that a chunk defines, as one word."""
    names = chunk.metadata.get("defines")
    written = [terms(name) for name in names if isinstance(name, str)] if isinstance(names, list | tuple) else []
    return [JOINT.join(words[:_MOST_DEFINED]) for words in written if words]


def names_in(words: Sequence[str]) -> list[str]:
    """Return the terms that a question may name: each run of its words, joined as `defined_terms` joins them."""
    runs = (
        JOINT.join(words[start : start + length])
        for length in range(1, _MOST_DEFINED + 1)
        for start in range(len(words) - length + 1)
    )
    return list(dict.fromkeys(runs))


def _about(chunk: Chunk, bare: bool) -> frozenset[str]:
    about = {key: value for key, value in chunk.metadata.items() if key not in BOOKKEEPING_KEYS}
    text = chunk.content if bare else None
    return _words(_joined((chunk.document_id, chunk.doc_type, text, *_leaves(about))))


def _joined(parts: Iterable[Any]) -> str:
    return "\n".join(str(part) for part in parts if part not in (None, ""))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for below in value.values():
            yield from _leaves(below)
    elif isinstance(value, list | tuple):
        for below in value:
            yield from _leaves(below)
    elif not isinstance(value, bool):
        yield value


@lru_cache(maxsize=4096)
def _words(text: str) -> frozenset[str]:
    return frozenset(terms(text))


class Vocabulary(Protocol):
    """The words of the texts of one source."""

    def has(self, word: str) -> bool:
        """Return whether some text holds a term of the word; true for a word without terms (a stop word)."""
        ...

    def near(self, word: str, letter: str) -> list[tuple[int, str]]:
        """Return `spelling.near_words` of a word among those beginning with a letter, also of other sources."""
        ...

    def counts(self, words: Sequence[str]) -> Mapping[str, int]:
        """Return the number of texts with each of some words, without those that no text has."""
        ...


def unknown_words(
    words: Iterable[str], chunks: Sequence[Chunk], look_up: Callable[[str], tuple[UnknownWord, ...]]
) -> tuple[UnknownWord, ...]:
    """Return the words that no text of a source has.

    Args:
        words: of the question.
        chunks: of the source, best first: most words are in the first ones, and need no look-up.
        look_up: returns a word with its suggestion, or nothing for a word that the source has (`looked_up`).
    """
    texts = cache(lambda: "\n".join(chunk.content.casefold() for chunk in chunks[:_FIRST]))
    return tuple(chain.from_iterable(look_up(word) for word in words if not _is_in(texts(), word.casefold())))


def looked_up(vocabulary: Vocabulary, word: str) -> tuple[UnknownWord, ...]:
    """Return a word with the nearest one, or nothing if the vocabulary has it.

    The nearest word has the fewest edits; of several, the most frequent. It begins with the word's first letter, or if
    no such word is near, with its second: the first letter may be superfluous or swapped.
    """
    return () if vocabulary.has(word) else (UnknownWord(word, _nearest(vocabulary, word.casefold())),)


def _nearest(vocabulary: Vocabulary, word: str) -> str:
    for letter in dict.fromkeys(word[:2]):
        for _, tied in groupby(vocabulary.near(word, letter), key=lambda candidate: candidate[0]):
            if counts := vocabulary.counts([name for _, name in tied]):
                return min(counts, key=lambda name: (-counts[name], name))
    return ""


def _is_in(texts: str, word: str) -> bool:
    """Return whether a text contains the word as a whole word."""
    start = texts.find(word)
    while start >= 0:
        end = start + len(word)
        if not texts[max(start - 1, 0) : start].isalnum() and not texts[end : end + 1].isalnum():
            return True
        start = texts.find(word, end)
    return False
