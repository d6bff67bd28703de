"""One page of a PDF: its lines in reading order, its notes, and what could not be read of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from context_engine.errors import MissingExtra
from context_engine.ingest.loaders.markdown import linked, without_links
from context_engine.ingest.loaders.pdf_cells import with_tables
from context_engine.ingest.loaders.pdf_grids import (
    Ruling,
    TooManyRulings,
    grids_of,
    may_hold_tables,
    rulings_of,
    turned_ruling,
)
from context_engine.ingest.loaders.pdf_hidden import without_hidden
from context_engine.ingest.loaders.pdf_letters import is_illegible
from context_engine.ingest.loaders.pdf_notes import Form, Notes, PageLink, notes_of
from context_engine.ingest.loaders.pdf_open_tables import PlacedLine, may_head_tables, open_grids
from context_engine.ingest.loaders.pdf_order import from_the_top, in_reading_order
from context_engine.ingest.loaders.pdf_row_heads import with_units
from context_engine.ingest.loaders.pdf_text import LineText, PageText, PdfLine

_MOST_STAMP: Final = 60  # characters of a page number, date or reference stamped on a scan
_SCAN: Final = 0.5  # share of the page that its picture covers at least
_MOST_OBJECTS: Final = 200
_LARGER: Final = 1.5  # times the usual type size of a page, which may be that of a listing
_OUTER: Final = 0.2  # of a page's height
_APART: Final = 2.0  # times the type size: farther than one line from the next
_LEVEL: Final = 2.0  # points by which lines of one height differ


class PdfPage(NamedTuple):
    """A page.

    Attributes:
        lines: in reading order.
        notes: labelled values of form fields and texts of annotations.
        hidden: text that nobody sees, and the notes of hidden fields and annotations.
        pictured: whether it has a picture and no text, or is a scan with only a stamp such as a page number.
        illegible: whether its text is none, as most of its letters have no Unicode mapping.
        unmapped: characters without a Unicode mapping.
        broken: the reason why nothing can be read.
        table_s: seconds taken to find tables; 0 without any.
        unsought: the reason why possible tables were not looked for.
        rules: its horizontal rulings, with the page turned so that most of its text is horizontal.
    """

    lines: Sequence[PdfLine] = ()
    notes: Sequence[str] = ()
    hidden: Sequence[str] = ()
    pictured: bool = False
    illegible: bool = False
    unmapped: int = 0
    broken: str = ""
    table_s: float = 0.0
    unsought: str = ""
    rules: Sequence[Ruling] = ()


def read_page(document: Any, index: int, form: Form | None) -> PdfPage:
    """Return a page of an open document; its memory is freed before the next one is read."""
    import pypdfium2

    try:
        page = document[index]
    except pypdfium2.PdfiumError:
        return PdfPage(broken="damaged")
    try:
        text_page = page.get_textpage()
        try:
            reader = PageText(page, text_page)
            texts, unmapped = reader.lines()
            texts, unseen = without_hidden(page, reader, texts)
            tables = _tables(page, reader, texts)
            lines = from_the_top(tables.lines, page.get_rotation() // 90)
            notes = notes_of(page, text_page, reader.text, form)
            lines, struck = _with_struck(_with_links(lines, notes.links), notes.struck)
        finally:
            text_page.close()
        pictured = _pictured(page, drawn=not notes.shown) if not lines else _is_stamped(lines) and _is_scan(page)
        drawn = _drawn(document, index, page, texts, notes) if notes.drawn else []
        return PdfPage(
            _with_heads(in_reading_order(lines), page.get_height()),
            [*(f"[Struck out: {words}]" for words in struck), *notes.shown, *drawn],
            [*unseen, *notes.hidden],
            pictured,
            is_illegible(reader.text, unmapped),
            unmapped,
            table_s=tables.seconds,
            unsought=tables.unsought,
            rules=tables.rules,
        )
    except pypdfium2.PdfiumError:
        return PdfPage(broken="damaged")
    finally:
        page.close()


def _with_heads(lines: Sequence[PdfLine], tall: float) -> Sequence[PdfLine]:
    """Mark the first and last line of a page as a possible header and footer if a gap separates them from the text.

    A page with wide margins has them farther inside than other pages. A much larger line is a title and stays unmarked.
    """
    sizes = Counter({line.size: 0 for line in lines})
    for line in lines:
        sizes[line.size] += len(line.text)
    usual = max(sizes, key=lambda size: sizes[size], default=0.0)
    placed = [line.bottom for line in lines if line.turn == 0 and line.size > 0]
    if not placed:
        return lines
    first, last = max(placed), min(placed)
    below = max((bottom for bottom in placed if bottom < first - _LEVEL), default=first)
    above = min((bottom for bottom in placed if bottom > last + _LEVEL), default=last)

    def is_head(line: PdfLine) -> bool:
        if line.turn or line.table or not 0 < line.size <= _LARGER * usual:
            return False
        apart = _APART * line.size
        head = line.bottom >= first - _LEVEL and first - below > apart and line.bottom > (1 - _OUTER) * tall
        return head or (line.bottom <= last + _LEVEL and above - last > apart and line.top < _OUTER * tall)

    return [line._replace(edge=True) if is_head(line) else line for line in lines]


class _PageLines(NamedTuple):
    """The lines of a page with those of tables joined; `seconds`, `unsought` and `rules` as in `PdfPage`."""

    lines: Sequence[PdfLine]
    seconds: float = 0.0
    unsought: str = ""
    rules: Sequence[Ruling] = ()


def _tables(page: Any, reader: PageText, texts: Sequence[LineText]) -> _PageLines:
    """Join the lines of tables, if enough rulings are drawn for a table."""
    lines = [text.line for text in texts]
    if not texts:
        return _PageLines(lines)
    started = time.perf_counter()
    turn = Counter(line.turn for line in lines).most_common(1)[0][0]
    rulings = [turned_ruling(ruling, turn) for ruling in rulings_of(page)]
    rules = [ruling for ruling in rulings if ruling.level]
    try:
        grids = grids_of(rulings) if may_hold_tables(rulings) else []
    except TooManyRulings:
        return _PageLines(lines, unsought="too many lines are drawn on it")
    except ImportError:
        return _PageLines(lines, unsought=str(MissingExtra("reading tables in .pdf files", "documents")))
    if may_head_tables(rulings):
        placed = [PlacedLine(text.line, reader.words_of(text, turn)) for text in texts if text.line.turn == turn]
        grids += open_grids(rulings, placed, grids)
    if not grids:
        return _PageLines(lines, rules=rules)
    lines = [
        line._replace(table=with_units(line.table)) if line.table else line
        for line in with_tables(reader, texts, grids, turn)
    ]
    return _PageLines(lines, time.perf_counter() - started, rules=rules)


def _with_struck(lines: Sequence[PdfLine], struck: Sequence[str]) -> tuple[list[PdfLine], list[str]]:
    """Mark the struck words of a page where they stand; return the lines, and the words that occur more than once."""
    out, left = list(lines), []
    for words in struck:
        places = [number for number, line in enumerate(out) if words in line.text]
        if len(places) != 1 or out[places[0]].table or out[places[0]].text.count(words) != 1:
            left.append(words)
            continue
        out[places[0]] = _with(out[places[0]], words, f"~~{words}~~")
    return out, left


def _with_links(lines: Sequence[PdfLine], links: Sequence[PageLink]) -> list[PdfLine]:
    """Give the words of links their targets, where one line has them once."""
    out = list(lines)
    for link in links:
        fit = ((number, line.text) for number, line in enumerate(out) if not line.table)
        places = [
            number for number, text in fit if text.count(link.words) == without_links(text).count(link.words) == 1
        ]
        if len(places) > 1:
            places = [number for number in places if out[number].bottom <= link.height <= out[number].top]
        if len(places) == 1:
            out[places[0]] = _with(out[places[0]], link.words, linked(link.words, link.target))
    return out


def _with(line: PdfLine, words: str, written: str) -> PdfLine:
    parts = tuple(part._replace(text=part.text.replace(words, written)) for part in line.parts)
    return line._replace(text=line.text.replace(words, written), parts=parts)


def _drawn(document: Any, index: int, page: Any, texts: Sequence[LineText], notes: Notes) -> list[str]:
    """Return text that annotations draw but do not hold: lines that only appear when the annotations are drawn."""
    from pypdfium2 import raw

    if raw.FPDFPage_Flatten(page.raw, raw.FLAT_NORMALDISPLAY) != raw.FLATTEN_SUCCESS:
        return []
    flat = document[index]
    try:
        text_page = flat.get_textpage()
        try:
            lines = from_the_top(
                [line.line for line in PageText(flat, text_page).lines()[0]], page.get_rotation() // 90
            )
        finally:
            text_page.close()
    finally:
        flat.close()
    before, shown = {text.line.text for text in texts}, " ".join(notes.shown)
    new = [line.text for line in lines if line.text not in before and line.text not in shown]
    return [f"[Drawn: {text}]" for text in new if any(map(str.isalnum, text))]


def _is_stamped(lines: Sequence[PdfLine]) -> bool:
    return sum(len(line.text) for line in lines) <= _MOST_STAMP


def _is_scan(page: Any) -> bool:
    """Whether one picture covers most of a page."""
    from pypdfium2 import raw

    width, height = page.get_size()
    pictures = page.get_objects(filter=(raw.FPDF_PAGEOBJ_IMAGE,), max_depth=2)
    bounds = (picture.get_bounds() for picture, _ in zip(pictures, range(_MOST_OBJECTS)))
    return any((right - left) * (top - bottom) > _SCAN * width * height for left, bottom, right, top in bounds)


def _pictured(page: Any, *, drawn: bool) -> bool:
    """Whether a page has an image or, with `drawn`, anything drawn: the lines of a form are not text."""
    from pypdfium2 import raw

    kinds = (raw.FPDF_PAGEOBJ_IMAGE, *((raw.FPDF_PAGEOBJ_PATH, raw.FPDF_PAGEOBJ_FORM) if drawn else ()))
    return any(True for _, _ in zip(page.get_objects(filter=kinds, max_depth=2), range(_MOST_OBJECTS)))
