"""The tool `read_document`: a file as one Markdown text with its metadata.

Dify fetches every picture in a chunk. It treats any `![` and a later `](…)` on the same line as a picture, including a
link after an exclamation mark, and code. So pictures are replaced by their alternative text first, and remaining marks
of this kind are separated by a blank."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import unescape
from typing import Any, Final, NamedTuple

from context_engine.apps.dify.answer import ToolOutput, lines
from context_engine.apps.dify.dify_json import fitted, plain
from context_engine.apps.dify.file_documents import (
    DifyFile,
    FileDocuments,
    FileNotRead,
    file_documents,
    refuse_long,
    text_size,
)
from context_engine.apps.dify.plugin_settings import FileReading
from context_engine.core.chunking.outline import headings
from context_engine.core.models import NoticeCode
from context_engine.errors import InvalidRequest
from context_engine.ingest.document_structure import readable_name
from context_engine.ingest.documents import PreparedDocument

_PICTURE: Final = re.compile(
    r"!\[((?:[^\[\]\\\n]|\n(?!\s*\n)|\\.|\[[^\[\]\n]*+\])*+)\]"  # its words
    r"(?:\(\s*+(?:<[^<>\n]*+>|(?:[^()\s<]|\([^()\s]*+\))*+)(?:\s++(?:\"[^\"\n]*+\"|'[^'\n]*+'))?\s*+\)|\[[^\[\]\n]*+\])"
    r"|<img\b((?:[^<>\"']|\"[^\"]*+\"|'[^']*+')*+)>"
    r"|<img\b([^<>]*+)>",
    re.IGNORECASE,
)

_ALT: Final = re.compile(r"\balt\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))", re.IGNORECASE)
_MARK: Final = "!["
_PARTED: Final = "! ["
_MOST_ROUNDS: Final = 5


class Paged(NamedTuple):
    """A text, and (offset, number) of each of its pages, ascending."""

    text: str
    pages: tuple[tuple[int, int], ...] = ()


class _Change(NamedTuple):
    """A span of a text, and its replacement."""

    start: int
    end: int
    words: str


def without_pictures(text: str, pages: Sequence[tuple[int, int]] = ()) -> Paged:
    """Return a text in which Dify finds no picture, with the new page offsets.

    Args:
        pages: (offset where a page begins, its number), ascending.

    >>> without_pictures('Limits ![Chart of limits](https://bank.example/c.png) apply', [(0, 1), (54, 2)])
    Paged(text='Limits Chart of limits apply', pages=((0, 1), (23, 2)))
    """
    paged = Paged(text, tuple(pages))
    for _ in range(_MOST_ROUNDS):  # pictures may be nested in the alternative text of others
        changes = [
            _Change(picture.start(), picture.end(), _words(picture)) for picture in _PICTURE.finditer(paged.text)
        ]
        if not changes:
            break
        paged = _changed(paged, changes)
    return _changed(paged, _marks(paged.text))


def _words(picture: re.Match[str]) -> str:
    if picture[1] is not None:
        return " ".join(picture[1].split())
    alt = _ALT.search(picture[2] if picture[2] is not None else picture[3])
    return " ".join(unescape(next((group for group in alt.groups() if group), "")).split()) if alt else ""


def _marks(text: str) -> list[_Change]:
    """Return changes that break up the remaining marks that Dify would treat as a picture."""
    changes: list[_Change] = []
    start = text.find(_MARK)
    while start >= 0:
        stop = text.find("\n", start)
        stop = len(text) if stop < 0 else stop
        last = text.rfind("](", start, text.rfind(")", start, stop) if ")" in text[start:stop] else start)
        while 0 <= start < last:
            changes.append(_Change(start, start + len(_MARK), _PARTED))
            start = text.find(_MARK, start + 1, stop)
        start = text.find(_MARK, stop)
    return changes


def _changed(paged: Paged, changes: Sequence[_Change]) -> Paged:
    if not changes:
        return paged
    parts: list[str] = []
    ends: list[int] = []
    shifts: list[int] = [0]
    done = 0
    for change in changes:
        parts += (paged.text[done : change.start], change.words)
        done = change.end
        ends.append(change.end)
        shifts.append(shifts[-1] + len(change.words) - (change.end - change.start))
    text = "".join((*parts, paged.text[done:]))
    return Paged(text, tuple((_moved(offset, changes, ends, shifts), page) for offset, page in paged.pages))


def _moved(offset: int, changes: Sequence[_Change], ends: Sequence[int], shifts: Sequence[int]) -> int:
    """Return the new position of an offset; one inside a changed span moves to the end of its replacement."""
    before = bisect_right(ends, offset)
    inside = before < len(changes) and changes[before].start < offset
    return changes[before].end + shifts[before + 1] if inside else offset + shifts[before]


_GAP: Final = "\n\n"


def read_document(fields: Mapping[str, Any], reading: FileReading | None = None) -> ToolOutput:
    """Return a file's text, title, metadata and pages.

    Args:
        fields: of the form: `file`.
        reading: how files are fetched and read; None for the defaults.

    Raises:
        InvalidRequest: not one file.
        FileNotFetched: the download failed.
        FileNotRead: no text, or more than Dify's plugin runtime can transmit.
        Overloaded: too many files are being read.
    """
    file = DifyFile.read(fields)
    if file is None:
        raise InvalidRequest("file is empty: choose the file to read")
    reading = reading or FileReading()
    cut_file = _uncut(file_documents(file, options=reading.options, authorities=reading.authorities))
    documents = [cut.document for cut in cut_file.documents]
    text, pages = whole_text(documents)
    refuse_long(cut_file.name, text_size(text))
    if not text.strip():
        raise FileNotRead(
            f"{cut_file.name}: has no text beside its pictures: run a text recognition (OCR) over it first"
        )
    title = _title(documents)
    metadata = fitted("metadata", plain(_metadata(cut_file)))
    messages = [*cut_file.warnings, *([metadata.cut] if metadata.cut else [])]
    warnings = fitted("warnings", plain(messages)).value or []
    answer = {
        "title": plain(title),
        "metadata": metadata.value or {},
        "pages": [{"offset": offset, "page": page} for offset, page in pages],
        "warnings": warnings,
    }
    return ToolOutput(text=text, json=answer, variables={**answer, "warnings_text": lines("warnings_text", warnings)})


def _uncut(cut_file: FileDocuments) -> FileDocuments:
    """Return the documents without notices about omitted passages, because the text is returned whole."""

    def without_omissions(document: PreparedDocument) -> PreparedDocument:
        notices = tuple(notice for notice in document.notices if notice.code is not NoticeCode.CONTENTS_LEFT_OUT)
        return replace(document, notices=notices)

    return replace(
        cut_file, documents=tuple(cut._replace(document=without_omissions(cut.document)) for cut in cut_file.documents)
    )


def whole_text(documents: Sequence[PreparedDocument]) -> Paged:
    """Return the documents of a file as one text without pictures, with page offsets.

    A single document is returned unchanged. Of several, each begins with a heading: the first line of a record, or the
    title of another document unless its text begins with a heading.
    """
    parts: list[str] = []
    pages: list[tuple[int, int]] = []
    size = 0
    for document in documents:
        part, starts = _with_heading(document) if len(documents) > 1 or document.loaded.record else _own(document)
        parts.append(part)
        pages += [(size + offset, page) for offset, page in starts]
        size += len(part) + len(_GAP)
    return Paged(_GAP.join(parts), tuple(pages))


def _own(document: PreparedDocument) -> Paged:
    return without_pictures(document.loaded.text, document.loaded.pages)


def _with_heading(document: PreparedDocument) -> Paged:
    text, pages = _own(document)
    if document.loaded.record:
        title, _, fields = text.partition("\n")
        return Paged(f"## {title}{_GAP}{fields}".rstrip())
    first = next(iter(headings(text)), None)
    if first is not None and not text[: first.start].strip():
        return Paged(text, pages)
    title, _ = without_pictures(document.base.title or document.loaded.place)
    before = f"# {title}{_GAP}"
    return Paged(before + text, tuple((len(before) + offset, page) for offset, page in pages))


def _title(documents: Sequence[PreparedDocument]) -> str:
    """Return the document's title; of several documents the file's name as words."""
    first = documents[0]
    several = len(documents) > 1 or first.loaded.record
    named = readable_name(replace(first.loaded, part="")) if several else first.base.title
    return without_pictures(named or first.loaded.file_stem).text


def _metadata(cut_file: FileDocuments) -> dict[str, Any]:
    """Return the file's metadata; of several documents, the values that their chunks share."""
    first = cut_file.documents[0].document
    base, structure = first.base, first.structure
    known: dict[str, Any] = {
        "file_name": cut_file.name,
        "document_id": base.document_id,
        "version": base.document_version,
        "doc_type": base.doc_type,
        "structure": structure.kind if structure else "declared",
    }
    if len(cut_file.documents) > 1 or first.loaded.record:
        kept = {name: known[name] for name in ("file_name", "doc_type", "structure")}
        return {**kept, "documents": len(cut_file.documents)}
    known |= {
        "effective_from": base.effective_from and base.effective_from.isoformat(),
        "effective_to": base.effective_to and base.effective_to.isoformat(),
        "superseded_by": base.superseded_by,
        "classification": base.classification and str(base.classification),
    }
    own = {name: value for name, value in base.metadata.items() if name != "source_file"}
    return {**own, **{name: value for name, value in known.items() if value is not None}}
