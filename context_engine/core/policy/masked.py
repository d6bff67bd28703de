"""Results with personal data masked: the question for what is kept, the passages for what goes to a model.

What identifies a chunk, a document or a place stays as it is, so that citations open: ids, paths and addresses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from context_engine.core.models import (
    MAX_QUERY_CHARS,
    And,
    Chunk,
    Condition,
    Filter,
    Member,
    Not,
    Notice,
    Or,
    PreparedQuery,
    RankedChunk,
    SearchRequest,
    SearchResult,
    SourceStatus,
)
from context_engine.core.protocols import Mask

_IDENTITIES: Final = frozenset(
    (
        "chunk_id",
        "content_sha256",
        "dataset_id",
        "document_id",
        "document_version",
        "file",
        "file_name",
        "filename",
        "path",
        "search_id",
        "segment_id",
        "source_file",
        "source_id",
        "url",
    )
)


def masked_chunk(chunk: Chunk, mask: Mask) -> Chunk:
    """Return a chunk with text, title, headings and metadata masked; its span stays that of the document."""
    return masked_labels(chunk, mask)._replace(content=mask(chunk.content))


def masked_labels(chunk: Chunk, mask: Mask) -> Chunk:
    """Return a chunk with all masked but its text."""
    return chunk._replace(
        title=_masked(chunk.title, mask),
        section=_masked(chunk.section, mask),
        heading_path=_masked(chunk.heading_path, mask),
        metadata=_masked(chunk.metadata, mask),
        extra=_masked(chunk.extra, mask),
    )


def with_masked_chunks(result: SearchResult, mask: Mask) -> SearchResult:
    """Return a result whose returned chunks, question, caller, notices and errors are masked: what may go to a model.

    The answers of the sources (`raw`) stay as they came, and are not for a model.
    """
    result = with_masked_query(result, mask)
    return replace(
        result,
        caller=replace(result.caller, **_masked(asdict(result.caller), mask)),
        chunks=tuple(_masked_ranked(chunk, mask) for chunk in result.chunks),
        sources=tuple(_masked_status(source, mask) for source in result.sources),
        notices=tuple(_masked_notice(notice, mask) for notice in result.notices),
    )


def as_kept(result: SearchResult, mask: Mask | None) -> SearchResult:
    """Return a result as it may be kept: its question masked where its domain sets `mask_stored_queries`."""
    if mask is None or not result.settings.values.mask_stored_queries:
        return result
    return with_masked_query(result, mask)


def with_masked_query(result: SearchResult, mask: Mask) -> SearchResult:
    """Return a result with its question masked wherever it stands.

    Where something was masked, what was made of the question (terms, codes, other wordings) and counted of it is left
    out: a part of a number stands among them.
    """
    request = None if result.request is None else masked_request(result.request, mask)
    query = mask(result.query)
    if query == result.query and request == result.request:
        return result
    prepared = result.prepared
    return replace(
        result,
        query=query,
        request=request,
        prepared=None if prepared is None else _masked_words(prepared, mask),
        notices=tuple(_masked_notice(notice, mask) for notice in result.notices),
        raw=tuple(replace(answer, statistics=None, unknown_words=None) for answer in result.raw),
    )


def masked_request(request: SearchRequest, mask: Mask) -> SearchRequest:
    """Return a request with its question and the values of its filters masked."""
    query = mask(request.query)[:MAX_QUERY_CHARS]
    filters = None if request.filters is None else _masked_filter(request.filters, mask)
    if query == request.query and filters == request.filters:
        return request
    return replace(request, query=query, filters=filters)


def _masked_words(prepared: PreparedQuery, mask: Mask) -> PreparedQuery:
    return PreparedQuery(
        original=mask(prepared.original),
        text=mask(prepared.text),
        language=prepared.language,
        corrected=prepared.corrected,
        notices=tuple(_masked_notice(notice, mask) for notice in prepared.notices),
        refiner=prepared.refiner,
    )


def _masked_filter(given: Filter, mask: Mask) -> Filter:
    match given:
        case And(parts):
            return And(tuple(_masked_filter(part, mask) for part in parts))
        case Or(parts):
            return Or(tuple(_masked_filter(part, mask) for part in parts))
        case Not(part):
            return Not(_masked_filter(part, mask))
        case Condition(field, op, value):
            return Condition(field, op, _masked({field: value}, mask)[field])


def _masked_status(source: SourceStatus, mask: Mask) -> SourceStatus:
    return replace(
        source,
        notices=tuple(_masked_notice(one, mask) for one in source.notices),
        error=_masked(source.error, mask),
        problem=mask(source.problem),
    )


def _masked_notice(notice: Notice, mask: Mask) -> Notice:
    return notice._replace(message=mask(notice.message), detail=_masked(notice.detail, mask))


def _masked_ranked(ranked: RankedChunk, mask: Mask) -> RankedChunk:
    return replace(
        ranked,
        chunk=masked_chunk(ranked.chunk, mask),
        also_in=tuple(_masked_member(member, mask) for member in ranked.also_in),
        provenance=replace(ranked.provenance, extra=_masked(ranked.provenance.extra, mask)),
    )


def _masked_member(member: Member, mask: Mask) -> Member:
    return member._replace(title=_masked(member.title, mask), section=_masked(member.section, mask))


def _masked(value: Any, mask: Mask) -> Any:
    """Return a JSON value with every text and number in it masked; the name of a field is read with its value."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        if not value:
            return value
        return {key: one if key in _IDENTITIES else _masked_field(str(key), one, mask) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_masked(one, mask) for one in value) if type(value) in (list, tuple) else value
    if isinstance(value, int) and not isinstance(value, bool):
        shown = mask(str(value))
        return value if shown == str(value) else shown
    return value


def _masked_field(name: str, value: Any, mask: Mask) -> Any:
    """Return a field's value masked as it would be in "name: value": digits are a telephone number beside that word."""
    if not isinstance(value, str | int) or isinstance(value, bool):
        return _masked(value, mask)
    before = f"{name}: "
    shown = mask(f"{before}{value}")
    if not shown.startswith(before):
        return _masked(value, mask)
    return value if shown == f"{before}{value}" else shown[len(before) :]
