"""The first line of a chunk in a store without fields of its own, such as a segment in Dify.

    › New Product Approval › 4 Criteria › 4.1 New Product · NPA-SOP-001 · version 3.2 · page 12 · in force to 2026-12-31

    The desk head classifies the product ...

People and models read the line as a citation, an embedder learns the place of the text, and a search removes the line
and restores the fields. `…` stands for omitted parts: the title at the beginning, or the headings that the text itself
begins with at the end. Separators inside the parts are escaped by a backslash, except `·` in titles and headings
("NPA-SOP-001 · Approval"): the document's id, or `…` in its place, is the last part without a name and ends the
headings.

A line of the document that looks like ours gets a backslash, and one more if it already has some, so that text of a
document never counts as a chunk line. Every text is therefore written by `with_line` or `escaped`, and a question by
`escaped`; a line is accepted only if `with_line` would write exactly the same characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final

from context_engine.core.chunking.labels import label_of
from context_engine.core.models import Chunk

LINE_FORM: Final = "2"
"""Raised whenever the format of the line changes. One of form 1 is read as it was meant or is text; where it names
neither title nor heading, headings that its text begins with count as its own."""

_LEAD: Final = "› "
_STEP: Final = " › "
_ASIDE: Final = " · "
_UNSAID: Final = "…"
_GAP: Final = "\n\n"
_VERSION: Final = "version "
_SECTION: Final = "section "
_NO_SECTION: Final = "no section"
_NO_HEADING: Final = "no heading"
_PAGE: Final = "page "
_REFERENCE: Final = "cited as "
_FORCE: Final = re.compile(r"in force(?: from (\S+))?(?: to (\S+))?")
_KEYWORD: Final = re.compile(rf"{_VERSION}|{_SECTION}|{_NO_SECTION}$|{_NO_HEADING}$|{_PAGE}|{_REFERENCE}|in force")
_DAY: Final = timedelta(days=1)
_SIGNS: Final = re.compile(r"[\\›·]")
_STEP_SIGNS: Final = re.compile(r"[\\›]")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_BLANKS: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_UNSEEN: Final = r"[\x00-\x09\x0b-\x20\x7f-\xa0\u1680\u2000-\u200f\u2028\u2029\u202f\u205f\u2060\u3000\ufeff]*"
_LIKE_OURS: Final = re.compile(rf"(?m)^({_UNSEEN})(\\*›)")  # a store may drop invisible characters before it
_MADE_UNLIKE: Final = re.compile(rf"(?m)^({_UNSEEN})\\(\\*›)")
_HEADING: Final = re.compile(r"#{2,6} +(\S.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkLine:
    """The contents of a chunk's first line; None and () for omitted parts. Falsy if empty.

    White space and control characters in a text become single spaces.

    Attributes:
        document_id, title, version: of the document.
        path: headings from the top of the document down to the text, including headings that the text begins with.
        section: the section's number.
        page: the page that the text begins on, 1-based.
        reference: its citation, such as "637(4)".
        effective_from, effective_to: first day in force, first day no longer in force; the line names the last one.
    """

    document_id: str | None = None
    title: str | None = None
    version: str | None = None
    path: tuple[str, ...] = ()
    section: str | None = None
    page: int | None = None
    reference: str | None = None
    effective_from: date | None = None
    effective_to: date | None = None

    def __post_init__(self) -> None:
        for name in ("document_id", "title", "version", "section", "reference"):
            object.__setattr__(self, name, _plain(getattr(self, name)) or None)
        object.__setattr__(self, "path", tuple(filter(None, map(_plain, self.path))))
        object.__setattr__(self, "effective_to", self.effective_to and max(self.effective_to, date.min + _DAY))

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)


def line_of(chunk: Chunk, *, document: bool = True, place: bool = True) -> ChunkLine:
    """Return the line of a chunk.

    Args:
        document: whether the line names the document: id, title, version, dates.
        place: whether the line names the place in the document: headings, section, page, reference.
    """
    of_document: dict[str, Any] = {
        "document_id": chunk.document_id,
        "title": chunk.title,
        "version": chunk.document_version,
        "effective_from": chunk.effective_from,
        "effective_to": chunk.effective_to,
    }
    of_place: dict[str, Any] = {
        "path": chunk.heading_path,
        "section": chunk.section,
        "page": chunk.page,
        "reference": chunk.metadata.get("reference"),
    }
    return ChunkLine(**(of_document if document else {}), **(of_place if place else {}))


def with_line(line: ChunkLine, content: str) -> str:
    """Return a text below its line, with its own lines of that form escaped; without a line if that is empty.

    >>> desks = ChunkLine(title="Rules", version="3.2", path=("4 Limits", "4.2 Desks"), section="4.2", page=7)
    >>> with_line(desks, "(a) No.")
    '› Rules › 4 Limits › 4.2 Desks · version 3.2 · page 7\\n\\n(a) No.'
    >>> with_line(desks, "### 4.2 Desks\\n\\n(a) No.").partition("\\n")[0]
    '› Rules › 4 Limits › … · version 3.2 · page 7'
    """
    text = escaped(content)
    return f"{_written(line, content)}{_GAP}{text}" if line else text


def read_line(text: str) -> tuple[ChunkLine | None, str]:
    """Return the line, None for a text without one, and the text as it was: the inverse of `with_line`.

    >>> read_line("› Rules › 4 Limits · page 7\\n\\n(a) No.")
    (ChunkLine(document_id=None, title='Rules', version=None, path=('4 Limits',), section='4', page=7, \
reference=None, effective_from=None, effective_to=None), '(a) No.')
    """
    first, gap, rest = text.partition(_GAP)
    if gap and first.startswith(_LEAD) and "\n" not in first:
        content = restored(rest)
        line = _parsed(first, content)
        if line and with_line(line, content) == text:
            return line, content
    return None, restored(text)


def escaped(content: str) -> str:
    r"""Return a text in which no line begins like a chunk's first line.

    >>> escaped("Path:\n› Rules › 4"), escaped("\\› Rules")
    ('Path:\n\\› Rules › 4', '\\\\› Rules')
    """
    return _LIKE_OURS.sub(r"\1\\\2", content) if "›" in content else content


def restored(content: str) -> str:
    """Return the original of an escaped text: the inverse of `escaped`."""
    return _MADE_UNLIKE.sub(r"\1\2", content) if "›" in content else content


def _written(line: ChunkLine, content: str) -> str:
    return _LEAD + _ASIDE.join([*_stands(line, _headings(content)), *_asides(line)])


def _stands(line: ChunkLine, shown: tuple[str, ...]) -> Iterator[str]:
    """Yield the parts of the line: headings, then document. `shown` are the headings at the beginning of the text."""
    path = [_value(heading, _STEP_SIGNS) for heading in line.path]
    if shown and line.path[-len(shown) :] == shown:
        path = [*path[: -len(shown)], _UNSAID]
    steps = [_value(line.title, _STEP_SIGNS) if line.title else _UNSAID, *path]
    written = _UNSAID if steps == [_UNSAID, _UNSAID] else _STEP.join(steps)
    yield f"{written[:-1]}\\·" if written.endswith(" ·") else written
    if line.document_id:
        value = _value(line.document_id)
        yield f"\\{value}" if _KEYWORD.match(value) else value
    elif _ASIDE in written:
        yield _UNSAID
    if shown and not line.title and not line.path:
        yield _NO_HEADING


def _asides(line: ChunkLine) -> Iterator[str]:
    if line.version:
        yield f"{_VERSION}{_value(line.version)}"
    if line.section != _number(line.path):
        yield f"{_SECTION}{_value(line.section)}" if line.section else _NO_SECTION
    if line.page:
        yield f"{_PAGE}{line.page}"
    if line.reference:
        yield f"{_REFERENCE}{_value(line.reference)}"
    if line.effective_from or line.effective_to:
        first = f" from {line.effective_from.isoformat()}" if line.effective_from else ""
        last = f" to {(line.effective_to - _DAY).isoformat()}" if line.effective_to else ""
        yield f"in force{first}{last}"


def _parsed(first: str, content: str) -> ChunkLine | None:
    """Return the contents of a line; None if a part is unknown. The caller checks that `with_line` writes the same
    line.
    """
    place, asides = _parted(first)
    title, *path = place.split(_STEP)
    if title == _UNSAID and not path and _NO_HEADING not in asides:
        path = [_UNSAID]
    goes_on = path[-1:] == [_UNSAID]
    headings = tuple(map(_read, path[:-1] if goes_on else path)) + (_headings(content) if goes_on else ())
    fields: dict[str, Any] = {"section": _number(headings)}
    try:
        for aside in asides:
            fields |= _aside(aside)
    except (ValueError, OverflowError):
        return None
    return ChunkLine(title=None if title == _UNSAID else _read(title), path=headings, **fields)


def _parted(first: str) -> tuple[str, list[str]]:
    """Return title and headings of a line, and its other parts; all before the id belongs to the first."""
    parts = first[len(_LEAD) :].split(_ASIDE)
    unnamed = [place for place, part in enumerate(parts) if place and not _KEYWORD.match(part)]
    end = unnamed[-1] if unnamed else 1
    return _ASIDE.join(parts[:end]), parts[end:]


def _aside(aside: str) -> dict[str, Any]:
    """Return the fields in a part of the line behind its headings.

    Raises:
        ValueError, OverflowError: an invalid page or day.
    """
    for keyword, name in ((_VERSION, "version"), (_SECTION, "section"), (_REFERENCE, "reference")):
        if aside.startswith(keyword):
            return {name: _read(aside[len(keyword) :])}
    if aside == _NO_SECTION:
        return {"section": None}
    if aside in (_NO_HEADING, _UNSAID):
        return {}
    if aside.startswith(_PAGE):
        return {"page": int(aside[len(_PAGE) :])}
    if force := _FORCE.fullmatch(aside):
        first, last = force.groups()
        return {
            "effective_from": date.fromisoformat(first) if first else None,
            "effective_to": date.fromisoformat(last) + _DAY if last else None,
        }
    return {"document_id": _read(aside)}


def _headings(content: str) -> tuple[str, ...]:
    """Return the headings at the beginning of a text, without the document's title."""
    headings: list[str] = []
    start = 0
    while start < len(content):
        end = content.find("\n", start)
        end = len(content) if end < 0 else end
        line = content[start:end].rstrip()
        if heading := _HEADING.fullmatch(line):
            headings.append(_plain(heading[1]))
        elif line and not line.startswith("# "):
            break
        start = end + 1
    return tuple(headings)


def _number(path: tuple[str, ...]) -> str | None:
    """Return the section's number, which its heading begins with."""
    label = label_of(path[-1]) if path else None
    return label.text if label and label.kind != "letter" else None


def _plain(text: Any) -> str:
    return "" if text is None else _BLANKS.sub(" ", str(text)).strip()


def _value(text: str, signs: re.Pattern[str] = _SIGNS) -> str:
    """Return a value with the line's separators escaped."""
    return f"\\{_UNSAID}" if text == _UNSAID else signs.sub(r"\\\g<0>", text)


def _read(value: str) -> str:
    return _ESCAPED.sub(r"\1", value)
