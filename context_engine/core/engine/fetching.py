"""Chunks of a source by their ids, without a question: checked as those of an answer are, and for who may read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from context_engine.core.engine.admission import is_listed, valid_chunk
from context_engine.core.engine.withholding import readable
from context_engine.core.models import Chunk, Classification, FetchRequest, SourceAnswer
from context_engine.core.protocols import Fetchable, Source
from context_engine.errors import FetchUnsupported, SourceProtocolError


def fetched_chunks(source: Source, request: FetchRequest, declared: Classification) -> tuple[Chunk, ...]:
    """Return what a source gives of what was asked for, each chunk once; nothing that may not be read.

    Args:
        source: asked in this thread.
        request: its `access` is what the caller may read.
        declared: the classification of the source.

    Raises:
        FetchUnsupported: the source cannot give chunks by their ids.
        SourceProtocolError: what it gives is no list of chunks.
        SourceError: whatever else the source raises.
    """
    if not isinstance(source, Fetchable):
        raise FetchUnsupported("its adapter cannot give chunks by their ids", source_id=source.source_id)
    given: Any = source.fetch(request)
    if not is_listed(given):
        problem = f"fetch() returned {type(given).__name__} instead of a list"
        raise SourceProtocolError(problem, source_id=source.source_id)
    kept = readable(
        SourceAnswer(chunks=list(_wanted(given, request))),
        source_id=source.source_id,
        declared=declared,
        scope=request.access,
    ).answer
    found = {chunk.chunk_id: valid_chunk(chunk, []) for chunk in reversed(kept.chunks)}
    return tuple(reversed(found.values()))


def _wanted(given: Any, request: FetchRequest) -> Iterator[Chunk]:
    chunk_ids, document_ids = frozenset(request.chunk_ids), frozenset(request.document_ids)
    for chunk in given:
        usable = isinstance(chunk, Chunk) and isinstance(chunk.content, str) and chunk.content.strip() != ""
        if usable and chunk.chunk_id and (chunk.chunk_id in chunk_ids or chunk.document_id in document_ids):
            yield chunk
