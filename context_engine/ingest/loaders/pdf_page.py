"""The lines of a PDF page with the place and the type they are set in."""

from __future__ import annotations

import ctypes
import math
import re
from typing import Any, Final, NamedTuple

__all__ = ["PdfLine", "PdfPage", "read_page"]

_BOLD: Final = re.compile(r"(?i)bold|black|heavy|semibold|demi")
_MOST_NAME: Final = 128
_MOST_OBJECTS: Final = 200


class PdfLine(NamedTuple):
    """A line of a page.

    Attributes:
        size: of the type in points.
        top, bottom: distance from the lower edge of the page in points.
    """

    text: str
    size: float
    bold: bool
    top: float
    bottom: float


class PdfPage(NamedTuple):
    """A page: its lines in reading order, its height in points, whether there is a picture on it."""

    lines: list[PdfLine]
    height: float
    pictured: bool


def read_page(document: Any, index: int) -> PdfPage:
    """Return a page of an open document; its memory is freed before the next is read."""
    page = document[index]
    try:
        text_page = page.get_textpage()
        try:
            lines = _lines(text_page)
        finally:
            text_page.close()
        return PdfPage(lines, page.get_height(), not lines and _pictured(page))
    finally:
        page.close()


def _pictured(page: Any) -> bool:
    from pypdfium2 import raw

    kinds = (raw.FPDF_PAGEOBJ_IMAGE, raw.FPDF_PAGEOBJ_PATH, raw.FPDF_PAGEOBJ_FORM)
    return any(True for _, _ in zip(page.get_objects(filter=kinds, max_depth=2), range(_MOST_OBJECTS)))


def _lines(text_page: Any) -> list[PdfLine]:
    text = text_page.get_text_range()
    out = []
    units = 0  # PDFium counts UTF-16
    for raw_line in text.split("\n"):
        line = raw_line.replace("\r", "")
        bare = line.strip()
        if bare:
            middle = len(line) - len(line.lstrip()) + len(bare) // 2
            while line[middle].isspace():  # PDFium makes up spaces, and they have no type
                middle += 1
            out.append(_placed(text_page, _clean(bare), units + _units(line[:middle])))
        units += _units(raw_line) + 1
    return out


def _units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _clean(text: str) -> str:
    """Return a line without what is no character; a hyphen that PDFium marks as one that cuts a word is U+00AD."""
    marked = text.replace("\x02", "\u00ad").replace("\ufffe", "\u00ad")
    whole = marked.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return "".join(char for char in whole if char.isprintable() or char in "\t\u00ad\u3000\u00a0").strip()


def _placed(text_page: Any, text: str, unit: int) -> PdfLine:
    """Return a line with the place and type of the character at a UTF-16 offset of the page's text."""
    from pypdfium2 import raw

    page = text_page.raw
    index = raw.FPDFText_GetCharIndexFromTextIndex(page, unit)
    box, matrix = raw.FS_RECTF(), raw.FS_MATRIX()
    placed = index >= 0 and raw.FPDFText_GetLooseCharBox(page, index, ctypes.byref(box))
    if not placed or not raw.FPDFText_GetMatrix(page, index, ctypes.byref(matrix)):
        return PdfLine(text, 0.0, False, 0.0, 0.0)
    name = ctypes.create_string_buffer(_MOST_NAME)
    raw.FPDFText_GetFontInfo(page, index, name, _MOST_NAME, ctypes.byref(ctypes.c_int()))
    bold = _BOLD.search(name.value.decode("latin-1")) is not None
    size = raw.FPDFText_GetFontSize(page, index) * math.hypot(matrix.b, matrix.d)
    return PdfLine(text, round(size, 1), bold, box.top, box.bottom)
