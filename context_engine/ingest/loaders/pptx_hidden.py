"""Text of a slide that nobody sees: beside the slide, tiny, transparent, or white on a white slide.

White text is hidden only if the slide, its layout and its master have no other background, and nothing is drawn where
the text stands. So white text on a picture or a dark shape is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from math import inf
from typing import Any, Final

from context_engine.ingest.loaders.markdown import one_line
from context_engine.ingest.loaders.ooxml import PALE, A, OoxmlPackage
from context_engine.ingest.loaders.pdf_digits import Box

P: Final = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_TINY: Final = 150  # hundredths of a point
_FRAMES: Final = {f"{P}sp": f"{P}spPr", f"{P}cxnSp": f"{P}spPr", f"{P}pic": f"{P}spPr", f"{P}grpSp": f"{P}grpSpPr"}
_FILLS: Final = tuple(f"{A}{name}" for name in ("solidFill", "gradFill", "blipFill", "pattFill", "grpFill"))
_WHITE: Final = ("bg1", "lt1", "white")


class SlideVisibility:
    """Tells which text of a slide nobody sees.

    Attributes:
        unseen: that text, in the order it was met.
    """

    def __init__(self, package: OoxmlPackage, part: str) -> None:
        self._package = package
        self._part = part
        self.unseen: list[str] = []

    def on_slide(self, tree: Any) -> list[Any]:
        """Return the shapes of a tree without those beside the slide."""
        if tree.tag != f"{P}spTree":  # the places in a group are its own
            return list(tree)
        width, height = self._size
        shapes = []
        for shape in tree:
            box = box_of(shape)
            if box and (box[2] <= 0 or box[3] <= -height or box[0] >= width or box[1] >= 0):
                self.unseen.append(one_line(" ".join(element.text or "" for element in shape.iter(f"{A}t"))))
            else:
                shapes.append(shape)
        return shapes

    def hides(self, run: Any) -> bool:
        """Return whether nobody sees a run of text; its words are then kept in `unseen`."""
        properties = run.find(f"{A}rPr")
        if properties is None:
            return False
        size = properties.get("sz") or ""
        fill = properties.find(f"{A}solidFill")
        alpha = None if fill is None else fill.find(f"*/{A}alpha")
        tiny = size.isdecimal() and int(size) <= _TINY
        clear = alpha is not None and (alpha.get("val") or "").rstrip("%") in ("0", "0.0")
        hidden = tiny or clear or (_is_white(fill) and self._is_on_white(run))
        if hidden:
            self.unseen.append(one_line(run.findtext(f"{A}t") or ""))
        return hidden

    def _is_on_white(self, run: Any) -> bool:
        shapes = [shape for shape in run.iterancestors() if shape.tag in (f"{P}sp", f"{P}graphicFrame", f"{P}grpSp")]
        if [shape.tag for shape in shapes] != [f"{P}sp"] or run.getroottree().getroot().tag != f"{P}sld":
            return False
        box = box_of(shapes[0])
        others = (shape for shape in shapes[0].getparent() if shape is not shapes[0])
        behind = any(_is_drawn(shape) and _touch(box, box_of(shape)) for shape in others)
        return not behind and not _is_drawn(shapes[0]) and self._is_white_slide

    @cached_property
    def _is_white_slide(self) -> bool:
        roots = list(self._roots())
        grounds = [ground for root in roots if (ground := root.find(f"{P}cSld/{P}bg")) is not None]
        maps = [colours for root in roots for colours in root.iter(f"{P}clrMap", f"{A}overrideClrMapping")]
        if not all(map(_is_white_ground, grounds)) or any(colours.get("bg1") != "lt1" for colours in maps):
            return False
        trees = (root.find(f"{P}cSld/{P}spTree") for root in roots[1:])
        return not any(_is_drawn(shape) for tree in trees if tree is not None for shape in tree)

    def _roots(self) -> Iterator[Any]:
        """Yield the roots of the slide, its layout and its master."""
        part = self._part
        for kind in ("slideLayout", "slideMaster", ""):
            root = self._package.shared_root(part) if kind != "slideLayout" else self._package.parts.root(part)
            if root is not None:
                yield root
            part = next(iter(self._package.related(part, kind)), "") if kind else ""
            if not part:
                return

    @cached_property
    def _size(self) -> tuple[float, float]:
        """The width and height of the slides; infinite if the presentation does not say."""
        root = self._package.shared_root(self._package.main)
        size = None if root is None else root.find(f"{P}sldSz")
        sides = [] if size is None else [size.get("cx") or "", size.get("cy") or ""]
        known = sides and all(side.isdecimal() for side in sides)
        return (float(sides[0]), float(sides[1])) if known else (inf, inf)


def box_of(shape: Any) -> Box | None:
    """Return the place of a shape, with heights counted upwards; None if it has none of its own."""
    around = _FRAMES.get(shape.tag)
    inner = next(shape.iterchildren(around), None) if around else shape
    frame = None if inner is None else next(inner.iterchildren(f"{A}xfrm", f"{P}xfrm"), None)
    numbers = [] if frame is None else [frame.find(f"{A}off"), frame.find(f"{A}ext")]
    if not numbers or any(number is None for number in numbers):
        return None
    off, ext = numbers
    values = [off.get("x") or "", off.get("y") or "", ext.get("cx") or "", ext.get("cy") or ""]
    if not all(re.fullmatch(r"-?\d{1,12}", value) for value in values):
        return None
    left, top, width, height = map(float, values)
    return left, -top - height, left + width, -top


def _is_drawn(shape: Any) -> bool:
    """Whether a shape may be the background of text: a picture, a table, a group, anything with a fill."""
    if shape.tag not in (f"{P}sp", f"{P}cxnSp"):
        return shape.tag not in (f"{P}nvGrpSpPr", f"{P}grpSpPr")
    style = shape.find(f"{P}style/{A}fillRef")
    properties = shape.find(f"{P}spPr")
    fills = [] if properties is None else [child for child in properties if child.tag in _FILLS]
    bare = properties is not None and properties.find(f"{A}noFill") is not None
    return any(not _is_white(fill) for fill in fills) or (
        not fills and not bare and style is not None and style.get("idx") != "0"
    )


def _touch(first: Box | None, second: Box | None) -> bool:
    """Whether two boxes overlap; unknown ones may."""
    if first is None or second is None:
        return True
    return first[0] < second[2] and second[0] < first[2] and first[1] < second[3] and second[1] < first[3]


def _is_white_ground(ground: Any) -> bool:
    reference = ground.find(f"{P}bgRef")
    if reference is not None:  # 1001 is the plain fill of a theme
        return reference.get("idx") in ("0", "1001") and _is_white(reference)
    return _is_white(ground.find(f"{P}bgPr/{A}solidFill"))


def _is_white(fill: Any | None) -> bool:
    """Whether a fill, or the reference to one, has a colour that is white or nearly so; darker shades do not count."""
    colour = None if fill is None or len(fill) == 0 else fill[0]
    if colour is None or (len(colour) and colour.find(f"{A}alpha") is None):
        return False
    value = colour.get("val") or ""
    return value in _WHITE or PALE.fullmatch(value) is not None
