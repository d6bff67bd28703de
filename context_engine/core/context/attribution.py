"""What a passage is cited as: `[Source: <title>, Section <section>, page <page>]`, never the same for two places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from context_engine.core.context.line import one_line
from context_engine.core.context.merge import JoinedPassage
from context_engine.core.context.passage import Passage, own_field


def title(passage: Passage) -> str:
    """Return the document's title, else its file, id or source, else "unknown"."""
    chunk = passage.chunk
    named = chunk.title or own_field(chunk, "source_file", "file_name", "filename", "file")
    return str(named or chunk.document_id or passage.source_id or "unknown")


def sections(block: JoinedPassage) -> str | None:
    """Return the sections of the parts in order ("3.1 Severity matrix, 3.2 Change of rating"), None for none known."""
    names = dict.fromkeys(name for part in block.parts if (name := _section(part)))
    return ", ".join(names) or None


def page_range(block: JoinedPassage) -> str | None:
    """Return "page 7" or "pages 7-9", None where there are no pages."""
    first = [page for part in block.parts if (page := part.chunk.page)]
    last = [page for part in block.parts if (page := part.chunk.last_page)]
    if not first:
        return None
    return f"page {min(first)}" if min(first) == max(last) else f"pages {min(first)}-{max(last)}"


def attributions(blocks: Sequence[JoinedPassage], nonce: str) -> list[str]:
    """Return what each block is cited as.

    Where two would be cited alike, each says more: its document's file, its place in the document, its source, and if
    all of these are alike its place among them.

    Args:
        blocks: of one text, in its order.
        nonce: of the text's fences.
    """
    said = [_usual(block, nonce) for block in blocks]
    for detail in _DETAILS:
        for alike in _groups(said):
            details = {place: one_line(detail(blocks[place]), nonce) for place in alike}
            if len(set(details.values())) > 1:
                for place in alike:
                    said[place] = ", ".join(filter(None, (said[place], details[place])))
    while groups := _groups(said):
        for alike in groups:
            for number, place in enumerate(alike, start=1):
                said[place] = f"{said[place]}, passage {number}"
    return [f"[Source: {one}]" for one in said]


def _groups(said: Sequence[str]) -> list[list[int]]:
    """Return the places of those that are alike, two or more each."""
    places: dict[str, list[int]] = {}
    for place, one in enumerate(said):
        places.setdefault(one.casefold(), []).append(place)
    return [alike for alike in places.values() if len(alike) > 1]


def _usual(block: JoinedPassage, nonce: str) -> str:
    where = sections(block)
    section = f"Section {one_line(where, nonce)}" if where else None
    return ", ".join(filter(None, (one_line(title(block.best), nonce), section, page_range(block))))


def _document(block: JoinedPassage) -> str:
    chunk = block.best.chunk
    version = f" v{chunk.document_version.removeprefix('v')}" if chunk.document_version else ""
    return f"{chunk.path or chunk.document_id or ''}{version}"


def _part(block: JoinedPassage) -> str:
    """Return the place in the document, counted in passages."""
    places = [part.chunk.position for part in block.parts if part.chunk.position is not None]
    return f"part {min(places) + 1}" if places else ""


def _source(block: JoinedPassage) -> str:
    return block.best.source_id


_DETAILS: Final[tuple[Callable[[JoinedPassage], str], ...]] = (_document, _part, _source)


def _section(passage: Passage) -> str | None:
    """Return number and heading of a passage's section, the number once."""
    number = passage.chunk.section
    heading = passage.chunk.heading_path[-1] if passage.chunk.heading_path else ""
    if not number or heading.startswith(number):
        return heading or None
    return f"{number} {heading}".rstrip()
