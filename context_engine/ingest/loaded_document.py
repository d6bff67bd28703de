"""What a loader gives: a document as it stands in a file, or why there is none, and notices about it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from context_engine.core.models import Notice, NoticeCode, messages

TEMPLATES: Final = frozenset(("erb", "tmpl"))
"""Suffixes of texts in which a program fills in values; what the text is says the suffix before: `limits.md.erb`."""
_FILLED_IN: Final = frozenset(("md", "markdown", "htm", "html", "txt"))
NO_TEXT: Final = "has no text: if it holds pictures of pages, run a text recognition (OCR) over it first"
_WORD: Final = re.compile(r"\w+")
_MOST: Final = 10_000


class Skipped(NamedTuple):
    """A file or line that gave no document.

    Attributes:
        path: relative to the folder that is ingested, as `shown_name` writes it.
        line: 1-based line of the file, None where the whole file is meant.
        error: False for what was read and holds nothing, and for what nobody asked for (no rule, an unknown kind of
            file), True for what should have worked.
    """

    path: str
    reason: str
    line: int | None = None
    error: bool = True

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}" if self.line else f"{self.path}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedDocument:
    """A document as it stands in a file.

    Attributes:
        path: relative to the folder that is ingested, with "/", as `shown_name` writes it.
        text: what is cut; for a record its fields as text.
        offset: characters of the file that stand before `text` (front matter), so that spans are offsets in the file.
        fields: front matter, or the record; values are JSON values, dates and moments.
        header: what the first lines of the text say about the document ("Version: 3.2"); `fields` goes before it.
        properties: whether `fields` are properties that a program keeps, and headings are told for sure (not in a PDF,
            where they are guessed by their type): then a heading says better what the document is called.
        record: whether the document is an entity record.
        line: 1-based line or row of the record in its file; in a JSON array its number.
        part: the sheet a record stands in, where the file has several.
        pages: (offset in `text` where a page begins, its 1-based number), ascending; empty where there are no pages.
        location: where it stands in the file, as the metadata of its chunks says it: `sheet` and `row` of a workbook,
            `line` of a text file (of a text, the line it begins on); empty where the format does not tell.
        notices: what of the file is not in `text`, or was guessed; without a subject they are about the document.
    """

    path: str
    text: str
    offset: int = 0
    fields: Mapping[str, Any] = field(default_factory=dict)
    header: Mapping[str, str] = field(default_factory=dict)
    properties: bool = False
    record: bool = False
    line: int | None = None
    part: str = ""
    pages: tuple[tuple[int, int], ...] = ()
    location: Mapping[str, Any] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """The sentences of the notices."""
        return messages(self.notices)

    @property
    def stem(self) -> str:
        """The file's name without its suffix; for a record with its sheet and line."""
        return self._placed(self.file_stem)

    @property
    def file_stem(self) -> str:
        """The file's name without its suffix; of a template (`limits.md.erb`) without both."""
        name = self.path.rsplit("/", 1)[-1]
        stem, _, suffix = name.rpartition(".")
        inner = stem.rpartition(".")
        while suffix.lower() in TEMPLATES and inner[0] and inner[2].lower() in _FILLED_IN:
            stem = inner[0]
            inner = stem.rpartition(".")
        return stem or name

    @property
    def place(self) -> str:
        """The file's path; for a record with its sheet and line."""
        return self._placed(self.path)

    def _placed(self, name: str) -> str:
        return ":".join(str(part) for part in (name, self.part, self.line) if part)


def file_notice(code: NoticeCode, message: str, **detail: Any) -> Notice:
    """Return a notice about the document at hand; who reports it knows its place and fills in the subject."""
    return Notice(code, "", message, detail)


def without_text(name: str, notices: Sequence[Notice], *, pictures: bool) -> Skipped:
    """Return what is said of an office document in which no text was found.

    Args:
        name: of the file.
        notices: what of it was not read.
        pictures: whether it holds pictures or other objects, in which text may stand; else it was read and is empty.
    """
    unread = pictures or bool(notices)
    return Skipped(name, "; ".join((NO_TEXT if unread else "has no text", *messages(notices))), error=unread)


def page_at(pages: Sequence[tuple[int, int]], offset: int) -> int | None:
    """Return the page that a character stands on, None where there are no pages or it stands before the first.

    Args:
        pages: (offset where a page begins, its number), ascending.
        offset: of the character.

    >>> page_at(((0, 1), (900, 2)), 899), page_at(((0, 1), (900, 2)), 900), page_at((), 5)
    (1, 2, None)
    """
    index = bisect_right(pages, offset, key=lambda page: page[0])
    return pages[index - 1][1] if index else None


def missing(lines: Sequence[str], text: str) -> list[str]:
    """Return the lines that have a word the text does not have; numbers at their end, a page's, do not count.

    >>> missing(["1 Scope ... 3", "Waivers 12"], "1 Scope: all desks")
    ['Waivers 12']
    """
    known = {word.casefold() for word in _WORD.findall(text)}
    return [
        line for line in lines if not {word.casefold() for word in _WORD.findall(line.rstrip(" .0123456789"))} <= known
    ]


def quoted(parts: Sequence[str]) -> str:
    """Return texts one after the other, and how many characters more there are where they are long."""
    text = " / ".join(" ".join(part.split()) for part in parts)
    return text if len(text) <= _MOST else f"{text[:_MOST].rstrip()} … ({len(text) - _MOST:,} characters more)"


def contents_left_out(lines: Sequence[str], text: str, pages: Sequence[int] = ()) -> Notice:
    """Return that a table of contents is left out; what only it says is quoted.

    Args:
        lines: of the table.
        text: what the document says without it.
        pages: that the table stands on, ascending; none where there are no pages.
    """
    left = f"a table of contents is left out: {len(lines)} lines{_on(pages)}"
    alone = missing(lines, text)
    message = f"{left}; not in the text: {quoted(alone)}" if alone else left
    detail = {"lines": len(lines)} | ({"pages": list(pages)} if pages else {})
    return file_notice(NoticeCode.CONTENTS_LEFT_OUT, message, **detail)


def _on(pages: Sequence[int]) -> str:
    if not pages:
        return ""
    return f" on page {pages[0]}" if len(pages) == 1 else f" on pages {', '.join(map(str, pages))}"
