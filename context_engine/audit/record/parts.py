"""A search result in parts: what of it may be kept apart, erased apart, and is shared with other results.

`question` holds everything made of the question's words and the caller's ids, sentences of notices and errors included,
for they may repeat the question. `candidates` holds every candidate with its scores and fate and what stage 2 made of
them, without any text. `contents` are texts, cards, settings and sources, by number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, NamedTuple

from context_engine.audit.record.chunks import Contents, answer_columns, answer_of, chunk_columns, chunks_of
from context_engine.audit.record.codec import columns, dumped, form_of, from_columns, loaded
from context_engine.audit.record.declared import settings_content, settings_of, sources_content, specs_of
from context_engine.audit.record.exact import Unreadable
from context_engine.audit.record.identities import candidate_identities
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

PARTS_VERSION: Final = 1
_QUESTION: Final = ("query", "caller", "request_id", "request", "prepared", "notices")
_COLUMNS: Final = ("fates", "swaps", "stages")
_ELSEWHERE: Final = (*_QUESTION, *_COLUMNS, "chunks", "sources", "settings", "specs", "raw", "rerank_scores")
_WORDS_OF_ANSWER: Final = ("statistics", "unknown_words")
_WORDS_OF_STATUS: Final = ("error", "problem", "notices")
_OF_CANDIDATES: Final = tuple(one.name for one in fields(SearchResult) if one.name not in _QUESTION)
_REST_OF_ANSWER: Final = tuple(one.name for one in fields(RawAnswer) if one.name not in _WORDS_OF_ANSWER)
_REST_OF_STATUS: Final = tuple(one.name for one in fields(SourceStatus) if one.name not in _WORDS_OF_STATUS)
_RERANK_SCORES: Final = form_of(Mapping[Key, float])


class Parts(NamedTuple):
    """A result in parts, ready for JSON.

    Attributes:
        question: what was made of the question's words, and the caller's ids.
        candidates: names contents by their numbers.
        contents: by number.
    """

    question: dict[str, Any]
    candidates: dict[str, Any]
    contents: tuple[Content, ...]


def split(result: SearchResult) -> Parts:
    """Return the parts of a result."""
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
    """Return the result of its parts; it equals the one that was split but for the errors of the sources.

    Args:
        contents: the data by number.

    Raises:
        Unreadable: they are not what this version writes.
    """
    _check_version(candidates)
    try:
        words = question["answers"]
        raw = tuple(answer_of(one, contents, of) for one, of in zip(candidates["answers"], words, strict=True))
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
            chunks=tuple(_ranked(one, raw, contents) for one in candidates["returned"]),
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise error if isinstance(error, Unreadable) else Unreadable(f"{type(error).__name__}: {error}") from None


def _check_version(candidates: Mapping[str, Any]) -> None:
    version = candidates.get("v")
    if version != PARTS_VERSION:
        raise Unreadable(f"its version is {version!r}; this version of the package reads {PARTS_VERSION}: upgrade it")


def _question(result: SearchResult) -> dict[str, Any]:
    return {
        "v": PARTS_VERSION,
        "result": dumped(result, without=_OF_CANDIDATES),
        "answers": [dumped(answer, without=_REST_OF_ANSWER) for answer in result.raw],
        "statuses": [dumped(status, without=_REST_OF_STATUS) for status in result.sources],
    }


def _returned(ranked: RankedChunk, places: Mapping[int, Sequence[int]], contents: Contents) -> dict[str, Any]:
    """Return a returned chunk with the place of its answer's; one of several joined has columns of its own."""
    out = dumped(ranked, without=("chunk",))
    place = places.get(id(ranked.chunk))
    out["chunk"] = chunk_columns([ranked.chunk], contents) if place is None else place
    return out


def _ranked(given: Mapping[str, Any], raw: Sequence[RawAnswer], contents: Sequence[bytes]) -> RankedChunk:
    place, rest = given["chunk"], {name: value for name, value in given.items() if name != "chunk"}
    return loaded(RankedChunk, rest, chunk=_chunk(place, raw, contents))


def _chunk(place: Mapping[str, Any] | Sequence[int], raw: Sequence[RawAnswer], contents: Sequence[bytes]) -> Chunk:
    if isinstance(place, Mapping):
        return chunks_of(place, contents)[0]
    answer, index = place
    return raw[answer].chunks[index]
