"""Rows that name a group of the rows below them: every record and every piece of a table says its group."""

import docx
import openpyxl
import pytest
from openpyxl.styles import Font

from context_engine.core.chunking.spans import table_heads
from context_engine.ingest.loaders.markdown import CONTINUED, pipe_table

HEAD = ("Product", "Fee", "From")
ROWS = [
    ("Retail accounts", None, None),
    ("Current", 3, "January"),
    ("Savings", 1, "March"),
    ("Corporate accounts", None, None),
    ("Current", 8, "May"),
]
GROUPS = ["Retail accounts", "Retail accounts", "Corporate accounts"]


def _sheet(rows, change=lambda sheet: None):
    book = openpyxl.Workbook()
    for row in (HEAD, *rows):
        book.active.append(row)
    change(book.active)
    return book


def _groups(loaded):
    return [record.fields.get("Group") for record in loaded]


def test_records_inherit_the_group_above_them(read, saved):
    loaded = read(saved(_sheet(ROWS)), "a.xlsx")
    assert _groups(loaded) == GROUPS
    assert loaded[0].text == "Current · 3\nGroup: Retail accounts\nProduct: Current\nFee: 3\nFrom: January"


def test_a_csv_file_has_groups_too(read):
    lines = [",".join(map(str, HEAD)), *(",".join("" if cell is None else str(cell) for cell in row) for row in ROWS)]
    assert _groups(read("\n".join(lines), "a.csv")) == GROUPS


def _merged(sheet):
    sheet.merge_cells("A3:C3")


def _bold(sheet):
    sheet["A3"].font = Font(bold=True)


@pytest.mark.parametrize("change", [_merged, _bold])
def test_a_single_group_row_is_known_by_its_form(read, saved, change):
    rows = [("Cards", 2, "May"), ("Retail accounts", None, None), ("Current", 3, "January")]
    assert _groups(read(saved(_sheet(rows, change)), "a.xlsx")) == [None, "Retail accounts"]


@pytest.mark.parametrize(
    "rows",
    [
        [("Cards", 2, "May"), ("Retail", None, None), ("Current", 3, "January")],  # a product without a fee yet
        [("R-1", None, None), ("R-2", 3, "May"), ("R-3", None, None), ("R-4", 1, "May")],  # ids without values
    ],
)
def test_a_name_without_values_is_a_record(read, saved, rows):
    loaded = read(saved(_sheet(rows)), "a.xlsx")
    assert len(loaded) == len(rows) and set(_groups(loaded)) == {None}


def test_groups_one_above_the_other_are_both_named(read, saved):
    rows = [
        ("Europe", None, None),
        ("Retail", None, None),
        ("Current", 3, "May"),
        ("SME", None, None),
        ("Lease", 4, "May"),
    ]
    assert _groups(read(saved(_sheet(rows)), "a.xlsx")) == ["Europe / Retail", "SME"]


def test_a_column_called_group_keeps_its_name(read, saved):
    book = _sheet([(None, None, None)])
    book.active.delete_rows(1, 3)
    for row in (("Group", "Fee", "From"), *ROWS):
        book.active.append(row)
    (first, *_) = read(saved(book), "a.xlsx")
    assert first.text.split("\n")[1:3] == ["Group above: Retail accounts", "Group: Current"]


def test_a_group_without_rows_is_not_lost(read, saved):
    loaded = read(saved(_sheet([*ROWS, ("Private accounts", None, None)])), "a.xlsx")
    assert any("Private accounts" in item.text for item in loaded)


def test_a_cell_over_all_columns_is_in_bold(one, saved):
    table = pipe_table([["Product", "Fee"], ["Retail accounts", CONTINUED], ["Current", "3"]])
    assert table.text.split("\n")[2:] == ["| **Retail accounts** |  |", "| Current | 3 |"]
    document = docx.Document()
    grid = document.add_table(3, 2)
    for cell, text in zip(grid._cells, ("Product", "Fee", "Retail accounts", "", "Current", "3")):
        cell.text = text
    grid.cell(1, 0).merge(grid.cell(1, 1))
    assert "| **Retail accounts** |  |" in one(saved(document), "a.docx").text


TABLE = "| Product | Fee |\n| --- | --- |\n| {} |  |\n| Current | 3 |\n| {} |  |\n| Current | 8 |\n"


@pytest.mark.parametrize("names", [("Retail", "Corporate"), ("**Retail**", "**Corporate**")])
def test_a_piece_of_a_table_begins_with_its_group(names):
    text = TABLE.format(*names)
    (head,) = table_heads(text, 0, len(text))
    last = text.rindex("| Current")
    assert head.opening(text, last) == f"| Product | Fee |\n| --- | --- |\n| {names[1]} |  |"
    group = text.index(f"| {names[1]}")
    assert head.opening(text, group) == "| Product | Fee |\n| --- | --- |", "it begins with a group itself"


def test_a_row_without_values_is_no_group():
    text = "| Product | Fee |\n| --- | --- |\n| Cards | 2 |\n| Retail |  |\n| Current | 3 |\n"
    (head,) = table_heads(text, 0, len(text))
    assert head.groups == ()


def test_the_name_of_a_column_that_only_groups_fill_is_kept(read):
    loaded = read("Region,;\n0\n0\n,Desk,Desk\n", "a.csv")
    assert _groups(loaded) == ["0 / 0", None]
    assert loaded[-1].text == "Columns without a value: Region"
