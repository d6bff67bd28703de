"""The text of one Word paragraph, with its marks, links and fields."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, Protocol

from context_engine.ingest.loaders.markdown import HYPERLINK, LINK_CLOSE, LINK_OPEN, linked, with_links
from context_engine.ingest.loaders.office_math import MATH, M
from context_engine.ingest.loaders.ooxml import ALTERNATIVES, PALE, REL, chosen
from context_engine.ingest.loaders.run_marks import LOWERED, RAISED, STRUCK, with_bold, written

# Adobe's Symbol encoding, from 0x20 and from 0xA1; "\ufffd" for characters that mean nothing on their own.
_LOW: Final = " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_\ufffdαβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"
_HIGH: Final = "ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…\ufffd\ufffd↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑"
_SYMBOL: Final = {
    **{0x20 + place: char for place, char in enumerate(_LOW)},
    **{0xA1 + place: char for place, char in enumerate(_HIGH)},
}
_WINGDINGS: Final = {
    0xFE: "[x]", 0xFD: "[x]", 0x78: "[x]", 0xA8: "[ ]", 0x6F: "[ ]", 0x71: "[ ]", 0x72: "[ ]", 0xFC: "✓", 0xFB: "✗",
    0xE0: "→", 0xDF: "←", 0xE1: "↑", 0xE2: "↓", 0xE8: "→", 0xF0: "⇒", 0xF3: "⇔", 0x6C: "●", 0x6E: "■", 0xA7: "▪",
    0x9F: "•", 0x76: "❖", 0xD8: "➢", 0x4A: "☺", 0x4C: "☹",
}  # fmt: skip
_WINGDINGS_2: Final = {0x52: "[x]", 0x51: "[x]", 0xA3: "[ ]", 0x50: "✓", 0x4F: "✗"}
_FONTS: Final = {"symbol": _SYMBOL, "wingdings": _WINGDINGS, "wingdings 2": _WINGDINGS_2}
_PRIVATE: Final = 0xF000  # where symbol fonts keep their 256 characters


def symbol(font: str, code: str) -> str | None:
    """Return a character of a font as text; None for a drawing without an equivalent.

    >>> symbol("Symbol", "F061"), symbol("Wingdings", "F0FE"), symbol("Arial", "00A7"), symbol("Webdings", "F041")
    ('α', '[x]', '§', None)
    """
    try:
        place = int(code, 16)
    except ValueError:
        return None
    known = _FONTS.get(font.strip().lower())
    if known is not None:
        character = known.get(place - _PRIVATE if place >= _PRIVATE else place)
        return None if character == "\ufffd" else character
    return chr(place) if 0x20 <= place < 0xD800 else None


Changes = Literal["accept", "reject", "both"]
W: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_C: Final = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_CX: Final = "{http://schemas.microsoft.com/office/drawing/2014/chartex}"
_DGM: Final = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
_WP: Final = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
_V: Final = "{urn:schemas-microsoft-com:vml}"
_GONE: Final = frozenset(f"{W}{name}" for name in ("pPr", "rPr", "delInstrText", "tcPr", "tblPr", "sectPr"))
_NEW: Final = {f"{W}ins": "inserted", f"{W}moveTo": "moved to here"}
_OLD: Final = {f"{W}del": "deleted", f"{W}moveFrom": "moved from here"}
_SIGNS: Final = {
    f"{W}tab": " ", f"{W}ptab": " ", f"{W}cr": "\n", f"{W}noBreakHyphen": "-", f"{W}softHyphen": "",
}  # fmt: skip
_TEXTS: Final = frozenset((f"{W}t", f"{M}t", f"{W}delText"))
NOTES: Final = {
    f"{W}footnoteReference": "", f"{W}endnoteReference": "e", f"{W}commentReference": "comment ",
}  # fmt: skip
"""References to notes, and the prefix of their names; a comment leaves no mark in the text."""
_DRAWN: Final = {f"{_C}chart": "id", f"{_CX}chart": "id", f"{_DGM}relIds": "dm"}
_TINY: Final = 3  # half points
_GROUNDS: Final = {f"{W}p": ("pPr", "pStyle"), f"{W}tc": ("tcPr", "none"), f"{W}tbl": ("tblPr", "tblStyle")}
_GENERATED: Final = re.compile(
    r"(?i).*automatically generated.*|(?:image|picture|grafik|bild|img)?[\s_-]*\d*|\S+\.\w{3,4}"
)
_OFF: Final = ("0", "false", "off", "none")
Given = Mapping[str, Any]
"""The properties of a run by their tags."""
_BOLD: Final = "\x00"  # marks bold runs until neighbours are joined; XML cannot hold it


class Paragraph(NamedTuple):
    """A paragraph's text and its attachments.

    Attributes:
        text: with a mark for each reference to a note.
        notes: names of the notes it refers to: "2", "e2" for endnotes, "comment 2".
        drawn: relation ids of its charts and diagrams.
    """

    text: str
    boxes: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()
    drawn: tuple[str, ...] = ()


@dataclass(slots=True)
class DocxLeftOut:
    """Content of a document that is not in its text."""

    hidden: int = 0
    contents: list[str] = field(default_factory=list)
    symbols: Counter[str] = field(default_factory=Counter)


class TextStyles(Protocol):
    """The styles of a document, each by its id."""

    def marks(self, name: str) -> str:
        """Return the marks of text in a style: struck, raised, lowered."""

    def shades(self, name: str) -> bool:
        """Return whether a style gives its text a background."""


class ParagraphReader:
    """Reads the paragraphs of one document.

    Args:
        changes: whether tracked changes are read as accepted, as rejected, or both, marked.
        hidden: ids of the styles whose text is hidden.
        left_out: counts the content that is not read.
        target: returns the address of a relation by its id, or "".
        styles: those of the document.
    """

    def __init__(
        self,
        changes: Changes,
        hidden: frozenset[str],
        left_out: DocxLeftOut,
        target: Callable[[str], str],
        styles: TextStyles,
    ) -> None:
        gone = {"accept": _OLD, "reject": _NEW}.get(changes, {})
        self.gone = _GONE | frozenset(gone)
        self._marked = {**_NEW, **_OLD} if changes == "both" else {}
        self._hidden = hidden
        self._left_out = left_out
        self._target = target
        self._styles = styles

    def read(self, element: Any, *, bold: bool, hidden: bool = False, style: str = "") -> Paragraph:
        """Return the text of a paragraph `w:p`; `bold`: bold words are marked unless all are bold."""
        run_text = _RunText([], [], [], [], [], self._styles.marks(style))
        parts = with_links("".join(self._parts(element, run_text)), run_text.targets)
        text = written(_marked(parts, bold=bold))
        if hidden:
            self._left_out.hidden += len(text.split())
            text = ""
        return Paragraph(text, tuple(run_text.boxes), tuple(run_text.notes), tuple(run_text.drawn))

    def _parts(self, parent: Any, run_text: _RunText, marks: str = "") -> Iterator[str]:
        for child in parent:
            tag = child.tag
            if tag == f"{W}r":
                yield from self._run(child, run_text)
            elif tag in _TEXTS:
                text = child.text or ""
                yield f"{marks}{text}{marks[::-1]}" if text else text
            elif tag in self.gone:
                continue
            elif tag in self._marked:
                yield self._change(child, run_text)
            elif tag in _READERS:
                yield _READERS[tag](self, child, run_text)
            elif tag == ALTERNATIVES:
                yield from self._parts(chosen(child), run_text, marks)
            else:
                yield from self._parts(child, run_text, marks)

    def _run(self, run: Any, run_text: _RunText) -> Iterator[str]:
        properties = run.find(f"{W}rPr")
        given: Given = {} if properties is None else {child.tag: child for child in properties}
        if not given:
            yield from self._parts(run, run_text, run_text.marks)
            return
        style = _value(given, "rStyle")
        if not self._is_hidden(given, style, run):
            inherited = (self._styles.marks(style) if style else "") or run_text.marks
            yield from self._parts(run, run_text, (_BOLD if _is_on(given, "b") else "") + _marks(given, inherited))
            return
        text = "".join(self._parts(run, run_text))
        self._left_out.hidden += len(text.split())

    def _is_hidden(self, given: Given, style: str | None, run: Any) -> bool:
        if f"{W}vanish" in given:
            return _is_on(given, "vanish")
        size = _value(given, "sz") or ""
        if (size.isdecimal() and int(size) <= _TINY) or style in self._hidden:
            return True
        return PALE.fullmatch(_value(given, "color") or "") is not None and self._is_on_white(given, run)

    def _is_on_white(self, given: Given, run: Any) -> bool:
        """Whether nothing around a run has a background of its own."""
        if f"{W}highlight" in given or is_shaded(given.get(f"{W}shd")):
            return False
        for around in run.iterancestors():
            if around.tag == f"{W}txbxContent" or around.find(f"{W}background") is not None:
                return False
            name, style = _GROUNDS.get(around.tag, ("", ""))
            own = around.find(f"{W}{name}") if name else None
            if own is not None and (is_shaded(own.find(f"{W}shd")) or self._styles.shades(value_of(own, style) or "")):
                return False
        return True

    def _change(self, element: Any, run_text: _RunText) -> str:
        text = "".join(self._parts(element, run_text))
        return f"[{self._marked[element.tag]}: {text}]" if text.strip() else text

    def _link(self, element: Any, run_text: _RunText) -> str:
        return linked("".join(self._parts(element, run_text)), self._target(element.get(f"{REL}id") or ""))

    def _field(self, element: Any, run_text: _RunText) -> str:
        link = HYPERLINK.match(element.get(f"{W}instr") or "")
        text = "".join(self._parts(element, run_text))
        return linked(text, link[1]) if link else text

    def _instruction(self, element: Any, run_text: _RunText) -> str:
        run_text.instructions.append(element.text or "")
        return ""

    def _field_mark(self, element: Any, run_text: _RunText) -> str:
        kind = element.get(f"{W}fldCharType")
        if kind == "begin":
            run_text.instructions.clear()
        if kind == "separate" and (link := HYPERLINK.match("".join(run_text.instructions))):
            run_text.targets.append(link[1])
            return LINK_OPEN
        value = "".join(self._parts(element, run_text))  # of a form field
        return f"{LINK_CLOSE}{value}" if kind == "end" else value

    def _math(self, element: Any, run_text: _RunText) -> str:
        return MATH[element.tag](element, lambda part: "".join(self._parts(part, run_text)))

    def _ruby(self, element: Any, run_text: _RunText) -> str:
        base, above = element.find(f"{W}rubyBase"), element.find(f"{W}rt")
        reading = "" if above is None else "".join(self._parts(above, run_text)).strip()
        text = "" if base is None else "".join(self._parts(base, run_text))
        return f"{text}({reading})" if reading else text

    def _sign(self, element: Any, _: _RunText) -> str:
        return _SIGNS[element.tag]

    def _break(self, element: Any, _: _RunText) -> str:
        return "" if element.get(f"{W}type") in ("page", "column") else "\n"

    def _symbol(self, element: Any, _: _RunText) -> str:
        font, code = element.get(f"{W}font") or "", element.get(f"{W}char") or ""
        text = symbol(font, code)
        if text is None:
            self._left_out.symbols[font or "without a name"] += 1
        return text or ""

    def _note(self, element: Any, run_text: _RunText) -> str:
        name = f"{NOTES[element.tag]}{element.get(f'{W}id') or ''}"
        run_text.notes.append(name)
        return "" if name.startswith("comment") else f"[^{name}]"

    def _box(self, element: Any, run_text: _RunText) -> str:
        run_text.boxes.append(element)
        return ""

    def _drawing(self, element: Any, run_text: _RunText) -> str:
        run_text.drawn.append(element.get(f"{REL}{_DRAWN[element.tag]}") or "")
        return ""

    def _picture(self, element: Any, _: _RunText) -> str:
        description = " ".join((element.get("descr") or "").split())
        return "" if _GENERATED.fullmatch(description) else f" [Picture: {description}] "

    def _word_art(self, element: Any, _: _RunText) -> str:
        return element.get("string") or ""

    def _check_box(self, element: Any, _: _RunText) -> str:
        state = element.find(f"{W}checked")
        state = element.find(f"{W}default") if state is None else state
        return "[x] " if state is not None and state.get(f"{W}val", "1") in ("1", "true", "on") else "[ ] "

    def _list_box(self, element: Any, _: _RunText) -> str:
        entries = [entry.get(f"{W}val") or "" for entry in element.iter(f"{W}listEntry")]
        index = value_of(element, "result") or value_of(element, "default") or "0"
        return entries[int(index)] if index.isdecimal() and int(index) < len(entries) else ""


class _RunText(NamedTuple):
    boxes: list[Any]
    notes: list[str]
    drawn: list[str]
    instructions: list[str]
    targets: list[str]
    marks: str  # of the paragraph's style


_READERS: Final = {
    **dict.fromkeys(_SIGNS, ParagraphReader._sign),
    **dict.fromkeys(NOTES, ParagraphReader._note),
    **dict.fromkeys(_DRAWN, ParagraphReader._drawing),
    **dict.fromkeys(MATH, ParagraphReader._math),
    f"{W}br": ParagraphReader._break,
    f"{W}hyperlink": ParagraphReader._link,
    f"{W}fldSimple": ParagraphReader._field,
    f"{W}instrText": ParagraphReader._instruction,
    f"{W}fldChar": ParagraphReader._field_mark,
    f"{W}sym": ParagraphReader._symbol,
    f"{W}ruby": ParagraphReader._ruby,
    f"{W}txbxContent": ParagraphReader._box,
    f"{_WP}docPr": ParagraphReader._picture,
    f"{_V}textpath": ParagraphReader._word_art,
    f"{W}checkBox": ParagraphReader._check_box,
    f"{W}ddList": ParagraphReader._list_box,
}


def value_of(parent: Any | None, name: str) -> str | None:
    """Return the attribute `w:val` of a child; None if the child is missing."""
    child = None if parent is None else parent.find(f"{W}{name}")
    value = None if child is None else child.get(f"{W}val")
    return None if value is None else str(value)


def is_on(properties: Any | None, name: str) -> bool:
    """Whether a property such as bold is present and not switched off."""
    child = None if properties is None else properties.find(f"{W}{name}")
    return child is not None and child.get(f"{W}val", "1") not in _OFF


def is_shaded(element: Any | None) -> bool:
    """Whether a shading `w:shd` is a background of another colour than white."""
    return element is not None and (element.get(f"{W}fill") or "auto").lower() not in ("auto", "ffffff")


def run_marks(properties: Any | None, inherited: str = "") -> str:
    """Return the marks of text with run properties `w:rPr`, struck before raised or lowered."""
    return _marks({} if properties is None else {child.tag: child for child in properties}, inherited)


def _marks(given: Given, inherited: str) -> str:
    struck, height = STRUCK if STRUCK in inherited else "", inherited.replace(STRUCK, "")
    if f"{W}strike" in given or f"{W}dstrike" in given:
        struck = STRUCK if _is_on(given, "strike") or _is_on(given, "dstrike") else ""
    if (align := _value(given, "vertAlign")) is not None:
        height = {"superscript": RAISED, "subscript": LOWERED}.get(align, "")
    return struck + height


def _value(given: Given, name: str) -> str | None:
    child = given.get(f"{W}{name}")
    return None if child is None else child.get(f"{W}val")


def _is_on(given: Given, name: str) -> bool:
    child = given.get(f"{W}{name}")
    return child is not None and child.get(f"{W}val", "1") not in _OFF


def _marked(text: str, *, bold: bool) -> str:
    joined = re.sub(rf"{_BOLD}(\s*){_BOLD}", r"\1", text)
    plain = joined.replace(_BOLD, "")
    spans = joined.split(_BOLD)
    if not bold or not "".join(spans[0::2]).strip(" .:;\n"):
        return plain
    return with_bold(spans)
