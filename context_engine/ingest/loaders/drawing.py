"""Charts and diagrams in Word files and presentations as text (DrawingML, ECMA-376 Part 1, 21.2 and 21.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from context_engine.ingest.loaders.markdown import MarkdownBlock, one_line, pipe_table
from context_engine.ingest.loaders.ooxml import OoxmlPackage

A: Final = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_C: Final = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_DGM: Final = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
_POINTS: Final = frozenset(("", "node", "asst", "doc"))  # kinds of points that a person wrote; others lay them out
_MOST_POINTS: Final = 10_000


def drawn_text(package: OoxmlPackage, part: str, relation: str) -> list[MarkdownBlock]:
    """Return the text of a chart or diagram; nothing where what is referred to is not there.

    Args:
        package: the file.
        part: the part whose relation it is.
        relation: its id.
    """
    found = package.relations(part).get(relation)
    if found is None or found.outside or found.target not in package.parts:
        return []
    root = package.parts.root(found.target)
    if root is None:
        return []
    return list(_diagram(root) if root.tag == f"{_DGM}dataModel" else _chart(root))


def _chart(root: Any) -> Iterator[MarkdownBlock]:
    series = list(root.iter(f"{_C}ser"))
    titles = [one_line(_said(one)) for one in root.iter(f"{_C}title")]
    if not series:  # a kind of chart that is not known: whatever is written in it
        text = one_line(" ".join(one.text or "" for one in root.iter() if isinstance(one.text, str)))
        yield from [MarkdownBlock(f"Chart: {text}")] if text else []
        return
    yield MarkdownBlock(f"Chart: {'; '.join(filter(None, titles))}".rstrip(": "))
    rows: dict[str, list[str]] = {}
    for column, one in enumerate(series):
        names, values = _points(one, "cat", "xVal"), _points(one, "val", "yVal")
        sizes = _points(one, "bubbleSize")
        for place in sorted({*names, *values})[:_MOST_POINTS]:
            row = rows.setdefault(names.get(place) or str(place + 1), [""] * len(series))
            row[column] = " ".join(filter(None, (row[column], values.get(place, ""), sizes.get(place, ""))))
    head = ["", *(one_line(_name(one)) for one in series)]
    table = pipe_table([head, *([name, *row] for name, row in rows.items())])
    yield from [table] if table else []


def _points(series: Any, *kinds: str) -> dict[int, str]:
    """Return the values that a chart was saved with, by their place."""
    out: dict[int, str] = {}
    for kind in kinds:
        for point in series.iterfind(f"{_C}{kind}//{_C}pt"):
            place = point.get("idx") or ""
            text = one_line(point.findtext(f"{_C}v") or "")
            if place.isdecimal():
                out[int(place)] = f"{text} {out[int(place)]}" if int(place) in out else text  # groups of categories
    return out


def _name(series: Any) -> str:
    given = series.find(f"{_C}tx")
    return "" if given is None else " ".join(one.text or "" for one in given.iter(f"{_C}v"))


def _diagram(root: Any) -> Iterator[MarkdownBlock]:
    points = (one for one in root.iter(f"{_DGM}pt") if (one.get("type") or "") in _POINTS)
    for text in map(one_line, map(_said, points)):
        if text:
            yield MarkdownBlock(f"- {text}", item=True)


def _said(element: Any) -> str:
    """Return the text inside an element, a space between its paragraphs."""
    paragraphs = ("".join(text.text or "" for text in one.iter(f"{A}t")) for one in element.iter(f"{A}p"))
    return " ".join(paragraphs)
