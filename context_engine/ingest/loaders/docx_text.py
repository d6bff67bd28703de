"""The text of one Word paragraph."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

__all__ = ["Paragraph", "W", "is_on", "paragraph", "value_of"]

W: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_M: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_MC: Final = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_GONE: Final = frozenset((f"{W}del", f"{W}moveFrom", f"{W}pPr", f"{W}rPr", f"{W}instrText", f"{W}delText", f"{W}rt"))
_SIGNS: Final = {
    f"{W}tab": " ", f"{W}ptab": " ", f"{W}cr": "\n", f"{W}noBreakHyphen": "-", f"{W}softHyphen": "",
}  # fmt: skip
_BOXES: Final = {"F0FE": "[x]", "F052": "[x]", "F0FD": "[x]", "F0A8": "[ ]", "F06F": "[ ]", "F0A3": "[ ]"}
_BOLD: Final = "\x00"  # stands around bold runs until neighbours are joined; XML cannot hold it


class Paragraph(NamedTuple):
    """A paragraph's text, the text boxes that hang on it, and the ids of footnotes it refers to."""

    text: str
    boxes: tuple[Any, ...]
    notes: tuple[str, ...]


def paragraph(element: Any, *, bold: bool) -> Paragraph:
    """Return the text of a paragraph.

    Args:
        element: the element `w:p`.
        bold: whether bold words inside a paragraph that is not bold as a whole are marked.
    """
    boxes: list[Any] = []
    notes: list[str] = []
    text = "".join(_parts(element, boxes, notes, False))
    return Paragraph(_marked(text, bold=bold), tuple(boxes), tuple(notes))


def value_of(parent: Any | None, name: str) -> str | None:
    """Return the attribute `w:val` of a child, None where there is no such child."""
    child = None if parent is None else parent.find(f"{W}{name}")
    value = None if child is None else child.get(f"{W}val")
    return None if value is None else str(value)


def is_on(properties: Any | None, name: str) -> bool:
    """Whether a property such as bold is there and not switched off."""
    child = None if properties is None else properties.find(f"{W}{name}")
    return child is not None and child.get(f"{W}val", "1") not in ("0", "false", "off", "none")


def _parts(parent: Any, boxes: list[Any], notes: list[str], is_bold: bool) -> Iterator[str]:
    for child in parent:
        tag = child.tag
        if tag == f"{W}r":
            properties = child.find(f"{W}rPr")
            if not is_on(properties, "vanish"):
                yield from _parts(child, boxes, notes, is_on(properties, "b"))
        elif tag in (f"{W}t", f"{_M}t"):
            text = child.text or ""
            yield f"{_BOLD}{text}{_BOLD}" if is_bold and text else text
        elif tag == f"{W}br":
            yield "" if child.get(f"{W}type") in ("page", "column") else "\n"
        elif tag in _SIGNS:
            yield _SIGNS[tag]
        elif tag == f"{W}sym":
            yield _BOXES.get((child.get(f"{W}char") or "").upper(), "")
        elif tag == f"{W}footnoteReference":
            notes.append(child.get(f"{W}id") or "")
            yield f"[^{notes[-1]}]"
        elif tag == f"{W}txbxContent":
            boxes.append(child)
        elif tag == f"{_MC}AlternateContent":
            one = child.find(f"{_MC}Choice")
            yield from _parts(one if one is not None else child, boxes, notes, is_bold)
        elif tag not in _GONE:
            yield from _parts(child, boxes, notes, is_bold)


def _marked(text: str, *, bold: bool) -> str:
    joined = re.sub(rf"{_BOLD}(\s*){_BOLD}", r"\1", text)
    plain = joined.replace(_BOLD, "")
    spans = joined.split(_BOLD)
    if not bold or not "".join(spans[0::2]).strip(" .:;\n"):
        return plain
    return "".join(_around(span) if index % 2 else span for index, span in enumerate(spans))


def _around(span: str) -> str:
    bare = span.strip()
    if not bare or not any(char.isalnum() for char in bare):
        return span
    start = span.index(bare)
    return f"{span[:start]}**{bare}**{span[start + len(bare) :]}"
