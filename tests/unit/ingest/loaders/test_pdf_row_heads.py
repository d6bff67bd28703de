"""PDF: the names of columns above tables without rulings."""

import fpdf
import pytest

_LEFT, _RIGHTS = 60, (330, 430, 530)
_VALUES = (("Loans", "1,200", "1,300", "1,400"), ("Deposits", "900", "950", "990"), ("Fees", "70", "75", "80"))


class _Page:
    """A page on which texts are drawn; heights are counted downwards in points."""

    def __init__(self):
        self.pdf = fpdf.FPDF(unit="pt", format="A4")
        self.pdf.add_page()

    def text(self, left, height, text, size=10):
        self.pdf.set_font("helvetica", size=size)
        self.pdf.text(left, height, text)

    def ending(self, right, height, text, size=10):
        self.pdf.set_font("helvetica", size=size)
        self.pdf.text(right - self.pdf.get_string_width(text), height, text)

    def centred(self, middle, height, text, size=10):
        self.pdf.set_font("helvetica", size=size)
        self.pdf.text(middle - self.pdf.get_string_width(text) / 2, height, text)

    def rows(self, rows, top=200, step=16):
        for number, (label, *values) in enumerate(rows):
            self.text(_LEFT, top + step * number, label)
            for right, value in zip(_RIGHTS, values):
                _, sign, amount = value.rpartition("$ ")
                self.text(right - 60, top + step * number, sign and "$")
                self.ending(right, top + step * number, amount)


@pytest.fixture
def page():
    return _Page()


@pytest.fixture
def text_of(one):
    return lambda page: one(bytes(page.pdf.output()), "report.pdf").text


def _table(head, *rows):
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def test_names_in_smaller_type_are_names(page, text_of):
    page.rows(_VALUES)
    for right, name in zip(_RIGHTS, ("2021", "2022", "2023")):
        page.ending(right, 186, name, size=7)
    assert text_of(page) == _table(("", "2021", "2022", "2023"), *_VALUES)


def test_names_of_several_lines_that_are_drawn_column_by_column(page, text_of):
    for right, lines in zip(_RIGHTS, (("Planned",), ("Expected", "at year end"), ("Actual", "at year end"))):
        for number, line in enumerate(reversed(lines)):
            page.ending(right, 184 - 11 * number, line)
    page.rows(_VALUES)
    head = ("", "Planned", "Expected at year end", "Actual at year end")
    assert text_of(page) == _table(head, *_VALUES)


def test_a_name_in_the_middle_of_all_columns_is_given_to_each(page, text_of):
    page.centred((_RIGHTS[0] - 27 + _RIGHTS[2]) / 2, 172, "Year ended 31 December and restated")
    for right, name in zip(_RIGHTS, ("2021", "2022", "2023")):
        page.ending(right, 184, name)
    page.rows(_VALUES)
    over = "Year ended 31 December and restated"
    assert text_of(page) == _table(("", f"{over} 2021", f"{over} 2022", f"{over} 2023"), *_VALUES)


def test_the_rule_below_a_name_shows_its_columns(page, text_of):
    page.centred(465, 170, "Restated")
    page.pdf.line(395, 173, _RIGHTS[2] + 2, 173)
    for right, name in zip(_RIGHTS, ("2021", "2022", "2023")):
        page.ending(right, 184, name)
    page.rows(_VALUES)
    assert text_of(page) == _table(("", "2021", "Restated 2022", "Restated 2023"), *_VALUES)


def test_a_name_of_uncertain_columns_stays_a_line(page, text_of):
    page.centred(400, 170, "As reported to the committee")
    for right, name in zip(_RIGHTS, ("2021", "2022", "2023")):
        page.ending(right, 184, name)
    page.rows(_VALUES)
    table = _table(("", "2021", "2022", "2023"), *_VALUES)
    assert text_of(page) == f"As reported to the committee\n\n{table}"


@pytest.mark.parametrize("title", ["Balance sheet", "Balance sheet of the group and its branches"])
def test_a_title_is_no_name(page, text_of, title):
    page.text(_LEFT, 168, title)
    for right, name in zip(_RIGHTS, ("2021", "2022", "2023")):
        page.ending(right, 184, name)
    page.rows(_VALUES)
    assert text_of(page) == f"{title}\n\n{_table(('', '2021', '2022', '2023'), *_VALUES)}"


def test_a_group_of_rows_may_stand_below_the_names(page, text_of):
    for right, name in zip(_RIGHTS, ("31 March 2023", "30 June 2023", "30 Sept 2023")):
        page.ending(right, 170, name)
    page.text(_LEFT, 185, "Assets")
    page.rows(_VALUES)
    head = ("", "31 March 2023", "30 June 2023", "30 Sept 2023")
    assert text_of(page) == _table(head, ("Assets", "", "", ""), *_VALUES)


def test_a_currency_sign_is_in_the_cell_of_its_value(page, text_of):
    for right, name in zip(_RIGHTS, ("2021", "2022", "2023")):
        page.ending(right, 184, name)
    rows = [("Loans", "$ 1,200", "$ 1,300", "$ 1,400"), *_VALUES[1:]]
    page.rows(rows)
    assert text_of(page) == _table(("", "2021", "2022", "2023"), *rows)


def test_a_total_without_a_label_is_a_row(page, text_of):
    for right, name in zip(_RIGHTS, ("2021", "2022", "2023")):
        page.ending(right, 184, name)
    total = ("", "2,170", "2,325", "2,470")
    page.rows([*_VALUES, total])
    assert text_of(page) == _table(("", "2021", "2022", "2023"), *_VALUES, total)


def test_a_column_may_be_empty_in_most_rows(page, text_of):
    for right, name in zip(_RIGHTS, ("2021", "2022", "Change")):
        page.ending(right, 184, name)
    rows = [
        (label, first, second, "5 %" if number > 2 else "")
        for number, (label, first, second, _) in enumerate([*_VALUES, *_VALUES])
    ]
    page.rows(rows)
    assert text_of(page) == _table(("", "2021", "2022", "Change"), *rows)


def test_the_head_of_the_next_table_ends_a_table(page, text_of):
    for top in (184, 264):
        for right, name in zip(_RIGHTS, ("2021", "2022", "2023")):
            page.ending(right, top, name)
    page.rows(_VALUES)
    page.rows(_VALUES, top=280)
    table = _table(("", "2021", "2022", "2023"), *_VALUES)
    assert text_of(page) == f"{table}\n\n{table}"


def test_labels_with_values_are_no_names(page, text_of):
    page.text(_LEFT, 168, "Unit: Treasury")
    for right, label in zip(_RIGHTS, ("Desk: Rates", "Owner: Finance", "State: Draft")):
        page.ending(right, 168, label)
    for right, name in zip(_RIGHTS, ("2021", "2022", "2023")):
        page.ending(right, 184, name)
    page.rows(_VALUES)
    assert text_of(page).endswith(f"\n\n{_table(('', '2021', '2022', '2023'), *_VALUES)}")


@pytest.mark.parametrize("units", ["(in thousands)", "(Dollars in millions, except per share amounts)", "EUR Mio."])
@pytest.mark.parametrize("place", ["in the middle", "above the labels", "above the names"])
def test_units_between_the_head_and_the_rows_stand_in_the_first_name(page, text_of, units, place):
    page.rows(_VALUES)
    for right, name in zip(_RIGHTS, ("2021", "2022", "2023")):
        page.ending(right, 186 if place == "above the names" else 174, name)
    if place == "in the middle":
        page.centred(_RIGHTS[1] - 12, 186, units)
    else:
        page.text(_LEFT, 186 if place == "above the labels" else 174, units)
    assert text_of(page) == _table((units, "2021", "2022", "2023"), *_VALUES)


def test_a_caption_is_no_line_of_units(page, text_of):
    page.rows(_VALUES)
    for right, name in zip(_RIGHTS, ("2021", "2022", "2023")):
        page.ending(right, 186, name)
    page.text(_LEFT, 174, "Loans, deposits and fees in millions")
    assert text_of(page).startswith("Loans, deposits and fees in millions\n\n|  | 2021 |")
