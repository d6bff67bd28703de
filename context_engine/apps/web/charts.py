"""Pictures of numbers as SVG that scales with the page and says in words what it shows; a table stands below each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from markupsafe import Markup, escape

from context_engine.apps.web.inert import clean

_ROW: Final = 30
_LABELS: Final = 40.0
_BARS: Final = 50.0
_HEIGHT: Final = 150
_TOP: Final = 20
_BASE: Final = 126


class Column(NamedTuple):
    """A column of a chart: `part` of `value` is drawn in another colour."""

    label: str
    value: int
    part: int = 0


class ChartBar(NamedTuple):
    """A bar with its label and the number as people read it.

    Attributes:
        kind: a CSS class for its colour.
    """

    label: str
    value: float
    text: str
    kind: str = "fill"


def bars_chart(bars: Sequence[ChartBar], title: str) -> Markup:
    """Return horizontal bars from 0."""
    most = max((bar.value for bar in bars), default=0) or 1
    told = "; ".join(f"{bar.label}: {bar.text}" for bar in bars)
    rows = (part for place, bar in enumerate(bars) for part in _bar(bar, place * _ROW, most))
    return _svg(len(bars) * _ROW, title, told, rows)


def _bar(bar: ChartBar, y: int, most: float) -> Iterator[str]:
    yield _text("0", y + 19, bar.label, "name")
    yield _rect(_LABELS, _BARS, y + 6, 18, "track")
    if bar.value > 0:
        yield _rect(_LABELS, _BARS * bar.value / most, y + 6, 18, bar.kind)
    yield _text(f"{_LABELS + _BARS}%", y + 19, bar.text, "number", dx=8)


def columns(values: Sequence[Column], title: str, part: str) -> Markup:
    """Return columns over time.

    Args:
        part: what the coloured part of a column is.
    """
    most = max((column.value for column in values), default=0) or 1
    width = min(100.0 / max(len(values), 1), 12.0)
    told = "; ".join(
        f"{column.label}: {column.value}" + (f", {column.part} {part}" if column.part else "") for column in values
    )
    return _svg(_HEIGHT, title, told, _columns(values, most, width))


def _columns(values: Sequence[Column], most: int, width: float) -> Iterator[str]:
    yield _text("0", 12, f"{most:,}", "axis")
    for y in (_TOP, _BASE):
        yield f'<line class="grid" x1="0" x2="100%" y1="{y}" y2="{y}"/>'
    labelled = {0, len(values) // 2, len(values) - 1}
    for place, column in enumerate(values):
        x, wide = (place + 0.12) * width, 0.76 * width
        for number, kind in ((column.value, "fill"), (column.part, "part")):
            if number:
                high = (_BASE - _TOP) * number / most
                yield _rect(x, wide, _BASE - high, high, kind)
        if place in labelled:
            last = place > 1 and place == len(values) - 1
            edge, anchor = (x + wide, "end") if last else (x, "start")
            yield _text(f"{edge:.2f}%", _HEIGHT - 6, column.label, "axis", anchor=anchor)


def _svg(height: int, title: str, told: str, body: Iterator[str]) -> Markup:
    words = f"<title>{_said(title)}</title><desc>{_said(told)}</desc>"
    return Markup(f'<svg class="chart" width="100%" height="{height}" role="img">{words}{"".join(body)}</svg>')


def _rect(x: float, width: float, y: float, height: float, kind: str) -> str:
    place = f'x="{x:.2f}%" y="{y:.1f}" width="{width:.2f}%" height="{height:.1f}"'
    return f'<rect class="{escape(kind)}" {place} rx="3"/>'


def _text(x: str, y: int, text: str, kind: str, *, dx: int = 0, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" dx="{dx}" text-anchor="{anchor}">{_said(text)}</text>'


def _said(text: str) -> str:
    return str(escape(clean(text)))
