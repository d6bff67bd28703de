"""A ranked chunk as the RAG API gives it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

from context_engine.core.context.passage import own_field
from context_engine.core.models import Chunk, Context, Key, RankedChunk, json_value, to_date
from context_engine.service.contract.rag import RetrievalChunk


def citation_labels(chunks: Iterable[RankedChunk], context: Context | None) -> dict[Key, str]:
    """Return what each chunk is cited by, by identity.

    Args:
        chunks: best first.
        context: what a model reads of them; its labels hold, and what is not in it goes on counting. None: by rank.
    """
    blocks = () if context is None else context.blocks
    labels = {(block.source_id, chunk_id): block.label for block in blocks for chunk_id in block.chunk_ids}
    numbers = count(len(blocks) + 1)
    for chunk in chunks:
        key = (chunk.source_id, chunk.chunk_id)
        if key not in labels:
            labels[key] = f"[{next(numbers)}]"
    return labels


def retrieval_chunk(ranked: RankedChunk, label: str, source_title: str) -> RetrievalChunk:
    """Return a chunk with all that is needed to cite it; nothing is checked again.

    Args:
        label: what it is cited by.
        source_title: stands for the organisation where the document names none; "" for none.
    """
    chunk = ranked.chunk
    return RetrievalChunk.model_construct(
        chunk_id=ranked.chunk_id,
        doc_id=chunk.document_id,
        namespace=ranked.source_id,
        content=chunk.content,
        score=ranked.recalled,
        rank=ranked.rank,
        citation_label=label,
        canonical_url=ranked.url,
        source_org=_text(chunk, "source_org") or source_title or None,
        year=_year(chunk),
        content_type=_text(chunk, "content_type") or chunk.doc_type,
        license=_text(chunk, "license"),
        tags=_tags(own_field(chunk, "tags")),
        rerank_score=ranked.rerank_score,
        final_score=ranked.final,
        title=chunk.title,
        section=chunk.section,
        authority_tier=ranked.authority_tier,
        source_type=str(ranked.source_type),
        confidence=str(ranked.confidence),
        flags=ranked.flags,
        metadata=json_value(chunk.metadata),
        provenance=json_value(ranked.provenance.to_dict()),
    )


def _text(chunk: Chunk, name: str) -> str | None:
    """Return a field of the document as text; None where it has none, or a list or mapping."""
    value = own_field(chunk, name)
    return None if value is None or isinstance(value, list | tuple | Mapping) else str(value)


def _year(chunk: Chunk) -> int | None:
    """Return the document's year, else that of its date or of the day it came into force."""
    own: Any = own_field(chunk, "year")
    digits = f"{own:g}" if isinstance(own, float) else str(own).strip()
    if len(digits) == 4 and digits.isascii() and digits.isdigit():
        return int(digits)
    day = to_date(own_field(chunk, "date")) or chunk.effective_from
    return None if day is None else day.year


def _tags(value: Any) -> tuple[str, ...]:
    """Return tags that are a list, or a text with commas."""
    given = value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple) else ()
    return tuple(tag for one in given if (tag := str(one).strip()))
