"""XLSX: what is hidden, merged, commented, drawn or computed is read, or counted and said."""

import io
import re
import zipfile
from datetime import date

import openpyxl
import pytest
from openpyxl.chart import BarChart, Reference
from openpyxl.comments import Comment

from context_engine.core.models import IngestSettings
from context_engine.ingest.loaded_document import LoadedDocument, Skipped
from context_engine.ingest.loaders import xlsx_parts

READ = IngestSettings(hidden_cells="read")
SHEET = "xl/worksheets/sheet1.xml"
TABLE_OF_TWO = [("Desk", "Head"), ("Rates", "Anna"), ("Credit", "Ben"), ("FX", "Cleo")]
TABLE = [("Desk", "Limit", "Head"), ("Rates", 5, "Anna"), ("Credit", 7, "Ben"), ("FX", 9, "Cleo")]


@pytest.fixture
def workbook(read, saved, zipped):
    """What is read of a workbook of {sheet: rows}, changed in openpyxl and then in its parts."""

    def run(sheets, change=None, parts=None, added=(), **options):
        book = openpyxl.Workbook()
        book.remove(book.active)
        for title, cells in sheets.items():
            sheet = book.create_sheet(title)
            for row in cells:
                sheet.append(row)
        if change:
            change(book)
        return read(zipped(saved(book), parts, added), "a.xlsx", **options)

    return run


def said(found):
    return [line for one in found for line in ([one.reason] if isinstance(one, Skipped) else one.warnings)]


def fields(found):
    return [dict(one.fields) for one in found if isinstance(one, LoadedDocument) and one.record]


def text(found):
    return next(one.text for one in found if isinstance(one, LoadedDocument) and not one.record)


def test_one_row_of_a_name_and_a_value_is_a_record(workbook):
    (alone,) = workbook({"Limit": [("Net exposure limit", "EUR 5 million")]})
    assert alone.text == "Limit\nNet exposure limit: EUR 5 million"
    found = workbook({"Limits": TABLE, "Limit": [("Net exposure limit", "EUR 5 million")]})
    assert found[-1].fields == {"Net exposure limit": "EUR 5 million"}


def test_a_head_without_rows_is_text(workbook):
    (loaded,) = workbook({"Plan": [("Desk", "Limit", "Approver")]})
    assert loaded.text == "# Plan\n\nDesk | Limit | Approver"


def test_a_column_without_a_value_keeps_its_name(workbook):
    found = workbook({"S": [(*row, "Remark" if not number else None) for number, row in enumerate(TABLE)]})
    assert text(found) == "# S\n\nColumns without a value: Remark"


@pytest.mark.wording
def test_a_hidden_sheet_is_counted_or_read(workbook):
    def hide(book):
        book["Old"].sheet_state = "veryHidden"

    sheets = {"New": TABLE, "Old": [("Desk", "Limit"), ("Rates", 1), (None, 2)]}
    found = workbook(sheets, hide)
    assert said(found) == ["sheet 'Old' is hidden: 5 cells not read; hidden_cells: read reads them"]
    assert {one.part for one in found} == {"New"}
    every = workbook(sheets, hide, settings=READ)
    assert said(every) == []
    assert {one.part for one in every} == {"New", "Old"}


@pytest.mark.wording
def test_hidden_rows_and_columns_are_counted_or_read(workbook):
    def hide(book):
        book["S"].row_dimensions[3].hidden = True
        book["S"].column_dimensions["C"].hidden = True

    found = workbook({"S": TABLE}, hide)
    assert fields(found) == [{"Desk": "Rates", "Limit": 5}, {"Desk": "FX", "Limit": 9}]
    # row 3 holds three cells, column C one in each of the other three rows
    assert said(found) == ["sheet 'S': 6 cells in hidden rows or columns not read; hidden_cells: read reads them"]
    every = workbook({"S": TABLE}, hide, settings=READ)
    assert (len(fields(every)), said(every)) == (3, [])


@pytest.mark.wording
def test_a_workbook_of_nothing_but_hidden_cells_says_so(workbook):
    def hide(book):
        book.create_sheet("Empty")
        book["S"].sheet_state = "hidden"

    (one,) = workbook({"S": TABLE}, hide)
    assert one == Skipped(
        "a.xlsx", "sheet 'S' is hidden: 12 cells not read; hidden_cells: read reads them", error=False
    )


def test_comments_are_fields_beside_their_cells(workbook):
    def note(book):
        book["S"]["B2"].comment = Comment("Raised by the committee", "Anna")
        book["S"]["B1"].comment = Comment("In USD m", "Anna")
        book["S"]["F9"].comment = Comment("Ask treasury", "Anna")

    found = workbook({"S": TABLE}, note)
    assert fields(found)[0] == {
        "Desk": "Rates",
        "Limit": 5,
        "Limit (comment)": "Raised by the committee",
        "Head": "Anna",
    }
    assert text(found) == "# S\n\nLimit: In USD m\n\nComment on F9: Ask treasury"


def test_a_comment_on_the_caption_of_rows_that_go_on_with_a_table_is_text(workbook):
    def note(book):
        book["S"]["A6"].comment = Comment("Since the merger", "Anna")

    found = workbook({"S": [*TABLE, (), ("Overseas",), ("Gold", 3, "Dora"), ("Silver", 2, "Emil")]}, note)
    assert [row["table"] for row in fields(found)[3:]] == ["Overseas", "Overseas"]
    assert text(found) == "# S\n\nOverseas: Since the merger"


def test_a_thread_of_comments_stands_instead_of_its_old_form(workbook):
    def note(book):
        book["S"]["B2"].comment = Comment("[Threaded comment] Your version cannot read it. Comment: Why?", "Anna")

    thread = (
        b'<ThreadedComments xmlns="http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments">'
        b'<threadedComment ref="B2"><text>Why so low?</text></threadedComment>'
        b'<threadedComment ref="B2"><text>By decree.</text></threadedComment></ThreadedComments>'
    )

    def relate(part):
        link = b'<Relationship Id="t1" Type="x/threadedComment" Target="/xl/threadedComments/a.xml"/>'
        return part.replace(b"</Relationships>", link + b"</Relationships>")

    rels = {"xl/worksheets/_rels/sheet1.xml.rels": relate}
    found = workbook({"S": TABLE}, note, rels, {"xl/threadedComments/a.xml": thread})
    assert fields(found)[0]["Limit (comment)"] == "Why so low? / By decree."


def test_the_words_of_charts_text_boxes_headers_and_footers_are_text(workbook):
    def draw(book):
        chart = BarChart()
        chart.title = "Limits by desk"
        chart.add_data(Reference(book["S"], min_col=2, min_row=1, max_row=4))
        book["S"].add_chart(chart, "H2")
        book["S"].oddHeader.center.text = "Board & risk paper"
        book["S"].oddFooter.left.text = "Page &P of &N, Aldermere Bank"

    def box(part):
        shape = (
            b'<sp xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><txBody><a:p>'
            b"<a:r><a:t>Valid until </a:t></a:r><a:r><a:t>June</a:t></a:r></a:p></txBody></sp>"
        )
        return re.sub(rb"(<[^?>]*wsDr[^>]*>)", lambda match: match[1] + shape, part, count=1)

    found = workbook({"S": TABLE}, draw, {"xl/drawings/drawing1.xml": box})
    assert text(found) == (
        "# S\n\nValid until June\n\nChart: Limits by desk\n\n"
        "Page header and footer: Board & risk paper; Page of , Aldermere Bank"
    )


def test_a_footer_of_nothing_but_a_page_number_is_no_text(workbook):
    def draw(book):
        book["S"].oddHeader.center.text, book["S"].oddFooter.center.text = "&A", "Page &P of &N"

    assert not any("Page" in document.text for document in workbook({"S": TABLE}, draw))


def test_merged_titles_are_captions_and_merged_cells_stand_in_each_row(workbook):
    def merge(book):
        book["S"].merge_cells("A1:C1")
        book["S"].merge_cells("A3:A4")

    rows = [("Limits of the year",), ("Desk", "Kind", "Limit"), ("Rates", "spot", 5), (None, "forward", 7)]
    found = workbook({"S": rows}, merge)
    assert fields(found) == [
        {"Desk": "Rates", "Kind": "spot", "Limit": 5, "table": "Limits of the year"},
        {"Desk": "Rates", "Kind": "forward", "Limit": 7, "table": "Limits of the year"},
    ]


@pytest.mark.parametrize(
    ("value", "form", "shown"),
    [
        (0.425, "0.0%", "42.5%"),
        (5, "[$EUR] #,##0.00", "EUR 5"),
        (5.5, '#,##0.00 "USD m"', "5.5 USD m"),
        (7, '0 "bp"', "7 bp"),
        (7_000_000, '0.0,,"m"', 7_000_000),
        (-5, "$#,##0_);($#,##0)", "$ -5"),
        (date(2026, 1, 31), "dd/mm/yyyy", "2026-01-31"),
        (46053.5, "d.m.yyyy hh:mm", "2026-01-31 12:00:00"),
        (0.25, "hh:mm", "06:00:00"),
        (1.25, "[h]:mm", "1 day, 6:00:00"),
        (1, "yyyy-mm-dd", "1900-01-01"),
        (-3, "yyyy-mm-dd", -3),
        (5, "General", 5),
        (12.5, "0.00E+00", 12.5),
    ],
)
def test_number_formats(workbook, value, form, shown):
    def style(book):
        book["S"]["B2"] = value
        book["S"]["B2"].number_format = form

    (loaded,) = workbook({"S": [("name", "x"), ("A", 0)]}, style)
    assert loaded.fields["x"] == shown


def test_days_counted_from_1904(workbook):
    def early(part):
        return re.sub(rb"<workbookPr ?/>", b'<workbookPr date1904="1"/>', part)

    def style(book):
        book["S"]["B2"].number_format = "yyyy-mm-dd"

    (loaded,) = workbook({"S": [("name", "x"), ("A", 44_591)]}, style, {"xl/workbook.xml": early})
    assert loaded.fields["x"] == "2026-01-31"  # 44,591 days after 1904-01-01


def cell_as(xml):
    """Put a cell of one's own in place of B2."""
    return {SHEET: lambda part: re.sub(rb'<c r="B2".*?</c>', b'<c r="B2"' + xml + b"</c>", part)}


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        (b' t="inlineStr"><is><r><t>one </t></r><r><t>two</t></r></is>', "one two"),
        (b' t="inlineStr"><is><t>Tokyo</t><rPh sb="0" eb="1"><t>pronounced</t></rPh></is>', "Tokyo"),
        (b' t="e"><v>#N/A</v>', "#N/A"),
        (b' t="b"><v>1</v>', True),
        (b' t="d"><v>2026-01-31T00:00:00</v>', "2026-01-31"),
        (b' t="str"><f>A1</f><v>made</v>', "made"),
        (b' t="str"><v>a_x000D_b</v>', "a\rb"),
        (b"><v>1E+3</v>", 1000),
        (b"><v>nonsense</v>", "nonsense"),
        (b' t="s"><v>9999</v>', None),
    ],
)
def test_kinds_of_cells(workbook, cell, value):
    (loaded,) = [one for one in workbook({"S": [("name", "x"), ("A", 0)]}, None, cell_as(cell)) if one.record]
    assert loaded.fields.get("x") == value


@pytest.mark.wording
def test_a_formula_without_a_saved_value_stands_as_it_is_and_is_said(workbook):
    found = workbook({"S": [("name", "x"), ("A", "=SUM(B3:B9)")]})
    assert fields(found) == [{"name": "A", "x": "=SUM(B3:B9)"}]
    assert said(found) == ["sheet 'S': no saved value in 1 formula cell: the formula was kept instead"]
    empty = workbook({"S": [("name", "x"), ("A", 0)]}, None, cell_as(b' t="str"><f>IF(1,"","x")</f><v></v>'))
    assert said(empty) == [], "an empty text is a value"


def test_the_text_of_a_link_is_kept(workbook):
    def link(book):
        book["S"]["A2"].hyperlink = "https://example.invalid/rates"
        book["S"]["A2"].value = "Rates"

    assert fields(workbook({"S": TABLE}, link))[0]["Desk"] == "Rates"


def test_strict_open_xml_is_read(workbook):
    def strict(part):
        old = b"http://schemas.openxmlformats.org/spreadsheetml/2006/main"
        part = part.replace(old, b"http://purl.oclc.org/ooxml/spreadsheetml/main")
        old = b"http://schemas.openxmlformats.org/officeDocument/2006/relationships"
        return part.replace(old, b"http://purl.oclc.org/ooxml/officeDocument/relationships")

    parts = [
        SHEET,
        "xl/workbook.xml",
        "xl/styles.xml",
        "xl/sharedStrings.xml",
        "_rels/.rels",
        "xl/_rels/workbook.xml.rels",
    ]
    found = workbook({"S": TABLE}, None, dict.fromkeys(parts, strict))
    assert [one["Desk"] for one in fields(found)] == ["Rates", "Credit", "FX"]


def test_a_prefix_before_every_name_is_read(workbook):
    def prefixed(part):
        part = re.sub(rb"<(/?)(\w)", rb"<\1x:\2", part.split(b"?>")[-1])
        return part.replace(b"xmlns=", b"xmlns:x=")

    found = workbook({"S": TABLE}, None, {SHEET: prefixed, "xl/sharedStrings.xml": prefixed})
    assert [one["Limit"] for one in fields(found)] == [5, 7, 9]


@pytest.mark.parametrize("part", ["xl/styles.xml", "xl/theme/theme1.xml", "docProps/app.xml"])
@pytest.mark.parametrize("content", [b"", b"<broken"])
def test_a_part_that_is_amiss_harms_no_value(workbook, part, content):
    assert [one["Limit"] for one in fields(workbook({"S": TABLE}, None, {part: lambda _: content}))] == [5, 7, 9]


def test_a_sheet_that_is_damaged_gives_the_rows_before_and_harms_no_other(workbook):
    many = [("name", "x"), *((f"A{number}", number) for number in range(2_000))]

    def cut(part):
        return part[: part.index(b'<row r="1500"')]

    found = workbook({"S": many, "T": TABLE}, None, {SHEET: cut})
    assert sum(one.get("sheet") == "S" for one in fields(found)) == 1_498  # rows 2 to 1499
    assert sum(one.get("sheet") == "T" for one in fields(found)) == 3
    (reason,) = (one.reason for one in found if isinstance(one, Skipped))
    assert reason.startswith("sheet 'S' is damaged, and not read to its end")


def test_a_sheet_whose_part_is_missing_is_said(workbook):
    def lose(part):
        return part.replace(b"worksheets/sheet1.xml", b"worksheets/gone.xml")

    found = workbook({"S": TABLE, "T": TABLE}, None, {"xl/_rels/workbook.xml.rels": lose})
    assert said(found) == ["sheet 'S' has no part in the file and cannot be read"]
    assert len(fields(found)) == 3


def test_a_binary_workbook_is_told_how_to_be_saved(refused, zipped, saved, read):
    book = saved(openpyxl.Workbook())
    (skipped,) = read(book, "a.xlsb")
    assert skipped.reason == "is a binary workbook, which is not read: save it as .xlsx"
    renamed = zipped(book, added={"xl/workbook.bin": b"x"})
    assert refused(renamed, "a.xlsx") == "is a binary workbook (.xlsb): save it as .xlsx"


def shared(items):
    """Parts of a workbook whose sheet has two cells that refer to a table of shared texts."""
    texts = b'<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">' + items
    cells = b'<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>1</v></c></row>'
    sheet = b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>%s</sheetData></worksheet>'
    link = b'<Relationship Id="s1" Type="x/sharedStrings" Target="texts.xml"/></Relationships>'
    parts = {
        SHEET: lambda _: sheet % cells,
        "xl/_rels/workbook.xml.rels": lambda part: re.sub(
            rb"<Relationship [^>]*/sharedStrings[^>]*>", b"", part
        ).replace(b"</Relationships>", link),
    }
    return {"parts": parts, "added": {"xl/texts.xml": texts}}


def test_shared_texts_are_joined_from_their_runs_without_pronunciations(workbook):
    runs = b'<si><r><t>Net </t></r><r><t>limit</t></r><rPh sb="0" eb="1"><t>netto</t></rPh></si>'
    found = workbook({"S": TABLE}, **shared(runs + b"<si><t>EUR 5</t></si></sst>"))
    assert fields(found) == [{"Net limit": "EUR 5"}]


@pytest.mark.parametrize(
    "items",
    [b"<si><t>x</t></si>" * 1_001, b"<si><t>" + b"xy" * 50_001 + b"</t></si>", b"<si><r><t>" + b"xy" * 90_000],
    ids=["many", "long", "without end"],
)
def test_a_hostile_table_of_shared_texts_is_one_line(workbook, monkeypatch, items):
    monkeypatch.setattr(xlsx_parts, "_MOST_TEXTS", 1_000)
    monkeypatch.setattr(xlsx_parts, "_MOST_CHARS", 100_000)
    (skipped,) = workbook({"S": TABLE}, **shared(items + b"</sst>"))
    assert skipped.reason == "has more shared texts than fit into memory: split the workbook"


@pytest.mark.wording
def test_a_damaged_table_of_shared_texts_is_said(workbook):
    found = workbook({"S": TABLE}, **shared(b"<si><t>Net limit</t></si><si><t>EUR"))
    assert said(found)[0].startswith("the table of shared texts is damaged: cells that refer to its end are empty")
    assert text(found) == "# S\n\nNet limit"


def test_many_references_to_one_long_text_are_read_in_documents_of_bounded_size(workbook):
    parts = shared(b"<si><t>" + b"word " * 6_000 + b"</t></si></sst>")  # 30,000 characters
    row = b'<row r="%d"><c r="A%d" t="s"><v>0</v></c></row>'
    rows = b"".join(row % (number, number) for number in range(1, 201))  # in each of 200 rows: 6 million
    whole = parts["parts"][SHEET](b"")
    parts["parts"][SHEET] = lambda _: whole[: whole.index(b"<row")] + rows + whole[whole.index(b"</sheetData>") :]
    found = workbook({"S": TABLE}, **parts)
    assert sum(len(one.text) for one in found) > 5_900_000
    assert max(len(one.text) for one in found) < 2_000_000
    assert len({one.stem for one in found}) == len(found)


@pytest.mark.wording
def test_files_embedded_in_a_sheet_are_said(workbook):
    memo = [("xl/embeddings/Memo.docx", b"PK")]
    (loaded,) = workbook({"Limit": [("Net exposure limit", "EUR 5 million")]}, added=memo)
    (notice,) = loaded.notices
    assert (notice.code, notice.detail) == ("embedded_not_read", {"names": ["Memo.docx"]})
    alone = workbook({"Limit": []}, added=memo)
    assert [one.error for one in alone] == [False, True]
    assert "Memo.docx" in alone[0].reason


def test_a_workbook_whose_parts_are_in_no_folder(read):
    space = "http://schemas.openxmlformats.org"
    main, office = f"{space}/spreadsheetml/2006/main", f"{space}/officeDocument/2006/relationships"

    def relation(kind, target):
        link = f'<Relationship Id="r1" Type="{office}/{kind}" Target="{target}"/>'
        return f'<Relationships xmlns="{space}/package/2006/relationships">{link}</Relationships>'

    cell = '<c t="inlineStr"><is><t>{}</t></is></c>'
    rows = "".join(f"<row>{cell.format(name)}{cell.format(value)}</row>" for name, value in TABLE_OF_TWO)
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{space}/package/2006/content-types"/>',
        "_rels/.rels": relation("officeDocument", "workbook.xml"),
        "_rels/workbook.xml.rels": relation("worksheet", "sheet1.xml"),
        "workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets><sheet name="S" sheetId="1" r:id="r1"/>'
        "</sheets></workbook>",
        "sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>{rows}</sheetData></worksheet>',
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    assert fields(read(out.getvalue(), "a.xlsx")) == [
        {"Desk": "Rates", "Head": "Anna"},
        {"Desk": "Credit", "Head": "Ben"},
        {"Desk": "FX", "Head": "Cleo"},
    ]
