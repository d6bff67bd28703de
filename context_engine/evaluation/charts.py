"""Charts of a report as SVG, in the colours of the page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import floor, log10
from typing import Final, NamedTuple

_WIDTH: Final = 520
_LABEL: Final = 118
_RIGHT: Final = 62
_ROW: Final = 30


class Bar(NamedTuple):
    """A bar with its label; `tick` is a second number marked on it, `text` is shown at its end."""

    label: str
    value: float
    text: str
    tick: float | None = None
    series: int = 0


class IntervalBar(NamedTuple):
    """A mean with its interval."""

    label: str
    mean: float
    low: float
    high: float
    series: int = 0


class LineSeries(NamedTuple):
    """A curve through (x, y) points."""

    label: str
    points: Sequence[tuple[float, float]]
    series: int = 0


def key(names: Sequence[str], kind: str = "s", start: int = 0) -> str:
    """Return the legend as HTML."""
    marks = (f'<i class="{kind}{number}"></i>' for number in range(start, start + len(names)))
    keys = (f"<span class=key>{mark}{escape(name)}</span>" for mark, name in zip(marks, names))
    return f"<span class=keys>{''.join(keys)}</span>"


def _svg(height: float, body: Sequence[str], title: str) -> str:
    head = f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'
    return f"{head}<title>{escape(title)}</title>{''.join(body)}</svg>"


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _rect(x: float, y: float, width: float, height: float, kind: str, tip: str = "", round_: float = 3) -> str:
    tip = f"<title>{escape(tip)}</title>" if tip else ""
    size = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"'
    return f'<rect {size} rx="{round_}" class="{kind}">{tip}</rect>'


def _steps(low: float, high: float) -> list[float]:
    """Return about five round numbers from low to high."""
    rough = max(high - low, 1e-6) / 4
    power = 10.0 ** floor(log10(rough))
    size = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    steps = [size * (floor(low / size) + number) for number in range(12)]
    return [round(step, 9) for step in steps if low - 1e-9 <= step <= high + size * 0.001]


def intervals(rows: Sequence[IntervalBar], title: str) -> str:
    """Draw means as dots on a common axis with their 95 % intervals as bars; two series share a line."""
    labels = list(dict.fromkeys(row.label for row in rows))
    low = max(0.0, int(min((row.low for row in rows), default=0) * 10 - 0.5) / 10)
    high = min(1.0, int(max((row.high for row in rows), default=1) * 10 + 1.5) / 10)
    room = _WIDTH - _LABEL - _RIGHT
    bottom = 12 + len(labels) * (_ROW + 6)

    def at(value: float) -> float:
        return _LABEL + room * (value - low) / max(high - low, 1e-9)

    body = []
    for step in _steps(low, high):
        body += [
            _line(at(step), 8, at(step), bottom, "grid"),
            _text(at(step), bottom + 16, f"{step:g}", "tick", "middle"),
        ]
    many = len(rows) > len(labels)
    for row in rows:
        y = 12 + labels.index(row.label) * (_ROW + 6) + (_ROW / 2) + ((-7 if row.series == 0 else 7) if many else 0)
        body.append(_line(at(row.low), y, at(row.high), y, f"whisker s{row.series}"))
        tip = f"<title>{row.label} {row.mean:.4f}, 95 % {row.low:.4f} to {row.high:.4f}</title>"
        body.append(f'<circle cx="{at(row.mean):.1f}" cy="{y:.1f}" r="5" class="dot s{row.series}">{tip}</circle>')
        body.append(_text(_WIDTH - 6, y + 4, f"{row.mean:.3f}", f"value s{row.series}t", "end"))
    for number, label in enumerate(labels):
        body.append(_text(_LABEL - 12, 12 + number * (_ROW + 6) + _ROW / 2 + 4, label, "label", "end"))
    return _svg(bottom + 24, body, title)


def bars(rows: Sequence[Bar], title: str) -> str:
    """Draw horizontal bars from 0."""
    most = max((max(row.value, row.tick or 0.0) for row in rows), default=0.0) or 1.0
    right = max(_RIGHT, 8 + 6.6 * max((len(row.text) for row in rows), default=0))
    room = _WIDTH - _LABEL - right
    body, y = [], 6.0
    before = ""
    for row in rows:
        same = row.label == before
        y += 0 if same or not before else 8
        height = 14 if row.series or same else 16
        if not same:
            body.append(_text(_LABEL - 12, y + 12, row.label, "label", "end"))
        width = room * row.value / most
        body.append(_rect(_LABEL, y, max(width, 1.5), height, f"s{row.series}", f"{row.label}: {row.text}"))
        end = width
        if row.tick is not None:
            x = _LABEL + room * row.tick / most
            body += [
                _line(_LABEL + width, y + height / 2, x, y + height / 2, "reach"),
                _line(x, y + 2, x, y + height - 2, "reach"),
            ]
            end = max(width, room * row.tick / most)
        body.append(_text(_LABEL + end + 8, y + height / 2 + 4.5, row.text, "value"))
        y, before = y + height + 3, row.label
    return _svg(y + 6, body, title)


def lines(
    rows: Sequence[LineSeries], title: str, *, x_label: str = "", percent: bool = False, mark: float | None = None
) -> str:
    """Draw curves over a common axis from 0 to 1; `mark` is a vertical line at an x."""
    left, top, height = 44.0, 12.0, 220.0
    xs = [x for row in rows for x, _ in row.points]
    low_x, high_x = min(xs, default=0.0), max(xs, default=1.0)
    ys = [y for row in rows for _, y in row.points]
    low_y = 0.0 if not ys or min(ys) < 0.3 else int(min(ys) * 10) / 10
    room = _WIDTH - left - 20

    def at(x: float, y: float) -> tuple[float, float]:
        across = (x - low_x) / max(high_x - low_x, 1e-9)
        return left + room * across, top + height * (1 - (y - low_y) / max(1.0 - low_y, 1e-9))

    body = []
    for step in _steps(low_y, 1.0):
        y = at(low_x, step)[1]
        label = f"{step:.0%}" if percent else f"{step:g}"
        body += [_line(left, y, left + room, y, "grid"), _text(left - 8, y + 4, label, "tick", "end")]
    for step in _steps(low_x, high_x):
        body.append(_text(at(step, low_y)[0], top + height + 18, f"{step:g}", "tick", "middle"))
    if mark is not None:
        body.append(_line(at(mark, 0)[0], top, at(mark, 0)[0], top + height, "mark"))
    for row in reversed(rows):
        path = " ".join(
            f"{'M' if not number else 'L'}{x:.1f} {y:.1f}"
            for number, (x, y) in enumerate(at(*point) for point in row.points)
        )
        body.append(f'<path d="{path}" class="curve s{row.series}"/>')
    if x_label:
        body.append(_text(left + room / 2, top + height + 36, x_label, "tick", "middle"))
    return _svg(top + height + (42 if x_label else 26), body, title)


def shares(rows: Sequence[tuple[str, Sequence[float]]], names: Sequence[str], title: str) -> str:
    """Draw each row as a full bar, divided into shares."""
    room = _WIDTH - _LABEL - 8
    body, y = [], 6.0
    for label, parts in rows:
        body.append(_text(_LABEL - 12, y + 18, label, "label", "end"))
        x = float(_LABEL)
        for number, share in enumerate(parts):
            width = room * share
            body.append(_rect(x, y, max(width - 1.5, 0), 28, f"t{number + 1}", f"{names[number]}: {share:.1%}", 2))
            if width > 36:
                body.append(_text(x + width / 2 - 1, y + 18, f"{share:.0%}", f"on t{number + 1}t", "middle"))
            x += width
        y += 40
    return _svg(y, body, title)


def histogram(values: Sequence[float], other: Sequence[float] | None, title: str, *, percent: bool = False) -> str:
    """Draw the number or share of questions with a value in each tenth from 0 to 1 (1 is in the last)."""
    series = [values] if other is None else [values, other]
    counts = [[sum(min(int(value * 10), 9) == place for value in data) for place in range(10)] for data in series]
    sizes = [[count / (max(len(data), 1) if percent else 1) for count in bins] for data, bins in zip(series, counts)]
    left, top, height = 44.0, 18.0, 170.0
    room = _WIDTH - left - 12
    most = max(size for bins in sizes for size in bins) or 1
    body = [_line(left, top + height, left + room, top + height, "axis")]
    wide = room / 10
    for number, bins in enumerate(sizes):
        width = (wide - 8) / len(sizes)
        for place, size in enumerate(bins):
            x, tall = left + wide * place + 4 + width * number, height * size / most
            label = f"{size:.0%}" if percent else f"{size:g}"
            tip = f"{place / 10:g} to {(place + 1) / 10:g}: {counts[number][place]}"
            body.append(_rect(x, top + height - tall, width - 1, tall, f"s{number}", tip, 2))
            if size:
                body.append(_text(x + width / 2, top + height - tall - 5, label, "tick", "middle"))
    for place in range(0, 11, 2):
        body.append(_text(left + wide * place, top + height + 18, f"{place / 10:g}", "tick", "middle"))
    return _svg(top + height + 26, body, title)


def differences(values: Sequence[float], title: str) -> str:
    """Draw the difference of each question, sorted, above and below 0."""
    ordered = sorted((value for value in values if value), reverse=True)
    left, top, height = 44.0, 12.0, 190.0
    room = _WIDTH - left - 12
    most = max((abs(value) for value in ordered), default=1.0) or 1.0
    middle = top + height / 2
    body = [_text(left - 8, top + 4, f"+{most:.2f}", "tick", "end"), _text(left - 8, middle + 4, "0", "tick", "end")]
    body.append(_text(left - 8, top + height + 4, f"−{most:.2f}", "tick", "end"))
    wide = room / max(len(ordered), 1)
    width = min(max(wide - (1 if wide > 3 else 0), 0.4), 26)
    for place, value in enumerate(ordered):
        size = height / 2 * abs(value) / most
        y = middle - size if value > 0 else middle
        body.append(_rect(left + wide * place, y, width, size, "up" if value > 0 else "down", f"{value:+.3f}", 1))
    body.append(_line(left, middle, left + room, middle, "axis"))
    return _svg(top + height + 12, body, title)


def meter(share: float, title: str) -> str:
    """Draw a part of a whole."""
    room = _WIDTH - 16
    body = [
        _rect(8, 8, room, 22, "whole", "", 11),
        _rect(8, 8, max(room * min(share, 1.0), 6), 22, "s0", f"{share:.2%}", 11),
    ]
    return _svg(38, body, title)
