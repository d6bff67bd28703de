"""Split a search result into parts that can be kept and erased separately, or saved as one JSON object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, NamedTuple

from context_engine.audit.record.codec import columns, dumped, form_of, from_columns, loaded
from context_engine.audit.record.contents import (
    Contents,
    answer_columns,
    answer_of,
    chunk_columns,
    chunks_of,
    settings_content,
    settings_of,
    sources_content,
    specs_of,
)
from context_engine.audit.record.exact import Unreadable
from context_engine.audit.values import Content
from context_engine.core.models import (
    Chunk,
    Fate,
    Key,
    RankedChunk,
    RawAnswer,
    SearchResult,
    SourceStatus,
    StageTrace,
    Swap,
)
from context_engine.core.text import content_sha256
from context_engine.errors import InvalidRequest

PARTS_VERSION: Final = 1
_QUESTION: Final = ("query", "caller", "request_id", "request", "prepared", "notices")
_COLUMNS: Final = ("fates", "swaps", "stages")
_ELSEWHERE: Final = (*_QUESTION, *_COLUMNS, "chunks", "sources", "settings", "specs", "raw", "rerank_scores")
_WORDS_OF_ANSWER: Final = ("statistics", "unknown_words")
_WORDS_OF_STATUS: Final = ("error", "problem", "notices")
_OF_CANDIDATES: Final = tuple(field.name for field in fields(SearchResult) if field.name not in _QUESTION)
_REST_OF_ANSWER: Final = tuple(field.name for field in fields(RawAnswer) if field.name not in _WORDS_OF_ANSWER)
_REST_OF_STATUS: Final = tuple(field.name for field in fields(SourceStatus) if field.name not in _WORDS_OF_STATUS)
_RERANK_SCORES: Final = form_of(Mapping[Key, float])


class Parts(NamedTuple):
    """A result in parts, ready for JSON.

    Attributes:
        question: everything derived from the question's words, and the caller's ids.
        candidates: refers to contents by number.
        contents: by number.
    """

    question: dict[str, Any]
    candidates: dict[str, Any]
    contents: tuple[Content, ...]


def split(result: SearchResult) -> Parts:
    """Split a result into its parts."""
    contents = Contents()
    settings, specs = settings_content(result.settings), sources_content(result.specs)
    answers = [answer_columns(answer, contents) for answer in result.raw]
    places = {
        id(chunk): [number, index]
        for number, answer in enumerate(result.raw)
        for index, chunk in enumerate(answer.chunks)
    }
    candidates = {
        "v": PARTS_VERSION,
        "result": dumped(result, without=_ELSEWHERE),
        "settings": contents.take(settings),
        "specs": contents.take(specs),
        "answers": answers,
        "statuses": [dumped(status, without=_WORDS_OF_STATUS) for status in result.sources],
        "fates": {**columns(Fate, result.fates), **candidate_identities(result)},
        "swaps": columns(Swap, result.swaps),
        "stages": columns(StageTrace, result.stages),
        "rerank_scores": _RERANK_SCORES.write(result.rerank_scores),
        "returned": [_returned(chunk, places, contents) for chunk in result.chunks],
    }
    return Parts(_question(result), candidates, tuple(contents.all))


def join(candidates: Mapping[str, Any], question: Mapping[str, Any], contents: Sequence[bytes]) -> SearchResult:
    """Restore a result from its parts; it equals the original except for the errors of the sources.

    Args:
        contents: the data by number.

    Raises:
        Unreadable: this version does not write such data.
    """
    if (version := candidates.get("v")) != PARTS_VERSION:
        raise Unreadable(f"its version is {version!r}; this version of the package reads {PARTS_VERSION}: upgrade it")
    try:
        words = question["answers"]
        raw = tuple(answer_of(answer, contents, of) for answer, of in zip(candidates["answers"], words, strict=True))
        statuses = zip(candidates["statuses"], question["statuses"], strict=True)
        fates = {name: column for name, column in candidates["fates"].items() if name in Fate._fields}
        return loaded(
            SearchResult,
            {**candidates["result"], **question["result"]},
            settings=settings_of(contents[candidates["settings"]]),
            specs=specs_of(contents[candidates["specs"]]),
            raw=raw,
            sources=tuple(loaded(SourceStatus, {**status, **of}) for status, of in statuses),
            fates=from_columns(Fate, fates),
            swaps=from_columns(Swap, candidates["swaps"]),
            stages=from_columns(StageTrace, candidates["stages"]),
            rerank_scores=_RERANK_SCORES.read(candidates["rerank_scores"]),
            chunks=tuple(_ranked(chunk, raw, contents) for chunk in candidates["returned"]),
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise error if isinstance(error, Unreadable) else Unreadable(f"{type(error).__name__}: {error}") from None


def _question(result: SearchResult) -> dict[str, Any]:
    return {
        "v": PARTS_VERSION,
        "result": dumped(result, without=_OF_CANDIDATES),
        "answers": [dumped(answer, without=_REST_OF_ANSWER) for answer in result.raw],
        "statuses": [dumped(status, without=_REST_OF_STATUS) for status in result.sources],
    }


def _returned(ranked: RankedChunk, places: Mapping[int, Sequence[int]], contents: Contents) -> dict[str, Any]:
    """Return a returned chunk with its place in an answer; a chunk joined from several has columns of its own."""
    out = dumped(ranked, without=("chunk",))
    place = places.get(id(ranked.chunk))
    out["chunk"] = chunk_columns([ranked.chunk], contents) if place is None else place
    return out


def _ranked(data: Mapping[str, Any], raw: Sequence[RawAnswer], contents: Sequence[bytes]) -> RankedChunk:
    place, rest = data["chunk"], {name: value for name, value in data.items() if name != "chunk"}
    return loaded(RankedChunk, rest, chunk=_chunk(place, raw, contents))


def _chunk(place: Mapping[str, Any] | Sequence[int], raw: Sequence[RawAnswer], contents: Sequence[bytes]) -> Chunk:
    if isinstance(place, Mapping):
        return chunks_of(place, contents)[0]
    answer, index = place
    return raw[answer].chunks[index]


IDENTITY_COLUMNS: Final = ("document_id", "document_version", "content_sha256")
_UNKNOWN: Final = (None, None, None)
_Identity = tuple[str | None, str | None, str | None]


def candidate_identities(result: SearchResult) -> dict[str, list[Any]]:
    """Return document, version and text SHA-256 of each candidate as columns, in the order of the fates."""
    known = _identities(result)
    identities = [known.get((fate.source_id, fate.chunk_id), _UNKNOWN) for fate in result.fates]
    return {name: list(column) for name, column in zip(IDENTITY_COLUMNS, zip(*identities))}


def _identities(result: SearchResult) -> dict[Key, _Identity]:
    """Return the identities by key; texts that share a chunk id are told apart as in the candidate pool."""
    speaks = {spec.id: spec.trust_document_metadata for spec in result.specs}
    known: dict[Key, _Identity] = {}
    texts: dict[Key, dict[str, _Identity]] = {}
    for answer in result.raw:
        for chunk in answer.chunks:
            identity = _identity(chunk)
            sha256 = str(identity[2])
            own = chunk.source_id if chunk.source_id and speaks.get(answer.source_id) else answer.source_id
            key = (own, chunk.chunk_id or sha256[:32])
            if known.setdefault(key, identity)[2] != sha256:
                texts.setdefault(key, {str(known[key][2]): known[key]})[sha256] = identity
    for (source_id, chunk_id), several in texts.items():
        for place, sha256 in enumerate(sorted(several)):
            known[source_id, f"{chunk_id}~{sha256[:8]}" if place else chunk_id] = several[sha256]
    return known


def _identity(chunk: Chunk) -> _Identity:
    return (chunk.document_id, chunk.document_version, content_sha256(chunk.content))


_FORMAT: Final = "context-engine/saved-result"
_VERSION: Final = 1
_NAMES: Final = frozenset(("format", "version", "code", "question", "candidates", "contents"))


def save_result(result: SearchResult, *, code_version: str) -> dict[str, Any]:
    """Return a result as a JSON object that `load_result` reads."""
    parts = split(result)
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "code": code_version,
        "question": parts.question,
        "candidates": parts.candidates,
        "contents": [content.data.decode("utf-8", "surrogatepass") for content in parts.contents],
    }


def load_result(saved: Mapping[str, Any]) -> SearchResult:
    """Restore a saved result; it equals the original except for the errors of its sources.

    Args:
        saved: from `save_result`, or a published result with that as its `record`.

    Raises:
        InvalidRequest: it is neither, or a newer version of this package wrote it.
    """
    record = saved.get("record", saved) if isinstance(saved, Mapping) else None
    if not isinstance(record, Mapping) or record.get("format") != _FORMAT:
        raise InvalidRequest(
            "this is not a saved result: write one with 'context-engine search ... --json --full', or save_result"
        )
    unknown = sorted(record.keys() - _NAMES)
    if record.get("version") != _VERSION or unknown:
        reason = f"it contains {unknown[0]!r}" if unknown else f"its version is {record.get('version')!r}"
        raise InvalidRequest(
            f"this result was saved by another version of the package ({record.get('code')}): {reason}, and this one "
            f"reads version {_VERSION}"
        )
    try:
        contents = [str(text).encode("utf-8", "surrogatepass") for text in record["contents"]]
        return join(record["candidates"], record["question"], contents)
    except (Unreadable, KeyError, TypeError, AttributeError) as error:
        raise InvalidRequest(f"this saved result cannot be read: {error}") from None


def code_of(saved: Mapping[str, Any]) -> str | None:
    """Return the version of the package that saved a result, None if it is not stated."""
    record = saved.get("record", saved)
    code = record.get("code") if isinstance(record, Mapping) else None
    return code if isinstance(code, str) else None
