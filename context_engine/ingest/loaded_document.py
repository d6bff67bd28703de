"""Results of loaders: a document of a file, or the reason why it could not be read, and notices."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from context_engine.core.models import Notice, NoticeCode, messages

TEMPLATES: Final = frozenset(("erb", "tmpl"))
"""Suffixes of templates, in which a program fills in values; the suffix before is the format: `limits.md.erb`."""
_FILLED_IN: Final = frozenset(("md", "markdown", "htm", "html", "txt"))
NO_TEXT: Final = "has no text: if it holds pictures of pages, run a text recognition (OCR) over it first"
_WORD: Final = re.compile(r"\w+")
_MOST: Final = 10_000


class Skipped(NamedTuple):
    """A file or line that gave no document.

    Attributes:
        path: relative to the ingested folder, as `shown_name` writes it.
        line: 1-based line of the file; None for the whole file.
        error: whether this is an error; False for a file that holds no text, matches no rule, or is of an unknown
            kind.
    """

    path: str
    reason: str
    line: int | None = None
    error: bool = True

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}" if self.line else f"{self.path}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedDocument:
    """A document of a file.

    Attributes:
        path: relative to the ingested folder, with "/", as `shown_name` writes it.
        text: the text that is cut; for a record, its fields as text.
        offset: characters of the file before `text` (front matter), so that spans are offsets in the file.
        fields: front matter, or the record; the values are JSON values, dates and datetimes.
        header: fields from labelled lines at the top of the text ("Version: 3.2"); `fields` override them.
        properties: whether `fields` are file properties and headings are reliable (not in a PDF, where they are
            guessed from the type); a heading is then preferred as the title.
        record: whether the document is an entity record.
        line: 1-based line or row of the record in its file; its number in a JSON array.
        part: the sheet of a record, if the file has several.
        pages: (offset in `text` where a page begins, its 1-based number), ascending; empty without pages.
        location: location metadata for its chunks: `sheet` and `row` of a workbook, `line` of a text file (for a text,
            its first line); empty if the format has none.
        notices: omissions and guesses; without a subject they concern the document.
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
    """Return a notice without a subject; the caller that reports it knows the document's place and fills it in."""
    return Notice(code, "", message, detail)


def without_text(name: str, notices: Sequence[Notice], *, pictures: bool) -> Skipped:
    """Return the report on an office document without text.

    Args:
        pictures: whether it holds pictures or other objects that may contain text; if not, it is empty, not an error.
    """
    reasons = (NO_TEXT if pictures else "has no text", *messages(notices))
    return Skipped(name, "; ".join(reasons), error=pictures or bool(notices))


def page_at(pages: Sequence[tuple[int, int]], offset: int) -> int | None:
    """Return the page of a character; None without pages, or before the first page.

    `pages` are (offset where a page begins, its number), ascending.
    >>> page_at(((0, 1), (900, 2)), 899), page_at(((0, 1), (900, 2)), 900), page_at((), 5)
    (1, 2, None)
    """
    index = bisect_right(pages, offset, key=lambda page: page[0])
    return pages[index - 1][1] if index else None


def missing(lines: Sequence[str], text: str) -> list[str]:
    """Return the lines with a word that is not in the text; a page number at the end of a line does not count.

    >>> missing(["1 Scope ... 3", "Waivers 12"], "1 Scope: all desks")
    ['Waivers 12']
    """
    known = {word.casefold() for word in _WORD.findall(text)}
    return [
        line for line in lines if not {word.casefold() for word in _WORD.findall(line.rstrip(" .0123456789"))} <= known
    ]


def quoted(parts: Sequence[str]) -> str:
    """Join texts for a message, cut after 10,000 characters with a count of the rest."""
    text = " / ".join(" ".join(part.split()) for part in parts)
    return text if len(text) <= _MOST else f"{text[:_MOST].rstrip()} … ({len(text) - _MOST:,} characters more)"


def contents_left_out(lines: Sequence[str], text: str, pages: Sequence[int] = ()) -> Notice:
    """Return the notice that a table of contents is left out; lines that are not in the text are quoted."""
    left = f"a table of contents is left out: {len(lines)} lines{_on(pages)}"
    alone = missing(lines, text)
    message = f"{left}; not in the text: {quoted(alone)}" if alone else left
    detail = {"lines": len(lines)} | ({"pages": list(pages)} if pages else {})
    return file_notice(NoticeCode.CONTENTS_LEFT_OUT, message, **detail)


def _on(pages: Sequence[int]) -> str:
    if not pages:
        return ""
    return f" on page {pages[0]}" if len(pages) == 1 else f" on pages {', '.join(map(str, pages))}"
