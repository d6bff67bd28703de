"""The lines of a PDF page with the place and the type they are set in."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from context_engine.errors import MissingExtra
from context_engine.ingest.loaders.pdf_cells import with_tables
from context_engine.ingest.loaders.pdf_columns import in_reading_order
from context_engine.ingest.loaders.pdf_grids import TooManyRulings, grids_of, may_hold_tables
from context_engine.ingest.loaders.pdf_line import PdfLine
from context_engine.ingest.loaders.pdf_notes import Form, Notes, notes_of
from context_engine.ingest.loaders.pdf_open_tables import PlacedLine, may_head_tables, open_grids
from context_engine.ingest.loaders.pdf_rulings import rulings_of, turned_ruling
from context_engine.ingest.loaders.pdf_text import LineText, PageText, from_the_top

_MOST_OBJECTS: Final = 200


class PdfPage(NamedTuple):
    """A page.

    Attributes:
        lines: in reading order.
        notes: values of form fields and texts of annotations, each labelled.
        hidden: those of fields and annotations that are not shown.
        pictured: whether there is a picture on it, and no text.
        unmapped: characters whose font does not say which letters they are.
        broken: why nothing of it can be read.
        table_s: seconds that the search for tables took; 0 where there was none to be looked for.
        unsought: why tables were not looked for, though there may be some.
    """

    lines: Sequence[PdfLine] = ()
    notes: Sequence[str] = ()
    hidden: Sequence[str] = ()
    pictured: bool = False
    unmapped: int = 0
    broken: str = ""
    table_s: float = 0.0
    unsought: str = ""


def read_page(document: Any, index: int, form: Form | None) -> PdfPage:
    """Return a page of an open document; its memory is freed before the next is read."""
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
            found = _tables(page, reader, texts)
            lines = from_the_top(found.lines, page.get_rotation() // 90)
            notes = notes_of(page, text_page, reader.text, form)
        finally:
            text_page.close()
        pictured = not lines and _pictured(page, drawn=not notes.shown)
        drawn = _drawn(document, index, page, texts, notes) if notes.drawn else []
        return PdfPage(
            in_reading_order(lines),
            [*notes.shown, *drawn],
            notes.hidden,
            pictured,
            unmapped,
            table_s=found.seconds,
            unsought=found.unsought,
        )
    except pypdfium2.PdfiumError:
        return PdfPage(broken="damaged")
    finally:
        page.close()


class _Found(NamedTuple):
    """The lines of a page, those of tables put together; `seconds` and `unsought` are those of `PdfPage`."""

    lines: Sequence[PdfLine]
    seconds: float = 0.0
    unsought: str = ""


def _tables(page: Any, reader: PageText, texts: Sequence[LineText]) -> _Found:
    """Return the lines with those of tables put together, where enough rulings are drawn for a table."""
    lines = [one.line for one in texts]
    if not texts:
        return _Found(lines)
    started = time.perf_counter()
    turn = Counter(line.turn for line in lines).most_common(1)[0][0]
    rulings = [turned_ruling(one, turn) for one in rulings_of(page)]
    try:
        grids = grids_of(rulings) if may_hold_tables(rulings) else []
    except TooManyRulings:
        return _Found(lines, unsought="too many lines are drawn on it")
    except ImportError:
        return _Found(lines, unsought=str(MissingExtra("reading tables in .pdf files", "documents")))
    if may_head_tables(rulings):
        placed = [PlacedLine(one.line, reader.words_of(one, turn)) for one in texts if one.line.turn == turn]
        grids += open_grids(rulings, placed, grids)
    if not grids:
        return _Found(lines)
    return _Found(with_tables(reader, texts, grids, turn), time.perf_counter() - started)


def _drawn(document: Any, index: int, page: Any, texts: Sequence[LineText], notes: Notes) -> list[str]:
    """Return what annotations draw and do not say: the lines that a page has more when they are drawn into it."""
    from pypdfium2 import raw

    if raw.FPDFPage_Flatten(page.raw, raw.FLAT_NORMALDISPLAY) != raw.FLATTEN_SUCCESS:
        return []
    flat = document[index]
    try:
        text_page = flat.get_textpage()
        try:
            found = from_the_top([one.line for one in PageText(flat, text_page).lines()[0]], page.get_rotation() // 90)
        finally:
            text_page.close()
    finally:
        flat.close()
    before, said = {one.line.text for one in texts}, " ".join(notes.shown)
    new = [line.text for line in found if line.text not in before and line.text not in said]
    return [f"[Drawn: {text}]" for text in new if any(map(str.isalnum, text))]


def _pictured(page: Any, *, drawn: bool) -> bool:
    """Whether there is an image on a page, or, where it counts, anything drawn: the lines of a form are no text."""
    from pypdfium2 import raw

    kinds = (raw.FPDF_PAGEOBJ_IMAGE, *((raw.FPDF_PAGEOBJ_PATH, raw.FPDF_PAGEOBJ_FORM) if drawn else ()))
    return any(True for _, _ in zip(page.get_objects(filter=kinds, max_depth=2), range(_MOST_OBJECTS)))
