"""Tables of PDFs: rulings enclose their cells, rows stand below the names of their columns, no word is lost."""

import sys
from collections import Counter

import fpdf
import pytest

from context_engine.core.models import NoticeCode
from context_engine.ingest.documents import chunks_of, prepare
from context_engine.ingest.loaders import pdf_grids
from context_engine.ingest.loaders import pdf_grids as pdf_rulings

HEAD = ("Desk", "Limit", "Owner")


class Pages(fpdf.FPDF):
    """Pages with text and with cells that have rulings around them."""

    def __init__(self):
        super().__init__()
        self.add_page()
        self.set_font("helvetica", size=10)

    def text_line(self, text, size=10):
        self.set_font("helvetica", size=size)
        self.multi_cell(0, 6, text, new_x="LMARGIN", new_y="NEXT")
        self.set_font("helvetica", size=10)

    def row(self, *cells, widths=(40, 30, 60), border=1, height=8):
        for text, width in zip(cells, widths):
            self.cell(width, height, text, border=border)
        self.ln(height)

    def rows(self, *rows, **options):
        for row in rows:
            self.row(*row, **options)


@pytest.fixture
def loaded(one):
    """The document of a PDF that a function fills."""

    def run(fill, name="a.pdf"):
        pdf = Pages()
        fill(pdf)
        return one(bytes(pdf.output()), name)

    return run


def codes(document):
    return {notice.code: notice for notice in document.notices}


def test_rows_stand_below_the_names_of_their_columns(loaded):
    def fill(pdf):
        pdf.text_line("The desks and what they may hold.")
        pdf.rows(HEAD, ("Rates", "10", "Ann Harbour"), ("Credit", "20", "Head of credit"))
        pdf.text_line("Limits are reviewed each year.")

    document = loaded(fill)
    assert document.text == (
        "The desks and what they may hold.\n\n"
        "| Desk | Limit | Owner |\n| --- | --- | --- |\n"
        "| Rates | 10 | Ann Harbour |\n| Credit | 20 | Head of credit |\n\n"
        "Limits are reviewed each year."
    )


@pytest.mark.wording
def test_the_report_says_how_many_tables_there_are_where_and_how_long_they_took(loaded):
    def fill(pdf):
        pdf.rows(HEAD, ("Rates", "10", "Ann"), ("Credit", "20", "Ben"))
        pdf.add_page()
        pdf.text_line("Nothing is ruled here.")
        pdf.add_page()
        pdf.rows(("Code", "Meaning"), ("A", "approved"), ("R", "refused"), widths=(20, 60))

    notice = codes(loaded(fill))[NoticeCode.TABLES_READ]
    assert dict(notice.detail) == {"count": 2, "pages": [1, 3]}
    assert notice.message.startswith("2 tables read as rows, on pages 1, 3 (2); 0.")
    assert notice.message.endswith(" s a page")


def test_each_word_of_a_table_and_of_what_stands_beside_it_is_read_once(loaded):
    def fill(pdf):
        pdf.text_line("Above one.")
        pdf.rows(("Desk", "Limit"), ("Rates", "10"), ("Credit", "20"), widths=(30, 20))
        pdf.set_xy(100, 20)
        pdf.cell(60, 6, "Beside two.")
        pdf.set_xy(10, 60)
        pdf.text_line("Below three.")

    said = "Above one. Desk Limit Rates 10 Credit 20 Beside two. Below three."
    words = Counter(loaded(fill).text.replace("|", " ").replace("---", " ").split())
    assert words == Counter(said.split())


def test_lines_of_a_cell_are_one_text_and_a_word_cut_at_their_end_is_whole(loaded):
    def fill(pdf):
        with pdf.table(col_widths=(30, 30), width=60, text_align="LEFT", line_height=5) as table:
            for cells in (("Control", "Says"), ("Reconcil-\niation", "Each day\nbefore noon")):
                table.row(cells)

    assert "| Reconciliation | Each day before noon |" in loaded(fill).text


def test_a_table_over_two_pages_is_one_with_its_head_once(loaded, counter):
    rows = [(f"Desk {number}", str(number * 10), "Ann") for number in range(1, 41)]

    def fill(pdf):
        pdf.rows(HEAD, *rows[:28])
        pdf.add_page()
        pdf.rows(HEAD, *rows[28:])
        pdf.text_line("Limits are reviewed each year.")

    document = loaded(fill)
    lines = ["| Desk | Limit | Owner |", "| --- | --- | --- |", *(f"| {' | '.join(row)} |" for row in rows)]
    assert document.text == "\n".join(lines) + "\n\nLimits are reviewed each year."
    assert document.pages == ((0, 1), (document.text.index("| Desk 29 "), 2))
    chunks = chunks_of(prepare(document, None, counter, max_chunk_tokens=100), counter)
    page = {
        name: one.metadata["page"] for one in chunks for name in ("| Desk 1 |", "| Desk 40 |") if name in one.content
    }
    assert page == {"| Desk 1 |": 1, "| Desk 40 |": 2}


def test_rows_without_a_head_go_on_with_the_table_of_the_page_before_though_a_note_stands_below_it(loaded):
    def fill(pdf):
        pdf.rows(HEAD, ("Rates", "10", "Ann"))
        pdf.text_line("Note: limits in millions.")
        pdf.add_page()
        pdf.rows(("Credit", "20", "Ben"), ("Metals", "5", "Cai"))

    document = loaded(fill)
    assert document.text == (
        "Note: limits in millions.\n\n| Desk | Limit | Owner |\n| --- | --- | --- |\n"
        "| Rates | 10 | Ann |\n| Credit | 20 | Ben |\n| Metals | 5 | Cai |"
    )
    assert codes(document)[NoticeCode.TABLES_READ].detail["count"] == 1


def test_another_table_on_the_next_page_is_another_table(loaded):
    def fill(pdf):
        pdf.rows(HEAD, ("Rates", "10", "Ann"))
        pdf.add_page()
        pdf.text_line("Codes are given by the desk.")
        pdf.rows(("Code", "Meaning", "Since"), ("A", "approved", "2020"))

    text = loaded(fill).text
    assert text.count("| --- | --- | --- |") == 2
    assert "| Code | Meaning | Since |\n| --- |" in text


def test_a_cell_over_several_rows_stands_in_each_and_a_head_of_two_lines_is_one(loaded):
    def fill(pdf):
        with pdf.table(col_widths=(30, 30, 30), width=120, text_align="LEFT", num_heading_rows=2) as table:
            first = table.row()
            first.cell("Desk", rowspan=2)
            first.cell("Limit", colspan=2)
            table.row(("USD", "EUR"))
            spanned = table.row()
            spanned.cell("Rates", rowspan=2)
            spanned.cell("10")
            spanned.cell("9")
            table.row(("12", "11"))

    assert loaded(fill).text == (
        "| Desk | Limit USD | Limit EUR |\n| --- | --- | --- |\n| Rates | 10 | 9 |\n| Rates | 12 | 11 |"
    )


def test_a_title_over_all_columns_stands_above_the_table(loaded):
    def fill(pdf):
        pdf.row("Limits by desk", widths=(130,))
        pdf.rows(HEAD, ("Rates", "10", "Ann"), ("Credit", "20", "Ben"))

    assert loaded(fill).text.startswith("Limits by desk\n\n| Desk | Limit | Owner |\n| --- |")


def test_rows_that_share_a_box_are_rows(loaded):
    def fill(pdf):
        with pdf.table(col_widths=(30, 30, 30), width=120, text_align="LEFT") as table:
            table.row(("Month", "Sales", "Share"))
            table.row(("May 2026\nJune 2026\nJuly 2026", "10\n20\n30", "1 %\n2 %\n3 %"))

    assert "| May 2026 | 10 | 1 % |\n| June 2026 | 20 | 2 % |\n| July 2026 | 30 | 3 % |" in loaded(fill).text


BOXES = {
    "one box": [("Approval must come before the first trade.",)],
    "boxes below one another": [("Keep two keys.",), ("Never lend one.",)],
    "boxes side by side": [("Keep two keys.", "Never lend one.")],
    "a form of which only the labels are filled": [("Name", "Day"), ("", ""), ("", ""), ("", "")],
}


@pytest.mark.parametrize("rows", BOXES.values(), ids=BOXES)
def test_boxes_that_are_no_table_stay_text(loaded, rows):
    def fill(pdf):
        pdf.text_line("Before.")
        pdf.rows(*rows, widths=(80, 80))

    document = loaded(fill)
    assert "|" not in document.text
    assert NoticeCode.TABLES_READ not in codes(document)
    assert all(cell in document.text for row in rows for cell in row)


def test_a_page_laid_out_in_boxes_stays_text(loaded):
    long = "A bank must keep a register of its material outsourcing arrangements and review it each year. " * 24

    def fill(pdf):
        with pdf.table(col_widths=(80, 80), width=170, text_align="LEFT", line_height=4) as table:
            table.row(("Scope", "Register"))
            table.row((long, "Exit plan"))

    assert "|" not in loaded(fill).text


def test_a_ruled_page_head_is_a_running_head(loaded):
    def fill(pdf):
        for number in range(1, 5):
            if number > 1:
                pdf.add_page()
            pdf.rows(("Meridian Harbour Bank", "SOP-12"), ("Travel policy", "Version 3"), widths=(80, 40), height=6)
            pdf.set_y(60)
            pdf.text_line(f"Rule {number} is kept by all who work at the bank.")

    document = loaded(fill)
    assert "|" not in document.text
    assert document.text.count("Meridian Harbour Bank") == document.text.count("SOP-12") == 1
    assert codes(document)[NoticeCode.RUNNING_HEADS_LEFT_OUT].detail["pages"] == [2, 3, 4]


def test_a_table_at_the_top_of_one_page_is_a_table(loaded):
    def fill(pdf):
        pdf.set_y(5)
        pdf.rows(HEAD, ("Rates", "10", "Ann"), height=5)
        pdf.add_page()
        pdf.text_line("Limits are reviewed each year.")

    assert loaded(fill).text.startswith("| Desk | Limit | Owner |\n| --- |")


def test_tables_on_a_turned_page_are_read(loaded):
    def fill(pdf):
        with pdf.rotation(90, 60, 150):
            pdf.set_left_margin(20)
            pdf.set_xy(20, 140)
            pdf.rows(HEAD, ("Rates", "10", "Ann"), ("Credit", "20", "Ben"))

    assert "| Rates | 10 | Ann |\n| Credit | 20 | Ben |" in loaded(fill).text


@pytest.mark.wording
def test_without_the_library_tables_are_text_and_that_is_said(loaded, monkeypatch):
    def fill(pdf):
        pdf.rows(HEAD, ("Rates", "10", "Ann"), ("Credit", "20", "Ben"))

    monkeypatch.setitem(sys.modules, "pdfplumber", None)
    document = loaded(fill)
    words = [word for word in document.text.split() if word.strip("|-")]
    assert words == [*HEAD, "Rates", "10", "Ann", "Credit", "20", "Ben"]
    notice = codes(document)[NoticeCode.TABLES_AS_TEXT]
    assert dict(notice.detail) == {"pages": [1]}
    assert "pip install 'dify-context-engine[documents]'" in notice.message


@pytest.mark.wording
def test_a_page_full_of_lines_is_read_as_text_and_that_is_said(loaded, monkeypatch):
    def fill(pdf):
        pdf.rows(HEAD, *[(f"Desk {number}", "10", "Ann") for number in range(20)])

    monkeypatch.setattr(pdf_grids, "_MOST_CROSSINGS", 20)
    document = loaded(fill)
    assert "Desk 19" in document.text
    assert "too many lines" in codes(document)[NoticeCode.TABLES_AS_TEXT].message
    monkeypatch.undo()
    assert "| Desk 19 | 10 | Ann |" in loaded(fill).text


def test_most_pages_are_not_searched(loaded, monkeypatch):
    def fill(pdf):
        pdf.text_line("A rule below a title is no table.")
        pdf.line(10, 30, 200, 30)
        pdf.line(10, 40, 200, 40)

    monkeypatch.setitem(sys.modules, "pdfplumber", None)  # would be said
    assert loaded(fill).notices == ()


def test_both_sides_of_a_filled_bar_are_rulings(one):
    pypdfium2 = pytest.importorskip("pypdfium2")
    pdf = fpdf.FPDF(unit="pt")
    pdf.add_page()
    pdf.rect(100, 100, 200, 2, style="F")
    page = pypdfium2.PdfDocument(bytes(pdf.output()))[0]
    level = [ruling for ruling in pdf_rulings.rulings_of(page) if ruling.level]
    assert sorted(round(pdf.h - ruling.at) for ruling in level) == [100, 102]
    assert {(round(ruling.start), round(ruling.end)) for ruling in level} == {(100, 300)}


def listing(pdf, *rows, widths=(30, 20, 40, 60), step=5):
    """Rows without rulings between them, in one row of cells with rulings around them."""
    pdf.row("Time", "Code", "State", "Event", widths=widths)
    top, left = pdf.get_y(), pdf.get_x()
    for number, row in enumerate(rows):
        for column, text in enumerate(row):
            pdf.set_xy(left + sum(widths[:column]), top + number * step)
            pdf.cell(widths[column], step, text)
    for column, width in enumerate(widths):
        pdf.rect(left + sum(widths[:column]), top, width, len(rows) * step)
    pdf.set_y(top + len(rows) * step + 5)


def test_a_listing_with_rulings_only_between_its_columns_is_read_line_by_line(loaded):
    rows = (
        ("09:00", "31", "", "Start of day"),
        ("09:05", "32", "open", "Limit check"),
        ("09:05", "31", "", "Report sent"),
        ("10:30", "32", "closed", ""),
        ("11:00", "31", "", "End"),
    )
    text = loaded(lambda pdf: listing(pdf, *rows)).text
    assert "| 09:05 | 32 | open | Limit check |\n| 09:05 | 31 |  | Report sent |\n| 10:30 | 32 | closed |  |" in text


def test_a_row_with_a_long_text_beside_few_numbers_stays_one_row(loaded):
    rows = (
        ("09:00", "31", "", "Start of the day"),
        ("09:05", "", "open", "with a long text"),
        ("", "", "", "over several"),
        ("", "", "", "lines of the cell"),
        ("", "", "", "in one row"),
    )
    text = loaded(lambda pdf: listing(pdf, *rows)).text
    assert "Start of the day with a long text over several lines of the cell in one row |" in text


def test_the_name_at_the_top_of_a_first_cell_belongs_to_each_of_its_lines(loaded):
    rows = (
        ("Harbour", "31", "4.5", "Rates"),
        ("", "32", "5.5", "FX"),
        ("", "33", "6.5", ""),
        ("", "34", "7.5", "Bonds"),
    )
    text = loaded(lambda pdf: listing(pdf, *rows)).text
    assert "| Harbour | 31 | 4.5 | Rates |\n| Harbour | 32 | 5.5 | FX |\n| Harbour | 33 | 6.5 |  |" in text


def test_words_in_the_columns_of_a_cell_without_rulings_have_a_cell_each(loaded):
    """A head, or every second row of a shaded table, may lack the rulings between its columns."""

    def fill(pdf):
        pdf.row("Costs", f"2023{' ' * 26}2024", widths=(40, 60))
        pdf.rows(("Staff", "10", "11"), ("Travel", "20", "21"), widths=(40, 30, 30))
        pdf.row("Rent", f"30{' ' * 30}31", widths=(40, 60))

    assert loaded(fill).text == (
        "| Costs | 2023 | 2024 |\n| --- | --- | --- |\n| Staff | 10 | 11 |\n| Travel | 20 | 21 |\n| Rent | 30 | 31 |"
    )


def test_a_text_over_several_columns_stays_whole(loaded):
    def fill(pdf):
        pdf.row("Costs", "in thousands of euros", widths=(40, 60))
        pdf.rows(("Staff", "10", "11"), ("Travel", "20", "21"), widths=(40, 30, 30))

    assert "in thousands of euros" in loaded(fill).text


def test_rulings_around_a_part_of_a_table_take_no_values_from_their_rows(loaded):
    """Lines between groups of columns: the names of the rows, and the last group, are outside of them."""
    rows = [("Burglary", 240, 205, 35), ("Robbery", 102, 90, 12), ("Arson", 98, 81, 17), ("Fraud", 173, 98, 75)]

    def fill(pdf):
        for name, *totals in rows:
            pdf.cell(40, 8, name)
            for total, border in zip(totals, (1, 1, 0)):
                for value, sides in ((total, "LTB"), (total // 10, "TB"), (total - total // 10, "TBR")):
                    pdf.cell(16, 8, f"{value}.0", border=sides if border else 0, align="R")
            pdf.ln(8)

    text = loaded(fill).text
    for name, *totals in rows:
        line = next(line for line in text.split("\n") if name in line)
        assert all(f"{total}.0" in line for total in totals)


def test_a_table_whose_rules_run_past_its_uprights_is_whole(loaded):
    rows = (
        ("Desk", "Limit", "Used", "Owner"),
        ("Rates", "10", "4", "Ann"),
        ("FX", "20", "5", "Ben"),
        ("EQ", "30", "6", "Cleo"),
    )

    def fill(pdf):
        for number, row in enumerate(rows):
            outer = "B" if number == 0 else "TB"
            for text, border in zip(row, (outer, 1, 1, outer)):
                pdf.cell(30, 8, text, border=border)
            pdf.ln(8)

    lines = ["| " + " | ".join(row) + " |" for row in rows]
    assert loaded(fill).text == "\n".join((lines[0], "| --- | --- | --- | --- |", *lines[1:]))


def test_a_single_upright_between_a_name_and_several_columns_is_no_side(loaded):
    def fill(pdf):
        for number, name in enumerate(("Region", "North", "South", "West")):
            pdf.cell(40, 8, name, border="TBR")
            for value in ("2024", "2025") if number == 0 else (f"{number}00", f"{number}50"):
                pdf.cell(30, 8, value, border="TB")
            pdf.ln(8)

    assert "| North | 100 | 150 |" in loaded(fill).text


def test_two_columns_with_one_upright_between_them_are_a_table(loaded):
    clause = "a party that has signed the\nmaster agreement and may\ntrade in the names of its\nclients and for itself"
    rows = (("Term", "Meaning"), ("Desk", clause), ("Limit", clause), ("Owner", clause))

    def fill(pdf):
        for name, meaning in rows:
            left, top, height = pdf.get_x(), pdf.get_y(), 6 * (1 + meaning.count("\n")) + 2
            pdf.cell(40, height, border="TBR")
            pdf.cell(60, height, border="TB")
            pdf.set_xy(left, top + 1)
            pdf.cell(40, 6, name)
            pdf.multi_cell(60, 6, meaning, align="L")
            pdf.set_xy(left, top + height)

    lines = [f"| {name} | {' '.join(meaning.split())} |" for name, meaning in rows]
    assert loaded(fill).text == "\n".join((lines[0], "| --- | --- |", *lines[1:]))
