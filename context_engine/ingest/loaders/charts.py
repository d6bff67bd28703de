"""Charts and diagrams of DOCX and PPTX (ECMA-376 Part 1, 21.2 and 21.4; MS-ODRAWXML 2.24.3 for the newer charts).

A chart becomes a table: a row for each category, a column for each series, numbers and dates in their formats.
A label that a person typed stands before the value that the chart was saved with. Read too: titles, text boxes
inside a chart. Not read: the embedded workbook, positions, legends (they repeat the names).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from context_engine.ingest.loaders.markdown import MarkdownBlock, one_line, pipe_table
from context_engine.ingest.loaders.ooxml import A, OoxmlPackage
from context_engine.ingest.loaders.table import shown
from context_engine.ingest.loaders.xlsx_values import Values, format_of

_C: Final = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_CX: Final = "{http://schemas.microsoft.com/office/drawing/2014/chartex}"
_C15: Final = "{http://schemas.microsoft.com/office/drawing/2012/chart}"
_DGM: Final = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
_SHAPES: Final = "chartUserShapes"
_POINTS: Final = frozenset(("", "node", "asst", "doc"))  # points with text by a person; other kinds are layout
_MOST_POINTS: Final = 10_000
_Points = dict[int, str]
"""Texts by the place of their point."""


class _Series(NamedTuple):
    name: str
    categories: _Points
    values: _Points


def drawn_text(package: OoxmlPackage, part: str, relation: str) -> list[MarkdownBlock]:
    """Return the text of the chart or diagram that a part refers to by a relation id; nothing if it is missing."""
    target = package.relations(part).get(relation)
    if target is None or target.outside or target.target not in package.parts:
        return []
    root = package.parts.root(target.target)
    if root is None:
        return []
    if root.tag == f"{_DGM}dataModel":
        return list(_diagram(root))
    boxes = package.root(target.target, _SHAPES) if package.related(target.target, _SHAPES) else None
    return [*_chart(root), *(() if boxes is None else map(MarkdownBlock, _paragraphs(boxes)))]


def _chart(root: Any) -> Iterator[MarkdownBlock]:
    series = [_series(element, root) for element in root.iter(f"{_C}ser")]
    series += [_newer_series(element, root) for element in root.iter(f"{_CX}series")]
    titles = [one_line(" ".join(_paragraphs(title))) for title in root.iter(f"{_C}title", f"{_CX}title")]
    if not series:  # an unknown kind of chart: all its text
        text = one_line(" ".join(node.text or "" for node in root.iter() if isinstance(node.text, str)))
        yield from [MarkdownBlock(f"Chart: {text}")] if text else []
        return
    yield MarkdownBlock(f"Chart: {'; '.join(filter(None, titles))}".rstrip(": "))
    table = _table(series)
    yield from [table] if table else []


def _table(series: Sequence[_Series]) -> MarkdownBlock | None:
    rows: dict[str, list[str]] = {}
    for column, (_, categories, values) in enumerate(series):
        for place in sorted({*categories, *values})[:_MOST_POINTS]:
            row = rows.setdefault(categories.get(place) or str(place + 1), [""] * len(series))
            row[column] = " ".join(filter(None, (row[column], values.get(place, ""))))
    names = [name or f"Series {number}" for number, (name, _, _) in enumerate(series, start=1)]  # as Office calls it
    return pipe_table([["", *names], *([name, *row] for name, row in rows.items())])


def _series(element: Any, root: Any) -> _Series:
    from_1904 = any(mark.get("val", "1") != "0" for mark in root.iterfind(f"{_C}date1904"))
    name = " ".join(value.text or "" for text in element.iterfind(f"{_C}tx") for value in text.iter(f"{_C}v"))
    categories = _points(element, ("cat", "xVal"), from_1904)
    values = _points(element, ("val", "yVal"), from_1904)
    for place, text in _labels(element, values).items():
        value = values.get(place, "")
        names_it = re.search(rf"(?<![\d.,]){re.escape(value)}(?![.,]?\d)", text)
        values[place] = text if names_it else f"{text} ({value})"
    for place, size in _points(element, ("bubbleSize",), from_1904).items():
        values[place] = f"{values.get(place, '')} {size}".strip()
    return _Series(one_line(name), categories, values)


def _points(series: Any, kinds: Sequence[str], from_1904: bool) -> _Points:
    """Return the values that a chart was saved with; an inner level of categories stands behind the outer one."""
    out: _Points = {}
    for kind in kinds:
        code = next((code.text for code in series.iterfind(f"{_C}{kind}//{_C}formatCode")), "") or ""
        number = any(series.find(f"{_C}{kind}//{_C}{store}") is not None for store in ("numCache", "numLit"))
        for point in series.iterfind(f"{_C}{kind}//{_C}pt"):
            place = point.get("idx") or ""
            stored = point.findtext(f"{_C}v") or ""
            text = _shown(stored, point.get("formatCode") or code, from_1904, number=number)
            if place.isdecimal():
                out[int(place)] = f"{text} {out[int(place)]}" if int(place) in out else text
    return out


def _shown(text: str, code: str, from_1904: bool = False, *, number: bool = True) -> str:
    """Return a stored value in its format: 0.25 as 25%, 41791 as 2014-06-01."""
    if not number or not text.strip():
        return one_line(text)
    return one_line(str(shown(_values(code, from_1904).value("n", text.strip(), "0"))))


@lru_cache(maxsize=64)
def _values(code: str, from_1904: bool) -> Values:
    return Values((), (format_of(code),), from_1904=from_1904)


def _labels(series: Any, values: _Points) -> _Points:
    """Return the labels that are typed or taken from cells, not those that repeat value, name or share."""
    cells = {
        int(point.get("idx")): one_line(point.findtext(f"{_C}v") or "")
        for point in series.iterfind(f".//{_C15}dlblRangeCache/{_C}pt")
        if (point.get("idx") or "").isdecimal()
    }
    out = dict(cells)
    for label in series.iterfind(f"{_C}dLbls/{_C}dLbl"):
        index = label.find(f"{_C}idx")
        place = "" if index is None else index.get("val") or ""
        if place.isdecimal() and label.find(f"{_C}tx/{_C}rich") is not None:
            out[int(place)] = _label(label, {"VALUE": values, "YVALUE": values, "CELLRANGE": cells}, int(place))
    return {place: text for place, text in out.items() if text and text != values.get(place)}


def _label(label: Any, fields: dict[str, _Points], place: int) -> str:
    texts = []
    for run in label.iter(f"{A}r", f"{A}fld"):
        kind = run.get("type", "") if run.tag == f"{A}fld" else None
        texts.append(fields.get(kind, {}).get(place, "") if kind is not None else run.findtext(f"{A}t") or "")
    return one_line("".join(texts))


def _newer_series(element: Any, root: Any) -> _Series:
    """Return a series of a waterfall, funnel, treemap or other chart of Office 2016 and later."""
    name = " ".join(value.text or "" for value in element.iterfind(f"{_CX}tx//{_CX}v"))
    identity = next((data.get("val") for data in element.iterfind(f"{_CX}dataId")), "")
    categories: _Points = {}
    values: _Points = {}
    for data in root.iterfind(f"{_CX}chartData/{_CX}data"):
        for dimension in data if data.get("id") == identity else ():
            out = values if dimension.tag == f"{_CX}numDim" else categories
            for level in dimension.iterfind(f"{_CX}lvl"):
                for point in level.iterfind(f"{_CX}pt"):
                    place = point.get("idx") or ""
                    text = _shown(point.text or "", level.get("formatCode") or "", number=out is values)
                    if place.isdecimal() and text:
                        out[int(place)] = f"{text} {out[int(place)]}" if int(place) in out else text
    return _Series(one_line(name), categories, values)


def _diagram(root: Any) -> Iterator[MarkdownBlock]:
    points = (point for point in root.iter(f"{_DGM}pt") if (point.get("type") or "") in _POINTS)
    for text in (one_line(" ".join(_paragraphs(point))) for point in points):
        if text:
            yield MarkdownBlock(f"- {text}", item=True)


def _paragraphs(element: Any) -> Iterator[str]:
    for paragraph in element.iter(f"{A}p"):
        text = one_line("".join(text.text or "" for text in paragraph.iter(f"{A}t")))
        if text:
            yield text
