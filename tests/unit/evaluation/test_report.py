"""Reports: what stands in them, that nothing in a text can break out, and drawings that hold their numbers."""

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from context_engine.core.models import canonical_json
from context_engine.evaluation import charts
from context_engine.evaluation.blocks import (
    Figure,
    ReportDocument,
    ReportSection,
    Table,
    Text,
    Tile,
    to_html,
    to_markdown,
)
from context_engine.evaluation.evaluate import summary
from context_engine.evaluation.report import evaluation_report

EVIL = "<script>alert(1)</script> | `x` *y* [z](u)"
REPORT = ReportDocument(
    title=EVIL,
    lead="a lead",
    tiles=[Tile(label="R@8", value="0.900", note="0.8 to 1.0", change="+0.010", mood="good")],
    sections=[
        ReportSection(title="Table", blocks=[Table(columns=["<name", "n"], rows=[[EVIL, "1"], ["b", "2"]])]),
        ReportSection(title="Drawing", blocks=[Figure(svg="<svg></svg>", caption="below"), Text("said")]),
        ReportSection(title="Long", blocks=[Table(columns=["n"], rows=[[str(n)] for n in range(250)], folded="Show")]),
        ReportSection(title="Empty", blocks=[Table(columns=["n"], rows=[])]),
    ],
    notes=["a note"],
)


class Balanced(HTMLParser):
    """Counts what is opened and closed."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        if tag not in ("meta", "circle", "rect", "line", "path", "i"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in ("circle", "rect", "line", "path", "i"):
            return
        assert self.open.pop() == tag


def test_markdown_escapes_leaves_drawings_out_and_cuts_long_tables():
    text = to_markdown(REPORT)
    assert "\\<script\\>alert(1)\\</script\\> \\| \\`x\\` \\*y\\* \\[z\\](u)" in text
    assert "| name | n |\n| --- | ---: |" in text
    assert "<svg" not in text
    assert "50 more rows are in the page and in the JSON." in text
    assert "## Empty" not in text
    assert "> a note" in text


def test_a_page_stands_alone_and_escapes():
    page = to_html(REPORT)
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    assert parser.seen.count("script") == 1
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<details><summary>Show</summary>" in page
    assert not re.search(r"https?://|<link|<img|@import|url\(", page)
    assert "prefers-color-scheme: dark" in page


def test_every_colour_of_the_style_is_there_in_the_dark_too():
    style = to_html(REPORT)
    light, dark = re.findall(r":root \{(.*?)\}", style, flags=re.S)
    assert set(re.findall(r"--[\w-]+(?=:)", light)) == set(re.findall(r"--[\w-]+(?=:)", dark))


@pytest.mark.slow
def test_a_report_of_two_set_ups_has_every_section(demo_compared):
    titles = [section.title for section in evaluation_report(demo_compared, title="T").sections]
    assert titles[:5] == [
        "Measures",
        "Recall by depth",
        "Where gold answers are lost",
        "Questions by nDCG@10",
        "Question by question",
    ]
    assert {
        "By tier",
        "By domain",
        "Authority",
        "Context tokens",
        "Latency and stages",
        "Every question",
    } < set(titles)


@pytest.mark.slow
def test_the_page_holds_the_numbers_of_the_run(demo_compared):
    page = to_html(evaluation_report(demo_compared, title="T"))
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    assert f"<b>{demo_compared.ours.mean('nDCG@10'):.3f}</b>" in page
    pair = demo_compared.ours.against(demo_compared.baseline, "nDCG@10")
    assert f"{pair.wins} questions won, {pair.losses} lost, {pair.ties} even" in page
    for drawing in re.findall(r"<svg.*?</svg>", page, flags=re.S):
        root = ET.fromstring(drawing)
        assert root.get("aria-label")
        width, height = map(float, root.get("viewBox").split()[2:])
        for one in root.iter("rect"):
            assert -1 <= float(one.get("x")) <= width
            assert -1 <= float(one.get("y")) <= height


@pytest.mark.slow
def test_the_summary_is_json_and_agrees(demo_compared):
    out = summary(demo_compared)
    assert canonical_json(out)
    assert out["difference"]["R@8"]["mean"] == pytest.approx(
        out["measures"]["R@8"]["mean"] - out["baseline"]["measures"]["R@8"]["mean"]
    )
    ends = out["gold_answers"]
    assert sum(ends["by_end"].values()) == ends["total"] == sum(map(len, demo_compared.session.qrels.values()))


@pytest.mark.parametrize(
    "drawing",
    [
        charts.bars([], "t"),
        charts.bars([charts.Bar("a", 0.0, "0")], "t"),
        charts.differences([], "t"),
        charts.differences([0.0, 0.0], "t"),
        charts.histogram([], None, "t"),
        charts.intervals([charts.IntervalBar("a", 0.0, 0.0, 0.0)], "t"),
        charts.intervals([charts.IntervalBar("a", 1.0, 1.0, 1.0)], "t"),
        charts.lines([], "t"),
        charts.lines([charts.LineSeries("a", [(1.0, 0.5)])], "t"),
        charts.meter(0.0, "t"),
        charts.meter(3.0, "t"),
        charts.shares([("a", [0.0] * 5)], ["t"] * 5, "t & < >"),
    ],
)
def test_drawings_of_little_are_drawings(drawing):
    assert ET.fromstring(drawing).tag == "svg"
    assert "nan" not in drawing


def test_a_bar_is_as_long_as_its_value():
    root = ET.fromstring(charts.bars([charts.Bar("a", 4.0, "4"), charts.Bar("b", 1.0, "1")], "t"))
    long, short = (float(one.get("width")) for one in root.iter("rect"))
    assert long / short == pytest.approx(4.0, rel=0.01)
