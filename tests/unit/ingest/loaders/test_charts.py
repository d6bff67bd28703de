"""Charts of DOCX and PPTX: numbers and dates as shown, labels, text boxes inside, the newer kinds of charts."""

from datetime import date

import pptx
import pytest
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.opc.constants import RELATIONSHIP_TYPE
from pptx.opc.package import Part
from pptx.opc.packuri import PackURI
from pptx.oxml import parse_xml
from pptx.util import Inches

A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
CX = "http://schemas.microsoft.com/office/drawing/2014/chartex"
R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


@pytest.fixture
def deck():
    made = pptx.Presentation()
    made.slides.add_slide(made.slide_layouts[5]).shapes.title.text = "Exposure"
    return made


def drawn(deck, categories, *series, number_format="General"):
    data = CategoryChartData(number_format=number_format)
    data.categories = categories
    for name, values in series:
        data.add_series(name, values)
    place = (0, 0, Inches(4), Inches(3))
    return deck.slides[0].shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, *place, data).chart


def table(one, saved, deck):
    return one(saved(deck), "a.pptx").text.partition("Chart\n\n")[2]


def test_numbers_are_as_their_format_means_them(one, saved, deck):
    drawn(deck, [date(2026, 3, 31), date(2026, 6, 30)], ("Share", (0.25, 0.3)), number_format="0%")
    assert table(one, saved, deck) == "|  | Share |\n| --- | --- |\n| 2026-03-31 | 25% |\n| 2026-06-30 | 30% |"


def test_a_stored_number_has_no_digits_that_nobody_typed(one, saved, deck):
    drawn(deck, ["Rates"], ("EUR m", (0.1 + 0.2,)))
    assert table(one, saved, deck) == "|  | EUR m |\n| --- | --- |\n| Rates | 0.3 |"


def test_categories_in_words_stay_as_they_are(one, saved, deck):
    drawn(deck, ["1.10", "2.0"], ("EUR m", (5, 7)))
    assert table(one, saved, deck) == "|  | EUR m |\n| --- | --- |\n| 1.10 | 5 |\n| 2.0 | 7 |"


def test_typed_labels_stand_before_the_values(one, saved, deck):
    chart = drawn(deck, ["Rates", "Credit", "FX"], ("EUR m", (12, 7, 5)))
    points = chart.plots[0].series[0].points
    points[0].data_label.text_frame.text = "12 (gross)"
    points[1].data_label.text_frame.text = "7,4"
    field = f'<a:fld {A} id="{{0}}" type="VALUE"><a:t>[VALUE]</a:t></a:fld>'
    points[2].data_label.text_frame.text = " EUR"
    points[2].data_label.text_frame.paragraphs[0]._p.insert(0, parse_xml(field))
    assert table(one, saved, deck).splitlines()[2:] == [
        "| Rates | 12 (gross) |", "| Credit | 7,4 (7) |", "| FX | 5 EUR |",
    ]  # fmt: skip


def test_series_without_a_name_have_the_one_that_is_shown(one, saved, deck):
    drawn(deck, ["Rates", "Credit"], ("", (12, 7)))
    assert table(one, saved, deck) == "|  | Series 1 |\n| --- | --- |\n| Rates | 12 |\n| Credit | 7 |"


def test_text_boxes_inside_a_chart(one, saved, deck):
    chart = drawn(deck, ["Rates"], ("EUR m", (12,)))
    box = f"<c:userShapes xmlns:c='x' {A}><a:p><a:r><a:t>Limit 15</a:t></a:r></a:p></c:userShapes>"
    part = Part(PackURI("/ppt/drawings/drawing1.xml"), "application/xml", chart.part.package, box.encode())
    chart.part.relate_to(part, RELATIONSHIP_TYPE.CHART_USER_SHAPES)
    assert table(one, saved, deck).endswith("| Rates | 12 |\n\nLimit 15")


def test_a_waterfall_has_its_categories_and_values(one, saved, deck):
    chart = (
        f'<cx:chartSpace xmlns:cx="{CX}" {A}><cx:chartData><cx:data id="0">'
        '<cx:strDim type="cat"><cx:f>Sheet1!$A$2</cx:f><cx:lvl ptCount="2"><cx:pt idx="0">Opening</cx:pt>'
        '<cx:pt idx="1">Losses</cx:pt></cx:lvl></cx:strDim><cx:numDim type="val"><cx:f>Sheet1!$B$2</cx:f>'
        '<cx:lvl ptCount="2" formatCode="Standard"><cx:pt idx="0">100</cx:pt><cx:pt idx="1">-40</cx:pt></cx:lvl>'
        "</cx:numDim></cx:data></cx:chartData><cx:chart><cx:title><cx:tx><cx:rich><a:p><a:r><a:t>Capital</a:t></a:r>"
        '</a:p></cx:rich></cx:tx></cx:title><cx:plotArea><cx:plotAreaRegion><cx:series layoutId="waterfall"><cx:tx>'
        "<cx:txData><cx:f>Sheet1!$B$1</cx:f><cx:v>EUR m</cx:v></cx:txData></cx:tx><cx:dataId val='0'/></cx:series>"
        "</cx:plotAreaRegion></cx:plotArea></cx:chart></cx:chartSpace>"
    )
    slide = deck.slides[0]
    part = Part(PackURI("/ppt/charts/chartEx1.xml"), "application/xml", slide.part.package, chart.encode())
    relation = slide.part.relate_to(part, "http://schemas.microsoft.com/office/2014/relationships/chartEx")
    frame = slide.shapes.add_table(1, 1, 0, 0, Inches(1), Inches(1))._element
    data = frame.graphic.graphicData
    data.remove(data[0])
    data.append(parse_xml(f'<cx:chart xmlns:cx="{CX}" xmlns:r="{R}" r:id="{relation}"/>'))
    assert one(saved(deck), "a.pptx").text.endswith(
        "Chart: Capital\n\n|  | EUR m |\n| --- | --- |\n| Opening | 100 |\n| Losses | -40 |"
    )
