"""Text of a PDF page that nobody sees: invisible, in the colour of its ground, tiny or outside the page.

Instructions to a model are smuggled in this way, so such text is set aside and named. Text that is drawn invisibly over
a picture or outlines of the same words, as after a text recognition, is kept.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cached_property
from itertools import groupby
from typing import Any, Final

from context_engine.ingest.loaders.pdf_digits import Box, turned
from context_engine.ingest.loaders.pdf_letters import WORD, units
from context_engine.ingest.loaders.pdf_text import LineText, PageText

_INVISIBLE: Final = (3, 7)  # text render modes: neither filled nor stroked
_TINY: Final = 1.5  # points
_PALE: Final = 235  # of 255, in each colour
_FAINT: Final = 12  # of 255, of the opacity
_CONTRAST: Final = 20  # of 255, between two points of text that is seen
_STEP: Final = 8  # characters between those that are examined of a line
_SAMPLES: Final = 3  # most steps
_MOST_PICTURES: Final = 200
_MOST_SIDE: Final = 2_000  # pixels of the rendered page


def without_hidden(page: Any, reader: PageText, texts: Sequence[LineText]) -> tuple[list[LineText], list[str]]:
    """Return the lines that can be seen, and the text of the others; a line of both kinds is divided."""
    look = _Look(page, reader)
    seen: list[LineText] = []
    unseen: list[str] = []
    for text in texts:
        for part, hidden in look.parts(text):
            if hidden:
                unseen.append(part.line.text)
            else:
                seen.append(part)
    return seen, unseen


class _Look:
    """What a page looks like, rendered when first asked for."""

    def __init__(self, page: Any, reader: PageText) -> None:
        from pypdfium2 import raw

        self._raw = raw
        self._page = page
        self._reader = reader
        self._bounds: Box = page.get_bbox()
        self._colours = [ctypes.c_uint() for _ in range(4)]
        self._at_colours = [ctypes.byref(colour) for colour in self._colours]

    def parts(self, text: LineText) -> list[tuple[LineText, bool]]:
        """Return the parts of a line, and whether each is hidden; mostly the line is one part."""
        if text.line.size <= 0:
            return [(text, False)]
        if self.is_outside(_box(text)):
            return [(text, True)]
        last, plain = len(text.bare) - 1, text.bare.isascii()
        steps = min(_SAMPLES, last // _STEP + 1)
        for step in range(steps + 1):
            at = last * step // steps
            if self._may_hide(text.unit + (at if plain else units(text.bare[:at]))):
                break
        else:
            return [(text, False)]
        parts = []
        words = list(WORD.finditer(text.bare))
        for may_hide, group in groupby(
            words, key=lambda word: self._may_hide(text.unit + units(text.bare[: word.start()]))
        ):
            span = list(group)
            bare = text.bare[span[0].start() : span[-1].end()]
            unit = text.unit + units(text.bare[: span[0].start()])
            part = text if len(span) == len(words) else LineText(bare, unit, self._reader.line_at(bare, unit))
            tiny = part.line.size < _TINY
            parts.append((part, tiny or (may_hide and self.is_even(_box(part)) and not self.has_picture(_box(part)))))
        return parts

    def _may_hide(self, unit: int) -> bool:
        """Whether the character at a UTF-16 offset is tiny, drawn invisibly, or in a colour that a white page hides."""
        raw, handle = self._raw, self._reader.handle
        index = self._reader.index(unit)
        drawn = raw.FPDFText_GetTextObject(handle, index)
        if drawn and raw.FPDFTextObj_GetTextRenderMode(drawn) in _INVISIBLE:
            return True
        if raw.FPDFText_GetFontSize(handle, index) < _TINY and self._reader.size_at(index) < _TINY:
            return True
        if not raw.FPDFText_GetFillColor(handle, index, *self._at_colours):
            return False
        red, green, blue, opacity = self._colours
        return opacity.value < _FAINT or (red.value > _PALE and green.value > _PALE and blue.value > _PALE)

    def is_outside(self, box: Box) -> bool:
        """Whether a box, in the page's own directions, is entirely outside the page."""
        left, bottom, right, top = self._bounds
        return box[2] < left or box[0] > right or box[3] < bottom or box[1] > top

    def is_even(self, box: Box) -> bool:
        """Whether all points in a box have nearly one shade."""
        pixels, width, height, scale = self._picture
        left, _, _, top = self._bounds
        columns = range(max(0, int((box[0] - left) * scale)), min(width, int((box[2] - left) * scale) + 1))
        rows = range(max(0, int((top - box[3]) * scale)), min(height, int((top - box[1]) * scale) + 1))
        if not columns or not rows:
            return False
        shades = [pixels[row * width + columns.start : row * width + columns.stop] for row in rows]
        return max(map(max, shades)) - min(map(min, shades)) < _CONTRAST

    def has_picture(self, box: Box) -> bool:
        """Whether a picture is under the middle of a box, though it may not have been rendered."""
        across, along = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
        return any(
            left <= across <= right and bottom <= along <= top for left, bottom, right, top in self._picture_boxes
        )

    @cached_property
    def _picture_boxes(self) -> list[Box]:
        pictures = self._page.get_objects(filter=(self._raw.FPDF_PAGEOBJ_IMAGE,), max_depth=2)
        return [picture.get_bounds() for picture, _ in zip(pictures, range(_MOST_PICTURES))]

    @cached_property
    def _picture(self) -> tuple[bytes, int, int, float]:
        """The page upright as stored, in grey: (pixels row by row, width, height, pixels a point)."""
        left, bottom, right, top = self._bounds
        scale = min(1.5, _MOST_SIDE / max(right - left, top - bottom, 1.0))
        rotation = self._page.get_rotation()
        self._page.set_rotation(0)
        try:
            bitmap = self._page.render(scale=scale, grayscale=True)
        finally:
            self._page.set_rotation(rotation)
        view, stride, width, height = memoryview(bitmap.buffer).cast("B"), bitmap.stride, bitmap.width, bitmap.height
        pixels = b"".join(view[row * stride : row * stride + width] for row in range(height))
        bitmap.close()
        return pixels, width, height, scale


def _box(text: LineText) -> Box:
    """Return the place of a line, in the page's own directions."""
    line = text.line
    return turned((line.left, line.bottom, line.right, line.top), -line.turn % 4)
