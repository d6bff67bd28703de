"""The headings above a chunk, which Dify has no place for: written as a first line where the text does not show them.

    › New Product Approval Procedure › 4 Classification criteria

    ### 4.1 New Product
    ...

Who reads the chunk in Dify, a person, a model or an embedder, sees where it stands; a search takes the line off again
and has the headings by which a text is ranked and cited. What the text itself begins with is not said twice.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from context_engine.core.models import Chunk

__all__ = ["PlacedText", "parse_breadcrumb", "with_breadcrumb"]

_LEAD: Final = "› "
_STEP: Final = " › "
_ASIDE: Final = " · "
_SECTION: Final = "§"
_HEADING: Final = re.compile(r"#{1,6} +(.*\S)\s*")
_NUMBER: Final = re.compile(r"[A-Z]?\d[\w.()-]*")


class PlacedText(NamedTuple):
    """A chunk's text and where it stands.

    Attributes:
        reference: by what it is cited, such as "637(4)".
    """

    content: str
    path: tuple[str, ...]
    section: str | None
    reference: str | None


def with_breadcrumb(chunk: Chunk) -> str:
    """Return a chunk's text for Dify.

    >>> with_breadcrumb(Chunk(content="(a) No.", title="Rules", section="4.2", heading_path=("4 Limits", "4.2 Desks")))
    '› Rules › 4 Limits › 4.2 Desks\\n\\n(a) No.'
    """
    path, reference = tuple(chunk.heading_path), chunk.metadata.get("reference")
    leading = _leading(chunk.content)
    above = path[: len(path) - len(leading)] if leading == path[len(path) - len(leading) :] else path
    asides = [str(reference)] if reference else []
    if chunk.section != _number(above + leading):
        asides.append(f"{_SECTION}{chunk.section or ''}")
    if not above and not asides and not chunk.content.startswith(_LEAD):
        return chunk.content
    steps = [_plain(one) for one in (chunk.title or "", *above)]
    return f"{_LEAD}{_STEP.join(steps)}{''.join(_ASIDE + _plain(one) for one in asides)}\n\n{chunk.content}"


def parse_breadcrumb(text: str) -> PlacedText:
    """Return the chunk that `with_breadcrumb` made a text of.

    >>> parse_breadcrumb("› Rules › 4 Limits · 12(4)\\n\\n### 4.1 Desks\\n\\nNone.")[1:]
    (('4 Limits', '4.1 Desks'), '4.1', '12(4)')
    """
    line, gap, content = text.partition("\n\n")
    if not text.startswith(_LEAD) or not gap or "\n" in line:
        path = _leading(text)
        return PlacedText(text, path, _number(path), None)
    steps, *asides = line[len(_LEAD) :].split(_ASIDE)
    above = tuple(one for one in steps.split(_STEP)[1:] if one)
    path = above + _leading(content)
    sections = [one[len(_SECTION) :] for one in asides if one.startswith(_SECTION)]
    references = [one for one in asides if not one.startswith(_SECTION)]
    section = (sections[0] or None) if sections else _number(path)
    return PlacedText(content, path, section, references[0] if references else None)


def _leading(content: str) -> tuple[str, ...]:
    """Return the headings that a text begins with, a document's title excepted."""
    found: list[str] = []
    for line in content.split("\n"):
        heading = _HEADING.fullmatch(line)
        if heading is not None and not line.startswith("# "):
            found.append(heading[1])
        elif line.strip():
            break
    return tuple(found)


def _number(path: tuple[str, ...]) -> str | None:
    """Return the section's number, which its heading begins with."""
    first = path[-1].split(maxsplit=1)[0].rstrip(".") if path and path[-1].strip() else ""
    return first if _NUMBER.fullmatch(first) else None


def _plain(text: str) -> str:
    """Return a heading on one line, without the signs that part them."""
    return " ".join(text.split()).replace("›", ">").replace("·", "-")
