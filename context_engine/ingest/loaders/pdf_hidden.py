"""Text of a PDF page that nobody sees: invisible, in the colour of its ground, tiny or outside the page.

Instructions to a model are smuggled in this way, so such text is set aside and named. Text that is drawn invisibly over
a picture or outlines of the same words, as after a text recognition, is kept.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from context_engine.ingest.loaders.pdf_text import Box, LineText, PageText, turned

_INVISIBLE: Final = (3, 7)  # text render modes: neither filled nor stroked
_TINY: Final = 1.5  # points
_PALE: Final = 235  # of 255, in each colour
_FAINT: Final = 12  # of 255, of the opacity
_CONTRAST: Final = 20  # of 255, between two points of text that is seen
_MOST_PICTURES: Final = 200
_MOST_SIDE: Final = 2_000  # pixels of the rendered page


def without_hidden(page: Any, reader: PageText, texts: Sequence[LineText]) -> tuple[list[LineText], list[str]]:
    """Return the lines that can be seen, and the text of the others."""
    look = _Look(page, reader)
    hidden = [text.line.size > 0 and look.hides(text) for text in texts]
    seen = [text for text, unseen in zip(texts, hidden) if not unseen]
    return seen, [text.line.text for text, unseen in zip(texts, hidden) if unseen]


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

    def hides(self, text: LineText) -> bool:
        """Whether nobody sees a line."""
        line = text.line
        box = turned((line.left, line.bottom, line.right, line.top), -line.turn % 4)
        if line.size < _TINY or self.is_outside(box):
            return True
        return self._may_hide(text) and self.is_even(box) and not self.has_picture(box)

    def _may_hide(self, text: LineText) -> bool:
        """Whether a line is drawn invisibly, or in a colour that a white page hides."""
        raw, handle = self._raw, self._reader.handle
        index = self._reader.middle(text.bare, text.unit)
        drawn = raw.FPDFText_GetTextObject(handle, index)
        if drawn and raw.FPDFTextObj_GetTextRenderMode(drawn) in _INVISIBLE:
            return True
        if not raw.FPDFText_GetFillColor(handle, index, *self._at_colours):
            return False
        *shades, opacity = (colour.value for colour in self._colours)
        return opacity < _FAINT or min(shades) > _PALE

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
