"""DOCX: order, headings and their numbers, tables, what is left out."""

import base64
import io
import re

import docx
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls, qn

from context_engine.core.models import DocumentRule, IngestSettings
from context_engine.ingest.documents import chunks_of, prepare
from context_engine.ingest.loaded_document import NO_TEXT


@pytest.fixture
def text(one, saved):
    """The text of a document, made by a function."""

    def run(make):
        document = docx.Document()
        make(document)
        return one(saved(document), "a.docx").text

    return run


def element(xml):
    return parse_xml(re.sub(r"^<[\w:]+", lambda match: f"{match[0]} {nsdecls('w')}", xml))


def numbered(document, levels, style="Normal"):
    """Define a list; the function returned adds a paragraph to it at a level."""
    numbering = document.part.numbering_part.element
    name = 900 + len(numbering.findall(qn("w:num")))
    inner = "".join(
        f'<w:lvl w:ilvl="{index}"><w:start w:val="{start}"/><w:numFmt w:val="{form}"/>'
        f'<w:lvlText w:val="{label}"/></w:lvl>'
        for index, (start, form, label) in enumerate(levels)
    )
    numbering.insert(0, element(f'<w:abstractNum w:abstractNumId="{name}">{inner}</w:abstractNum>'))
    number = numbering.add_num(name).numId

    def add(words, level=0, style=style, number=number):
        paragraph = document.add_paragraph(words, style=style)
        properties = paragraph._p.get_or_add_pPr().get_or_add_numPr()
        properties.get_or_add_numId().val = number
        properties.get_or_add_ilvl().val = level

    return add


def test_the_banks_procedure(one, shipped):
    loaded = one(shipped("limit-breach-procedure.docx"), "p.docx")
    assert loaded.text == (
        "# Limit Breach Procedure\n\nPage header: Meridian Harbour Bank Document No.: MHB-SOP-014\n\n"
        "Version: 3.2\n\nEffective date: 1 February 2026\n\n## 1 Purpose\n\n"
        "This procedure says what a desk does when a trading limit is exceeded.\n\n## 2 Reporting\n\n"
        "### 2.1 Who reports\n\n**Limit breach** means an exposure above an approved trading limit.\n\n"
        "The desk head reports every limit breach to Market Risk within 24 hours.\n\n### 2.2 How\n\n"
        "- State the limit and the exposure.\n- State the cause.\n\n## 3 Approval\n\n"
        "| Excess | Approver | Deadline |\n| --- | --- | --- |\n| up to 5 % | Head of Market Risk | 24 hours |\n"
        "| above 5 % | Chief Risk Officer | 4 hours |\n| above 5 % | Board Risk Committee | next meeting |"
    )
    assert loaded.header == {"document_id": "MHB-SOP-014", "version": "3.2", "effective_from": "1 February 2026"}
    assert loaded.fields["title"] == "Limit Breach Procedure"
    assert loaded.fields["author"] == "Market Risk Control"
    assert "version" not in loaded.fields  # the text says 3.2, the property 9.9


def test_its_chunks_carry_the_numbers_that_word_counts(one, shipped, counter):
    loaded = one(shipped("limit-breach-procedure.docx"), "p.docx")
    document = prepare(loaded, DocumentRule(include="*", doc_type="sop_document"), counter)
    sections = {chunk.section: chunk.content for chunk in chunks_of(document, counter)}
    assert {"1", "2.1", "2.2", "3"} <= set(sections)
    assert "within 24 hours" in sections["2.1"]
    assert (document.document_id, document.version) == ("MHB-SOP-014", "3.2")


def test_properties_of_a_librarys_template_are_no_fields(one, saved):
    document = docx.Document()
    document.add_paragraph("Text.")
    assert one(saved(document), "a.docx").fields == {}


def test_a_title_that_names_a_file_or_a_program_is_none(one, saved):
    document = docx.Document()
    document.add_paragraph("Text.")
    for title, kept in (
        ("Microsoft Word - draft7.doc", None),
        ("final.docx", None),
        ("Liquidity Policy", "Liquidity Policy"),
    ):
        document.core_properties.title = title
        assert one(saved(document), "a.docx").fields.get("title") == kept


def test_legal_numbering_of_paragraphs(text):
    def make(document):
        add = numbered(document, [(4, "decimal", "%1."), (1, "decimal", "%1.%2"), (1, "lowerLetter", "(%3)")])
        add("Duties", 0)
        add("A bank must keep records.", 1)
        add("for five years", 2)
        add("in the country", 2)
        add("A bank must report.", 1)
        add("at once", 2)

    assert text(make) == (
        "4. Duties\n\n4.1 A bank must keep records.\n\n(a) for five years\n\n(b) in the country\n\n"
        "4.2 A bank must report.\n\n(a) at once"
    )


def test_forms_of_numbers(text):
    forms = ("upperRoman", "lowerRoman", "upperLetter", "decimalZero", "ordinal", "chineseCounting")

    def make(document):
        for form in forms:
            numbered(document, [(14, form, "§%1")])(form)

    assert text(make).split("\n\n") == [
        "§XIV upperRoman",
        "§xiv lowerRoman",
        "§N upperLetter",
        "§14 decimalZero",
        "§14th ordinal",
        "§十四 chineseCounting",
    ]


def test_a_list_that_begins_anew(text):
    def make(document):
        add = numbered(document, [(1, "decimal", "%1)")])
        add("one")
        add("two")
        numbering = document.part.numbering_part.element
        again = numbering.add_num(int(numbering.findall(qn("w:abstractNum"))[0].get(qn("w:abstractNumId"))))
        again.append(element('<w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/></w:lvlOverride>'))
        add("one again", number=again.numId)

    assert text(make) == "1) one\n2) two\n1) one again"


def test_nested_bullets(text):
    def make(document):
        add = numbered(document, [(1, "bullet", "•"), (1, "bullet", "o")])
        add("above")
        add("below", 1)

    assert text(make) == "- above\n  - below"


def test_headings_by_outline_level_and_by_a_style_based_on_one(text):
    def make(document):
        style = document.styles.add_style("Bank Heading", 1)
        style.base_style = document.styles["Heading 2"]
        document.add_paragraph("Scope", style="Bank Heading")
        paragraph = document.add_paragraph("Deep")
        paragraph._p.get_or_add_pPr().append(element('<w:outlineLvl w:val="2"/>'))

    assert text(make) == "## Scope\n\n### Deep"


def test_tables_stand_where_they_stand_and_bars_are_escaped(text):
    def make(document):
        document.add_paragraph("before")
        table = document.add_table(rows=2, cols=2)
        for cell, words in zip(table._cells, ("a|b", "c", "", "two\nlines")):
            cell.text = words
        document.add_paragraph("after")

    assert text(make) == "before\n\n| a\\|b | c |\n| --- | --- |\n|  | two lines |\n\nafter"


def test_a_frame_of_one_cell_is_no_table(text):
    def make(document):
        document.add_table(rows=1, cols=1).cell(0, 0).text = "Note"

    assert text(make) == "Note"


def test_content_controls_and_insertions_are_read_deletions_and_hidden_text_are_not(text):
    def make(document):
        body = document.element.body
        xml = (
            "<w:sdt><w:sdtContent><w:p><w:r><w:t>in a control</w:t></w:r>"
            "<w:ins><w:r><w:t xml:space='preserve'> inserted</w:t></w:r></w:ins>"
            "<w:del><w:r><w:delText>deleted</w:delText></w:r></w:del>"
            "<w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r>"
            "</w:p></w:sdtContent></w:sdt>"
        )
        body.insert(0, element(xml))

    assert text(make) == "in a control inserted"


def test_a_table_of_contents_is_left_out(text):
    def make(document):
        toc = (
            '<w:sdt><w:sdtPr><w:docPartObj><w:docPartGallery w:val="Table of Contents"/></w:docPartObj></w:sdtPr>'
            "<w:sdtContent><w:p><w:r><w:t>1 Scope ..... 3</w:t></w:r></w:p></w:sdtContent></w:sdt>"
        )
        document.element.body.insert(0, element(toc))
        document.add_heading("Scope", 1)

    assert text(make) == "# Scope"


def test_page_heads_are_read_once_and_for_labels_and_pages_numbers_are_left_out(one, saved):
    document = docx.Document()
    section = document.sections[0]
    section.header.paragraphs[0].text = "Meridian Harbour Bank\tVersion: 7"
    section.footer.paragraphs[0].text = "Page 1"
    document.add_paragraph("Body.")
    loaded = one(saved(document), "a.docx")
    assert loaded.text == "Page header: Meridian Harbour Bank Version: 7\n\nBody."
    assert loaded.header == {"version": "7"}


def test_footnotes_stand_below_the_paragraph_that_refers_to_them(read, saved, zipped):
    document = docx.Document()
    run = document.add_paragraph("Limits bind all desks").add_run()
    run._r.append(element('<w:footnoteReference w:id="2"/>'))
    document.add_paragraph("After.")
    note = '<w:footnote w:id="2"><w:p><w:r><w:t>Except Treasury.</w:t></w:r></w:p></w:footnote>'
    notes = f"<w:footnotes {nsdecls('w')}>{note}</w:footnotes>"
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/footnotes"
    link = f'<Relationship Id="rId77" Type="{kind}" Target="footnotes.xml"/></Relationships>'.encode()
    changes = {"word/_rels/document.xml.rels": lambda xml: xml.replace(b"</Relationships>", link)}
    (loaded,) = read(zipped(saved(document), changes, {"word/footnotes.xml": notes}), "a.docx")
    assert loaded.text == "Limits bind all desks[^2]\n\n[^2]: Except Treasury.\n\nAfter."


def test_a_text_box_stands_below_its_paragraph_once(text):
    box = "<w:txbxContent><w:p><w:r><w:t>Warning in a box</w:t></w:r></w:p></w:txbxContent>"
    xml = (
        '<w:p xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"><w:r><w:t>Anchor</w:t></w:r><w:r>'
        f"<mc:AlternateContent><mc:Choice Requires='wps'>{box}</mc:Choice><mc:Fallback><w:pict>{box}</w:pict>"
        "</mc:Fallback></mc:AlternateContent></w:r></w:p>"
    )
    assert text(lambda document: document.element.body.insert(0, element(xml))) == "Anchor\n\nWarning in a box"


def test_custom_properties_are_read_as_labels(read, saved, zipped):
    document = docx.Document()
    document.add_paragraph("Text.")
    office = "http://schemas.openxmlformats.org/officeDocument/2006"
    custom = (
        f'<Properties xmlns="{office}/custom-properties" xmlns:vt="{office}/docPropsVTypes">'
        '<property name="Classification"><vt:lpwstr>Confidential</vt:lpwstr></property>'
        '<property name="_dlc_DocId"><vt:lpwstr>X-9</vt:lpwstr></property></Properties>'
    )
    link = f'<Relationship Id="rId77" Type="{office}/relationships/custom-properties" Target="docProps/custom.xml"/>'
    changes = {"_rels/.rels": lambda xml: xml.replace(b"</Relationships>", f"{link}</Relationships>".encode())}
    (loaded,) = read(zipped(saved(document), changes, {"docProps/custom.xml": custom}), "a.docx")
    assert loaded.header == {"classification": "Confidential"}


def test_bold_words_are_marked_and_a_bold_paragraph_is_not(text):
    def make(document):
        paragraph = document.add_paragraph()
        for words, bold in (("Net ", True), ("exposure", True), (" means the sum.", False)):
            paragraph.add_run(words).bold = bold
        document.add_paragraph().add_run("All bold").bold = True

    assert text(make) == "**Net exposure** means the sum.\n\nAll bold"


def test_a_document_of_nothing_was_read(empty, saved):
    assert empty(saved(docx.Document()), "a.docx") == "has no text"


def test_a_document_of_a_picture_alone_was_not(refused, saved):
    document = docx.Document()
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
    document.add_picture(io.BytesIO(base64.b64decode(pixel)))
    assert refused(saved(document), "a.docx") == NO_TEXT


@pytest.mark.parametrize(("changes", "blocks"), [("accept", 1), ("reject", 2)])
def test_a_deleted_paragraph_mark_joins_two_paragraphs(read, saved, changes, blocks):
    document = docx.Document()
    first = document.add_paragraph("The manager calls the holder")
    first._p.get_or_add_pPr().append(element('<w:rPr><w:del w:id="1" w:author="a"/></w:rPr>'))
    document.add_paragraph("within ten working days.")
    (loaded,) = read(saved(document), "a.docx", settings=IngestSettings(tracked_changes=changes))
    assert loaded.text.split() == ["The", "manager", "calls", "the", "holder", "within", "ten", "working", "days."]
    assert loaded.text.count("\n\n") == blocks - 1


def test_a_last_paragraph_with_a_deleted_mark_is_kept(text):
    def make(document):
        last = document.add_paragraph("Nothing follows.")
        last._p.get_or_add_pPr().append(element('<w:rPr><w:del w:id="1" w:author="a"/></w:rPr>'))

    assert text(make) == "Nothing follows."


def test_a_word_that_is_bold_in_part_stays_whole(text):
    """Runs end within words, and a search would not find "jum**ped**"."""

    def make(document):
        paragraph = document.add_paragraph()
        for words, bold in (("The fox jum", False), ("ped", True), (" over ", False), ("A", True), ("lpha.", False)):
            paragraph.add_run(words).bold = bold

    assert text(make) == "The fox jumped over Alpha."
