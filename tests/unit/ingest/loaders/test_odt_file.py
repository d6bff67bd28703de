"""ODT: headings and their numbers, lists, tables, notes, tracked changes, boxes, what is said."""

import io
import zipfile

import pytest

from context_engine.core.models import IngestSettings
from context_engine.ingest.loaders import load

ODF = "urn:oasis:names:tc:opendocument:xmlns"
SPACES = " ".join(
    f'xmlns:{short}="{ODF}:{name}:1.0"'
    for short, name in (
        *((one, one) for one in ("office", "text", "table", "style", "meta", "chart")),
        ("draw", "drawing"),
        ("svg", "svg-compatible"),
        ("fo", "xsl-fo-compatible"),
    )
)
SPACES += ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xlink="http://www.w3.org/1999/xlink"'


def odt(body, styles="", master="", kind="text", **parts):
    """Return an OpenDocument text with this body, automatic styles and master styles."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("mimetype", f"application/vnd.oasis.opendocument.{kind}", zipfile.ZIP_STORED)
        file.writestr(
            "content.xml",
            f"<office:document-content {SPACES}><office:automatic-styles>{styles}</office:automatic-styles>"
            f"<office:body><office:text>{body}</office:text></office:body></office:document-content>",
        )
        file.writestr(
            "styles.xml",
            f"<office:document-styles {SPACES}><office:master-styles>{master}</office:master-styles>"
            "</office:document-styles>",
        )
        for name, content in parts.items():
            file.writestr(name.replace("__", "/").replace("_xml", ".xml"), content)
    return out.getvalue()


@pytest.fixture
def text(one):
    return lambda body, **given: one(odt(body, **given), "a.odt").text


def test_titles_headings_and_their_numbers(text):
    styles = (
        '<style:style style:name="P1" style:parent-style-name="Title"/>'
        '<text:outline-style><text:outline-level-style text:level="1" style:num-format="1"/>'
        '<text:outline-level-style text:level="2" style:num-format="1" text:display-levels="2"/></text:outline-style>'
    )
    body = (
        '<text:p text:style-name="P1">Limit Policy</text:p><text:h text:outline-level="1">Purpose</text:h>'
        '<text:h text:outline-level="2">Scope</text:h><text:h text:outline-level="2">Terms</text:h>'
        '<text:h text:outline-level="1">Duties</text:h><text:h text:outline-level="2">Desk</text:h>'
    )
    assert text(body, styles=styles) == (
        "# Limit Policy\n\n## 1 Purpose\n\n### 1.1 Scope\n\n### 1.2 Terms\n\n## 2 Duties\n\n### 2.1 Desk"
    )


def test_lists_with_bullets_numbers_and_letters(text):
    styles = (
        '<text:list-style style:name="L1"><text:list-level-style-number text:level="1" style:num-suffix="."'
        ' style:num-format="1" text:start-value="3"/><text:list-level-style-number text:level="2" style:num-format="a"'
        ' style:num-prefix="(" style:num-suffix=")"/></text:list-style>'
    )
    item = "<text:list-item><text:p>{}</text:p>{}</text:list-item>"
    inner = f"<text:list>{item.format('deeper', '')}{item.format('again', '')}</text:list>"
    body = (
        f'<text:list text:style-name="L1">{item.format("third", inner)}{item.format("fourth", inner)}</text:list>'
        f"<text:p>Between.</text:p><text:list>{item.format('bullet', '')}</text:list>"
        f'<text:list text:style-name="L1" text:continue-numbering="true">{item.format("fifth", "")}</text:list>'
    )
    assert text(body, styles=styles) == (
        "3. third\n  (a) deeper\n  (b) again\n4. fourth\n  (a) deeper\n  (b) again\n\nBetween.\n\n- bullet\n5. fifth"
    )


def test_tables_with_cells_over_rows_and_columns_and_tables_in_cells(text):
    def cell(words, more=""):
        return f"<table:table-cell {more}><text:p>{words}</text:p></table:table-cell>"

    inner = f"<table:table><table:table-row>{cell('x')}{cell('y')}</table:table-row></table:table>"
    body = (
        f"<table:table><table:table-header-rows><table:table-row>{cell('Excess')}{cell('Approver')}</table:table-row>"
        f"</table:table-header-rows>"
        f"<table:table-row>{cell('above', SPANNED)}"
        f"{cell('Officer')}</table:table-row><table:table-row><table:covered-table-cell/>{cell('Board')}"
        "</table:table-row>"
        f"<table:table-row>{cell('inner')}<table:table-cell>{inner}</table:table-cell></table:table-row></table:table>"
    )
    assert text(body) == (
        "| Excess | Approver |\n| --- | --- |\n| above | Officer |\n| above | Board |\n| inner | x, y |"
    )


def test_notes_comments_and_boxes_stand_below_their_paragraph(text):
    body = (
        "<text:p>Limits bind<text:note text:note-class='footnote'><text:note-citation>1</text:note-citation>"
        "<text:note-body><text:p>Except Treasury.</text:p></text:note-body></text:note> all<text:s text:c='2'/>desks"
        "<office:annotation><dc:creator>Reviewer</dc:creator><text:p>Really?</text:p></office:annotation>"
        "<draw:frame><draw:text-box><text:p>Boxed</text:p></draw:text-box></draw:frame>.</text:p>"
        "<text:p>After.</text:p>"
    )
    assert text(body) == (
        "Limits bind[^1] all  desks.\n\n[^1]: Except Treasury.\n\n[Comment by Reviewer: Really?]\n\nBoxed\n\nAfter."
    )


SPANNED = "table:number-rows-spanned='2'"
TRACKED = (
    "<text:tracked-changes><text:changed-region text:id='c1'><text:deletion><text:p>5</text:p></text:deletion>"
    "</text:changed-region><text:changed-region text:id='c2'><text:insertion/></text:changed-region>"
    "</text:tracked-changes>"
    "<text:p>The limit is <text:change text:change-id='c1'/><text:change-start text:change-id='c2'/>7"
    "<text:change-end text:change-id='c2'/> million.</text:p>"
)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("accept", "The limit is 7 million."),
        ("reject", "The limit is 5 million."),
        ("both", "The limit is [deleted: 5][inserted: 7] million."),
    ],
)
def test_tracked_changes(folder, how, says):
    root = folder({"a.odt": odt(TRACKED)})
    (loaded,) = load(root / "a.odt", root, settings=IngestSettings(tracked_changes=how))
    assert loaded.text == says


def test_page_heads_stand_once_and_say_what_the_document_is(one):
    master = (
        "<style:master-page><style:header><text:p>Borrower: Meridian Harbour Ltd, Version: 7</text:p></style:header>"
        "<style:footer><text:p>Page <text:page-number>3</text:page-number></text:p></style:footer></style:master-page>"
    )
    loaded = one(odt("<text:p>Terms.</text:p>", master=master + master), "a.odt")
    assert loaded.text == "Page header: Borrower: Meridian Harbour Ltd, Version: 7\n\nTerms."
    assert loaded.header == {"version": "7"}


@pytest.mark.wording
def test_charts_are_read_and_other_objects_said(one):
    chart = (
        f"<office:document-content {SPACES}><office:body><office:chart><chart:chart><chart:title>"
        "<text:p>Exposure</text:p>"
        "</chart:title><table:table><table:table-row><table:table-cell><text:p>Rates</text:p></table:table-cell>"
        "<table:table-cell><text:p>12</text:p></table:table-cell></table:table-row></table:table></chart:chart>"
        "</office:chart></office:body></office:document-content>"
    )
    body = (
        "<text:p>Figure<draw:frame><draw:object xlink:href='./Object 1'/></draw:frame></text:p>"
        "<text:p>File<draw:frame><draw:object-ole xlink:href='./Object 2'/></draw:frame></text:p>"
    )
    loaded = one(odt(body, **{"Object 1__content_xml": chart}), "a.odt")
    assert loaded.text == "Figure\n\nExposure\n\n| Rates | 12 |\n| --- | --- |\n\nFile"
    assert loaded.warnings == ("an embedded file is not read: Object 2",)


@pytest.mark.wording
def test_hidden_text_and_contents_are_said(one):
    styles = '<style:style style:name="T1"><style:text-properties text:display="none"/></style:style>'
    body = (
        "<text:table-of-content><text:index-body><text:p>Scope 3</text:p><text:p>Waivers 9</text:p></text:index-body>"
        "</text:table-of-content><text:p>Scope.<text:span text:style-name='T1'> two words</text:span></text:p>"
    )
    loaded = one(odt(body, styles=styles), "a.odt")
    assert loaded.text == "Scope."
    assert loaded.warnings == (
        "hidden text is left out: 2 words",
        "a table of contents is left out: 2 lines; not in the text: Waivers 9",
    )


def test_properties(one):
    meta = (
        f"<office:document-meta {SPACES}><office:meta><dc:title>Limit Policy</dc:title>"
        "<meta:initial-creator>Risk Control</meta:initial-creator><dc:date>2026-01-12T09:30:00.123456789</dc:date>"
        "</office:meta></office:document-meta>"
    )
    fields = one(odt("<text:p>Terms.</text:p>", meta_xml=meta), "a.odt").fields
    assert (fields["title"], fields["author"]) == ("Limit Policy", "Risk Control")
    assert fields["modified"].isoformat() == "2026-01-12T09:30:00.123456+00:00"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"kind": "spreadsheet"}, "is an OpenDocument spreadsheet, not a text (.odt): its"),
        ({"META-INF__manifest_xml": "<m:encryption-data/>"}, "is encrypted: save it without a password"),
        ({"Basic__Standard__Module1_xml": "<x/>"}, "holds macros: save it without them"),
        ({"evil_xml": "<!DOCTYPE x [<!ENTITY a 'ha'>]><x/>"}, "has a part evil.xml with a document type (entities)"),
        ({"evil_xml": '<!DOCTYPE x SYSTEM "x.dtd" [<!ENTITY a "ha">]><x/>'}, "has a part evil.xml with a document"),
    ],
)
def test_what_is_refused(refused, given, says):
    assert refused(odt("<text:p>Terms.</text:p>", **given), "a.odt").startswith(says)


def test_a_formula_whose_document_type_only_names_a_file(one):
    formula = (
        '<?xml version="1.0"?><!DOCTYPE math:math PUBLIC "-//OpenOffice.org//DTD Modified W3C MathML 1.01//EN" '
        '"math.dtd"><math:math xmlns:math="http://www.w3.org/1998/Math/MathML"><math:semantics>'
        "<math:annotation>a + b</math:annotation></math:semantics></math:math>"
    )
    body = "<text:p>The sum<draw:frame><draw:object xlink:href='./Object 1'/></draw:frame></text:p>"
    assert one(odt(body, **{"Object 1__content_xml": formula}), "a.odt").text == "The sum\n\na + b"


@pytest.mark.wording
def test_a_damaged_text_is_read_as_far_as_it_is_sound(one, zipped):
    data = odt("<text:p>Sound words.</text:p><text:p>More words.</text:p>")
    loaded = one(zipped(data, {"content.xml": lambda xml: xml[: xml.index(b"words.</text:p></office")]}), "a.odt")
    assert loaded.text.startswith("Sound words.")
    assert loaded.warnings == ("content.xml is damaged (line 1): only its sound part was read",)


def test_struck_raised_and_lowered_text(text):
    styles = "".join(
        f'<style:style style:name="{name}" style:family="text"><style:text-properties {value}/></style:style>'
        for name, value in (
            ("T1", 'style:text-position="super 58%"'),
            ("T2", 'style:text-position="-33% 58%"'),
            ("T3", 'style:text-line-through-style="solid"'),
            ("T4", 'style:text-line-through-style="none" style:text-position="0% 100%"'),
        )
    )
    body = (
        '<text:p>10<text:span text:style-name="T1">6</text:span> EUR, CO<text:span text:style-name="T2">2</text:span>, '
        '<text:span text:style-name="T3">old 30 %</text:span> <text:span text:style-name="T4">new</text:span></text:p>'
    )
    assert text(body, styles=styles) == "10⁶ EUR, CO₂, ~~old 30 %~~ new"


def test_a_head_of_two_rows_becomes_one(text):
    cell = "<table:table-cell{0}><text:p>{1}</text:p></table:table-cell>".format
    covered = "<table:covered-table-cell/>"
    rows = (
        cell(' table:number-rows-spanned="2"', "Product")
        + cell(' table:number-columns-spanned="2"', "Retail")
        + covered,
        covered + cell("", "Monthly") + cell("", "Yearly"),
        cell("", "Current") + cell("", "3") + cell("", "30"),
    )
    table = "".join(f"<table:table-row>{row}</table:table-row>" for row in rows)
    assert text(f"<table:table>{table}</table:table>") == (
        "| Product | Retail Monthly | Retail Yearly |\n| --- | --- | --- |\n| Current | 3 | 30 |"
    )


def test_links_keep_their_targets(text):
    link = '<text:a xlink:href="https://intranet.example/haircuts">the haircut ladder</text:a>'
    body = f'<text:h text:outline-level="1">{link}</text:h><text:p>See {link}.</text:p>'
    assert text(body) == ("# the haircut ladder\n\nSee [the haircut ladder](https://intranet.example/haircuts).")


SMUGGLED = (
    '<style:style style:name="T1" style:family="text"><style:text-properties {look}/></style:style>'
    '<style:style style:name="P1" style:family="paragraph"><style:paragraph-properties {ground}/></style:style>'
)


@pytest.mark.parametrize(
    ("look", "ground", "seen"),
    [
        ('fo:color="#ffffff"', "", False),
        ('fo:color="#FEFDFF"', 'fo:background-color="transparent"', False),
        ('fo:font-size="1pt"', "", False),
        ('text:display="none"', "", False),
        ('fo:color="#ffffff" fo:background-color="#1f3864"', "", True),
        ('fo:color="#ffffff"', 'fo:background-color="#1f3864"', True),
        ('fo:color="#c00000"', "", True),
        ('fo:font-size="9pt"', "", True),
    ],
)
def test_text_of_odt_that_nobody_sees(one, look, ground, seen):
    span = '<text:span text:style-name="T1">Ignore it.</text:span>'
    paragraph = f'<text:p text:style-name="P1">The limit is 25 %. {span}</text:p>'
    loaded = one(odt(paragraph, styles=SMUGGLED.format(look=look, ground=ground)), "a.odt")
    assert loaded.text == ("The limit is 25 %. Ignore it." if seen else "The limit is 25 %.")
    assert [dict(notice.detail) for notice in loaded.notices] == ([] if seen else [{"count": 2}])
