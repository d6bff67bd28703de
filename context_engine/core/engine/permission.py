"""What a caller may be given: permitted settings, readable chunks, masked text, chunks by id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import replace
from typing import Any, Final, Generic, NamedTuple, TypeVar

from context_engine.core.engine.admission import is_listed, valid_chunk
from context_engine.core.engine.sanitize_chunk import chunk_id_of, sanitized_notice
from context_engine.core.models import (
    AccessDecision,
    AccessScope,
    Chunk,
    Classification,
    DomainSpec,
    EffectiveSettings,
    FetchRequest,
    Notice,
    NoticeCode,
    Registry,
    SearchRequest,
    Settings,
    SourceAnswer,
    WithheldChunk,
)
from context_engine.core.policy.access import access_class
from context_engine.core.protocols import Fetchable, Mask, Source
from context_engine.errors import ConfigError, ContextEngineError, FetchUnsupported, SourceProtocolError

_OF_THE_CALLER: Final = ("call", "pipeline config")
_SAID: Final = "some sources were not searched for you"


def permitted_settings(settings: EffectiveSettings, domain: DomainSpec) -> EffectiveSettings:
    """Return settings that name only sources which the principal may know, but for what the caller names itself.

    What an operator's files name beyond those acts as if it were not there; a caller's own unknown name is refused as
    one that there is not.

    Args:
        settings: of a search under an access policy.
        domain: as the principal may know it.
    """
    named, origin = settings.values.sources, settings.origins.get("sources")
    known = {source.id for source in domain.sources}
    if named is None or origin in _OF_THE_CALLER or known.issuperset(named):
        return settings
    kept = tuple(name for name in named if name in known)
    origins = (
        settings.origins if kept else {key: origin for key, origin in settings.origins.items() if key != "sources"}
    )
    values = settings.values.model_copy(update={"sources": kept or None})
    return settings.model_copy(update={"values": values, "origins": origins})


def denial_notices(domain: DomainSpec, decision: AccessDecision) -> tuple[Notice, ...]:
    """Return the notice that some sources were not searched, where the domain lets it be said; never which or why."""
    if domain.denials == "hidden" or not decision.denied:
        return ()
    return (Notice(NoticeCode.SOURCES_NOT_SEARCHED, "", _SAID),)


def check_mask(mask: Mask | None, settings: Settings, domain: DomainSpec) -> None:
    """Refuse a search whose passages or question must be masked and cannot be.

    Raises:
        ConfigError: there is no mask, or it cannot be opened.
    """
    if not (settings.mask_contexts or settings.mask_stored_queries):
        return
    if mask is None:
        key = "mask_contexts" if settings.mask_contexts else "mask_stored_queries"
        raise ConfigError(f"domain {domain.domain!r} sets {key}, and this engine has no mask: build it with one")
    mask("")


def masks_refused(registry: Registry, resolve: Callable[[DomainSpec, SearchRequest], EffectiveSettings]) -> bool:
    """Whether a request that is refused is kept with its question masked: where any domain's are.

    Which domain it was meant for is not known.
    """
    for name, domain in registry.domains.items():
        try:
            if resolve(domain, SearchRequest(query="-", domain=name)).values.mask_stored_queries:
                return True
        except ContextEngineError:  # a domain that cannot be searched keeps no question
            continue
    return False


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
    ids = {(name, getattr(chunk, name)) for chunk in chunks for name in _IDS if isinstance(getattr(chunk, name), str)}
    return tuple(notice for notice in notices if notice.code not in _OF_CHUNKS or _names_one_of(notice, ids))


def _names_one_of(notice: Notice, ids: Set[tuple[str, str]]) -> bool:
    return any((name, notice.detail[name]) in ids for name in _IDS if isinstance(notice.detail.get(name), str))


def fetched_chunks(source: Source, request: FetchRequest, declared: Classification) -> tuple[Chunk, ...]:
    """Return what a source gives of what was asked for, each chunk once; nothing that may not be read.

    Args:
        source: asked in this thread.
        request: its `access` is what the caller may read.

    Raises:
        FetchUnsupported: the source cannot give chunks by their ids.
        SourceProtocolError: what it gives is no list of chunks.
        SourceError: whatever else the source raises.
    """
    if not isinstance(source, Fetchable):
        raise FetchUnsupported("its adapter cannot give chunks by their ids", source_id=source.source_id)
    answered: Any = source.fetch(request)
    if not is_listed(answered):
        problem = f"fetch() returned {type(answered).__name__} instead of a list"
        raise SourceProtocolError(problem, source_id=source.source_id)
    kept = readable(
        SourceAnswer(chunks=list(_wanted(answered, request))),
        source_id=source.source_id,
        declared=declared,
        scope=request.access,
    ).answer
    by_id = {chunk.chunk_id: valid_chunk(chunk, []) for chunk in reversed(kept.chunks)}
    return tuple(reversed(by_id.values()))


def _wanted(answered: Any, request: FetchRequest) -> Iterator[Chunk]:
    chunk_ids, document_ids = frozenset(request.chunk_ids), frozenset(request.document_ids)
    for chunk in answered:
        usable = isinstance(chunk, Chunk) and isinstance(chunk.content, str) and chunk.content.strip() != ""
        if usable and chunk.chunk_id and (chunk.chunk_id in chunk_ids or chunk.document_id in document_ids):
            yield chunk
