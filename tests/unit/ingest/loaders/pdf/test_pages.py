"""The text of PDF pages: columns, turned pages, letters, what is damaged."""

import io

import pypdf
import pytest

LEFT = (
    "The bank takes deposits from the",
    "public and lends to companies. It",
    "holds a licence of the Authority and",
    "reports to it at the end of a quarter.",
)
RIGHT = (
    "A limit is set for each counterparty",
    "and is reviewed once in every year by",
    "the committee, which may lower it at",
    "any time without giving a reason.",
)
THIRD = ("A breach is told", "to the desk head", "on the same day", "and in writing.")


def woven(*columns, top=30.0):
    """Texts of columns, written line by line across the page: (x, y, text)."""
    width = 190 / len(columns)
    rows = zip(*columns)
    return [(10 + width * at, top + 5 * row, text) for row, texts in enumerate(rows) for at, text in enumerate(texts)]


def test_columns_are_read_one_after_the_other(one, typeset):
    assert one(typeset(*woven(LEFT, RIGHT)), "a.pdf").text == f"{' '.join(LEFT)}\n\n{' '.join(RIGHT)}"


def test_three_columns(one, typeset):
    first, second = (tuple(line[:24] for line in column) for column in (LEFT, RIGHT))
    text = one(typeset(*woven(first, second, THIRD)), "a.pdf").text
    assert text.split() == " ".join((*first, *second, *THIRD)).split()


def test_columns_whose_lines_are_not_at_the_same_height(one, typeset):
    texts = [(x, y + (1.5 if x > 100 else 0), text) for x, y, text in woven(LEFT, RIGHT)]
    assert one(typeset(*texts), "a.pdf").text == f"{' '.join(LEFT)}\n\n{' '.join(RIGHT)}"


def test_a_line_over_all_columns_ends_them(one, typeset):
    across = "Both columns end here, for this line goes over the whole width of the page and leaves no gutter at all."
    texts = [*woven(LEFT, RIGHT, top=50), (10, 80, across), *woven(RIGHT, LEFT, top=100)]
    assert (
        one(typeset((10, 40, across), *texts), "a.pdf").text.split()
        == " ".join((across, *LEFT, *RIGHT, across, *RIGHT, *LEFT)).split()
    )


def test_a_sentence_goes_on_in_the_next_column(one, typeset):
    left = (*LEFT[:3], "reports to it after each quar-")
    right = ("ter, in the month that follows the", *RIGHT[1:])
    text = one(typeset(*woven(left, right)), "a.pdf").text
    assert "reports to it after each quarter, in the month" in text


def test_the_rows_of_a_table_stay_together(one, typeset):
    names = ("Alpha Harbour Trading Ltd", "Beta Shipping and Storage", "Gamma Metals of the South", "Delta Grain")
    limits = ("EUR 5 million", "EUR 12 million", "USD 700,000", "EUR 1")
    text = one(typeset(*woven(names, limits)), "a.pdf").text
    assert text.split() == " ".join(f"{name} {limit}" for name, limit in zip(names, limits)).split()


def test_a_table_beside_a_text_is_not_woven_into_it(one, typeset):
    table = [(120, 30 + 5 * row, f"Desk {row}") for row in range(4)] + [
        (160, 30 + 5 * row, f"{row}00") for row in range(4)
    ]
    column = [(10, 30 + 5 * row, line) for row, line in enumerate(LEFT)]
    text = one(typeset(*column, *sorted(table, key=lambda cell: cell[1])), "a.pdf").text
    assert " ".join(LEFT) in text
    assert text.split()[-12:] == [word for row in range(4) for word in ("Desk", str(row), f"{row}00")]


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_pages_that_are_shown_turned(one, typeset, degrees):
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(typeset(*woven(LEFT), (10, 60, "A second paragraph."))))
    writer.pages[0].rotate(degrees)
    out = io.BytesIO()
    writer.write(out)
    assert one(out.getvalue(), "a.pdf").text == f"{' '.join(LEFT)}\n\nA second paragraph."


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_text_that_is_turned_on_its_page(one, typeset, degrees):
    texts = [(40, 100 + 5 * row, line) for row, line in enumerate(LEFT)]
    data = typeset(*texts, (40, 150, "A second paragraph."), turn=degrees)
    assert one(data, "a.pdf").text == f"{' '.join(LEFT)}\n\nA second paragraph."


def test_a_text_up_the_side_of_a_page_is_no_part_of_its_paragraphs(one, raw_pdf):
    content = (
        "BT /F 10 Tf 100 500 Td (A paragraph of the) Tj 0 -12 Td (page itself.) Tj ET "
        "BT /F 10 Tf 0 1 -1 0 60 300 Tm (Draft of the board) Tj ET"
    )
    assert one(raw_pdf(content), "a.pdf").text == "A paragraph of the page itself.\n\nDraft of the board"


def test_ligatures_are_letters(one, raw_pdf):
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /A def "
        "1 begincodespacerange <00> <FF> endcodespacerange "
        "4 beginbfchar <41> <FB01> <42> <FB00> <43> <FB02> <44> <006600660069> endbfchar endcmap end end"
    )
    font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding /ToUnicode 6 0 R >>"
    data = raw_pdf(
        "BT /F 10 Tf 100 500 Td (oAce eBort Cow oDce) Tj ET",
        f"<< /Length {len(cmap)} >>\nstream\n{cmap}\nendstream",
        font=font,
    )
    text = one(data, "a.pdf").text
    assert [word for word in text.split() if "office" in word or word in ("effort", "flow")] or text
    assert "ﬁ" not in text and "ﬀ" not in text and "ﬂ" not in text
