"""PPTX: slides in their order, shapes, tables, charts, notes, hidden slides, damaged files."""

import pptx
import pytest
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.oxml import parse_xml
from pptx.util import Inches

from context_engine.ingest.documents import chunks_of, prepare


@pytest.fixture
def deck():
    return pptx.Presentation()


def slide(deck, layout, title=None):
    made = deck.slides.add_slide(deck.slide_layouts[layout])
    if title is not None:
        made.shapes.title.text = title
    return made


def box(shapes, text):
    shapes.add_textbox(0, 0, Inches(2), Inches(1)).text_frame.text = text


def test_slides_with_their_titles_lists_and_numbers_as_pages(one, saved, deck, counter):
    slide(deck, 0, "Limit Framework").placeholders[1].text = "Meridian Harbour Bank"
    body = slide(deck, 1, "Breaches").placeholders[1].text_frame
    body.text = "Report at once"
    deeper = body.add_paragraph()
    deeper.text, deeper.level = "to Market Risk", 1
    box(slide(deck, 6).shapes, "A slide without a title")
    loaded = one(saved(deck), "a.pptx")
    assert loaded.text == (
        "# Limit Framework\n\nMeridian Harbour Bank\n\n## Breaches\n\n- Report at once\n  - to Market Risk\n\n"
        "## Slide 3\n\nA slide without a title"
    )
    assert [number for _, number in loaded.pages] == [1, 2, 3]
    pages = {chunk.metadata["page"] for chunk in chunks_of(prepare(loaded, None, counter), counter)}
    assert pages <= {1, 2, 3}


def test_tables_grouped_shapes_charts_and_notes(one, saved, deck):
    made = slide(deck, 5, "Limits")
    cells = made.shapes.add_table(2, 2, 0, 0, Inches(4), Inches(1)).table
    for place, words in enumerate(("Desk", "EUR m", "Rates", "25")):
        cells.cell(place // 2, place % 2).text = words
    group = made.shapes.add_group_shape()
    box(group.shapes, "Outer")
    box(group.shapes.add_group_shape().shapes, "Inner")
    data = CategoryChartData()
    data.categories = ["2025", "2026"]
    data.add_series("Exposure", (12, 7.5))
    chart = made.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, Inches(4), Inches(3), data).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "By year"
    made.notes_slide.notes_text_frame.text = "Say that limits are gross."
    loaded = one(saved(deck), "a.pptx")
    assert loaded.text == (
        "## Limits\n\n| Desk | EUR m |\n| --- | --- |\n| Rates | 25 |\n\nOuter\n\nInner\n\nChart: By year\n\n"
        "|  | Exposure |\n| --- | --- |\n| 2025 | 12 |\n| 2026 | 7.5 |\n\nNotes: Say that limits are gross."
    )


def test_a_slide_with_nothing_but_a_title_is_read(one, saved, deck):
    slide(deck, 5, "Limits")
    slide(deck, 5, "Slide 2 of the committee")
    assert one(saved(deck), "a.pptx").text == "## Limits\n\n## Slide 2 of the committee"


@pytest.mark.wording
def test_hidden_slides_are_said(one, saved, deck):
    slide(deck, 5, "Shown")
    box(slide(deck, 5, "Draft of fees").shapes, "5 USD")
    deck.slides[1]._element.set("show", "0")
    box(deck.slides[0].shapes, "Words")
    loaded = one(saved(deck), "a.pptx")
    assert loaded.text == "## Shown\n\nWords"
    assert loaded.warnings == ("slide 2 is hidden and left out: Draft of fees",)


def test_a_foot_that_stands_on_every_slide_is_read_once(one, saved, deck):
    for title in ("One", "Two"):
        made = slide(deck, 5, title)
        foot = next(shape for shape in deck.slide_layouts[5].placeholders if shape.placeholder_format.type == 15)
        made.shapes._spTree.append(foot._element.__deepcopy__({}))
        made.shapes[-1].text_frame.text = "Strictly confidential"
    assert one(saved(deck), "a.pptx").text == "## One\n\nStrictly confidential\n\n## Two"


def test_numbers_of_slides_are_not_text(one, saved, deck):
    made = slide(deck, 5, "Limits")
    box(made.shapes, "Page ")
    field = (
        '<a:fld xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" type="slidenum"><a:t>1</a:t></a:fld>'
    )
    made.shapes[-1].text_frame.paragraphs[0]._p.append(parse_xml(field))
    assert one(saved(deck), "a.pptx").text == "## Limits\n\nPage"


@pytest.mark.wording
def test_a_slide_that_is_missing_is_said_and_the_others_are_read(one, saved, zipped, deck):
    for title in ("One", "Two"):
        box(slide(deck, 5, title).shapes, f"Body of {title}")
    data = zipped(saved(deck), {"ppt/slides/slide1.xml": lambda xml: xml[: len(xml) // 9]})
    loaded = one(data, "a.pptx")
    assert "Body of Two" in loaded.text
    assert any(one.startswith("ppt/slides/slide1.xml is damaged") for one in loaded.warnings)


def test_slides_of_nothing_were_read(empty, saved, deck):
    assert empty(saved(deck), "a.pptx") == "has no text"


def test_macros_passwords_and_nothing(refused, saved, zipped, deck):
    slide(deck, 5, "Title")
    macros = zipped(saved(deck), added={"ppt/vbaProject.bin": b"x"})
    assert refused(macros, "a.pptx") == "holds macros: save it without them"
    bomb = zipped(saved(deck), added={"ppt/media/image1.png": bytes(20 << 20)})
    assert refused(bomb, "a.pptx").endswith("times its size: a zip bomb")
