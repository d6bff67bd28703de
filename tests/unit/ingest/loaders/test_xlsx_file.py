"""XLSX: sheets, heads, types, merged cells, formulas."""

import re
from datetime import date, datetime, time, timedelta

import openpyxl
import pytest

from context_engine.ingest.loaded_document import LoadedDocument


@pytest.fixture
def rows(read, saved):
    """The records of a workbook made of {sheet: rows}."""

    def run(sheets, change=None):
        book = openpyxl.Workbook()
        book.remove(book.active)
        for title, cells in sheets.items():
            sheet = book.create_sheet(title)
            for row in cells:
                sheet.append(row)
        if change:
            change(book)
        return read(saved(book), "a.xlsx")

    return run


@pytest.mark.wording
def test_the_banks_workbook(read, shipped):
    cover, first, second, rates, credit = read(shipped("counterparty-limits.xlsx"), "w.xlsx")
    assert cover.text == "Cover\nOwner: Market Risk Control\nReviewed: 2026-01-31"
    assert cover.fields["version"] == "2026-Q1"
    assert first.text == (
        "CP-001 · Harbour Trading Ltd\nCounterparty: Harbour Trading Ltd\nLimit Spot: 25\nLimit Forward: 10.5\n"
        "Reviewed: 2026-01-15\nUtilised: 42%\nsheet: Limits\ntable: Counterparty limits as at 31 January 2026 (USD m)"
    )
    assert (first.place, first.stem, first.line) == ("w.xlsx:Limits:5", "w:Limits:5", 5)
    assert second.fields["Utilised"] == "105%"
    assert rates.fields["Formula"] == "=1+1"
    assert credit.warnings[-1] == "sheet 'Desks': no saved value in 1 formula cell: the formula was kept instead"


def test_types(rows):
    head = ("name", "day", "moment", "hour", "span", "sum", "yes", "whole", "text")
    cells = ("A", date(2026, 1, 31), datetime(2026, 1, 31, 9, 5), time(9, 5), timedelta(hours=30), 0.1 + 0.2, True, 5.0)
    (loaded,) = rows({"S": [head, (*cells, "0637")]})
    assert loaded.fields == {
        "name": "A",
        "day": "2026-01-31",
        "moment": "2026-01-31 09:05:00",
        "hour": "09:05:00",
        "span": "1 day, 6:00:00",
        "sum": 0.3,
        "yes": True,
        "whole": 5,
        "text": "0637",
    }


def test_every_sheet_is_read_and_records_know_theirs(rows):
    found = rows({"A": [("name", "x"), ("one", 1)], "B": [("name", "x"), ("two", 2)]})
    assert [(one.part, one.fields["name"], one.fields["sheet"]) for one in found] == [
        ("A", "one", "A"),
        ("B", "two", "B"),
    ]


def test_an_id_is_the_records_own_unless_several_sheets_have_ids(rows):
    head, first, second = ("Entity ID", "Limit"), ("CP-1", 5), ("CP-1", 7)
    assert [one.fields["entity_id"] for one in rows({"A": [head, first], "Notes": [("a",), ("b",)]})[:1]] == ["CP-1"]
    found = rows({"A": [head, first], "B": [head, second]})
    assert [one.fields for one in found] == [
        {"entity id": "CP-1", "Limit": 5, "sheet": "A"},
        {"entity id": "CP-1", "Limit": 7, "sheet": "B"},
    ]
    assert [one.stem for one in found] == ["a:A:2", "a:B:2"]


def test_a_merged_cell_over_columns_without_names_stands_once(rows):
    def merge(book):
        book["S"].merge_cells("A1:B1")
        book["S"].merge_cells("C1:D1")

    (found,) = rows({"S": [("Opened by:", None, "Anna", None, 7, 7)]}, merge)
    assert found.fields == {"column A": "Opened by:", "column C": "Anna", "column E": 7, "column F": 7}


def test_merged_cells_stand_in_each_row(rows):
    def merge(book):
        book["S"].merge_cells("A2:A3")

    found = rows({"S": [("desk", "limit"), ("Rates", 5), (None, 7)]}, merge)
    assert [one.fields for one in found] == [{"desk": "Rates", "limit": 5}, {"desk": "Rates", "limit": 7}]


def test_a_formula_gives_the_value_saved_with_it(zipped, read, saved):
    book = openpyxl.Workbook()
    for row in (("name", "sum"), ("A", "=1+1")):
        book.active.append(row)

    def store(part):
        return re.sub(rb"</f><v ?/?>(</v>)?", b"</f><v>2</v>", part)

    (loaded,) = read(zipped(saved(book), {"xl/worksheets/sheet1.xml": store}), "a.xlsx")
    assert loaded.fields == {"name": "A", "sum": 2}
    assert loaded.warnings == ()


def test_texts_that_look_like_formulas_are_data(rows):
    def as_text(book):
        book["S"]["B2"].data_type = "s"

    (loaded,) = rows({"S": [("name", "x"), ("A", "=cmd|' /C calc'!A0")]}, as_text)
    assert loaded.fields["x"] == "=cmd|' /C calc'!A0"


def test_a_sheet_of_one_column_is_a_text(rows):
    (loaded,) = rows({"Notes": [("Version: 2",), ("Limits are in USD.",), ("They bind all desks.",)]})
    assert loaded.text == "# Notes\n\nVersion: 2\n\nLimits are in USD.\n\nThey bind all desks."
    assert not loaded.record
    assert loaded.header == {"version": "2"}


def test_cells_beside_the_table_are_kept_under_their_letter(rows):
    (loaded,) = rows({"S": [("name", "x"), ("A", 1, None, "checked")]})
    assert loaded.fields == {"name": "A", "x": 1, "column D": "checked"}


def test_a_sheet_that_lies_about_its_size(read, zipped, saved):
    book = openpyxl.Workbook()
    for row in (("name", "x"), ("A", 1)):
        book.active.append(row)

    def lie(part):
        return part.replace(b'ref="A1:B2"', b'ref="A1:XFD1048576"')

    (loaded,) = read(zipped(saved(book), {"xl/worksheets/sheet1.xml": lie}), "a.xlsx")
    assert isinstance(loaded, LoadedDocument)
    assert loaded.fields == {"name": "A", "x": 1}


def test_an_empty_workbook(empty, saved):
    assert empty(saved(openpyxl.Workbook()), "a.xlsx") == "has no cell with a value"


@pytest.mark.slow
def test_ten_thousand_columns_are_one_error(rows):
    (skipped,) = rows({"S": [[f"c{number}" for number in range(10_000)]]})
    assert skipped.reason == "has a sheet 'S' of over 1,000 columns: it is not a table of records"


def test_codes_keep_the_zeros_of_their_number_format(rows):
    def formats(book):
        for row, form in enumerate(("00000", '"CC-"0000', "000-00", "0", "0.00"), start=2):
            book.active.cell(row, 2).number_format = form

    cells = [["Name", "Code"], *([name, value] for name, value in zip("abcde", (42, 7, 123, 5, 6)))]
    found = [record.fields["Code"] for record in rows({"Codes": cells}, formats)]
    assert found == ["00042", "CC-0007", "001-23", 5, 6]
