"""The metadata of one chunk; `context_engine.core.chunking` lists the keys."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from context_engine.core.chunking import ChunkingStrategy, Piece, defined_terms, is_glossary, section_title
from context_engine.core.models import Chunk, utc_text
from context_engine.core.text import content_sha256
from context_engine.ingest.declared_fields import json_value

_INSTEAD: Final[Mapping[str, tuple[str, ...]]] = {
    "date": ("date", "effective_from"),
    "id": ("id", "notice_id", "document_id"),
    "template_id": ("template_id", "document_id"),
    "entity_id": ("entity_id", "document_id"),
    "created_at": ("created_at", "created"),
}
"""Fields of the chunking table and where each is found, first that is there."""


def chunk_metadata(
    piece: Piece, base: Chunk, fields: Mapping[str, Any], strategy: ChunkingStrategy, tokens: int, now: datetime | None
) -> dict[str, Any]:
    """Return what stands in the metadata of a chunk beside what its whole document carries.

    Args:
        piece: the piece the chunk is made of.
        base: what the chunks of the document have in common.
        fields: what the document says about itself.
        strategy: names the fields that every chunk of the type carries where they are known.
        tokens: of the piece.
        now: the moment of a chunk whose document does not say when it was created; the clock's if None.
    """
    out: dict[str, Any] = {
        **_asked(piece, base, fields, strategy, now),
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
    """Return the ids of the chunks before and after, as far as there are any."""
    out: dict[str, str] = {}
    if position:
        out["previous_chunk_id"] = chunk_ids[position - 1]
    if position + 1 < len(chunk_ids):
        out["next_chunk_id"] = chunk_ids[position + 1]
    return out


def reference(section: str | None, fields: Mapping[str, Any]) -> dict[str, str]:
    """Return what a clause of a notice is cited by: section 4 of notice 637 is found by `637(4)` and `637(4)(b)`."""
    notice = str(fields.get("notice_id") or "")
    return {"reference": f"{notice}({section})"} if section and notice.isalnum() else {}


def _asked(
    piece: Piece, base: Chunk, fields: Mapping[str, Any], strategy: ChunkingStrategy, now: datetime | None
) -> dict[str, Any]:
    """Return the fields that the chunking table asks for, as far as the document gives them."""
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
        value = next((known[one] for one in _INSTEAD.get(name, (name,)) if known.get(one) is not None), None)
        if value is None and name == "created_at":
            value = utc_text((now or datetime.now(UTC)).replace(microsecond=0))
        if value is not None:
            out[name] = json_value(value)
    return out
