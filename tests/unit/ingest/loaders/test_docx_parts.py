"""DOCX: odd and damaged packages, what hangs on paragraphs, tracked changes, and what is said of the rest."""

import docx
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from context_engine.core.models import IngestSettings
from context_engine.ingest.loaders import load

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006"
SPACES = (
    f"{nsdecls('w', 'r', 'wp', 'a', 'c', 'dgm', 'm')} "
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" xmlns:v="urn:schemas-microsoft-com:vml" '
    'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape"'
)


def run(words):
    return f"<w:r><w:t xml:space='preserve'>{words}</w:t></w:r>"


@pytest.fixture
def word(read, saved, zipped):
    """Read a Word file with this body; parts are added, each related to the body by its kind as its id."""

    def read_body(body, parts=None, changes=None, name="a.docx"):
        document = docx.Document()
        for element in parse_xml(f"<w:body {SPACES}>{body}</w:body>"):
            document.element.body.insert(len(document.element.body) - 1, element)
        parts = parts or {}
        links = "".join(
            f'<Relationship Id="{kind}" Type="{OFFICE}/relationships/{kind}" Target="{target}"/>'
            for kind, (target, _) in parts.items()
        )

        def link(xml):
            return xml.replace(b"</Relationships>", f"{links}</Relationships>".encode())

        added = {f"word/{target}": data for target, data in parts.values() if data is not None}
        data = zipped(saved(document), {"word/_rels/document.xml.rels": link, **(changes or {})}, added)
        (loaded,) = read(data, name)
        return loaded

    return read_body


@pytest.fixture
def changed(folder, saved):
    """The text of a Word file with this body, its tracked changes read in one of the ways."""

    def run_with(body, how):
        document = docx.Document()
        for element in parse_xml(f"<w:body {SPACES}>{body}</w:body>"):
            document.element.body.insert(len(document.element.body) - 1, element)
        root = folder({"a.docx": saved(document)})
        (loaded,) = load(root / "a.docx", root, settings=IngestSettings(tracked_changes=how))
        return loaded.text

    return run_with


STRICT = {
    b"http://schemas.openxmlformats.org/wordprocessingml/2006/main": b"http://purl.oclc.org/ooxml/wordprocessingml/main",
    b"http://schemas.openxmlformats.org/officeDocument/2006/": b"http://purl.oclc.org/ooxml/officeDocument/",
    b"http://schemas.openxmlformats.org/drawingml/2006/": b"http://purl.oclc.org/ooxml/drawingml/",
}


def test_strict_open_xml_reads_as_the_other_kind_does(one, shipped, zipped):
    data = shipped("limit-breach-procedure.docx")

    def strict(xml):
        for old, new in STRICT.items():
            xml = xml.replace(old, new)
        return xml

    parts = (
        "word/document.xml",
        "word/styles.xml",
        "word/numbering.xml",
        "word/_rels/document.xml.rels",
        "_rels/.rels",
    )
    loaded = one(zipped(data, dict.fromkeys(parts, strict)), "a.docx")
    assert b"purl.oclc.org" in strict(b"http://schemas.openxmlformats.org/wordprocessingml/2006/main")
    assert loaded == one(data, "a.docx")


@pytest.mark.parametrize(
    ("kind", "target"), [("image", "media/image9.png"), ("footnotes", "footnotes.xml"), ("hyperlink", "NULL")]
)
def test_a_part_that_is_missing_takes_nothing_else_with_it(word, kind, target):
    assert word(f"<w:p>{run('Body.')}</w:p>", {kind: (target, None)}).text == "Body."


@pytest.mark.parametrize("part", ["word/styles.xml", "word/numbering.xml", "docProps/core.xml", "[Content_Types].xml"])
@pytest.mark.wording
def test_a_damaged_part_beside_the_text_is_said_and_the_text_is_read(one, shipped, zipped, part):
    loaded = one(zipped(shipped("limit-breach-procedure.docx"), {part: lambda xml: b"<w:not xml"}), "a.docx")
    assert "The desk head reports every limit breach" in loaded.text
    assert part == "[Content_Types].xml" or any(
        one.startswith(f"{part} is damaged (line 1)") for one in loaded.warnings
    )


@pytest.mark.wording
def test_of_a_damaged_body_what_is_sound_is_read(one, shipped, zipped):
    def cut(xml):
        return xml[: xml.index(b"within 24 hours")]

    loaded = one(zipped(shipped("limit-breach-procedure.docx"), {"word/document.xml": cut}), "a.docx")
    assert "The desk head reports every limit breach to Market Risk" in loaded.text
    assert [one for one in loaded.warnings if "only its sound part was read" in one]


def test_no_relationships_at_all(one, shipped, zipped):
    empty = b'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"/>'
    parts = ("word/_rels/document.xml.rels", "_rels/.rels")
    loaded = one(zipped(shipped("limit-breach-procedure.docx"), dict.fromkeys(parts, lambda _: empty)), "a.docx")
    assert loaded.text.startswith("# Limit Breach Procedure")  # styles are found by their name


def test_core_properties_that_stand_there_twice(one, shipped, zipped):
    def twice(xml):
        link = xml[xml.index(b"<Relationship ") :].split(b"/>")
        core = next(one for one in link if b"core-properties" in one)
        return xml.replace(b"</Relationships>", core.replace(b'Id="', b'Id="again') + b"/></Relationships>")

    loaded = one(zipped(shipped("limit-breach-procedure.docx"), {"_rels/.rels": twice}), "a.docx")
    assert loaded.fields["author"] == "Market Risk Control"


def test_a_style_and_a_list_that_are_not_defined(word):
    numbers = '<w:numPr><w:ilvl w:val="11"/><w:numId w:val="777"/></w:numPr>'
    body = f'<w:p><w:pPr><w:pStyle w:val="NoSuch"/>{numbers}</w:pPr>{run("Body.")}</w:p>'
    assert word(body).text == "Body."
    assert (
        word(body, changes={"word/numbering.xml": lambda xml: b"", "word/styles.xml": lambda xml: b""}).text == "Body."
    )


def test_a_list_with_a_level_beyond_the_ninth(word):
    def deep(xml):
        level = b'<w:lvl w:ilvl="12"><w:numFmt w:val="decimal"/><w:lvlText w:val="%1."/></w:lvl>'
        tail = b'<w:abstractNum w:abstractNumId="1">'
        number = b'<w:num w:numId="7"><w:abstractNumId w:val="1"/></w:num></w:numbering>'
        return f"<w:numbering {nsdecls('w')}>".encode() + tail + level + b"</w:abstractNum>" + number

    body = f'<w:p><w:pPr><w:numPr><w:ilvl w:val="12"/><w:numId w:val="7"/></w:numPr></w:pPr>{run("Deep.")}</w:p>'
    assert word(body, changes={"word/numbering.xml": deep}).text == "Deep."


def test_endnotes_and_comments_stand_below_their_paragraph_and_those_without_one_at_the_end(word):
    notes = (
        f"<w:endnotes {nsdecls('w')}><w:endnote w:id='0' w:type='separator'><w:p>{run('----')}</w:p></w:endnote>"
        f"<w:endnote w:id='2'><w:p>{run('Except Treasury.')}</w:p></w:endnote>"
        f"<w:endnote w:id='3'><w:p>{run('Nobody refers to it.')}</w:p></w:endnote></w:endnotes>"
    )
    comments = (
        f"<w:comments {nsdecls('w')}><w:comment w:id='2' w:author='Reviewer'><w:p>{run('Really all?')}</w:p>"
        "</w:comment>"
        "</w:comments>"
    )
    body = (
        f"<w:p>{run('Limits bind all desks')}<w:r><w:endnoteReference w:id='2'/></w:r>"
        f"<w:r><w:commentReference w:id='2'/></w:r></w:p><w:p>{run('After.')}</w:p>"
    )
    loaded = word(body, {"endnotes": ("endnotes.xml", notes), "comments": ("comments.xml", comments)})
    assert loaded.text == (
        "Limits bind all desks[^e2]\n\n[^e2]: Except Treasury.\n\n[Comment by Reviewer: Really all?]\n\nAfter.\n\n"
        "[^e3]: Nobody refers to it."
    )


def test_notes_in_a_cell_stand_below_the_table(word):
    notes = f"<w:footnotes {nsdecls('w')}><w:footnote w:id='4'><w:p>{run('Gross.')}</w:p></w:footnote></w:footnotes>"
    body = (
        f"<w:tbl><w:tr><w:tc><w:p>{run('Limit')}</w:p></w:tc><w:tc><w:p>{run('5')}<w:r><w:footnoteReference w:id='4'/>"
        "</w:r></w:p></w:tc></w:tr></w:tbl>"
    )
    text = word(body, {"footnotes": ("footnotes.xml", notes)}).text
    assert text == "| Limit | 5[^4] |\n| --- | --- |\n\n[^4]: Gross."


def test_heads_and_feet_stand_once_below_the_title(one, saved):
    document = docx.Document()
    document.add_paragraph("Facility Letter", style="Title")
    document.add_paragraph("Terms.")
    first, second = document.sections[0], document.add_section()
    second.header.is_linked_to_previous = False
    for section in (first, second):
        section.header.paragraphs[0].text = "Borrower: Meridian Harbour Ltd"
    first.footer.paragraphs[0].text = "Page 1 of 3"
    first.different_first_page_header_footer = True
    first.first_page_footer.paragraphs[0].text = "Strictly confidential"
    loaded = one(saved(document), "a.docx")
    assert loaded.text == (
        "# Facility Letter\n\nPage header: Borrower: Meridian Harbour Ltd\n\n"
        "Page footer: Strictly confidential\n\nTerms."
    )


TRACKED = (
    f"<w:p>{run('The limit is ')}<w:del w:id='1'><w:r><w:delText>5</w:delText></w:r></w:del>"
    f"<w:ins w:id='2'>{run('7')}</w:ins>{run(' million.')}</w:p>"
    f"<w:p><w:moveFrom w:id='3'>{run('Moved words.')}</w:moveFrom></w:p><w:p>{run('Between.')}</w:p>"
    f"<w:p><w:moveTo w:id='4'>{run('Moved words.')}</w:moveTo></w:p>"
    f"<w:tbl><w:tr><w:tc><w:p>{run('a')}</w:p></w:tc><w:tc><w:p>{run('b')}</w:p></w:tc></w:tr>"
    f"<w:tr><w:trPr><w:ins w:id='5'/></w:trPr><w:tc><w:p>{run('new')}</w:p></w:tc><w:tc><w:p>{run('n')}"
    "</w:p></w:tc></w:tr>"
    f"<w:tr><w:trPr><w:del w:id='6'/></w:trPr><w:tc><w:p>{run('old')}</w:p></w:tc><w:tc><w:p>{run('o')}"
    "</w:p></w:tc></w:tr>"
    "</w:tbl>"
)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("accept", "The limit is 7 million.\n\nBetween.\n\nMoved words.\n\n| a | b |\n| --- | --- |\n| new | n |"),
        ("reject", "The limit is 5 million.\n\nMoved words.\n\nBetween.\n\n| a | b |\n| --- | --- |\n| old | o |"),
        (
            "both",
            (
                "The limit is [deleted: 5][inserted: 7] million.\n\n[moved from here: Moved words.]\n\nBetween.\n\n"
                "[moved to here: Moved words.]\n\n| a | b |\n| --- | --- |\n| new | n |\n| old | o |"
            ),
        ),
    ],
)
def test_tracked_changes(changed, how, says):
    assert changed(TRACKED, how) == says


def test_a_table_in_a_cell_stands_on_the_cells_line(word):
    inner = (
        f"<w:tbl><w:tr><w:tc><w:p>{run('up to 5')}</w:p></w:tc><w:tc><w:p>{run('Desk')}</w:p></w:tc></w:tr>"
        f"<w:tr><w:tc><w:p>{run('above')}</w:p></w:tc><w:tc><w:p>{run('Board')}</w:p></w:tc></w:tr></w:tbl>"
    )
    body = (
        f"<w:tbl><w:tr><w:tc><w:p>{run('Approval')}</w:p></w:tc><w:tc>{inner}<w:p>{run('in writing')}</w:p>"
        "</w:tc></w:tr>"
        "</w:tbl>"
    )
    assert word(body).text == "| Approval | up to 5, Desk; above, Board in writing |\n| --- | --- |"


def test_a_text_box_in_a_cell_stands_once_below_the_table(word):
    box = f"<w:txbxContent><w:p>{run('Boxed')}</w:p></w:txbxContent>"
    shape = (
        f"<w:r><mc:AlternateContent><mc:Choice Requires='wps'>{box}</mc:Choice>"
        f"<mc:Fallback><w:pict>{box}</w:pict></mc:Fallback></mc:AlternateContent></w:r>"
    )
    body = f"<w:tbl><w:tr><w:tc><w:p>{run('a')}{shape}</w:p></w:tc><w:tc><w:p>{run('b')}</w:p></w:tc></w:tr></w:tbl>"
    assert word(body).text == "| a | b |\n| --- | --- |\n\nBoxed"


def test_the_fallback_is_read_where_the_choice_says_nothing(word):
    shape = (
        "<w:r><mc:AlternateContent><mc:Choice Requires='new'><w:drawing/></mc:Choice><mc:Fallback><w:pict>"
        f"<w:txbxContent><w:p>{run('Only here')}</w:p></w:txbxContent></w:pict></mc:Fallback>"
        "</mc:AlternateContent></w:r>"
    )
    assert word(f"<w:p>{run('Anchor')}{shape}</w:p>").text == "Anchor\n\nOnly here"


def test_content_controls_form_fields_links_and_field_codes(word):
    def form(inside):
        return f"<w:r><w:fldChar w:fldCharType='begin'><w:ffData>{inside}</w:ffData></w:fldChar></w:r>"

    box = "<w:checkBox><w:default w:val='0'/><w:checked/></w:checkBox>"
    choices = "<w:ddList><w:result w:val='1'/><w:listEntry w:val='EUR'/><w:listEntry w:val='USD'/></w:ddList>"
    control = "<w:sdtPr><w:dropDownList><w:listItem w:displayText='Low'/></w:dropDownList></w:sdtPr>"
    body = (
        f"<w:p><w:sdt>{control}<w:sdtContent>{run('High')}</w:sdtContent></w:sdt></w:p>"
        f"<w:p>{form(box)}{run('agreed')}</w:p><w:p>{form(choices)}</w:p>"
        "<w:p><w:r><w:fldChar w:fldCharType='begin'/></w:r><w:r><w:instrText>HYPERLINK x</w:instrText></w:r>"
        f"<w:r><w:fldChar w:fldCharType='separate'/></w:r>{run('the policy')}<w:r>"
        "<w:fldChar w:fldCharType='end'/></w:r>"
        f"<w:hyperlink r:id='rId99'>{run(' and its annex')}</w:hyperlink></w:p>"
    )
    assert word(body).text == "High\n\n[x] agreed\n\nUSD\n\nthe policy and its annex"


def test_equations_stand_on_one_line(word):
    def math(words):
        return f"<m:r><m:t>{words}</m:t></m:r>"

    body = (
        f"<w:p><m:oMathPara><m:oMath>{math('r=')}<m:f><m:num>{math('a+b')}</m:num><m:den>{math('2')}</m:den></m:f>"
        f"<m:sSup><m:e>{math('x')}</m:e><m:sup>{math('2')}</m:sup></m:sSup>"
        f"<m:rad><m:deg/><m:e>{math('y')}</m:e></m:rad></m:oMath></m:oMathPara></w:p>"
    )
    assert word(body).text == "r=(a+b)/2x^2√(y)"


CHART = (
    f"<c:chartSpace {nsdecls('c', 'a')}><c:chart><c:title><c:tx><c:rich><a:p><a:r><a:t>Exposure</a:t>"
    "</a:r></a:p></c:rich>"
    "</c:tx></c:title><c:plotArea><c:barChart><c:ser><c:tx><c:strRef><c:strCache><c:pt idx='0'><c:v>EUR m</c:v></c:pt>"
    "</c:strCache></c:strRef></c:tx><c:cat><c:strRef><c:strCache><c:pt idx='0'><c:v>Rates</c:v></c:pt>"
    "<c:pt idx='1'><c:v>Credit</c:v></c:pt></c:strCache></c:strRef></c:cat><c:val><c:numRef><c:numCache>"
    "<c:pt idx='0'><c:v>12</c:v></c:pt><c:pt idx='1'><c:v>7</c:v></c:pt></c:numCache></c:numRef></c:val></c:ser>"
    "</c:barChart></c:plotArea></c:chart></c:chartSpace>"
)
DIAGRAM = (
    f"<dgm:dataModel {nsdecls('dgm', 'a')}><dgm:ptLst><dgm:pt modelId='1'><dgm:t><a:p><a:r>"
    "<a:t>Desk reports</a:t></a:r>"
    "</a:p></dgm:t></dgm:pt><dgm:pt modelId='2' type='parTrans'><dgm:t><a:p><a:r><a:t>not shown</a:t>"
    "</a:r></a:p></dgm:t>"
    "</dgm:pt><dgm:pt modelId='3'><dgm:t><a:p><a:r><a:t>Risk decides</a:t></a:r></a:p></dgm:t></dgm:pt></dgm:ptLst>"
    "</dgm:dataModel>"
)


def test_charts_and_diagrams_are_read(word):
    body = (
        f"<w:p>{run('Figure')}<w:r><w:drawing><c:chart r:id='chart'/></w:drawing></w:r></w:p>"
        f"<w:p>{run('Flow')}<w:r><w:drawing><dgm:relIds r:dm='diagramData'/></w:drawing></w:r></w:p>"
    )
    parts = {"chart": ("charts/chart1.xml", CHART), "diagramData": ("diagrams/data1.xml", DIAGRAM)}
    assert word(body, parts).text == (
        "Figure\n\nChart: Exposure\n\n|  | EUR m |\n| --- | --- |\n| Rates | 12 |\n| Credit | 7 |\n\n"
        "Flow\n\n- Desk reports\n- Risk decides"
    )


@pytest.mark.wording
def test_symbols_are_read_and_those_without_a_character_are_said(word):
    signs = "".join(
        f"<w:r><w:sym w:font='{font}' w:char='{code}'/></w:r>"
        for font, code in (("Symbol", "F0A3"), ("Wingdings", "F0FE"), ("Webdings", "F041"))
    )
    loaded = word(f"<w:p>{run('x ')}{signs}</w:p>")
    assert loaded.text == "x ≤[x]"
    assert loaded.warnings == ("symbols of the font Webdings are left out: 1",)


@pytest.mark.wording
def test_hidden_text_is_left_out_and_counted(word):
    style = '<w:style w:type="character" w:styleId="Ghost"><w:name w:val="Ghost"/><w:rPr><w:vanish/></w:rPr></w:style>'
    body = (
        f"<w:p>{run('Shown.')}<w:r><w:rPr><w:vanish/></w:rPr><w:t> two words</w:t></w:r>"
        "<w:r><w:rPr><w:rStyle w:val='Ghost'/></w:rPr><w:t> third</w:t></w:r></w:p>"
    )
    changes = {"word/styles.xml": lambda xml: xml.replace(b"</w:styles>", f"{style}</w:styles>".encode())}
    loaded = word(body, changes=changes)
    assert loaded.text == "Shown."
    assert loaded.warnings == ("hidden text is left out: 3 words",)


@pytest.mark.wording
def test_a_table_of_contents_is_said_and_what_only_it_says_is_quoted(word):
    toc = (
        '<w:sdt><w:sdtPr><w:docPartObj><w:docPartGallery w:val="Table of Contents"/></w:docPartObj></w:sdtPr>'
        f"<w:sdtContent><w:p>{run('Scope ..... 3')}</w:p><w:p>{run('Waivers ..... 9')}</w:p></w:sdtContent></w:sdt>"
    )
    loaded = word(f"{toc}<w:p>{run('Scope of the rule.')}</w:p>")
    assert loaded.text == "Scope of the rule."
    assert loaded.warnings == ("a table of contents is left out: 2 lines; not in the text: Waivers ..... 9",)


@pytest.mark.wording
def test_embedded_files_and_files_that_stand_in_the_text_are_said(word):
    body = f"<w:p>{run('Body.')}</w:p><w:altChunk r:id='aFChunk'/>"
    parts = {"aFChunk": ("chunk.rtf", b"{\\rtf x}"), "package": ("embeddings/limits.xlsx", b"PK")}
    assert word(body, parts).warnings == (
        "embedded files are not read: limits.xlsx",
        "a file embedded in the text is not read: chunk.rtf, 8 bytes",
    )


WEB_ARCHIVE = (
    b"MIME-Version: 1.0\r\nContent-Type: multipart/related; boundary=B\r\n\r\n--B\r\n"
    b"Content-Type: text/html; charset=windows-1252\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n"
    b"<h2>Limits</h2><table><tr><th>Desk<th>Limit<tr><td>Rates<td>5 Mio. =80</table>\r\n--B--\r\n"
)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("chunk.html", "<h2>Limits</h2><table><tr><th>Desk<th>Limit<tr><td>Rates<td>5 Mio. €</table>".encode()),
        (
            "chunk.mht",
            WEB_ARCHIVE,
        ),
    ],
)
def test_a_web_page_in_the_text_is_read_in_its_place(word, name, content):
    body = f"<w:p>{run('Before.')}</w:p><w:altChunk r:id='aFChunk'/><w:p>{run('After.')}</w:p>"
    loaded = word(body, {"aFChunk": (name, content)})
    table = "| Desk | Limit |\n| --- | --- |\n| Rates | 5 Mio. € |"
    assert loaded.text == f"Before.\n\n## Limits\n\n{table}\n\nAfter."
    assert loaded.warnings == ()


def test_a_web_page_in_the_text_that_is_nested_too_deep_is_said(word):
    deep = b"<div>" * 6_000 + b"x"
    loaded = word(f"<w:p>{run('Body.')}</w:p><w:altChunk r:id='aFChunk'/>", {"aFChunk": ("chunk.html", deep)})
    assert loaded.text == "Body."
    assert [notice.code for notice in loaded.notices] == ["embedded_not_read"]


@pytest.mark.wording
def test_sub_documents_are_said_and_not_followed(word):
    link = (
        f'<Relationship Id="rId88" Type="{OFFICE}/relationships/subDocument" Target="part2.docx" '
        'TargetMode="External"/></Relationships>'
    ).encode()
    links = {"word/_rels/document.xml.rels": lambda xml: xml.replace(b"</Relationships>", link)}
    loaded = word(f"<w:p>{run('Body.')}<w:subDoc r:id='rId88'/></w:p>", changes=links)
    assert loaded.warnings == ("sub-documents are not followed: part2.docx",)


def test_word_art_pictures_texts_and_readings_of_characters(word):
    body = (
        "<w:p><w:r><w:pict><v:shape><v:textpath string='DRAFT'/></v:shape></w:pict></w:r></w:p>"
        "<w:p><w:r><w:drawing><wp:inline><wp:docPr id='1' name='Picture 1' descr='Flow from desk to risk'/></wp:inline>"
        "</w:drawing></w:r></w:p>"
        f"<w:p><w:r><w:ruby><w:rt>{run('ginko')}</w:rt><w:rubyBase>{run('銀行')}</w:rubyBase></w:ruby></w:r></w:p>"
    )
    assert word(body).text == "DRAFT\n\n[Picture: Flow from desk to risk]\n\n銀行(ginko)"
