"""Names of documents, chunks and places for people."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from context_engine.apps.web.inert import clean
from context_engine.core.models import Chunk, Key, Member, RankedChunk, SearchResult
from context_engine.core.ranking.candidates import pool

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def chunk_name(chunk: Chunk | Member, chunk_id: str) -> str:
    """Return a chunk's name for people: document, version and section, e.g. "NPA-SOP-001 v3.2 §4".

    If the document's id is a UUID, its title is used, and without a section the position in the document, e.g.
    "Notice 12 #3".
    """
    document = " ".join(((chunk.title if _named_by_title(chunk) else chunk.document_id) or "").split())
    if not document:
        return clean(chunk_id)
    version = f" v{chunk.document_version.removeprefix('v')}" if chunk.document_version else ""
    section = f" §{chunk.section.removeprefix('§')}" if chunk.section else ""
    if not section and _named_by_title(chunk) and isinstance(chunk, Chunk) and chunk.position is not None:
        section = f" #{chunk.position + 1}"
    return clean(f"{document}{version}{section}")


def _named_by_title(chunk: Chunk | Member) -> bool:
    return bool(chunk.title) and (not chunk.document_id or _UUID.fullmatch(chunk.document_id) is not None)


def document_name(chunk: Chunk, chunk_id: str) -> tuple[str, str]:
    """Return the heading of a passage, and the document's title, or "" if the heading includes it.

    A document whose id is only its file name is named by its title; the file is shown below it.
    """
    stem = (chunk.path or "").rsplit("/", 1)[-1].rsplit(".", 1)[0]
    title = clean(" ".join((chunk.title or "").split()))
    if title and chunk.document_id and chunk.document_id in (stem, chunk.path):
        chunk = chunk._replace(document_id=None, position=None if location(chunk) else chunk.position)
    name = chunk_name(chunk, chunk_id)
    return name, "" if _named_by_title(chunk) or title == chunk.document_id else title


def location(chunk: Chunk) -> str:
    """Return the place of a passage in its file, or "" if unknown.

    >>> location(Chunk(content="x", metadata={"page": 7, "page_end": 9}))
    'pages 7-9'
    """
    sheet, row = chunk.metadata.get("sheet"), chunk.metadata.get("row")
    if chunk.page is not None:
        last = chunk.last_page or chunk.page
        return f"page {chunk.page}" if last <= chunk.page else f"pages {chunk.page}-{last}"
    if isinstance(row, int):
        return clean(f"sheet {sheet}, row {row}" if sheet else f"row {row}")
    return f"line {chunk.line}" if chunk.line is not None else ""


def heading(chunk: Chunk) -> str:
    """Return the innermost heading of a chunk, else its document's title unless that is already its name, else ""."""
    words = chunk.heading_path[-1] if chunk.heading_path else "" if _named_by_title(chunk) else chunk.title or ""
    bare = words.lstrip("#").strip()
    if chunk.section and bare.startswith(chunk.section):
        bare = bare[len(chunk.section) :].lstrip(". )")
    return clean(" ".join(bare.split()))


def also_in(chunk: RankedChunk) -> str:
    """Return the names of other chunks with the same text, or "" if there are none."""
    names = dict.fromkeys(chunk_name(member, member.chunk_id) for member in chunk.also_in)
    return f"also in {', '.join(names)}" if names else ""


def candidate_names(result: SearchResult) -> Mapping[Key, str]:
    """Return the `chunk_name` of each stage-1 candidate, by key."""
    specs = {spec.id: spec for spec in result.specs}
    candidates, _ = pool((specs[answer.source_id], answer) for answer in result.raw)
    return {candidate.key: chunk_name(candidate.chunk, candidate.key[1]) for candidate in candidates}
