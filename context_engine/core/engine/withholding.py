"""The seam of access control: chunks that the caller may not read leave an answer before anything counts them.

A source is asked only where all of it may be searched, but a document may raise its classification above that of its
source. A source that keeps access classes does not find such a document for the caller. From any other its chunks are
taken out here, with every note that may be about one, and what the source knows of its whole collection counts as not
known: it would tell of what the caller may not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace
from typing import Any, Final, Generic, NamedTuple, TypeVar

from context_engine.core.engine.admission import is_listed
from context_engine.core.engine.sanitize_chunk import chunk_id_of, sanitized_notice
from context_engine.core.models import (
    AccessScope,
    Chunk,
    Classification,
    Notice,
    NoticeCode,
    SourceAnswer,
    WithheldChunk,
)
from context_engine.core.policy.access import access_class

_OF_CHUNKS: Final = frozenset(
    {
        NoticeCode.CHUNK_UNREADABLE,
        NoticeCode.CHUNK_WITHOUT_TEXT,
        NoticeCode.CHUNKS_REFUSED,
        NoticeCode.DOCUMENT_UNFINISHED,
        NoticeCode.FIELD_UNUSABLE,
        NoticeCode.KEY_MISSPELT,
        NoticeCode.METADATA_REPAIRED,
        NoticeCode.NOTICES_LEFT_OUT,
        NoticeCode.SCORE_KIND_MISSING,
        NoticeCode.SCORE_UNUSABLE,
        NoticeCode.SOURCE_NOTE,
        NoticeCode.TEXT_REPAIRED,
    }
)
"""What tells of a single chunk or document, counts chunks, or says what only its source knows."""
_IDS: Final = ("chunk_id", "document_id")


A = TypeVar("A")


class Readable(NamedTuple, Generic[A]):
    """What of an answer the caller may read, and what was taken out."""

    answer: A
    withheld: tuple[WithheldChunk, ...] = ()


def readable(
    answer: A,
    *,
    source_id: str,
    declared: Classification,
    scope: AccessScope | None,
    keeps_classes: bool = False,
) -> Readable[A]:
    """Return an answer without what its caller may not read.

    Of the notes about chunks those stay that name a chunk or document which stays. A caller who is cleared for
    everything gets the answer as it is.

    Args:
        answer: of a source, not yet validated; what is no answer is left to `validate_answer`.
        source_id: the source.
        declared: its classification.
        scope: which classes the caller may read; None: all.
        keeps_classes: what the caller may not read changes nothing of what the source says beside the chunks.
    """
    if scope is None or scope.clearance is Classification.RESTRICTED:
        return Readable(answer)
    if not isinstance(answer, SourceAnswer) or not is_listed(answer.chunks):
        return Readable(answer)
    kept: list[Chunk] = []
    withheld: list[WithheldChunk] = []
    for chunk in answer.chunks:
        claimed = _claimed(chunk)
        if claimed is None or scope.admits(access_class("", declared, claimed)):
            kept.append(chunk)
        else:
            withheld.append(WithheldChunk(source_id, chunk_id_of(chunk), claimed))
    if keeps_classes:
        return Readable(replace(answer, chunks=kept), tuple(withheld))
    notes = _notes((sanitized_notice(note, source_id) for note in answer.notes), kept)
    unsaid = replace(answer, chunks=kept, notes=notes, statistics=None, unknown_words=None, calibration=None)
    return Readable(unsaid, tuple(withheld))


def _claimed(chunk: Any) -> Classification | None:
    """Return the classification that a chunk claims; one that is none counts as restricted."""
    claimed: Any = chunk.classification if isinstance(chunk, Chunk) else None
    return claimed if claimed is None or isinstance(claimed, Classification) else Classification.RESTRICTED


def _notes(notices: Iterable[Notice], kept: Iterable[Any]) -> tuple[Notice, ...]:
    chunks = [chunk for chunk in kept if isinstance(chunk, Chunk)]
    ids = {(name, getattr(one, name)) for one in chunks for name in _IDS if isinstance(getattr(one, name), str)}
    return tuple(one for one in notices if one.code not in _OF_CHUNKS or _names_one_of(one, ids))


def _names_one_of(notice: Notice, ids: Set[tuple[str, str]]) -> bool:
    return any((name, notice.detail[name]) in ids for name in _IDS if isinstance(notice.detail.get(name), str))
