"""Where in its file a chunk begins: the page of a PDF, the line of a text, the row of a sheet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from context_engine.core.chunking import Piece
from context_engine.ingest.loaded_document import LoadedDocument, page_at


def chunk_locations(loaded: LoadedDocument, pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    """Return for each piece the metadata that says where in the file it stands; {} where the format does not tell.

    `page` is the page (or slide) that a piece begins on, `page_end` the one it ends on where that is another; `line`
    the line of a text file that it begins on. A piece of a record stands where its record does.

    Args:
        loaded: the document.
        pieces: of its text, in order; all numbers are counted from 1.
    """
    if loaded.record or (loaded.location and "line" not in loaded.location):
        return [dict(loaded.location) for _ in pieces]
    if loaded.location:
        return _with_lines(loaded, pieces)
    return [span_pages(loaded.pages, piece.span) for piece in pieces]


def span_pages(pages: Sequence[tuple[int, int]], span: tuple[int, int]) -> dict[str, int]:
    """Return the pages that a span of a text begins and ends on, as a chunk's metadata says it.

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
