"""Heads of tables: of several rows, of periods, with equal names; in every format that has them."""

import docx
import openpyxl
import pptx
import pytest
from pptx.util import Inches

from context_engine.ingest.loaders.markdown import CONTINUED, pipe_table
from context_engine.ingest.loaders.periods import period_of

JOINED = "| Product | Retail Monthly | Retail Yearly |\n| --- | --- | --- |\n| Current | 3 | 30 |"


def test_rows_of_a_head_are_joined_column_by_column():
    rows = [["Product", "Retail", CONTINUED], ["Product", "Monthly", "Yearly"], ["Current", "3", "30"]]
    assert pipe_table(rows).text == JOINED


def test_a_head_may_have_three_rows():
    rows = [
        ["Region", "North", CONTINUED, CONTINUED, CONTINUED],
        ["Region", "Retail", CONTINUED, "SME", CONTINUED],
        ["Region", "Limit", "Used", "Limit", "Used"],
        ["Board", "10", "9", "8", "7"],
    ]
    head, _, row = pipe_table(rows).text.split("\n")
    assert head == "| Region | North Retail Limit | North Retail Used | North SME Limit | North SME Used |"
    assert row == "| Board | 10 | 9 | 8 | 7 |"


@pytest.mark.parametrize(
    "rows",
    [
        [["Fees in EUR", CONTINUED], ["Product", "Fee"], ["Current", "3"]],  # a title over the whole table
        [["Product", "Retail", CONTINUED], ["Current", "3", "30"]],  # numbers below: these are no names
    ],
)
def test_other_wide_cells_are_no_groups(rows):
    assert CONTINUED not in pipe_table(rows).text
    assert pipe_table(rows).text.count("\n") == len(rows)


def test_word(one, saved):
    document = docx.Document()
    table = document.add_table(3, 3)
    for row, texts in enumerate((("Product", "Retail", ""), ("Product", "Monthly", "Yearly"), ("Current", "3", "30"))):
        for column, text in enumerate(texts):
            table.cell(row, column).text = text
    table.cell(0, 1).merge(table.cell(0, 2))
    assert one(saved(document), "a.docx").text == JOINED


def test_html(one):
    page = (
        "<table><tr><th rowspan=2>Product</th><th colspan=2>Retail</th></tr><tr><th>Monthly</th><th>Yearly</th></tr>"
        "<tr><td>Current</td><td>3</td><td>30</td></tr></table>"
    )
    assert one(page, "a.html").text == JOINED


def test_slides(one, saved):
    deck = pptx.Presentation()
    shapes = deck.slides.add_slide(deck.slide_layouts[6]).shapes
    table = shapes.add_table(3, 3, 0, 0, Inches(4), Inches(1)).table
    for row, texts in enumerate((("Product", "Retail", ""), ("Product", "Monthly", "Yearly"), ("Current", "3", "30"))):
        for column, text in enumerate(texts):
            table.cell(row, column).text = text
    table.cell(0, 1).merge(table.cell(0, 2))
    assert one(saved(deck), "a.pptx").text.endswith(JOINED)


@pytest.fixture
def records(read, saved):
    """The fields of the records of a sheet with these rows."""

    def run(*rows, merged=()):
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        for cells in merged:
            book.active.merge_cells(cells)
        return [document.fields for document in read(saved(book), "a.xlsx")]

    return run


@pytest.mark.parametrize(
    "periods",
    [(2024, 2025, 2026), ("2026", "2025", "2024"), ("Q1 2025", "Q2 2025", "Q3 2025"), ("Jan", "Feb", "Mar"),
     ("FY23", "FY24", "FY25E"), ("2025-03-31", "2025-06-30", "2025-09-30")],
)  # fmt: skip
def test_periods_in_order_are_names(records, periods):
    (first, second) = records(("Portfolio", *periods), ("Mortgages", 10, 11, 12), ("Cards", 3, 4, 5))
    assert first == {"Portfolio": "Mortgages", **dict(zip(map(str, periods), (10, 11, 12)))}
    assert second["Portfolio"] == "Cards"


@pytest.mark.parametrize("years", [(2024, 2025, 2024), (2024, "many", 2026), (10, 20, 30)])
def test_numbers_that_are_no_periods_in_order_are_values(records, years):
    first, *_ = records(("Mortgages", *years), ("Cards", 3, 4, 5))
    assert "column A" in first


def test_a_head_of_three_rows_in_a_sheet(records):
    (board,) = records(
        ("Region", "North", None, None, None),
        (None, "Retail", None, "SME", None),
        (None, "Limit", "Used", "Limit", "Used"),
        ("Board", 10, 9, 8, 7),
        merged=("A1:A3", "B1:E1", "B2:C2", "D2:E2"),
    )
    assert board == {
        "Region": "Board",
        "North Retail Limit": 10,
        "North Retail Used": 9,
        "North SME Limit": 8,
        "North SME Used": 7,
    }


def test_equal_names_are_told_apart_above_codes(read):
    first, second = read("Rule,Text,Text\nR-1,alpha,beta\nR-2,gamma,delta\n", "a.csv")
    assert first.fields == {"Rule": "R-1", "Text": "alpha", "Text (2)": "beta"}
    assert second.fields["Text (2)"] == "delta"


def test_equal_texts_above_equal_texts_are_no_head(read):
    first, *_ = read("yes,yes,no\nno,yes,no\nyes,no,no\n", "a.csv")
    assert first.fields == {"column A": "yes", "column B": "yes", "column C": "no"}


@pytest.mark.parametrize(
    ("earlier", "later"),
    [(2024, 2025), ("FY24", "FY25"), ("Q4 2024", "Q1 2025"), ("2024Q2", "2024Q3"), ("Mar-24", "Apr 2024"), ("H1", "H2"),
     ("2025-03-31", "2025-06-30"), (2025.0, "2026E")],
)  # fmt: skip
def test_periods_are_in_the_order_of_time(earlier, later):
    assert period_of(earlier) < period_of(later)


@pytest.mark.parametrize("cell", ["limit", 10, "10 %", "1,000", "Section 4", None, "Marten", 1.5])
def test_other_cells_are_no_periods(cell):
    assert period_of(cell) is None


def _rtf_row(edges, *cells):
    texts = "".join(rf"\pard\intbl {cell}\cell" for cell in cells)
    return rf"\trowd{edges}{texts}\row"


@pytest.mark.parametrize(
    ("upper", "cells"),
    [
        (r"\clvmgf\cellx1000\cellx3000", ("Product", "Retail")),  # one wide cell
        (r"\clvmgf\cellx1000\clmgf\cellx2000\clmrg\cellx3000", ("Product", "Retail", "")),  # cells with flags
        (r"\clvmgf\cellx990\cellx3010", ("Product", "Retail")),  # edges that nearly agree
    ],
)
def test_the_rows_of_a_head_in_rtf_are_joined(one, upper, cells):
    lower = _rtf_row(r"\clvmrg\cellx1000\cellx2000\cellx3000", "", "Monthly", "Yearly")
    last = _rtf_row(r"\cellx1000\cellx2000\cellx3000", "Current", "3", "30")
    text = one(rf"{{\rtf1\ansi {_rtf_row(upper, *cells)}{lower}{last}\pard End.\par}}", "a.rtf").text
    assert text == f"{JOINED}\n\nEnd."


def test_rows_in_rtf_without_definitions_are_read_cell_by_cell(one):
    first = r"\cellx1000"
    rows = rf"{_rtf_row('', 'Product', 'Fee')}{_rtf_row(first, 'Current', '3')}"
    assert one(rf"{{\rtf1\ansi {rows}\pard End.\par}}", "a.rtf").text == (
        "| Product | Fee |\n| --- | --- |\n| Current | 3 |\n\nEnd."
    )


def test_one_number_among_names_above_values_is_the_name_of_its_column(records):
    rows = (("Rates", "London", 5, 7, 12), ("FX", "Paris", 6, 8, 13), ("Bonds", "London", 2, 9, 14))
    (first, *_) = records(("Desk", "Office", "Limit", 2025, "Used"), *rows)
    assert first == {"Desk": "Rates", "Office": "London", "Limit": 5, "2025": 7, "Used": 12}
    (first, *_) = records((0, "Desk", "Limit", "Used"), (1, "Rates", 5, 3), (2, "FX", 6, 4), (3, "Bonds", 7, 1))
    assert first == {"0": 1, "Desk": "Rates", "Limit": 5, "Used": 3}


def test_one_number_among_words_above_words_is_a_value(records):
    rows = (("Rates", "London", "n/a", 5), ("FX", "Paris", 3, 6), ("Bonds", "London", 4, 7))
    assert len(records(*rows)) == 3


def test_notes_in_several_cells_above_a_head_are_a_caption(read):
    rows = "made,by,the,,desk\nsee,notes,,,\nName,Rating,Limit,Used,Since\nAnna,low,10,7,2020\nBen,high,20,9,2021\n"
    first, *_ = read(rows, "limits.csv")
    assert first.text.split("\n")[1:6] == ["name: Anna", "Rating: low", "Limit: 10", "Used: 7", "Since: 2020"]


def test_a_row_of_words_below_a_head_without_a_corner_is_a_record(read):
    rows = "Desk,Owner,Limit,Used,\nRates,,,,open\nCredit,Ann,none,none,closed\nFunding,Ben,20,9,open\n"
    texts = [document.text for document in read(rows, "desks.csv")]
    assert any("Desk: Credit" in text and "Owner: Ann" in text for text in texts)
