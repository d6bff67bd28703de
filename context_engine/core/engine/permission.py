"""Permissions of the caller: permitted settings, readable chunks, required masks, chunks by id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import replace
from typing import Any, Final, Generic, NamedTuple, TypeVar

from context_engine.core.concurrency.awaiting import awaited
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
    Link,
    LinkQuery,
    Notice,
    NoticeCode,
    Registry,
    SearchRequest,
    Settings,
    SourceAnswer,
    WithheldChunk,
)
from context_engine.core.policy.access import access_class
from context_engine.core.protocols import Fetchable, GraphStore, Mask, Source
from context_engine.errors import ConfigError, ContextEngineError, FetchUnsupported, SourceProtocolError

_OF_THE_CALLER: Final = ("call", "pipeline config")
_DENIED: Final = "some sources were not searched for you"


def permitted_settings(settings: EffectiveSettings, domain: DomainSpec) -> EffectiveSettings:
    """Return the settings without `sources` that the principal may not know.

    Names from an operator's files are dropped silently; names from the call stay, and are refused later as unknown.

    Args:
        domain: the part that the principal may know.
    """
    named, origin = settings.values.sources, settings.origins.get("sources")
    known = frozenset(domain.names)
    if named is None or origin in _OF_THE_CALLER or known.issuperset(named):
        return settings
    kept = tuple(name for name in named if name in known)
    origins = (
        settings.origins if kept else {key: origin for key, origin in settings.origins.items() if key != "sources"}
    )
    values = settings.values.model_copy(update={"sources": kept or None})
    return settings.model_copy(update={"values": values, "origins": origins})


def denial_notices(domain: DomainSpec, decision: AccessDecision) -> tuple[Notice, ...]:
    """Return the notice that some sources were not searched, unless the domain hides it; it never says which or why."""
    if domain.denials == "hidden" or not decision.denied:
        return ()
    return (Notice(NoticeCode.SOURCES_NOT_SEARCHED, "", _DENIED),)


def check_mask(mask: Mask | None, settings: Settings, domain: DomainSpec) -> None:
    """Refuse a search whose passages or question must be masked but cannot be.

    Raises:
        ConfigError: the mask is missing or fails.
    """
    if not (settings.mask_contexts or settings.mask_stored_queries):
        return
    if mask is None:
        key = "mask_contexts" if settings.mask_contexts else "mask_stored_queries"
        raise ConfigError(f"domain {domain.domain!r} sets {key}, and this engine has no mask: build it with one")
    mask("")  # a mask that opens its key on first use fails here, before anything is searched


def masks_refused(registry: Registry, resolve: Callable[[DomainSpec, SearchRequest], EffectiveSettings]) -> bool:
    """Return whether the question of a refused request is masked in its record: true if any domain masks stored
    questions.

    The domain of the request may be unknown, so every domain counts.
    """
    for name, domain in registry.domains.items():
        try:
            if resolve(domain, SearchRequest(query="-", domain=name)).values.mask_stored_queries:
                return True
        except ContextEngineError:  # a domain that cannot be searched stores no question
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
"""Notices about single chunks or documents, counts of chunks, and free text of the source: they may tell of unreadable
chunks."""

_IDS: Final = ("chunk_id", "document_id")
A = TypeVar("A")


class Readable(NamedTuple, Generic[A]):
    """The part of an answer that the caller may read, and the chunks that were taken out."""

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
    """Return an answer without the chunks its caller may not read.

    A note about chunks stays only if it names a chunk or document that stays. Term statistics, unknown words and the
    calibration go too, since unreadable chunks count in them. A caller with the highest clearance gets everything.

    Args:
        answer: of a source, not yet validated; anything but an answer is left to `validate_answer`.
        scope: which classes the caller may read; None: all.
        keeps_classes: the source already excludes unreadable chunks from its notes and statistics, so they stay.
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
    reduced = replace(answer, chunks=kept, notes=notes, statistics=None, unknown_words=None, calibration=None)
    return Readable(reduced, tuple(withheld))


def _claimed(chunk: Any) -> Classification | None:
    """Return the classification that a chunk claims; an invalid one counts as restricted."""
    claimed: Any = chunk.classification if isinstance(chunk, Chunk) else None
    return claimed if claimed is None or isinstance(claimed, Classification) else Classification.RESTRICTED


def _notes(notices: Iterable[Notice], kept: Iterable[Any]) -> tuple[Notice, ...]:
    chunks = [chunk for chunk in kept if isinstance(chunk, Chunk)]
    ids = {(name, getattr(chunk, name)) for chunk in chunks for name in _IDS if isinstance(getattr(chunk, name), str)}
    return tuple(notice for notice in notices if notice.code not in _OF_CHUNKS or _names_one_of(notice, ids))


def _names_one_of(notice: Notice, ids: Set[tuple[str, str]]) -> bool:
    return any((name, notice.detail[name]) in ids for name in _IDS if isinstance(notice.detail.get(name), str))


def fetched_chunks(source: Source, request: FetchRequest, declared: Classification) -> tuple[Chunk, ...]:
    """Fetch the requested chunks from a source in this thread: each chunk once, unreadable ones omitted.

    Args:
        request: its `access` says what the caller may read.

    Raises:
        FetchUnsupported: the source cannot fetch chunks by id.
        SourceProtocolError: it did not return a list.
        SourceError: it failed.
    """
    if not isinstance(source, Fetchable):
        raise FetchUnsupported("its adapter cannot give chunks by their ids", source_id=source.source_id)
    answered: Any = awaited(source.fetch(request))
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


def linked_chunks(source: GraphStore, query: LinkQuery, source_id: str, declared: Classification) -> tuple[Link, ...]:
    """Follow links into a source in this thread: links to unreadable chunks, or along other edges, are omitted.

    Raises:
        SourceProtocolError: it did not return a list.
        SourceError: it failed.
    """
    answered: Any = awaited(source.linked(query))
    if not is_listed(answered):
        problem = f"linked() returned {type(answered).__name__} instead of a list"
        raise SourceProtocolError(problem, source_id=source_id)
    links = [link for link in answered if _is_wanted(link, query)]
    chunks = [link.chunk for link in links]
    kept = readable(
        SourceAnswer(chunks=chunks), source_id=source_id, declared=declared, scope=query.query.access
    ).answer.chunks
    admitted = {id(chunk) for chunk in kept}
    return tuple(link._replace(chunk=valid_chunk(link.chunk, [])) for link in links if id(link.chunk) in admitted)


def _is_wanted(link: Any, query: LinkQuery) -> bool:
    """Whether a link begins at an origin, follows an edge of the query, and leads to a chunk with an id and a text."""
    if not isinstance(link, Link) or link.edge not in query.edges or not isinstance(link.chunk, Chunk):
        return False
    text: Any = link.chunk.content
    has_text = isinstance(text, str) and text.strip() != ""
    return has_text and bool(link.chunk.chunk_id) and any(link.origin == origin.key for origin in query.origins)
