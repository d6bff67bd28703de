"""PDF: `.pdf`.

Read: the text page by page, from the top in any order of drawing; lines joined to paragraphs by the space between them;
words hyphenated at the end of a line, column or page put together; interwoven columns one after the other; turned pages
and turned text; Hebrew and Arabic lines with their codes in reading order; raised and lowered digits as in 10⁶ and
CO₂; text recognised under a picture; headings named by bookmarks, set in larger type, numbered and bold, or numbered
throughout the document; each page's number (`pages`). Tables are pipe tables, with rulings around their cells or with
gaps between their columns; one that continues over several pages has its head once, and one without a head is a row a
line. The values of form fields ("Borrower: Harbour Ltd") and annotations ("[Note: …]") follow the text of each page,
except those that the page prints in the same place. Fields: the document properties a person wrote, and the labels in
page headers and footers ("Version: 3.2").

Left out, and reported with their pages: page numbers; repeated lines at the top or bottom of pages, which stay where
they first occur; headings repeated beside a page number; tables of contents; text that nobody sees (invisible, in the
colour of the page, tiny, outside the page), hidden fields and annotations. Also reported: tables read as rows, pages
that are pictures, scans with only a stamp, damaged pages, attachments, and letters without a Unicode mapping. Not read:
pictures, unless the setting `ocr` names a program that recognises their text; targets of links, passwords in fields,
XFA forms beyond their plain fields; scripts are not run. A document of only pictures is an error. Refused: passwords,
over 5,000 pages, streams that unpack to over 256 MB.
"""

from __future__ import annotations

import re
import threading
import zlib
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final

from context_engine.core.models import IngestSettings, Notice, NoticeCode
from context_engine.errors import MissingExtra
from context_engine.ingest.header import header_fields, labelled, real_properties
from context_engine.ingest.loaded_document import NO_TEXT, LoadedDocument, Skipped, file_notice
from context_engine.ingest.loaders.markdown import one_line
from context_engine.ingest.loaders.ocr import RecognisedPage, Recognition, recognise
from context_engine.ingest.loaders.pdf_layout import joined_tables, laid_out, without_margin_tables
from context_engine.ingest.loaders.pdf_left_out import without_contents, without_running_heads
from context_engine.ingest.loaders.pdf_notes import opened_form
from context_engine.ingest.loaders.pdf_page import PdfPage, read_page
from context_engine.ingest.loaders.pdf_rows import with_aligned_rows
from context_engine.ingest.loaders.pdf_text import PdfLine
from context_engine.ingest.loaders.source_file import SourceFile

_LOCK: Final = threading.Lock()  # PDFium is not thread-safe
_MOST_PAGES: Final = 5_000
_MOST_ATTACHED: Final = 200
_MOST_BOOKMARKS: Final = 5_000
_MOST_TEXT: Final = 50_000_000
_MOST_NAMED: Final = 20
_MOST_QUOTED: Final = 200
_PASSWORD: Final = 4  # FPDF_ERR_PASSWORD
_PdfContent = tuple[list[PdfPage], dict[str, Any], dict[int, dict[str, int]], list[str], Recognition]
"""Pages, fields, bookmarks as {page index: {lower-case title: level}}, names of attachments, recognised pages."""
_DATE: Final = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:([+-])(\d\d)'?(\d\d)?)?")
_STREAM: Final = re.compile(rb"stream\r?\n")
_TWICE: Final = re.compile(rb"/(?:Filter|F)\s*\[\s*/(?:FlateDecode|Fl)\s*/(?:FlateDecode|Fl)\b")
_MOST: Final = 256 << 20  # an A4 page in colour at 600 dpi has 104 MB
_RECOGNISE: Final = "set `ocr`, or run a text recognition (OCR) over it first"
_MOST_RATIO: Final = 1032  # deflate's highest: a shorter stream cannot reach the limit
_BLOCK: Final = 1 << 20
_DICTIONARY: Final = 600  # bytes before a stream in which its filter is named
_MOST_TIMES: Final = 2  # the file's size is unpacked at most; nested streams would take its square


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
            content = _read(document, data, file.settings)
        finally:
            document.close()
    yield Skipped(file.name, content) if isinstance(content, str) else _document(content, file.name)


def _read(document: Any, data: bytes, settings: IngestSettings) -> _PdfContent | str:
    """Return the content of an open document, or the reason why it cannot be read."""
    count = len(document)
    if count > _MOST_PAGES:
        return f"has {count:,} pages, at most {_MOST_PAGES:,} are read: split it"
    pages = []
    characters = 0
    with opened_form(document) as form:
        for index in range(count):
            page = read_page(document, index, form)
            pages.append(page)
            characters += sum(len(line.text) for line in page.lines) + sum(map(len, page.notes))
            if characters > _MOST_TEXT:
                return f"has over {_MOST_TEXT:,} characters: split it"
    recognition = Recognition({})
    to_recognise = [index for index, page in enumerate(pages) if page.pictured or page.illegible]
    if to_recognise and settings.ocr != "off":
        recognition = recognise(document, data, to_recognise, settings, _paragraphs_of)
        pages = [_with_text(page, recognition.pages.get(index)) for index, page in enumerate(pages)]
    properties = _properties(document.get_metadata_dict())
    return pages, properties, _bookmarks(document), _attached(document), recognition


def _with_text(page: PdfPage, recognised: RecognisedPage | None) -> PdfPage:
    if recognised is None or not recognised.paragraphs:
        return page
    if page.illegible:
        page = page._replace(lines=(), illegible=False, unmapped=0)
    return page._replace(notes=[*recognised.marked, *page.notes], pictured=False)


def _paragraphs_of(file: Path, indexes: Sequence[int]) -> dict[int, list[str]]:
    """Return the paragraphs of some pages of a PDF by page index."""
    import pypdfium2

    document = pypdfium2.PdfDocument(file)
    try:
        lines = {index: read_page(document, index, None).lines for index in indexes if index < len(document)}
        texts = {index: laid_out([page], [()], {})[0].split("\n\n") for index, page in lines.items() if page}
        return {index: [text.lstrip("# ") for text in paragraphs] for index, paragraphs in texts.items()}
    finally:
        document.close()


def _document(content: _PdfContent, name: str) -> LoadedDocument | Skipped:
    pages, fields, bookmarks, attached, recognition = content
    read = without_margin_tables([page.lines for page in pages])
    edges = without_running_heads(read)
    contents = without_contents(edges.pages)
    tables = [with_aligned_rows(lines, page.rules) for lines, page in zip(contents.pages, pages)]
    lines = joined_tables(tables)
    text, starts = laid_out(lines, [page.notes for page in pages], bookmarks)
    if not text.strip():
        return Skipped(name, _why_empty(pages, recognition))
    labels = header_fields("\n".join(label for line in edges.running for label in labelled(line)))
    header = {**labels, **header_fields(text)}
    if "version" in header:
        fields.pop("version", None)
    unread = (*recognition.notices(), *_unread(pages), *_unread_files(attached))
    notices = (*unread, *edges.notices, *contents.notices(text), *_tables_read(pages, tables, lines))
    return LoadedDocument(path=name, text=text, fields=fields, header=header, pages=starts, notices=notices)


def _why_empty(pages: Sequence[PdfPage], recognition: Recognition) -> str:
    if pages and all(page.broken for page in pages):
        return f"is damaged: none of its {len(pages)} pages can be read"
    hidden = [note for page in pages for note in page.hidden]
    beside = f"; hidden text, fields and notes: {_quoted(hidden)}" if hidden else ""
    if any(page.pictured for page in pages):
        if recognition.problem:
            return f"its pages are pictures without text: {recognition.problem}{beside}"
        if recognition.pages:
            return f"its pages are pictures in which no text was recognised{beside}"
        return f"its pages are pictures without text: {_RECOGNISE}{beside}"
    if any(page.illegible for page in pages):
        return f"its letters have no Unicode mapping: {_RECOGNISE}{beside}"
    if hidden:
        return f"has no text but hidden text, fields and notes: {_quoted(hidden)}"
    return NO_TEXT


def _unread(pages: Sequence[PdfPage]) -> Iterator[Notice]:
    """Yield notices about content of the pages that is not in the text, or may be wrong."""
    numbered = list(enumerate(pages, start=1))
    if broken := [number for number, page in numbered if page.broken]:
        yield file_notice(NoticeCode.PAGES_NOT_READ, f"{_listed(broken)} cannot be read: damaged", pages=broken)
    if empty := [number for number, page in numbered if page.pictured]:
        are, they = ("is a picture", "it") if len(empty) == 1 else ("are pictures", "they")
        stamped = any(page.lines for page in pages if page.pictured)
        without = "with no text but a stamp, such as a page number" if stamped else "without text"
        left = f"{_listed(empty)} {are} {without}, so {they} cannot be read"
        yield file_notice(NoticeCode.PAGES_NOT_READ, left, pages=empty)
    if unmapped := [number for number, page in numbered if page.unmapped]:
        count = sum(page.unmapped for page in pages)
        problem = f"{_listed(unmapped)}: {count:,} letters have no Unicode mapping and may be wrong"
        if illegible := [number for number, page in numbered if page.illegible]:
            problem = f"{problem}; {_listed(illegible)} cannot be read: {_RECOGNISE}"
        yield file_notice(NoticeCode.LETTERS_UNMAPPED, problem, count=count)
    if hidden := [note for page in pages for note in page.hidden]:
        left = f"hidden text, fields and notes left out: {_quoted(hidden)}"
        yield file_notice(NoticeCode.HIDDEN_LEFT_OUT, left, count=len(hidden))


def _unread_files(names: Sequence[str]) -> Iterator[Notice]:
    if names:
        left = f"attachments are not read: {', '.join(names)}"
        yield file_notice(NoticeCode.EMBEDDED_NOT_READ, left, names=list(names))


def _attached(document: Any) -> list[str]:
    """Return the names of the files embedded in a document."""
    count = min(document.count_attachments(), _MOST_ATTACHED)
    return [one_line(document.get_attachment(number).get_name()) or f"file {number + 1}" for number in range(count)]


def _tables_read(
    pages: Sequence[PdfPage], read: Sequence[Sequence[PdfLine]], joined: Sequence[Sequence[PdfLine]]
) -> Iterator[Notice]:
    """Report the tables read as rows with the time taken, and the pages where none were looked for.

    Args:
        joined: the same, with a table that continues on the next page as one.
    """
    if count := sum(line.table is not None for lines in joined for line in lines):
        on_pages = [number for number, lines in enumerate(read, start=1) if any(line.table for line in lines)]
        sought = [page.table_s for page in pages if page.table_s]
        tables = "1 table" if count == 1 else f"{count:,} tables"
        took = f"; {sum(sought) / len(sought):.2f} s a page" if sought else ""
        message = f"{tables} read as rows, on {_listed(on_pages)}{took}"
        yield file_notice(NoticeCode.TABLES_READ, message, count=count, pages=on_pages)
    for why in dict.fromkeys(page.unsought for page in pages if page.unsought):
        left = [number for number, page in enumerate(pages, start=1) if page.unsought == why]
        problem = f"{_listed(left)}: tables, if any, are read as text: {why}"
        yield file_notice(NoticeCode.TABLES_AS_TEXT, problem, pages=left)


def _listed(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"page {numbers[0]}"
    shown = ", ".join(map(str, numbers[:_MOST_NAMED])) + (" …" if len(numbers) > _MOST_NAMED else "")
    return f"pages {shown} ({len(numbers)})"


def _quoted(notes: Sequence[str]) -> str:
    shown = "; ".join(note[:_MOST_QUOTED] for note in notes[:_MOST_NAMED])
    return shown + (f"; and {len(notes) - _MOST_NAMED} more" if len(notes) > _MOST_NAMED else "")


def _properties(properties: dict[str, str]) -> dict[str, Any]:
    dates = {"created": _moment(properties.get("CreationDate")), "modified": _moment(properties.get("ModDate"))}
    return real_properties({"title": properties.get("Title"), "author": properties.get("Author"), **dates})


def _moment(text: str | None) -> datetime | None:
    """Parse a date as PDF writes it, "D:20260131120000+08'00'"."""
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
    """Return {page index: {lower-case title: level from 0}}."""
    out: dict[int, dict[str, int]] = {}
    for number, mark in enumerate(document.get_toc(max_depth=6)):
        target = mark.get_dest()
        index = target.get_index() if target else None
        if index is not None:
            out.setdefault(index, {})[" ".join(mark.get_title().split()).lower()] = mark.level
        if number >= _MOST_BOOKMARKS:
            break
    return out


def is_bomb(data: bytes) -> bool:
    """Whether a stream of a PDF is packed twice, or unpacks to over 256 MB, which is counted block by block.

    A file of streams nested in one another is a bomb too: its time would grow with the square of its size.
    """
    if _TWICE.search(data):
        return True
    left = len(data) * _MOST_TIMES + _BLOCK
    end = 0
    for match in _STREAM.finditer(data):
        if data.startswith(b"end", max(0, match.start() - 3)):
            continue
        if end < match.end():
            marker = data.find(b"endstream", match.end())
            end = marker if marker >= 0 else len(data)
        head = data[max(0, match.start() - _DICTIONARY) : match.start()]
        if b"/Fl" in head and (end - match.end()) * _MOST_RATIO > _MOST:
            over, used = _unpacks_over(memoryview(data)[match.end() : end])
            left -= used
            if over or left < 0:
                return True
    return False


def _unpacks_over(packed: memoryview) -> tuple[bool, int]:
    """Return whether a stream unpacks to more than the limit, and how many of its bytes were examined."""
    inflate = zlib.decompressobj()
    total = start = 0
    try:
        for start in range(0, len(packed), _BLOCK):
            rest: bytes | memoryview = packed[start : start + _BLOCK]
            while rest and not inflate.eof:  # after the end of the stream the tail never shrinks
                total += len(inflate.decompress(rest, _BLOCK))
                if total > _MOST:
                    return True, start + _BLOCK
                rest = inflate.unconsumed_tail
            if inflate.eof:
                break
    except zlib.error:
        pass
    return False, min(start + _BLOCK, len(packed))
