"""The control words of RTF (characters, destinations, character sets, formulas) and its table of colours."""

from __future__ import annotations

import re
from typing import Final

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
