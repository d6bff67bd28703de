"""PDF: `.pdf`.

Read: the text page by page, lines joined to paragraphs by the space between them, words cut at a line's end put
together; headings where bookmarks name them, or set in larger type than the text, or numbered and bold; each page's
number (`pages`). Lines that stand at the top or bottom of most pages, and page numbers, are left out; what they say as
labels ("Version: 3.2") is kept as a field. Fields: the document properties a person wrote. Not read: tables as tables
(their cells follow each other in reading order), pictures, forms, notes, attachments, scripts (nothing is run). A page
that is a picture is told; a document of nothing else is an error. Refused: passwords, over 5,000 pages, streams that
unpack to over 256 MB.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from context_engine.errors import MissingExtra
from context_engine.ingest.header import header_fields
from context_engine.ingest.loaded import LoadedDocument, Skipped
from context_engine.ingest.loaders.pdf_guard import is_bomb
from context_engine.ingest.loaders.pdf_layout import laid_out
from context_engine.ingest.loaders.pdf_page import PdfPage, read_page
from context_engine.ingest.loaders.properties import labelled, real_properties
from context_engine.ingest.loaders.source_file import SourceFile

__all__ = ["load_pdf"]

_LOCK: Final = threading.Lock()  # PDFium may not be entered by two threads
_MOST_PAGES: Final = 5_000
_MOST_BOOKMARKS: Final = 5_000
_MOST_TEXT: Final = 50_000_000
_MOST_NAMED: Final = 20
_PASSWORD: Final = 4  # FPDF_ERR_PASSWORD
_DATE: Final = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:([+-])(\d\d)'?(\d\d)?)?")


def load_pdf(file: SourceFile) -> Iterator[LoadedDocument | Skipped]:
    """Yield the document of a PDF."""
    try:
        import pypdfium2
    except ImportError as error:
        raise MissingExtra("reading .pdf files", "documents") from error
    data = file.read()
    if is_bomb(data):
        yield Skipped(file.name, "has a stream that unpacks to over 256 MB, or is packed twice: a bomb")
        return
    with _LOCK:
        try:
            document = pypdfium2.PdfDocument(data)
        except pypdfium2.PdfiumError as error:
            locked = getattr(error, "err_code", None) == _PASSWORD or "password" in str(error).lower()
            why = "has a password: save it without one" if locked else "is damaged or cut off: it cannot be opened"
            yield Skipped(file.name, why)
            return
        try:
            found = _read(document)
        finally:
            document.close()
    yield _document(found, file.name) if isinstance(found, tuple) else Skipped(file.name, found)


def _read(document: Any) -> tuple[list[PdfPage], dict[str, Any], dict[int, dict[str, int]]] | str:
    """Return the pages, the properties and the bookmarks of each page, or why they are not read."""
    count = len(document)
    if count > _MOST_PAGES:
        return f"has {count:,} pages, at most {_MOST_PAGES:,} are read: split it"
    pages = []
    characters = 0
    for index in range(count):
        pages.append(read_page(document, index))
        characters += sum(len(line.text) for line in pages[-1].lines)
        if characters > _MOST_TEXT:
            return f"has over {_MOST_TEXT:,} characters: split it"
    return pages, _properties(document.get_metadata_dict()), _bookmarks(document)


def _document(
    found: tuple[list[PdfPage], dict[str, Any], dict[int, dict[str, int]]], name: str
) -> LoadedDocument | Skipped:
    pages, fields, bookmarks = found
    text, starts, furniture = laid_out(pages, bookmarks)
    empty = [number for number, page in enumerate(pages, start=1) if not page.lines and page.pictured]
    if not text.strip():
        scanned = f"all {len(pages)} pages are pictures without text: run a text recognition (OCR) over it first"
        return Skipped(name, scanned if empty else "has no text")
    labels = header_fields("\n".join(label for line in furniture for label in labelled(line)))
    header = {**labels, **header_fields(text)}
    if "version" in header:
        fields.pop("version", None)
    warnings = (f"{_listed(empty)} without text, so nothing of it is read",) if empty else ()
    return LoadedDocument(path=name, text=text, fields=fields, header=header, pages=starts, warnings=warnings)


def _listed(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:_MOST_NAMED])) + (" …" if len(numbers) > _MOST_NAMED else "")
    return f"page {shown} is a picture" if len(numbers) == 1 else f"pages {shown} ({len(numbers)}) are pictures"


def _properties(given: dict[str, str]) -> dict[str, Any]:
    dates = {"created": _moment(given.get("CreationDate")), "modified": _moment(given.get("ModDate"))}
    return real_properties({"title": given.get("Title"), "author": given.get("Author"), **dates})


def _moment(text: str | None) -> datetime | None:
    """Return a date as PDF writes it, "D:20260131120000+08'00'"."""
    match = _DATE.match(text or "")
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part) if part else None for part in match.groups()[:6])
    offset = timedelta(hours=int(match[8] or 0), minutes=int(match[9] or 0)) * (-1 if match[7] == "-" else 1)
    try:
        zone = timezone(offset)
        return datetime(year or 0, month or 1, day or 1, hour or 0, minute or 0, second or 0, tzinfo=zone)
    except ValueError:
        return None


def _bookmarks(document: Any) -> dict[int, dict[str, int]]:
    """Return {page index: {title in small letters: level from 0}}."""
    out: dict[int, dict[str, int]] = {}
    for number, mark in enumerate(document.get_toc(max_depth=6)):
        target = mark.get_dest()
        index = target.get_index() if target else None
        if index is not None:
            out.setdefault(index, {})[" ".join(mark.get_title().split()).lower()] = mark.level
        if number >= _MOST_BOOKMARKS:
            break
    return out
