"""Pictures of numbers as SVG that scales with the page and says in words what it shows; a table stands below each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, groupby, pairwise
from typing import Final, NamedTuple

from markupsafe import Markup, escape

from context_engine.apps.web.inert import clean
from context_engine.service.contract.explanation import ExplainedStage

_ROW: Final = 30
_LABELS: Final = 40.0
_BARS: Final = 50.0
_HEIGHT: Final = 150
_TOP: Final = 20
_BASE: Final = 126
_LEAST_SHARE: Final = 0.05
"""The top of a chart of shares is at least this, so that a share near nothing does not fill it."""


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


class SharePoint(NamedTuple):
    """The share of one day, 0 to 1.

    Attributes:
        marked: whether an alarm was raised on it.
        raised: whether it is part of a time above the past.
    """

    label: str
    share: float
    text: str
    marked: bool = False
    raised: bool = False


def share_line(points: Sequence[SharePoint], past: float, title: str) -> Markup:
    """Return shares over time as a line, beside the share of the past; times above it are shaded, alarms are marked.

    Args:
        past: 0 to 1; drawn as a dashed line.
    """
    most = max([_LEAST_SHARE, past, *(point.share for point in points)])
    values = "; ".join(f"{point.label}: {point.text}{', alarm' if point.marked else ''}" for point in points)
    return _svg(_HEIGHT, title, f"past {past:.1%}; {values}", _share_line(points, past, most))


def _share_line(points: Sequence[SharePoint], past: float, most: float) -> Iterator[str]:
    step = 100.0 / max(len(points), 1)
    places = [((number + 0.5) * step, _level(point.share, most)) for number, point in enumerate(points)]
    yield _text("0", 12, f"{most:.0%}", "axis")
    for raised, run in groupby(enumerate(points), key=lambda item: item[1].raised):
        days = [number for number, _ in run]
        if raised:
            yield _rect(days[0] * step, len(days) * step, _TOP, _BASE - _TOP, "raised")
    yield f'<line class="grid" x1="0" x2="100%" y1="{_BASE}" y2="{_BASE}"/>'
    yield f'<line class="past" x1="0" x2="100%" y1="{_level(past, most):.1f}" y2="{_level(past, most):.1f}"/>'
    for (x1, y1), (x2, y2) in pairwise(places):
        yield f'<line class="line" x1="{x1:.2f}%" x2="{x2:.2f}%" y1="{y1:.1f}" y2="{y2:.1f}"/>'
    for (x, y), point in zip(places, points, strict=True):
        kind, radius = ("alarm", 5) if point.marked else ("dot", 2)
        yield f'<circle class="{kind}" cx="{x:.2f}%" cy="{y:.1f}" r="{radius}"/>'
    if points:
        yield _text("0", _HEIGHT - 6, points[0].label, "axis")
    if len(points) > 1:
        yield _text("100%", _HEIGHT - 6, points[-1].label, "axis", anchor="end")


def _level(share: float, most: float) -> float:
    return _BASE - (_BASE - _TOP) * share / most


def bars_chart(bars: Sequence[ChartBar], title: str) -> Markup:
    """Return horizontal bars from 0."""
    most = max((bar.value for bar in bars), default=0) or 1
    description = "; ".join(f"{bar.label}: {bar.text}" for bar in bars)
    rows = (part for place, bar in enumerate(bars) for part in _bar(bar, place * _ROW, most))
    return _svg(len(bars) * _ROW, title, description, rows)


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
    description = "; ".join(
        f"{column.label}: {column.value}" + (f", {column.part} {part}" if column.part else "") for column in values
    )
    return _svg(_HEIGHT, title, description, _columns(values, most, width))


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


def _svg(height: int, title: str, description: str, body: Iterator[str]) -> Markup:
    words = f"<title>{_escaped(title)}</title><desc>{_escaped(description)}</desc>"
    return Markup(f'<svg class="chart" width="100%" height="{height}" role="img">{words}{"".join(body)}</svg>')


def _rect(x: float, width: float, y: float, height: float, kind: str) -> str:
    place = f'x="{x:.2f}%" y="{y:.1f}" width="{width:.2f}%" height="{height:.1f}"'
    return f'<rect class="{escape(kind)}" {place} rx="3"/>'


def _text(x: str, y: int, text: str, kind: str, *, dx: int = 0, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" dx="{dx}" text-anchor="{anchor}">{_escaped(text)}</text>'


def _escaped(text: str) -> str:
    return str(escape(clean(text)))


WIDTH: Final = 340
ROW: Final = 36
"""Units of the picture, which is as wide as a phone."""

_STEPS: Final = {
    "recall": "found by the sources",
    "filter": "keep the filter",
    "as_of": "in force on the day",
    "expiry": "not refused for their age",
    "measure": "measured against the question",
    "dedup": "after merging of duplicates",
    "threshold": "reach the similarity threshold",
    "scope": "within the domain's scope",
    "relevance": "relevant enough",
    "rerank": "ranked by the reranker",
    "select": "returned",
}


class FunnelBar(NamedTuple):
    """A step with the geometry of its bar.

    Attributes:
        entered, left: candidates before and after the step.
        y, width: of the bar, in units of the picture; `y` is None if the picture leaves the step out, because it
            removed nothing.
    """

    name: str
    words: str
    entered: int
    left: int
    y: int | None
    width: int

    @property
    def removed(self) -> int:
        """The candidates that the step removed or merged."""
        return self.entered - self.left


def funnel_bars(stages: Sequence[ExplainedStage]) -> tuple[FunnelBar, ...]:
    """Return the bars of a funnel, from the first step to the last."""
    most = max((stage.entered for stage in stages), default=0) or 1
    ends = (stages[0], stages[-1]) if stages else ()
    places = count()
    return tuple(
        FunnelBar(
            name=stage.name,
            words=_STEPS.get(stage.name, stage.name.replace("_", " ")),
            entered=stage.entered,
            left=stage.left,
            y=next(places) * ROW if stage in ends or stage.entered != stage.left else None,
            width=max(round(stage.left / most * WIDTH), 2 if stage.left else 0),
        )
        for stage in stages
    )
