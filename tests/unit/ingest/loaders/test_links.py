"""Links keep their targets in every format, and headings and titles do without them."""

import re

import docx
import openpyxl
import pptx
import pytest
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from pptx.util import Inches

from context_engine.core.text import without_markup
from context_engine.ingest.loaders.markdown import heading, linked, unlinked

_TARGET = "https://intranet.example/haircuts"
_LINK = f"[the haircut ladder]({_TARGET})"


@pytest.mark.parametrize(
    ("words", "target", "text"),
    [
        ("the ladder", "https://a.example/x", "[the ladder](https://a.example/x)"),
        (" the ladder ", "mailto:desk@a.example", " [the ladder](mailto:desk@a.example) "),
        ("form (2)", "https://a.example/f(2) x|y", "[form (2)](https://a.example/f%282%29%20x%7Cy)"),
        ("https://a.example/x", "https://a.example/x", "https://a.example/x"),
        ("a.example/x/", "https://a.example/x", "a.example/x/"),
        ("desk@a.example", "mailto:desk@a.example", "desk@a.example"),
        ("top", "#top", "top"),
        ("next", "/policies/2", "next"),
        ("run", "javascript:alert(1)", "run"),
        ("file", "file:///etc/passwd", "file"),
        ("[1]", "https://a.example/x", "[1]"),
        ("two\nlines", "https://a.example/x", "two\nlines"),
        ("far", f"https://a.example/{'x' * 600}", "far"),
        ("", "https://a.example/x", ""),
    ],
)
def test_words_and_target(words, target, text):
    assert linked(words, target) == text
    assert without_markup(text) == " ".join(words.split())
    assert unlinked(text) == words


def test_a_heading_has_no_targets():
    assert heading(2, f"4 {_LINK} of 2026").text == "## 4 the haircut ladder of 2026"


def test_html(one):
    page = (
        f"<h1><a href='{_TARGET}'>Haircuts</a></h1><p>See <a href='{_TARGET}'><b>the</b> ladder</a>, "
        f"<a href='#top'>top</a>.</p><table><tr><th>Desk</th><th>Rule</th></tr>"
        f"<tr><td>Repo</td><td><a href='{_TARGET}'>the haircut ladder</a></td></tr></table>"
        f"<a href='{_TARGET}'><p>A block.</p></a>"
    )
    loaded = one(page, "a.html")
    assert loaded.text == (
        f"# Haircuts\n\nSee [**the** ladder]({_TARGET}), top.\n\n| Desk | Rule |\n| --- | --- |\n"
        f"| Repo | {_LINK} |\n\nA block."
    )


def _hyperlink(document, words):
    relation = document.part.relate_to(_TARGET, RELATIONSHIP_TYPE.HYPERLINK, is_external=True)
    return f'<w:hyperlink {nsdecls("w", "r")} r:id="{relation}"><w:r><w:t>{words}</w:t></w:r></w:hyperlink>'


def test_word(one, saved):
    document = docx.Document()
    document.add_heading("Haircuts ", 1)._p.append(parse_xml(_hyperlink(document, "of 2026")))
    document.add_paragraph("See ")._p.append(parse_xml(_hyperlink(document, "the haircut ladder")))
    field = document.add_paragraph("Or ")
    for part in (
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r>',
        f'<w:r><w:instrText> HYPERLINK "{_TARGET}" </w:instrText></w:r>',
        '<w:r><w:fldChar w:fldCharType="separate"/></w:r>',
        "<w:r><w:t>the haircut </w:t></w:r><w:r><w:t>ladder</w:t></w:r>",
        '<w:r><w:fldChar w:fldCharType="end"/></w:r><w:r><w:t>.</w:t></w:r>',
    ):
        for element in parse_xml(f"<w:p {nsdecls('w')}>{part}</w:p>"):
            field._p.append(element)
    words = "<w:r><w:t>the haircut ladder</w:t></w:r>"
    simple = f"<w:fldSimple {nsdecls('w')} w:instr='HYPERLINK \"{_TARGET}\"'>{words}</w:fldSimple>"
    document.add_paragraph("Or ")._p.append(parse_xml(simple))
    assert one(saved(document), "a.docx").text == f"# Haircuts of 2026\n\nSee {_LINK}\n\nOr {_LINK}.\n\nOr {_LINK}"


def test_powerpoint(one, saved):
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "Haircuts"
    run = slide.shapes.add_textbox(0, Inches(2), Inches(4), Inches(1)).text_frame.paragraphs[0].add_run()
    run.text = "the haircut ladder"
    run.hyperlink.address = _TARGET
    assert one(saved(deck), "a.pptx").text == f"## Haircuts\n\n{_LINK}"


def test_rtf(one):
    field = rf'{{\field{{\*\fldinst {{HYPERLINK "{_TARGET}"}}}}{{\fldrslt {{\ul the haircut ladder}}}}}}'
    other = r"{\field{\*\fldinst PAGE}{\fldrslt 7}}"
    text = one(rf"{{\rtf1 See {field}, page {other}.\par}}", "a.rtf").text
    assert text == f"See {_LINK}, page 7."


def _workbook(change):
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (("Rule", "Policy", "Limit"), ("R-1", "Haircut ladder", 25), ("R-2", "Margin calls", 10)):
        sheet.append(row)
    change(sheet)
    return book


def _with_relation(sheet):
    sheet["B2"].hyperlink = _TARGET


def _with_formula(sheet):
    sheet["B2"] = f'=HYPERLINK("{_TARGET}","Haircut ladder")'


def test_the_link_of_a_cell_keeps_its_target_and_titles_and_fields_are_without(read, saved):
    first, second = read(saved(_workbook(_with_relation)), "a.xlsx")
    assert first.text == f"Haircut ladder\nRule: R-1\nPolicy: [Haircut ladder]({_TARGET})\nLimit: 25"
    assert first.fields["Policy"] == "Haircut ladder"
    assert second.text == "Margin calls\nRule: R-2\nPolicy: Margin calls\nLimit: 10"


def test_the_formula_of_a_link_keeps_its_target(read, saved, zipped):
    def with_value(xml):
        return re.sub(rb"</f><v\s?/>|</f><v></v>", b"</f><v>Haircut ladder</v>", xml)

    data = zipped(saved(_workbook(_with_formula)), {"xl/worksheets/sheet1.xml": with_value})
    assert f"Policy: [Haircut ladder]({_TARGET})" in read(data, "a.xlsx")[0].text
