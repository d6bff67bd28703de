"""The metadata of a chunk: fields of its document and of its passage, and its location in the file.

`context_engine.core.chunking` lists the keys. Every chunk carries the short fields of its document's front matter. A
chunk of a record carries the identifying fields and the fields whose text is in that chunk, because copying all fields
of a large record to each of its chunks would multiply it. Fields that a manifest's rule names are in every chunk.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import ChainMap
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from context_engine.core.chunking.definitions import defined_terms, is_glossary
from context_engine.core.chunking.fields import field_spans
from context_engine.core.chunking.outline import section_title
from context_engine.core.chunking.pack import Piece
from context_engine.core.chunking.strategy import ChunkingStrategy
from context_engine.core.models import Chunk, Notice, NoticeCode, utc_text
from context_engine.core.text import content_sha256
from context_engine.ingest.declared_fields import DECLARED_FIELDS, ID_FIELDS, RECORD_FIELDS, json_value
from context_engine.ingest.loaded_document import LoadedDocument, file_notice, page_at

_INSTEAD: Final[Mapping[str, tuple[str, ...]]] = {
    "date": ("date", "effective_from"),
    "id": ("id", "notice_id", "document_id"),
    "template_id": ("template_id", "document_id"),
    "entity_id": ("entity_id", "document_id"),
    "created_at": ("created_at", "created"),
}
"""Fields of the chunking table, and the document fields that may hold each, in order of preference."""
_PLACES: Final = ("sheet", "table")
_MOST_NAMED: Final = 100
_MOST_VALUE: Final = 2_000
_MOST_ALL: Final = 16_000
"""Most characters, as JSON, of one field (_MOST_VALUE) and of all fields (_MOST_ALL) copied to every chunk."""


def chunk_metadata(
    piece: Piece, base: Chunk, fields: Mapping[str, Any], strategy: ChunkingStrategy, tokens: int, now: datetime | None
) -> dict[str, Any]:
    """Return the metadata of one chunk that is not shared by the whole document.

    Args:
        base: the common fields of the document's chunks.
        strategy: names the metadata fields that chunks of this type carry if known.
        now: used as `created_at` if the document does not state it; None: the current time.
    """
    out: dict[str, Any] = {
        **_requested(piece, base, fields, strategy, now),
        **reference(piece.section, fields),
        "token_count": tokens,
        "content_sha256": content_sha256(piece.content),
    }
    title = section_title(piece.heading_path)
    if title:
        out["section_title"] = title
    if piece.heading_only:
        out["heading_only"] = True
    terms = defined_terms(piece.content, glossary=any(is_glossary(heading) for heading in piece.heading_path[-2:]))
    if terms:
        out["defines"] = list(terms)
    return out


def neighbours(chunk_ids: Sequence[str], position: int) -> dict[str, str]:
    """Return the ids of the previous and the next chunk, if any."""
    out: dict[str, str] = {}
    if position:
        out["previous_chunk_id"] = chunk_ids[position - 1]
    if position + 1 < len(chunk_ids):
        out["next_chunk_id"] = chunk_ids[position + 1]
    return out


def reference(section: str | None, fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the citation of a clause of a numbered notice: section 4 of notice 637 is `637(4)`."""
    notice = str(fields.get("notice_id") or "")
    return {"reference": f"{notice}({section})"} if section and notice.isalnum() else {}


def _requested(
    piece: Piece, base: Chunk, fields: Mapping[str, Any], strategy: ChunkingStrategy, now: datetime | None
) -> dict[str, Any]:
    """Return the fields that the chunking table requests and the document provides."""
    of_piece: dict[str, Any] = {
        "section_number": piece.section,
        "section": piece.section,
        "heading": piece.heading_path[-1] if piece.heading_path else None,
        "chunk_index": piece.position,
        "version": base.document_version,
        "document_id": base.document_id,
        "fetched_at": utc_text(base.fetched_at) if base.fetched_at else None,
    }
    known = ChainMap(of_piece, fields)  # type: ignore[arg-type]  # read only
    out: dict[str, Any] = {}
    for name in strategy.metadata_fields:
        value = next((known[field] for field in _INSTEAD.get(name, (name,)) if known.get(field) is not None), None)
        if value is None and name == "created_at":
            value = utc_text((now or datetime.now(UTC)).replace(microsecond=0))
        if value is not None:
            out[name] = json_value(value)
    return out


def chunk_locations(loaded: LoadedDocument, pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    """Return the location in the file for each piece, as metadata; {} if the format has none.

    `page` is the page (or slide) on which a piece begins, `page_end` the one on which it ends if different, `line` the
    line of a text file on which it begins; all are 1-based. A piece of a record has the location of its record.
    """
    if loaded.record or (loaded.location and "line" not in loaded.location):
        return [dict(loaded.location) for _ in pieces]
    if loaded.location:
        return _with_lines(loaded, pieces)
    return [span_pages(loaded.pages, piece.span) for piece in pieces]


def span_pages(pages: Sequence[tuple[int, int]], span: tuple[int, int]) -> dict[str, int]:
    """Return `page` and `page_end` of a span of a text, as chunk metadata.

    >>> span_pages(((0, 1), (900, 2)), (10, 950)), span_pages((), (10, 950))
    ({'page': 1, 'page_end': 2}, {})
    """
    first, last = page_at(pages, span[0]), page_at(pages, span[1] - 1)
    if first is None or last is None:
        return {}
    return {"page": first} if first == last else {"page": first, "page_end": last}


def _with_lines(loaded: LoadedDocument, pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    line, counted = loaded.location["line"], 0
    for piece in pieces:
        line += loaded.text.count("\n", counted, piece.span[0])
        counted = max(counted, piece.span[0])
        out.append({**loaded.location, "line": line})
    return out


def shared_metadata(
    loaded: LoadedDocument, fields: Mapping[str, Any], named: Sequence[str]
) -> tuple[dict[str, Any], tuple[Notice, ...]]:
    """Return the common metadata of a document's chunks, and notices about omitted fields.

    Args:
        fields: the document's declared fields, or the record.
        named: fields that the manifest rule requests for every chunk.
    """
    wanted = (*ID_FIELDS[True], *_PLACES) if loaded.record else tuple(fields)
    out: dict[str, Any] = {}
    left: list[str] = []
    room = _MOST_ALL
    for name in wanted:
        if name in DECLARED_FIELDS or name in named or fields.get(name) is None:
            continue
        value = json_value(fields[name])
        size = len(json.dumps(value, ensure_ascii=False))
        if size > min(_MOST_VALUE, room):
            left.append(name)
            continue
        out[name] = value
        room -= size
    out |= {name: json_value(fields[name]) for name in named if fields.get(name) is not None}
    return {**out, "source_file": loaded.path}, _left_out(left) if left and not loaded.record else ()


def piece_fields(loaded: LoadedDocument, fields: Mapping[str, Any], pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    """Return for each piece of a record the fields whose complete text it holds; {} for other documents."""
    if not loaded.record:
        return [{} for _ in pieces]
    if len(pieces) == 1:
        return [_plain(fields, tuple(fields))]
    spans = field_spans(loaded.text, {name: value for name, value in fields.items() if name not in RECORD_FIELDS})
    names = list(spans)
    starts = [span[0] for span in spans.values()]
    out: list[dict[str, Any]] = []
    for piece in pieces:
        inside = names[bisect_left(starts, piece.span[0]) : bisect_left(starts, piece.span[1])]
        out.append(_plain(fields, tuple(name for name in inside if spans[name][1] <= piece.span[1])))
    return out


def _plain(fields: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {
        name: json_value(fields[name]) for name in names if name not in DECLARED_FIELDS and fields[name] is not None
    }


def _left_out(names: Sequence[str]) -> tuple[Notice, ...]:
    shown = ", ".join(repr(name[:60]) for name in names[:5]) + (" …" if len(names) > 5 else "")
    subject = f"the field {shown} is" if len(names) == 1 else f"{len(names)} fields ({shown}) are"
    problem = f"{subject} too long for the metadata of every chunk, and left out; name fields in a rule to keep them"
    return (file_notice(NoticeCode.FIELDS_NOT_CARRIED, problem, fields=list(names[:_MOST_NAMED])),)
