"""The values of a workbook's cells: text, numbers, dates and times; 5 % as "5%", USD 5 as "USD 5".

XML is read by local names, because the namespace (transitional or strict) differs between workbooks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, time, timedelta
from pyexpat import ExpatError, ParserCreate
from typing import IO, Any, Final, NamedTuple
from xml.etree.ElementTree import Element, TreeBuilder, XMLParser

from context_engine.ingest.loaders.table import Cell, empty, shown

_BLOCK: Final = 1 << 16
_BUILT_IN: Final[Mapping[int, str]] = {
    **dict.fromkeys((9, 10), "0%"),
    **dict.fromkeys((*range(14, 23), *range(27, 37), 45, 47, *range(50, 59)), "yyyy"),
    46: "[h]:mm:ss",
}
_SPAN: Final = re.compile(r"\[(?:h+|m+|s+)\]", re.IGNORECASE)
_MONEY: Final = re.compile(r"\[\$([^\]-]*)(?:-[^\]]*)?\]")
_LITERAL: Final = re.compile(r'"([^"]*)"|([$€£¥₹])|\\(.)|_.|\*.')
_BRACKETS: Final = re.compile(r"\[[^\]]*\]")
_DIGITS: Final = re.compile(r"[0#?]")
_SCALED: Final = re.compile(r"[0#?],+(?![0#?,])")
_ZEROS: Final = re.compile(r"[0 ()/-]+")
_ESCAPED: Final = re.compile(r"_x([0-9A-Fa-f]{4})_")
_DATE_LETTERS: Final = frozenset("dmyhsapeg")
_MOST_DAYS: Final = 2_958_466  # the last day of the year 9999


class Handlers(dict[str, Callable[..., None]]):
    """Handlers of XML elements by local name; the handler of an unknown name does nothing."""

    def __missing__(self, name: str) -> Callable[..., None]:
        handler = self.get(name.rpartition(":")[2], _nothing) if ":" in name else _nothing
        self[name] = handler
        return handler


def parse(source: IO[bytes], starts: Handlers, ends: Handlers, chars: list[str]) -> Iterator[None]:
    """Parse XML block by block, yielding after each; character data is appended to `chars`.

    A start handler is called with the attributes, an end handler without arguments.

    Raises:
        ExpatError: the XML is broken or declares a document type.
    """
    parser = ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = lambda name, attributes: starts[name](attributes)
    parser.EndElementHandler = lambda name: ends[name]()
    parser.CharacterDataHandler = chars.append
    parser.StartDoctypeDeclHandler = _refuse
    while block := source.read(_BLOCK):
        parser.Parse(block, False)
        yield
    parser.Parse(b"", True)
    yield


def tree(data: bytes) -> Element:
    """Parse a small part.

    Raises:
        ExpatError, ParseError: it is not XML.
    """
    parser = XMLParser(target=_Builder())
    parser.feed(data)
    root: Element = parser.close()
    return root


def local(element: Element) -> str:
    """Return the name of an element without its namespace."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def is_on(attributes: Mapping[str, str]) -> bool:
    """Whether an element such as `strike` is not switched off."""
    return attributes.get("val", "1") not in ("0", "false")


def height(attributes: Mapping[str, str]) -> dict[str, bool]:
    """Return how a run with `vertAlign` is written: arguments of `run_marks.marked`."""
    return {"raised": attributes.get("val") == "superscript", "lowered": attributes.get("val") == "subscript"}


class _Builder(TreeBuilder):
    def doctype(self, *_: Any) -> None:
        _refuse()


def _nothing(*_: Any) -> None:
    pass


def _refuse(*_: Any) -> None:
    raise ExpatError("a document type, which is not read")


class Format(NamedTuple):
    """The meaning of a number format.

    Attributes:
        kind: "number", "percent", "date" or "span".
        before, after: a currency or unit shown beside the number.
        mask: a pattern of zeros that every digit of a code is shown in, e.g. "00000" or "000-00"; "" for none.
        struck: whether the cell is struck through.
        unseen: whether nobody sees the value: the format shows nothing (`;;;`), or the type is tiny.
        pale: whether the type is white, and the cell has no fill of its own.
    """

    kind: str = "number"
    before: str = ""
    after: str = ""
    mask: str = ""
    struck: bool = False
    unseen: bool = False
    pale: bool = False


def format_of(code: str) -> Format:
    """Return the meaning of a format code.

    >>> format_of("0.0%").kind, format_of("dd/mm/yyyy").kind, format_of("[h]:mm").kind
    ('percent', 'date', 'span')
    >>> format_of("[$EUR] #,##0.00").before, format_of('0 "bp"').after, format_of('0,,"m"').after
    ('EUR', 'bp', '')
    >>> format_of('"CC-"00000').mask
    'CC-00000'
    """
    section = code.split(";", 1)[0]
    if _SPAN.search(section):
        return Format("span")
    plain = _BRACKETS.sub("", _LITERAL.sub("", section))
    if "%" in plain:
        return Format("percent")
    if not _general(code) and re.search(r"[dmyhs]", plain, re.IGNORECASE):
        return Format("date")
    if _ZEROS.fullmatch(plain) and plain.count("0") > 1:
        mask = _LITERAL.sub(lambda match: match[1] or match[2] or match[3] or "", _BRACKETS.sub("", section)).strip()
        if mask.count("0") == plain.count("0"):
            return Format(mask=mask)
    written = _MONEY.sub(lambda match: f'"{match[1]}"', section)
    digits = _DIGITS.search(_LITERAL.sub(lambda match: " " * len(match[0]), written))
    if digits is None or _BRACKETS.search(written) or _SCALED.search(plain):
        return Format()
    return Format("number", _unit(written[: digits.start()]), _unit(written[digits.start() :]))


def _general(code: str) -> bool:
    """Whether a code is text, or the general format; some programs write its name in their language ("Standard")."""
    return code == "@" or (code.isalpha() and not set(code.lower()) <= _DATE_LETTERS)


def _unit(part: str) -> str:
    """Return the literal text of a part of a format code if it is a currency or unit."""
    text = "".join(match[1] or match[2] or match[3] or "" for match in _LITERAL.finditer(part)).strip()
    return text if any(sign.isalpha() or sign in "$€£¥₹" for sign in text) else ""


class Values:
    """Turns stored content into values.

    Args:
        shared: the texts that cells refer to by number.
        formats: one for each cell style.
        from_1904: whether days are counted from 1904.

    Attributes:
        any_unseen: whether any style hides its values.
    """

    def __init__(self, shared: Sequence[str], formats: Sequence[Format], *, from_1904: bool = False) -> None:
        self._shared, self._formats, self._from_1904 = shared, formats, from_1904
        self._any_struck = any(form.struck for form in formats)
        self.any_unseen = any(form.unseen or form.pale for form in formats)

    def value(self, kind: str, stored: str, style: str) -> Cell:
        """Return the value of a cell; None for an empty one.

        Args:
            kind: the cell's type in the sheet: "s", "str", "inlineStr", "b", "e", "d", "n" or "".
        """
        value = self._plain(kind, stored, style)
        return (
            value if not self._any_struck or empty(value) or not self._format(style).struck else f"~~{shown(value)}~~"
        )

    def is_unseen(self, style: str, *, painted: bool) -> bool:
        """Return whether nobody sees a cell of a style; on a `painted` sheet white type may have a background."""
        form = self._format(style)
        return form.unseen or (form.pale and not painted)

    def _plain(self, kind: str, stored: str, style: str) -> Cell:
        if kind == "s":
            number = int(stored) if stored.strip().isdigit() else -1
            return _text(self._shared[number]) if 0 <= number < len(self._shared) else None
        if kind == "b":
            return stored.strip().lower() in ("1", "true")
        if kind == "d":
            return _iso(stored)
        if kind in ("", "n"):
            return self._number(stored, style)
        return _text(stored)

    def _number(self, stored: str, style: str) -> Cell:
        try:
            number = int(stored) if len(stored) < 20 and stored.lstrip("-").isdecimal() else float(stored)
        except ValueError:
            return _text(stored)
        form = self._format(style)
        if form is _PLAIN:
            return number
        if form.kind == "percent":
            return f"{float(number) * 100:.10g}%"
        if form.kind == "span":
            return timedelta(days=number) if abs(number) < _MOST_DAYS else number
        if form.kind == "date":
            return self._day(number)
        rounded = int(number) if float(number).is_integer() and abs(number) < 1e15 else float(f"{number:.15g}")
        if form.mask and isinstance(rounded, int) and rounded >= 0:
            return _masked(rounded, form.mask)
        return " ".join(part for part in (form.before, str(rounded), form.after) if part)

    def _format(self, style: str) -> Format:
        place = int(style) if style.isdecimal() else 0
        return self._formats[place] if place < len(self._formats) else _PLAIN

    def _day(self, number: int | float) -> Cell:
        if not 0 <= number < _MOST_DAYS:
            return number
        days, seconds = int(number), round((number - int(number)) * 86_400)
        if days == 0 and not self._from_1904:
            return (datetime.min + timedelta(seconds=min(seconds, 86_399))).time()
        first = datetime(1904, 1, 1) if self._from_1904 else datetime(1899, 12, 30 if days > 60 else 31)
        try:  # 1900 is not a leap year, though Excel counts a 29 February in it
            return first + timedelta(days=days, seconds=seconds)
        except OverflowError:
            return number


_PLAIN: Final = Format()


def _masked(number: int, mask: str) -> str:
    """Return a number with its digits in the places of a mask's zeros; further digits precede the first."""
    digits = str(number).zfill(mask.count("0"))
    first, rest = digits[: len(digits) - mask.count("0")], iter(digits[-mask.count("0") :])
    text = "".join(next(rest) if sign == "0" else sign for sign in mask)
    return text if not first else f"{text[: mask.index('0')]}{first}{text[mask.index('0') :]}"


def built_in(number: int) -> Format:
    """Return the format that a workbook refers to by a built-in number."""
    code = _BUILT_IN.get(number)
    return _PLAIN if code is None else format_of(code)


def known(form: Format) -> Format:
    """Return the shared plain format for an equal one, so that it can be compared by identity."""
    return _PLAIN if form == _PLAIN else form


def _text(text: str) -> str | None:
    if "_x" in text:
        text = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text if text.strip() else None


def _iso(text: str) -> Cell:
    for read in (datetime.fromisoformat, time.fromisoformat):
        try:
            return read(text.strip())
        except ValueError:
            continue
    return _text(text)
