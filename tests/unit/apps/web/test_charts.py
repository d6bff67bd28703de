"""Pictures of numbers: bars in proportion, the same figures in words, and texts that stay text."""

from __future__ import annotations

import re

from context_engine.apps.web.charts import ChartBar, Column, SharePoint, bars_chart, columns, share_line


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


def test_a_line_of_shares_shades_what_is_raised_and_marks_alarms():
    points = [
        SharePoint("d1", 0.0, "0.0 %"),
        SharePoint("d2", 0.2, "20.0 %", raised=True),
        SharePoint("d3", 0.4, "40.0 %", marked=True, raised=True),
        SharePoint("d4", 0.1, "10.0 %"),
    ]
    svg = share_line(points, 0.1, "Degraded")
    assert "<desc>past 10.0%; d1: 0.0 %; d2: 20.0 %; d3: 40.0 %, alarm; d4: 10.0 %</desc>" in svg
    assert '<rect class="raised" x="25.00%" y="20.0" width="50.00%" height="106.0" rx="3"/>' in svg
    assert svg.count('class="raised"') == svg.count('class="alarm"') == 1
    assert '<circle class="alarm" cx="62.50%" cy="20.0" r="5"/>' in svg
    assert 'class="past" x1="0" x2="100%" y1="99.5" y2="99.5"' in svg  # 126 - 106 * 0.1 / 0.4
    assert svg.count('class="line"') == 3


def test_a_small_share_does_not_fill_the_chart():
    svg = share_line([SharePoint("d1", 0.005, "0.5 %")], 0.0, "Degraded")
    assert '<circle class="dot" cx="50.00%" cy="115.4" r="2"/>' in svg  # 126 - 106 * 0.005 / 0.05
    assert share_line([], 0.0, "Nothing").startswith("<svg")
