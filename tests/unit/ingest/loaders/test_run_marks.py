"""Struck, raised and lowered text, the same in every format: 10⁶ is not 106, and a struck limit is not in force."""

import docx
import openpyxl
import pptx
import pytest
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont
from openpyxl.styles import Font
from pptx.util import Inches

from context_engine.ingest.loaders.run_marks import LOWERED, RAISED, STRUCK, marked, written


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        (f"10{RAISED}6{RAISED} EUR", "10⁶ EUR"),
        (f"10{RAISED}-{RAISED}{RAISED}3{RAISED}", "10⁻³"),
        (f"CO{LOWERED}2{LOWERED}", "CO₂"),
        (f"x{RAISED}ab{RAISED}", "x^ab"),
        (f"x{RAISED}a+b{RAISED}", "x^(a+b)"),
        (f"PD{LOWERED}year 1{LOWERED}", "PD_(year 1)"),
        (f"1{RAISED}st{RAISED} of May", "1st of May"),
        (f"5 %{RAISED}*{RAISED}", "5 %*"),
        (f"see{RAISED}[^2]{RAISED}", "see[^2]"),
        (f"a {STRUCK}limit{STRUCK} {STRUCK}of 3{STRUCK} now 4", "a ~~limit of 3~~ now 4"),
        (f"{STRUCK} {STRUCK}x", " x"),
        ("nothing marked", "nothing marked"),
    ],
)
def test_a_run_is_written_out(text: str, reads: str):
    assert written(text) == reads


def test_marks_enclose_the_run():
    assert marked("6", raised=True) == f"{RAISED}6{RAISED}"
    assert marked("6", struck=True, lowered=True) == f"{STRUCK}{LOWERED}6{LOWERED}{STRUCK}"
    assert marked("6") == "6"
    assert marked("", struck=True) == ""


def test_word(one, saved):
    document = docx.Document()
    paragraph = document.add_paragraph("Limit 10")
    paragraph.add_run("6").font.superscript = True
    paragraph.add_run(" EUR, CO")
    paragraph.add_run("2").font.subscript = True
    paragraph.add_run(", ")
    paragraph.add_run("old 30 %").font.strike = True
    paragraph.add_run(" new ")
    bold = paragraph.add_run("20 %")
    bold.bold = bold.font.double_strike = True
    assert one(saved(document), "a.docx").text == "Limit 10⁶ EUR, CO₂, ~~old 30 %~~ new **~~20 %~~**"


@pytest.mark.parametrize("tag", ["s", "strike", "del"])
def test_html(one, tag):
    page = f"<p>10<sup>6</sup> EUR, m<sub>2</sub>, <{tag}>old <b>30</b> %</{tag}> 1<sup>st</sup></p>"
    assert one(page, "a.html").text == "10⁶ EUR, m₂, ~~old **30** %~~ 1st"


def test_html_blocks_and_cells(one):
    page = (
        "<del><p>first</p><p>second</p></del><p>third</p>"
        "<table><tr><th>Limit<sup>1</sup></th><th>EUR</th></tr>"
        "<tr><td><s>3</s> 4</td><td>10<sup>6</sup></td></tr></table>"
    )
    assert one(page, "a.html").text == (
        "~~first~~\n\n~~second~~\n\nthird\n\n| Limit¹ | EUR |\n| --- | --- |\n| ~~3~~ 4 | 10⁶ |"
    )


def test_rtf(one):
    text = rb"{\rtf1 Limit 10{\super 6} EUR, CO{\sub 2\nosupersub}, {\strike old 30 %} new\par}"
    assert one(text, "a.rtf").text == "Limit 10⁶ EUR, CO₂, ~~old 30 %~~ new"


def test_slides(one, saved):
    deck = pptx.Presentation()
    box = deck.slides.add_slide(deck.slide_layouts[6]).shapes.add_textbox(0, 0, Inches(2), Inches(1))
    paragraph = box.text_frame.paragraphs[0]
    for text, attribute, value in (("10", "", ""), ("6", "baseline", "30000"), (" old", "strike", "sngStrike")):
        run = paragraph.add_run()
        run.text = text
        if attribute:
            run._r.get_or_add_rPr().set(attribute, value)
    assert one(saved(deck), "a.pptx").text.endswith("10⁶ ~~old~~")


def test_cells(read, saved):
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(["Rule", "Limit", "Owner"])
    sheet.append(["R-1", None, "Ops"])
    sheet["B2"] = CellRichText(TextBlock(InlineFont(strike=True), "30 %"), " 20 %")
    sheet.append(["R-2", 7, "Risk"])
    sheet["B3"].font = Font(strike=True)
    first, second = read(saved(book), "a.xlsx")
    assert first.fields["Limit"] == "~~30 %~~ 20 %"
    assert second.fields["Limit"] == "~~7~~"
    assert second.fields["Owner"] == "Risk"


def test_styles_of_word_strike_and_raise(one, saved):
    document = docx.Document()
    styles = document.styles
    repealed = styles.add_style("Repealed", docx.enum.style.WD_STYLE_TYPE.CHARACTER)
    repealed.font.strike = True
    styles.add_style("Repealed rule", docx.enum.style.WD_STYLE_TYPE.CHARACTER).base_style = repealed
    styles.add_style("Power", docx.enum.style.WD_STYLE_TYPE.CHARACTER).font.superscript = True
    old = styles.add_style("Old", docx.enum.style.WD_STYLE_TYPE.PARAGRAPH)
    old.font.strike = True
    paragraph = document.add_paragraph("The limit is ")
    paragraph.add_run("25 %", style="Repealed rule")
    paragraph.add_run(" 20 % of 10")
    paragraph.add_run("6", style="Power")
    kept = document.add_paragraph("Repealed in 2025, ", style="Old").add_run("in force")
    kept.font.strike = False
    text = one(saved(document), "a.docx").text
    assert text == "The limit is ~~25 %~~ 20 % of 10⁶\n\n~~Repealed in 2025,~~ in force"
