"""No word of a document is lost: each stands in the text, or in a line of what is said of the file.

The reference readers are others than the loaders' own: a walk over the zip's XML with the standard library for DOCX,
PPTX and ODT, html5lib for web pages, the words that were written for Markdown.
"""

import io
import re
import tempfile
import zipfile
from pathlib import Path
from xml.etree import ElementTree as ET

import docx
import html5lib
import pptx
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from hypothesis import given, settings
from hypothesis import strategies as st

from context_engine.ingest.loaded_document import LoadedDocument
from context_engine.ingest.loaders import load

WORD = re.compile(r"\w+")
FEW = settings(max_examples=12, deadline=None)
words = st.integers(0, 99_999).map("w{:05}".format)  # each as good as unique, so that none stands in for another
texts = st.lists(words, min_size=1, max_size=4).map(" ".join)


def said(data: bytes, name: str) -> set[str]:
    """Return the words in the text of a file and in what is said of it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        found = list(load(path, Path(folder)))
    parts = [f"{one.text} {' '.join(one.warnings)}" if isinstance(one, LoadedDocument) else one.reason for one in found]
    return set(WORD.findall(" ".join(parts)))


def lost(reference: str, data: bytes, name: str) -> list[str]:
    """Return the words of a reference that are not said."""
    return sorted(set(WORD.findall(reference)) - said(data, name))


def walked(data: bytes, part: str, tag: str) -> str:
    """Return the text of all elements of a tag, in all parts whose names match."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        roots = [ET.fromstring(file.read(name)) for name in file.namelist() if re.fullmatch(part, name)]
    return " ".join(one.text or "" for root in roots for one in root.iter() if one.tag.endswith(tag))


# DOCX: elements of a body, each a paragraph or a table, in any nesting

W_SPACES = f"{nsdecls('w')} xmlns:mc='http://schemas.openxmlformats.org/markup-compatibility/2006'"


def run(text, properties=""):
    return f"<w:r>{properties}<w:t xml:space='preserve'>{text} </w:t></w:r>"


runs = st.one_of(
    texts.map(run),
    texts.map(lambda text: run(text, "<w:rPr><w:b/></w:rPr>")),
    texts.map(lambda text: f"<w:hyperlink>{run(text)}</w:hyperlink>"),
    texts.map(lambda text: f"<w:ins w:id='1'>{run(text)}</w:ins>"),
    texts.map(lambda text: f"<w:moveTo w:id='1'>{run(text)}</w:moveTo>"),
    texts.map(lambda text: f"<w:sdt><w:sdtContent>{run(text)}</w:sdtContent></w:sdt>"),
    texts.map(lambda text: f"<w:smartTag>{run(text)}</w:smartTag>"),
    texts.map(lambda text: f"<w:fldSimple w:instr='REF x'>{run(text)}</w:fldSimple>"),
)


@st.composite
def paragraphs(draw):
    style = draw(st.sampled_from(["", "Heading1", "Title", "ListBullet", "NoSuchStyle"]))
    inner = "".join(draw(st.lists(runs, min_size=1, max_size=3)))
    if draw(st.booleans()):
        box = f"<w:txbxContent><w:p>{run(draw(texts))}</w:p></w:txbxContent>"
        inner += f"<w:r><w:pict>{box}</w:pict></w:r>"
    return f"<w:p><w:pPr><w:pStyle w:val='{style}'/></w:pPr>{inner}</w:p>" if style else f"<w:p>{inner}</w:p>"


def tables(inside):
    cells = st.lists(inside, min_size=1, max_size=2).map(lambda parts: f"<w:tc>{''.join(parts)}<w:p/></w:tc>")
    rows = st.lists(cells, min_size=1, max_size=3).map(lambda parts: f"<w:tr>{''.join(parts)}</w:tr>")
    return st.lists(rows, min_size=1, max_size=3).map(lambda parts: f"<w:tbl>{''.join(parts)}</w:tbl>")


def controls(inside):
    return inside.map(lambda xml: f"<w:sdt><w:sdtContent>{xml}</w:sdtContent></w:sdt>")


bodies = st.lists(
    st.recursive(paragraphs(), lambda inside: st.one_of(tables(inside), controls(inside)), max_leaves=6),
    min_size=1,
    max_size=4,
).map("".join)


def word_file(body, head, note):
    document = docx.Document()
    document.sections[0].header.paragraphs[0].text = head
    for element in parse_xml(f"<w:body {W_SPACES}>{body}</w:body>"):
        document.element.body.insert(len(document.element.body) - 1, element)
    document.add_comment(document.add_paragraph("anchor").runs, text=note)
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def check_docx(body, head, note):
    data = word_file(body, head, note)
    assert lost(walked(data, r"word/(document|header\d|comments)\.xml", "}t"), data, "a.docx") == []


@FEW
@given(bodies, texts, texts)
def test_word(body, head, note):
    check_docx(body, head, note)


@pytest.mark.slow
@given(bodies, texts, texts)
def test_word_in_many_forms(body, head, note):
    check_docx(body, head, note)


# HTML: elements in any nesting, also those that are set aside

TAGS = (
    *("p", "div", "span", "b", "h2", "ul", "li", "blockquote", "section", "main", "article", "details", "summary"),
    *(
        "nav",
        "footer",
        "aside",
        "header",
        "button",
        "label",
        "figure",
        "figcaption",
        "center",
        "table",
        "dl",
        "dt",
        "dd",
    ),
    *("noscript", "pre", "code", "form", "fieldset", "legend", "select", "textarea", "object", "a", "sup", "video"),
)
ATTRIBUTES = (
    "",
    "",
    "",
    " hidden",
    " class='menu'",
    " role='navigation'",
    " style='display:none'",
    " aria-hidden='true'",
)


def elements(inside):
    parts = st.tuples(st.sampled_from(TAGS), st.sampled_from(ATTRIBUTES), st.lists(inside, min_size=1, max_size=3))
    grids = st.lists(st.lists(inside, min_size=1, max_size=3), min_size=1, max_size=3)
    return st.one_of(parts.map(_element), grids.map(_grid))


def _element(part):
    tag, attributes, inside = part
    inner = " ".join(f"<option>{one}</option>" if tag == "select" else one for one in inside)
    return f"<{tag}{attributes}>{inner}</{tag}>"


def _grid(rows):
    return f"<table>{''.join(f'<tr><td>{_CELL.join(row)} </td></tr>' for row in rows)}</table>"


_CELL = " </td><td>"  # the space keeps words apart where a parser drops the cells, as in a select
pages = st.lists(st.recursive(texts, elements, max_leaves=10), min_size=1, max_size=4).map(" ".join)


def check_html(title, body):
    page = f"<!doctype html><html><head><title>{title}</title></head><body>{body}</body></html>"
    root = html5lib.parse(page, namespaceHTMLElements=False)
    assert lost(" ".join(root.itertext()), page.encode(), "a.html") == []


@FEW
@given(texts, pages)
@pytest.mark.wording
def test_web_pages(title, body):
    check_html(title, body)


@pytest.mark.slow
@given(texts, pages)
def test_web_pages_in_many_forms(title, body):
    check_html(title, body)


# Markdown and presentations

lines = st.one_of(
    texts,
    texts.map("# {}".format),
    texts.map("- {}".format),
    texts.map("| {} | x |".format),
    texts.map("> {}".format),
    texts.map("<div>{}</div>".format),
    texts.map("```\n{}\n```".format),
    texts.map("--- {}".format),
)


@FEW
@given(st.lists(lines, min_size=1, max_size=8).map("\n\n".join))
def test_markdown(text):
    assert lost(text, text.encode(), "a.md") == []


def check_slides(slides):
    deck = pptx.Presentation()
    for title, boxes, notes in slides:
        slide = deck.slides.add_slide(deck.slide_layouts[5])
        slide.shapes.title.text = title
        for text in boxes:
            slide.shapes.add_group_shape().shapes.add_textbox(0, 0, 9, 9).text_frame.text = text
        slide.notes_slide.notes_text_frame.text = notes
    out = io.BytesIO()
    deck.save(out)
    reference = walked(out.getvalue(), r"ppt/(slides|notesSlides)/\w+\.xml", "}t")
    assert lost(reference.replace("‹#›", ""), out.getvalue(), "a.pptx") == []


decks = st.lists(st.tuples(texts, st.lists(texts, max_size=3), texts), min_size=1, max_size=3)


@settings(max_examples=3, deadline=None)
@given(decks)
def test_presentations(slides):
    check_slides(slides)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(decks)
def test_many_presentations(slides):
    check_slides(slides)
