"""PDF: tables without rulings, whose columns are shown by the gaps between words."""

import fpdf
import pytest

from context_engine.core.models import NoticeCode

_PLACES = (60, 160, 330, 430)
_HEAD = ("Code", "Service", "Monthly EUR", "Yearly EUR")
_ROWS = [(f"SC-{number:03}", f"Vault service {number}", str(number), str(10 * number)) for number in range(1, 61)]


def _pdf(*pages, places=_PLACES, step=16):
    """Return pages of rows; a text alone is a line of its own."""
    pdf = fpdf.FPDF(unit="pt", format="A4")
    pdf.set_font("helvetica", size=10)
    for rows in pages:
        pdf.add_page()
        for number, row in enumerate(rows):
            for place, text in zip(places, (row,) if isinstance(row, str) else row):
                if text:
                    pdf.text(place, 100 + step * number, text)
    return bytes(pdf.output())


def _table(*rows):
    return "\n".join("| " + " | ".join(row) + " |" for row in (rows[0], ["---"] * len(rows[0]), *rows[1:]))


def test_rows_stay_rows(loaded_one):
    document = loaded_one(_pdf(["Schedule of fees", _HEAD, *_ROWS[:5], "Fees are due at the end of the month."]))
    assert document.text == (
        f"Schedule of fees\n\n{_table(_HEAD, *_ROWS[:5])}\n\nFees are due at the end of the month."
    )
    notice = next(notice for notice in document.notices if notice.code == NoticeCode.TABLES_READ)
    assert dict(notice.detail) == {"count": 1, "pages": [1]}


@pytest.mark.parametrize("repeated", [(), (_HEAD,)])
def test_a_table_over_two_pages_has_its_head_once(text, repeated):
    assert text(_pdf([_HEAD, *_ROWS[:30]], [*repeated, *_ROWS[30:]])) == _table(_HEAD, *_ROWS)


def test_years_are_names_of_columns(text):
    rows = [("Region", "2024", "2025"), ("North", "1,200", "1,300"), ("South", "900", "950"), ("West", "70", "75")]
    assert text(_pdf(rows)) == _table(*rows)


def test_rows_without_a_head_are_a_row_a_line(text):
    assert text(_pdf([*_ROWS[:4]])) == "\n".join(" | ".join(row) for row in _ROWS[:4])


def test_a_cell_of_two_lines_is_a_cell(text):
    rows = [_HEAD, _ROWS[0], ("", "in the old town", "", ""), *_ROWS[1:4]]
    joined = ("SC-001", "Vault service 1 in the old town", "1", "10")
    assert text(_pdf(rows)) == _table(_HEAD, joined, *_ROWS[1:4])


def test_a_row_may_lack_a_value(text):
    rows = [_HEAD, _ROWS[0], ("SC-002", "", "2", "20"), ("SC-003", "Vault service 3", "", "30"), *_ROWS[3:5]]
    assert text(_pdf(rows)) == _table(*rows)


def test_names_close_to_each_other_are_divided_by_the_columns_below(text):
    rows = [
        ("Code", "Service", "Fee a month Fee a year"),
        *((*row[:2], "10,500.00", "126,000.00") for row in _ROWS[:4]),
    ]
    head, *below = text(_pdf(rows, places=(60, 160, 330, 390))).split("\n")
    assert head == "| Code | Service | Fee a month | Fee a year |"
    assert below[1] == "| SC-001 | Vault service 1 | 10,500.00 | 126,000.00 |"


@pytest.mark.parametrize(
    "rows",
    [
        [("(a)", "the bank keeps a register of limits"), ("(b)", "the board sees it"), ("(c)", "a waiver is written")],
        [("Version:", "3.2"), ("Owner:", "Credit Risk 1"), ("Effective date:", "2026-01-01")],
        [("Waiver", "an approval to exceed a limit"), ("Desk", "a unit that trades"), ("Board", "the directors")],
        [("North", "12"), ("South", "15")],
    ],
)
def test_what_is_no_table(text, rows):
    assert "|" not in text(_pdf(rows))


@pytest.fixture
def loaded_one(one):
    return lambda data: one(data, "rows.pdf")


@pytest.fixture
def text(loaded_one):
    return lambda data: loaded_one(data).text


def test_rows_whose_gaps_are_spaces_in_one_piece_of_text(text):
    pdf = fpdf.FPDF(unit="pt", format="A4")
    pdf.add_page()
    pdf.set_font("courier", size=10)
    rows = [("Region", "2024", "2025"), *((f"District {name}", f"1,{name}00", f"2,{name}50") for name in range(1, 6))]
    for number, row in enumerate(rows):
        pdf.text(60, 100 + 16 * number, "".join(cell.ljust(20) for cell in row))
    assert text(bytes(pdf.output())) == _table(*rows)


def test_a_row_of_dashes_names_no_columns(text):
    places = (60, 160, 230, 300, 370)
    first = ("North - - - - - - - - - - - - - -", "", "- - - - - - - - - - - - - - - - - - - - - - - -")
    rows = [
        (name, f"{number}00", "-", f"{number}5", "7") for number, name in enumerate(("East", "South", "West"), start=1)
    ]
    lines = text(_pdf([first, *rows], places=places)).split("\n")
    assert lines[0].startswith("North - ")
    assert lines[1:] == [" | ".join(row) for row in rows]
