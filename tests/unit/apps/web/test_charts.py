"""Pictures of numbers: bars in proportion, the same figures in words, and texts that stay text."""

from __future__ import annotations

import re

from context_engine.apps.web.charts import ChartBar, Column, bars_chart, columns


def widths(svg: str, kind: str) -> list[float]:
    return [float(width) for width in re.findall(rf'class="{kind}" x="[^"]+" y="[^"]+" width="([\d.]+)%"', svg)]


def heights(svg: str, kind: str) -> list[float]:
    return [float(height) for height in re.findall(rf'class="{kind}"[^>]* height="([\d.]+)"', svg)]


def test_bars_are_as_long_as_their_share_of_the_largest():
    svg = bars_chart([ChartBar("a", 4, "4"), ChartBar("b", 1, "1"), ChartBar("c", 0, "0")], "Counts")
    assert widths(svg, "fill") == [50.0, 12.5]
    assert "<title>Counts</title><desc>a: 4; b: 1; c: 0</desc>" in svg


def test_columns_show_a_part_of_each():
    svg = columns([Column("d1", 10, 5), Column("d2", 0)], "Searches a day", "degraded")
    assert (heights(svg, "fill"), heights(svg, "part")) == ([106.0], [53.0])
    assert "<desc>d1: 10, 5 degraded; d2: 0</desc>" in svg


def test_labels_are_text():
    svg = bars_chart([ChartBar("<script>", 1, '"')], "<b>")
    assert "<script>" not in svg
    assert "<b>" not in svg
    assert columns([], "Nothing", "x").startswith("<svg")
