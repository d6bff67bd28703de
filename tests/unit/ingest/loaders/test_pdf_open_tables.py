"""Tables of PDFs that are ruled below their head, in as many parts as there are columns, and not around their cells."""

import fpdf
import pytest

HEAD = ("Rule", "What it says", "Desks", "Board", "Code")
WIDTHS = (20, 90, 15, 15, 20)


class Pages(fpdf.FPDF):
    """Pages with text and with rows of cells."""

    def __init__(self):
        super().__init__()
        self.add_page()
        self.set_y(60)
        self.set_font("helvetica", size=10)

    def text_line(self, text, size=10):
        self.set_font("helvetica", size=size)
        self.multi_cell(0, 6, text, new_x="LMARGIN", new_y="NEXT")
        self.set_font("helvetica", size=10)
        self.ln(4)

    def row(self, *cells, widths=WIDTHS, border=0, after=0):
        """Lines of cells; a text with a line end goes on below."""
        lines = [cell.split("\n") for cell in cells]
        height = max(map(len, lines))
        for number in range(height):
            for cell, width in zip(lines, widths):
                edge = border if number == height - 1 else 0
                self.cell(width, 5, cell[number] if number < len(cell) else "", border=edge)
            self.ln(5)
        self.ln(after)


@pytest.fixture
def text(one):
    """The text of a PDF that a function fills."""

    def run(fill):
        pdf = Pages()
        fill(pdf)
        return one(bytes(pdf.output()), "a.pdf").text

    return run


ROWS = [
    (
        "1.1",
        "Each desk keeps a register of its limits and\nreviews it once a year, or when a limit\nchanges.",
        "x",
        "",
        "R-7",
    ),
    ("1.2", "The board sees the register.", "", "x", "R-8"),
    ("1.3", "A waiver is given in writing, and ends by\nitself.", "x", "x", ""),
]
TABLE = (
    "| Rule | What it says | Desks | Board | Code |\n| --- | --- | --- | --- | --- |\n"
    "| 1.1 | Each desk keeps a register of its limits and reviews it once a year, or when a limit changes. "
    "| x |  | R-7 |\n"
    "| 1.2 | The board sees the register. |  | x | R-8 |\n"
    "| 1.3 | A waiver is given in writing, and ends by itself. | x | x |  |"
)


def test_the_parts_of_the_rule_below_the_head_are_the_columns(text):
    def fill(pdf):
        pdf.text_line("All rules are for every desk of the bank that takes a position, and for the board that sees it.")
        pdf.row(*HEAD, border="B", after=3)
        for row in ROWS:
            pdf.row(*row, after=4)
        pdf.text_line("The rules are reviewed once a year by the head of risk, who reports to the board what changed.")

    before, _, after = text(fill).partition(TABLE)
    assert before.startswith("All rules are for every desk")
    assert after.strip().startswith("The rules are reviewed once a year")


def test_rules_below_each_row_say_where_it_ends(text):
    def fill(pdf):
        for row in (HEAD, *ROWS):
            pdf.row(*row, border="B")

    assert text(fill) == TABLE


def test_a_rule_above_the_head_is_no_head(text):
    def fill(pdf):
        pdf.text_line("Rules")
        pdf.row(*HEAD, border="TB")
        for row in ROWS:
            pdf.row(*row, border="B")

    assert text(fill).endswith(TABLE)


def test_a_second_table_has_a_head_of_its_own(text):
    def fill(pdf):
        for title in ("First", "Second"):
            pdf.text_line(title, 14)
            pdf.row(*HEAD, border="B", after=3)
            for row in ROWS:
                pdf.row(*row, after=4)

    found = text(fill)
    assert found.count(TABLE) == 2
    assert [line for line in found.splitlines() if line.startswith("#")] == ["# First", "# Second"]


def test_rows_of_one_line_that_fill_every_column_are_rows(text):
    def fill(pdf):
        pdf.row("Desk", "May", "June", "July", widths=(40, 20, 20, 20), border="B")
        for number in range(1, 8):
            after = 4 if number == 3 else 0
            pdf.row(f"Desk {number}", str(number), str(number + 1), "-", widths=(40, 20, 20, 20), after=after)

    rows = [f"| Desk {number} | {number} | {number + 1} | - |" for number in range(1, 8)]
    assert text(fill) == "\n".join(["| Desk | May | June | July |", "| --- | --- | --- | --- |", *rows])


UNSURE = {
    "two columns of which both go on below": [
        ("Register", "Each desk keeps one and"),
        ("of limits", "reviews it once a year"),
        ("Waiver", "Given in writing, never"),
        ("of a limit", "by word of mouth alone"),
    ],
    "rows that do not begin in the first column": [("", "Each desk keeps one"), ("", "The board sees it")],
}


@pytest.mark.parametrize("rows", UNSURE.values(), ids=UNSURE)
def test_rows_that_are_not_sure_stay_text(text, rows):
    def fill(pdf):
        pdf.row("Term", "Meaning", widths=(40, 60), border="B")
        for row in rows:
            pdf.row(*row, widths=(40, 60))

    found = text(fill)
    assert "|" not in found
    assert all(cell in found for row in rows for cell in row)


def test_below_a_rule_in_one_part_the_text_itself_shows_the_columns(text):
    def fill(pdf):
        pdf.row(*HEAD, after=1)
        pdf.line(10, pdf.get_y(), 170, pdf.get_y())
        for row in ROWS:
            pdf.row(*row, after=4)

    assert text(fill).startswith("| Rule | What it says | Desks | Board | Code |\n| --- |")


def test_text_below_underlined_words_is_no_table(text):
    def fill(pdf):
        pdf.row("Scope", "Limits", widths=(12, 14), border="B")
        pdf.ln(3)
        pdf.text_line("Every desk keeps a register of its limits, and reviews it once a year or when a limit changes.")

    assert "|" not in text(fill)
