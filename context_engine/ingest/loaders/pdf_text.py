"""The text of a PDF page as lines, each with its place and type."""

from __future__ import annotations

import ctypes
import math
import re
from bisect import bisect
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice, pairwise
from typing import Any, Final, NamedTuple

from context_engine.ingest.loaders.pdf_digits import SMALL, Box, height, small_digits, turned
from context_engine.ingest.loaders.pdf_direction import in_logical_order, needs_order
from context_engine.ingest.loaders.pdf_letters import (
    NOTHING,
    WORD,
    clean,
    mended,
    sign_between,
    text_of,
    units,
    unnamed,
)

PART_GAP: Final = 0.8  # times the type size: a gap wider than between words
_BOLD: Final = re.compile(r"(?i)bold|black|heavy|semibold|demi")
_LINE: Final = re.compile(r"[^\n\x02\ufffe]*[\n\x02\ufffe]|[^\n\x02\ufffe]+")  # a hyphen at a line's end is U+FFFE
_DIGITS: Final = "0123456789"
_WITH_DIGIT: Final = re.compile(r"(?=\S*[0-9])\S{2,}")
_ROW: Final = re.compile(r"\d (?:\S{1,2} )?\S*\d|\S {2}\S")  # may be a row, whose gaps a single text object holds
_LEAST_SIZE: Final = 4.0  # smaller type sizes are scaled by a matrix, and say nothing
_MOST_CHARS: Final = 60  # of a word
_MOST_NAME: Final = 128
_MOST_RECTS: Final = 1_000  # of a line
_HEAD: Final = 64  # characters; a shorter line may be the head of a table
_HEBREW: Final = "\u0590"  # where other scripts than Latin, Greek and Cyrillic begin
_SHORT: Final = 16  # shorter lines are not examined for columns
_MARGIN: Final = 0.12  # of a page's height: the place of headers and footers
_MOST_GLUED: Final = 4  # characters; PDFium may join lines this short
_RUN: Final = 15  # mean characters of the runs of interwoven columns of text; in tables and figures they are shorter
_FAR: Final = 3  # times a character's height


class LinePart(NamedTuple):
    """The part of a line between two wide gaps; `left`, `right` and type `size` in points."""

    text: str
    left: float
    right: float
    size: float = 0.0
    bold: bool = False


class PdfLine(NamedTuple):
    """A line of a page.

    Attributes:
        size: type size in points.
        top, bottom: height in points above the page's lower edge, with the page turned so that the line is horizontal.
        left, right: its ends, likewise.
        turn: quarter turns of the text, counterclockwise.
        edge: whether it is in the place of page headers or footers.
        parts: the parts between wide gaps, from left to right; empty without gaps.
        table: the table in this place; `text` then holds all its words.
    """

    text: str
    size: float
    bold: bool
    top: float
    bottom: float
    left: float = 0.0
    right: float = 0.0
    turn: int = 0
    edge: bool = False
    parts: tuple[LinePart, ...] = ()
    table: PdfTable | None = None


class PdfTable(NamedTuple):
    """A table.

    Attributes:
        rows: equally many cells each; a cell is its lines.
        edges: left edges of the columns and the right edge of the last, in points.
        titles: lines above its head, over all columns.
        lines: the same text, not read as a table.
        breaks: (row, page index) where it continues on another page.
        ruled: whether rulings are drawn around its cells. Without, its first row is empty if it has no head.
        columns: (left, right) of the text of each column in points, without rulings.
        head: how many rows and lines its head takes, without rulings.
    """

    rows: tuple[tuple[tuple[str, ...], ...], ...]
    edges: tuple[float, ...]
    titles: tuple[str, ...] = ()
    lines: tuple[PdfLine, ...] = ()
    breaks: tuple[tuple[int, int], ...] = ()
    ruled: bool = True
    columns: tuple[tuple[float, float], ...] = ()
    head: tuple[int, int] = (1, 0)


class LineText(NamedTuple):
    """A line with its text as PDFium gives it, and that text's UTF-16 offset in the page."""

    bare: str
    unit: int
    line: PdfLine


class PageText:
    """Reads the lines of one page with reused buffers.

    Attributes:
        handle: PDFium's text page.
        text: all of the page's text as PDFium gives it.
    """

    def __init__(self, page: Any, text_page: Any) -> None:
        from pypdfium2 import raw

        self._raw = raw
        self.handle = text_page.raw
        self.text = text_of(text_page.raw)
        self._box = page.get_bbox()
        # If the last character has the last number, the number of every character is its offset.
        last = units(self.text) - 1
        even = last == raw.FPDFText_CountChars(self.handle) - 1
        self._even = even and raw.FPDFText_GetCharIndexFromTextIndex(self.handle, last) == last
        self._char, self._matrix = raw.FS_RECTF(), raw.FS_MATRIX()
        self._at_char, self._at_matrix = ctypes.byref(self._char), ctypes.byref(self._matrix)
        self._sides = [ctypes.c_double() for _ in range(4)]
        self._at_sides = [ctypes.byref(side) for side in self._sides]
        self._at_flags = ctypes.byref(ctypes.c_int())
        self._name = ctypes.create_string_buffer(_MOST_NAME)
        self._bold: dict[bytes, bool] = {}

    def lines(self) -> tuple[list[LineText], int]:
        """Return the lines in PDFium's order, and the number of characters without a Unicode mapping."""
        out, unmapped = list[LineText](), 0
        at = 0  # PDFium counts UTF-16
        for raw_line in self._rows():
            text = self._mended(self._with_raised(raw_line.replace("\r", "").replace("\n", ""), at), at)
            for bare, unit in self._apart(text.strip(), at + len(text) - len(text.lstrip())):
                index = self.middle(bare, unit)
                line, runs = self._placed(bare, unit, index)
                if self._raw.FPDFText_HasUnicodeMapError(self.handle, index) == 1:
                    unmapped += self._unmapped(bare, unit)
                unmapped += unnamed(bare)
                pieces = [LineText(*run, self.line_at(*run)) for run in runs] or [LineText(bare, unit, line)]
                out += [piece for piece in pieces if piece.line.text]
            at += units(raw_line)
        return out, unmapped

    def _rows(self) -> Iterator[str]:
        """Yield PDFium's lines; lines that it breaks between two characters side by side are joined."""
        row, at = "", 0
        lines = _LINE.findall(self.text)
        for raw_line, below in zip(lines, [*lines[1:], ""]):
            at += units(raw_line)
            broken = raw_line.endswith("\r\n") and f"{raw_line[:-2][-1:]}{below[:1]}".isprintable()
            between = self._between(at) if broken else ""
            row += raw_line[:-2] + between if between else raw_line
            if not between:
                yield row
                row = ""

    def _between(self, unit: int) -> str:
        """Return what stands for the line break before an offset if it is none, else ""."""
        first, second = self._turn_at(unit - 3), self._turn_at(unit)
        if first is None or first != second:
            return ""
        return sign_between(self.box_at(unit - 3, first), self.box_at(unit, first))

    def _with_raised(self, text: str, unit: int) -> str:
        """Return a line with its raised and lowered digits as such: the mark of a footnote, 10⁶, CO₂."""
        words = list(islice(_WITH_DIGIT.finditer(text), _MOST_RECTS))
        turn = (self._turn_at(unit + units(text[: words[0].start()])) or 0) if words else 0
        for word in words:
            chars = [place for place in range(*word.span()) if text[place].isalnum()][:_MOST_CHARS]
            last = next(place for place in reversed(range(*word.span())) if text[place] in _DIGITS)
            places = {place: unit + units(text[:place]) for place in (chars[0], last, chars[-1])}
            sizes = {self._raw.FPDFText_GetFontSize(self.handle, self.index(at)) for at in places.values()}
            if len(sizes) == 1 and sizes.pop() > _LEAST_SIZE:
                continue
            ends = {place: self.box_at(at, turn) for place, at in places.items()}
            if min(map(height, ends.values())) < SMALL * max(map(height, ends.values())):
                boxes = [self.box_at(unit + units(text[:place]), turn) for place in chars]
                for place, digit in zip(chars, small_digits("".join(text[place] for place in chars), boxes)):
                    text = f"{text[:place]}{digit}{text[place + 1 :]}"
        return text

    def _mended(self, text: str, unit: int) -> str:
        """Return a line with accents on their letters, and without spaces that PDFium made up inside words."""
        turn = self._turn_at(unit) or 0
        return mended(
            text,
            lambda place: self.box_at(unit + units(text[:place]), turn),
            lambda place: self._raw.FPDFText_IsGenerated(self.handle, self.index(unit + units(text[:place]))) == 1,
            lambda place: self._origin_at(unit + units(text[:place]), turn),
        )

    def line_at(self, bare: str, unit: int) -> PdfLine:
        """Return the line of a text at a UTF-16 offset in the page."""
        return self._placed(bare, unit, self.middle(bare, unit))[0]

    def box_at(self, unit: int, turn: int) -> Box:
        """Return the box of the character at a UTF-16 offset, with the page turned."""
        self._raw.FPDFText_GetLooseCharBox(self.handle, self.index(unit), self._at_char)
        return turned(self._box_of_char(), turn)

    def _origin_at(self, unit: int, turn: int) -> float:
        """Return where the pen was set down for the character at a UTF-16 offset, with the page turned."""
        x, y = self._sides[:2]
        self._raw.FPDFText_GetCharOrigin(self.handle, self.index(unit), *self._at_sides[:2])
        return turned((x.value, y.value, x.value, y.value), turn)[0]

    def size_at(self, index: int) -> float:
        """Return the type size of a character, by its number, in points."""
        matrix = self._matrix
        self._raw.FPDFText_GetMatrix(self.handle, index, self._at_matrix)
        return float(round(self._raw.FPDFText_GetFontSize(self.handle, index) * math.hypot(matrix.c, matrix.d), 1))

    def words_of(self, text: LineText, turn: int) -> list[tuple[float, float]]:
        """Return (left, right) of each word of a line, with the page turned."""
        return self._word_spans(text.bare, text.unit, turn)

    def span_of(self, text: LineText, place: tuple[int, int], turn: int) -> tuple[float, float]:
        """Return (left, right) of the characters `place` of a line, with the page turned."""
        first, last = (text.unit + units(text.bare[:at]) for at in (place[0], place[1] - 1))
        return self.box_at(first, turn)[0], self.box_at(last, turn)[2]

    def middle(self, bare: str, unit: int) -> int:
        """Return the number of a character in the middle of a text, never one that PDFium makes up: it has no type.

        The first one if it and the last are larger: the middle is a small capital or a raised sign.
        """
        place = len(bare) // 2
        while bare[place].isspace() or bare[place] == NOTHING:
            place += 1
        first, middle, last = (self.index(unit + units(bare[:at])) for at in (0, place, len(bare) - 1))
        size = self.size_at(middle)
        return first if self.size_at(last) > size < self.size_at(first) else middle

    def _apart(self, bare: str, unit: int) -> list[tuple[str, int]]:
        """Split a line into (text, offset): PDFium joins lines of a single character, however far apart."""
        if not 1 < len(bare) <= _MOST_GLUED or not bare.isascii():
            return self._by_turn(bare, unit) if bare else []
        boxes = [self.box_at(unit + at, 0) for at in range(len(bare))]
        cuts = [
            at
            for at, (before, box) in enumerate(pairwise(boxes), start=1)
            if max(box[1] - before[3], before[1] - box[3]) > _FAR * (before[3] - before[1]) > 0
        ]
        edges = [0, *cuts, len(bare)]
        return [(part.strip(), unit + at) for at, end in pairwise(edges) if (part := bare[at:end]).strip()]

    def _by_turn(self, bare: str, unit: int) -> list[tuple[str, int]]:
        """Split a line where the direction of writing changes: PDFium may join turned text to the line before it."""
        first, last = self._turn_at(unit), self._turn_at(unit + units(bare) - 1)
        if first == last or first is None or last is None:
            return [(bare, unit)]
        for at, char in enumerate(bare):
            turn = None if char.isspace() else self._turn_at(unit + units(bare[:at]))
            if turn not in (None, first):
                return [(bare[:at].rstrip(), unit), *self._by_turn(bare[at:], unit + units(bare[:at]))]
        return [(bare, unit)]

    def _turn_at(self, unit: int) -> int | None:
        """Return the quarter turns of the character at a UTF-16 offset; None if PDFium made the character up."""
        read = self._raw.FPDFText_GetMatrix(self.handle, self.index(unit), self._at_matrix)
        return _quarter_turns(self._matrix) if read else None

    def index(self, unit: int) -> int:
        """Return the number of the character at a UTF-16 offset."""
        return unit if self._even else int(self._raw.FPDFText_GetCharIndexFromTextIndex(self.handle, unit))

    def _placed(self, bare: str, unit: int, index: int) -> tuple[PdfLine, list[tuple[str, int]]]:
        """Return a line with its place and the type of a character in its middle; (text, offset) of its columns.

        PDFium joins lines of neighbouring columns whose heights overlap: then the words go back to the left.
        """
        raw, page, matrix = self._raw, self.handle, self._matrix
        placed = index >= 0 and raw.FPDFText_GetLooseCharBox(page, index, self._at_char)
        if not placed or not raw.FPDFText_GetMatrix(page, index, self._at_matrix):
            return PdfLine(clean(bare), 0.0, False, 0.0, 0.0), []
        turn = _quarter_turns(matrix)
        size = round(raw.FPDFText_GetFontSize(page, index) * math.hypot(matrix.c, matrix.d), 1)
        (_, bottom, _, top), (_, floor, _, ceiling) = (turned(box, turn) for box in (self._box_of_char(), self._box))
        margin = (ceiling - floor) * _MARGIN
        edge = bottom > ceiling - margin or top < floor + margin
        short = _HEAD if bare[0] < _HEBREW else _SHORT
        if edge or (len(bare) < short and " " in bare) or _ROW.search(bare):  # far away in the same object
            spans = self._word_spans(bare, unit, turn)
        elif len(bare) < _SHORT:
            spans = [(self.box_at(unit, turn)[0], self.box_at(unit + units(bare) - 1, turn)[2])]
        else:
            spans = self._spans(self.index(unit), self.index(unit + units(bare) - 1), turn)
        blocks = _blocks(spans, size * PART_GAP)
        runs = self._runs(bare, unit, turn, blocks) if len(blocks) > 1 else []
        follow = [number for number, _, _ in runs] == list(range(len(blocks)))
        parts = tuple(self._part(text, at, blocks[number]) for number, text, at in runs) if follow else ()
        text = " ".join(part.text for part in parts if part.text) if parts else self._ordered(bare, unit, turn)
        bold, left, right = self._is_bold(index), blocks[0][0], blocks[-1][1]
        line = PdfLine(text, size, bold, top, bottom, left, right, turn, edge, parts)
        of_text = not follow and turn == 0 and len(bare) >= len(runs) * _RUN and not needs_order(bare)
        return line, [(text, at) for _, text, at in runs] if of_text else []

    def _part(self, bare: str, unit: int, block: tuple[float, float]) -> LinePart:
        index = self.middle(bare, unit)
        return LinePart(clean(bare), *block, self.size_at(index), self._is_bold(index))

    def _ordered(self, bare: str, unit: int, turn: int) -> str:
        """Return the text of a line; one with right-to-left letters in reading order."""
        if not needs_order(bare):
            return clean(bare)
        places = accumulate(map(units, bare), initial=unit)
        chars = [(char, self.box_at(at, turn)) for char, at in zip(bare, places) if not char.isspace()]
        return clean(in_logical_order(chars) or bare)

    def _box_of_char(self) -> Box:
        char = self._char
        return char.left, char.bottom, char.right, char.top

    def _is_bold(self, index: int) -> bool:
        self._raw.FPDFText_GetFontInfo(self.handle, index, self._name, _MOST_NAME, self._at_flags)
        name = self._name.value
        if name not in self._bold:
            self._bold[name] = _BOLD.search(name.decode("latin-1")) is not None
        return self._bold[name]

    def _word_spans(self, bare: str, unit: int, turn: int) -> list[tuple[float, float]]:
        out = []
        for word in islice(WORD.finditer(bare), _MOST_RECTS):
            first, last = unit + units(bare[: word.start()]), unit + units(bare[: word.end()]) - 1
            begin, end = self.box_at(first, turn), self.box_at(last, turn)
            out.append((min(begin[0], end[0]), max(begin[2], end[2])))  # the first may be on the right
        return out

    def _spans(self, first: int, last: int, turn: int) -> list[tuple[float, float]]:
        """Return (left, right) of each text object in a range of characters."""
        raw, page = self._raw, self.handle
        if not 0 <= first <= last:
            return []
        left, top, right, bottom = self._sides
        out = []
        read, at_left, at_top, at_right, at_bottom = raw.FPDFText_GetRect, *self._at_sides
        for number in range(min(raw.FPDFText_CountRects(page, first, last - first + 1), _MOST_RECTS)):
            if not read(page, number, at_left, at_top, at_right, at_bottom):
                continue
            if turn == 0:
                out.append((left.value, right.value))
            else:
                box = turned((left.value, bottom.value, right.value, top.value), turn)
                out.append((box[0], box[2]))
        return out

    def _runs(
        self, bare: str, unit: int, turn: int, blocks: Sequence[tuple[float, float]]
    ) -> list[tuple[int, str, int]]:
        """Return the runs of words of one block and height, in their order: (number of the block, text, offset)."""
        middles = [(before[1] + after[0]) / 2 for before, after in pairwise(blocks)]
        runs: list[tuple[int, int, int, int]] = []  # block, begin and end in the text, offset
        last: Box = (0.0, 0.0, 0.0, 0.0)
        at, offset = unit, 0
        for word in WORD.finditer(bare):
            at, offset = at + units(bare[offset : word.start()]), word.start()
            box = self.box_at(at, turn)
            number = bisect(middles, box[0])
            if runs and number == runs[-1][0] and min(box[3], last[3]) > max(box[1], last[1]):
                runs[-1] = runs[-1][0], runs[-1][1], word.end(), runs[-1][3]
            else:
                runs.append((number, word.start(), word.end(), at))
            last = box
        return [(number, bare[begin:end], at) for number, begin, end, at in runs]

    def _unmapped(self, bare: str, unit: int) -> int:
        """Count the characters of a line without a Unicode mapping."""
        first, last = self.index(unit), self.index(unit + units(bare) - 1)
        error = self._raw.FPDFText_HasUnicodeMapError
        return sum(error(self.handle, index) == 1 for index in range(first, last + 1))


def _quarter_turns(matrix: Any) -> int:
    """Return by how many quarter turns, counterclockwise, a matrix turns the text; 0 to 3."""
    return round(math.atan2(matrix.b, matrix.a) / (math.pi / 2)) % 4 if matrix.b or matrix.a < 0 else 0


def _blocks(spans: Sequence[tuple[float, float]], least: float) -> list[tuple[float, float]]:
    """Return (left, right) of the blocks between gaps wider than `least`."""
    first, *others = sorted(spans) or [(0.0, 0.0)]
    blocks = [first]
    for left, right in others:
        if left - blocks[-1][1] > least:
            blocks.append((left, right))
        else:
            blocks[-1] = blocks[-1][0], max(right, blocks[-1][1])
    return blocks
