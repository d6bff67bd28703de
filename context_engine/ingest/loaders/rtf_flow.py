"""An RTF text under construction: the state of its groups, its control words, its paragraphs and its tables."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from context_engine.ingest.loaders.markdown import CONTINUED, MarkdownBlock, one_line, pipe_table, plain, with_links
from context_engine.ingest.loaders.run_marks import written

_NEAR: Final = 60  # twips: edges closer than this are one


@dataclass(slots=True)
class RtfRow:
    """A row: its cells, and the definition of each.

    Attributes:
        edges: right edges of the cells, in twips.
        goes_on: whether each cell continues the one above.
        covered: whether each cell is covered by the one to its left.
        shaded: whether a cell is shaded.
    """

    cells: list[str] = field(default_factory=list)
    edges: list[int] = field(default_factory=list)
    goes_on: list[bool] = field(default_factory=list)
    covered: list[bool] = field(default_factory=list)
    shaded: bool = False
    _next: set[bytes] = field(default_factory=set)

    def define(self, word: bytes, number: int | None) -> None:
        """Take a control word of the row's definition: `trowd`, `clvmrg`, `clmrg` or `cellx`."""
        if word == b"trowd":
            self.edges, self.goes_on, self.covered, self.shaded = [], [], [], False
            self._next.clear()
        elif word == b"cellx":
            self.edges.append(number or 0)
            self.goes_on.append(b"clvmrg" in self._next)
            self.covered.append(b"clmrg" in self._next)
            self._next.clear()
        else:
            self._next.add(word)

    def following(self) -> RtfRow:
        """Return an empty row with the same definition, which lasts until the next one."""
        return RtfRow([], [*self.edges], [*self.goes_on], [*self.covered], self.shaded)


def by_column(rows: Sequence[RtfRow]) -> list[list[str]]:
    """Return the cells of each row by column; those that a wide cell covers are `CONTINUED`."""
    columns = _columns(rows)
    out: list[list[str]] = []
    for row in rows:
        cells: list[str] = []
        above = out[-1] if out else []
        for number, text in enumerate(row.cells):
            if _at(row.goes_on, number) and not text.strip() and len(cells) < len(above):
                text = above[len(cells)]
            cells.append(CONTINUED if _at(row.covered, number) and not text.strip() else text)
            end = bisect_right(columns, row.edges[number] + _NEAR // 2) if columns else 0
            cells += [CONTINUED] * (end - len(cells))
        out.append(cells)
    return out


def _columns(rows: Sequence[RtfRow]) -> list[int]:
    """Return the right edges of the columns; none if a row does not give those of all its cells."""
    if any(len(row.edges) < len(row.cells) or row.edges != sorted(row.edges) for row in rows):
        return []
    edges: list[int] = []
    for edge in sorted({edge for row in rows for edge in row.edges[: len(row.cells)]}):
        if not edges or edge - edges[-1] > _NEAR:
            edges.append(edge)
    return edges


def _at(flags: Sequence[bool], number: int) -> bool:
    return number < len(flags) and flags[number]


@dataclass(slots=True)
class GroupState:
    """The state that a group inherits from the enclosing group."""

    place: str = "body"
    font: int = -1
    skip: int = 1
    hidden: bool = False
    size: int | None = None  # half points
    colour: int = 0  # its number in the table of colours
    ground: int = 0
    deleted: bool = False
    inserted: bool = False
    struck: bool = False
    height: bytes = b""  # super or sub
    label: bool = False  # a list item's mark, saved as text
    link: bool = False
    formula: int = 0  # depth of its groups


@dataclass(slots=True)
class RtfFlow:
    """A text under construction: the body, or one outside it."""

    text: list[str] = field(default_factory=list)
    blocks: list[MarkdownBlock] = field(default_factory=list)
    row: RtfRow = field(default_factory=RtfRow)
    rows: list[RtfRow] = field(default_factory=list)
    nested: list[str] = field(default_factory=list)
    beside: list[MarkdownBlock] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    in_table: bool = False
    shaded: bool = False  # the paragraph
    level: int | None = None
    style: int = 0

    def take(self) -> str:
        """Return the text up to here, with its links, and begin anew."""
        text = written(with_links(with_groups("".join(self.text)), self.targets))
        self.text.clear()
        self.targets.clear()
        return text

    def end_row(self, *, nested: bool) -> None:
        """End a row of the table, or of one in a cell, which becomes a line of the cell."""
        if nested:
            self.text.append(", ".join(map(one_line, self.nested)) + "; ")
            self.nested.clear()
        elif self.row.cells:
            self.rows.append(self.row)
            self.row = self.row.following()

    def end_table(self) -> None:
        """Make a block of the rows so far, if there are any."""
        rows = [*self.rows, *([self.row] if self.row.cells else [])]
        if not rows:
            return
        self.rows, self.row = [], RtfRow()
        table = pipe_table(by_column(rows))
        if table:
            self.blocks += [table, *self.beside]
            self.beside = []


def plain_block(text: str) -> MarkdownBlock:
    """Return a paragraph, or a list item if the text begins with a bullet."""
    marked = re.match(r"[•·\uf0b7▪o]\s+", text)
    return (
        MarkdownBlock(f"- {text[marked.end() :]}", item=True)
        if marked and text[0] != "o"
        else MarkdownBlock(plain(text))
    )


TOKEN: Final = re.compile(
    rb"\\bin(\d+) ?|\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z])|([{}])|[\r\n]+|([^\\{}\r\n]+)",
    re.DOTALL,
)
CHARS: Final = {
    b"line": "\n", b"tab": " ", b"emdash": "—", b"endash": "–", b"emspace": " ", b"enspace": " ", b"qmspace": " ",
    b"bullet": "•", b"lquote": "‘", b"rquote": "’", b"ldblquote": "“", b"rdblquote": "”",
}  # fmt: skip
SIGNS: Final = {b"~": " ", b"_": "-", b"-": "", b"\\": "\\", b"{": "{", b"}": "}"}
ASIDE: Final = {  # destinations outside the main text, and their kinds
    b"footnote": "note", b"annotation": "comment", b"shptxt": "box", b"dptxbxtext": "box",
    b"header": "Page header", b"headerl": "Page header", b"headerr": "Page header", b"headerf": "Page header",
    b"footer": "Page footer", b"footerl": "Page footer", b"footerr": "Page footer", b"footerf": "Page footer",
}  # fmt: skip
INLINE: Final = frozenset(
    b"fldrslt listtext pntext field shp shpinst result object moMath moMathPara mmath nesttableprops".split()
)
GONE: Final = frozenset(
    b"fonttbl stylesheet info pict objdata nonshppict shppict themedata colorschememapping datastore "
    b"listtable listoverridetable rsidtbl generator filetbl revtbl xmlnstbl latentstyles pgptbl bkmkstart bkmkend "
    b"xe tc txe rxe atnid atnauthor atndate atnref atrfstart atrfend atntime atnicn atnparent mmathPr pnseclvl panose "
    b"falt fontemb fontfile template passwordhash ftnsep ftnsepc ftncn aftnsep aftnsepc aftncn background sp formfield "
    b"mmathPict mtype mlimLoc mbegChr mendChr msepChr mpos mvertJc mshp mjc mmcJc datafield objclass objname shprslt "
    b"listpicture wgrffmtfilter userprops docvar pn pntxta pntxtb".split()
)
FIELDS: Final = {b"title": "title", b"author": "author"}
CHARSETS: Final = {
    0: "cp1252", 77: "mac_roman", 128: "cp932", 129: "cp949", 134: "cp936", 136: "cp950", 161: "cp1253", 162: "cp1254",
    163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250",
    255: "cp437",
}  # fmt: skip
_PALE: Final = 0xF0  # of 255: the least red, green and blue of nearly white
HEIGHTS: Final = {b"super": b"super", b"sub": b"sub", b"nosupersub": b"", b"msup": b"super", b"msub": b"sub"}
"""Words that raise or lower the text after them; those with "m" belong to formulas."""
FORMULA: Final = {b"mnum": "", b"mden": "/", b"mrad": "√", b"md": ""}
"""Groups of a formula (numerator, denominator, root, brackets), and the sign before each."""
GROUP_OPEN: Final = "\x10"
GROUP_CLOSE: Final = "\x11"
_MOST_GROUPS: Final = 20  # one in another
_GROUP: Final = re.compile(f"{GROUP_OPEN}([^{GROUP_OPEN}{GROUP_CLOSE}]*){GROUP_CLOSE}")


def with_groups(text: str) -> str:
    """Return a text with brackets around the groups of its formulas, except around single names and numbers.

    >>> with_groups("\x10CET1\x11/\x10a + b\x11")
    'CET1/(a + b)'
    """
    for _ in range(_MOST_GROUPS if GROUP_OPEN in text else 0):
        text = _GROUP.sub(lambda group: _bracketed(group[1].strip()), text)
    return text.replace(GROUP_OPEN, "").replace(GROUP_CLOSE, "")


def _bracketed(text: str) -> str:
    return text if len(text) < 2 or text.replace(".", "").isalnum() else f"({text})"


class RtfColours:
    """Collects the colours; the first one, which is the reader's own, is number 0.

    Attributes:
        pale: numbers of the colours that nobody sees on white paper.
    """

    def __init__(self) -> None:
        self._parts: dict[bytes, int] = {}
        self._count = 0
        self.pale: set[int] = set()

    def set(self, word: bytes, number: int | None) -> None:
        """Take a part of the current colour: `red`, `green` or `blue`."""
        self._parts[word] = number or 0

    def end(self, text: str) -> None:
        """Take the text between colours: each ";" ends a colour."""
        for _ in range(text.count(";")):
            if len(self._parts) == 3 and min(self._parts.values()) >= _PALE:
                self.pale.add(self._count)
            self._parts.clear()
            self._count += 1

    def is_ground(self, number: int | None) -> bool:
        """Return whether a background of this colour is seen."""
        return bool(number) and number not in self.pale
