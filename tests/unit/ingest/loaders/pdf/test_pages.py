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
    assert text == "\n".join(f"{name} | {limit}" for name, limit in zip(names, limits))


def test_a_table_beside_a_text_is_not_woven_into_it(one, typeset):
    table = [(120, 30 + 5 * row, f"Desk {row}") for row in range(4)] + [
        (160, 30 + 5 * row, f"{row}00") for row in range(4)
    ]
    column = [(10, 30 + 5 * row, line) for row, line in enumerate(LEFT)]
    text = one(typeset(*column, *sorted(table, key=lambda cell: cell[1])), "a.pdf").text
    assert " ".join(LEFT) in text
    assert text.endswith("\n\nDesk 0 | 000\nDesk 1 | 100\nDesk 2 | 200\nDesk 3 | 300")


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


def mapped(codes):
    """A font whose codes stand for texts, {hexadecimal code: text}, and the map it needs, which is object 6."""
    chars = " ".join(f"<{code}> <{text.encode('utf-16-be').hex()}>" for code, text in codes.items())
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /A def "
        "1 begincodespacerange <00> <FF> endcodespacerange "
        f"{len(codes)} beginbfchar {chars} endbfchar endcmap end end"
    )
    font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding /ToUnicode 6 0 R >>"
    return font, f"<< /Length {len(cmap)} >>\nstream\n{cmap}\nendstream"


def test_ligatures_are_letters(one, raw_pdf):
    letters = {f"{ord(char):02x}": char for char in "ocertw "}
    font, cmap = mapped({**letters, "41": "\ufb01", "42": "\ufb00", "43": "\ufb02", "44": "ffi"})
    data = raw_pdf("BT /F 10 Tf 100 500 Td (oBce eBort Cow oDce oAt) Tj ET", cmap, font=font)
    assert one(data, "a.pdf").text == "offce effort flow office ofit"


def test_spaces_of_every_kind_part_words_and_soft_hyphens_do_not(one, raw_pdf):
    letters = {f"{ord(char):02x}": char for char in "EURmilonzer5 "}
    font, cmap = mapped({**letters, "41": "\u202f", "42": "\u2003", "43": "\u00ad"})
    data = raw_pdf("BT /F 10 Tf 100 500 Td (EURA5Bmillion zeCro) Tj ET", cmap, font=font)
    assert one(data, "a.pdf").text == "EUR 5 million zero"


def test_hebrew_that_is_set_from_the_left_is_read_from_the_right(one, raw_pdf):
    word = "שלום"
    font, cmap = mapped({f"{0x61 + at:02x}": char for at, char in enumerate(reversed(word))})
    assert one(raw_pdf("BT /F 10 Tf 100 500 Td (abcd) Tj ET", cmap, font=font), "a.pdf").text == word


@pytest.mark.parametrize(
    "content",
    [
        "BT /F 10 Tf 4 Tc 100 500 Td (A scanned word) Tj ET",  # letters apart
        "BT /F 10 Tf 9 Tw 100 500 Td (A scanned word) Tj ET",  # words apart
        "BT /F 10 Tf 100 500 Td [(A) -400 (scan) 20 (ned) -400 (word)] TJ ET",  # a space that is only a distance
    ],
)
def test_text_that_is_spaced(one, raw_pdf, content):
    assert one(raw_pdf(content), "a.pdf").text == "A scanned word"


def test_words_of_a_font_drawn_by_the_document_are_parted(one, raw_pdf):
    glyph = "<< /Length 30 >>\nstream\n600 0 0 0 500 700 d1 0 0 9 9 re\nendstream"
    font = (
        "<< /Type /Font /Subtype /Type3 /FontBBox [0 0 600 700] /FontMatrix [.001 0 0 .001 0 0] "
        "/CharProcs << /a 6 0 R /b 6 0 R >> /Encoding << /Differences [97 /a /b] >> "
        "/FirstChar 97 /LastChar 98 /Widths [600 600] >>"
    )
    data = raw_pdf("BT /F 10 Tf 6 Tw 100 500 Td [(ab) -600 (ba) -600 (abba)] TJ ET", glyph, font=font)
    assert one(data, "a.pdf").text == "ab ba abba"


@pytest.mark.wording
def test_letters_without_a_unicode_mapping_are_told(one, raw_pdf):
    font = (
        "<< /Type /Font /Subtype /Type0 /BaseFont /Own /Encoding /Identity-H /DescendantFonts [<< /Type /Font "
        "/Subtype /CIDFontType2 /BaseFont /Own /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) "
        "/Supplement 0 >> /DW 600 >>] >>"
    )
    data = raw_pdf("BT /F 10 Tf 100 500 Td <004F004C00510048> Tj ET", font=font)
    assert one(data, "a.pdf").warnings == ("page 1: 4 letters have no Unicode mapping and may be wrong",)


@pytest.mark.wording
def test_a_page_that_cannot_be_read_takes_none_of_the_others_down(one, refused, raw_pdf):
    broken = raw_pdf("BT /F 10 Tf 100 500 Td (The first page.) Tj ET", kids="[3 0 R 99 0 R 3 0 R]", count=3)
    loaded = one(broken, "a.pdf")
    assert loaded.text == "The first page.\n\nThe first page."
    assert loaded.pages == ((0, 1), (17, 3))
    assert loaded.warnings == ("page 2 cannot be read: damaged",)
    lost = raw_pdf(kids="[98 0 R 99 0 R]", count=2)
    assert refused(lost, "b.pdf") == "is damaged: none of its 2 pages can be read"


def test_a_file_cut_off_at_its_end_gives_the_pages_it_has(one, raw_pdf):
    data = raw_pdf("BT /F 10 Tf 100 500 Td (The first page.) Tj ET")
    assert one(data[: data.index(b"startxref")], "a.pdf").text == "The first page."


@pytest.mark.wording
def test_a_page_number_far_off_in_the_same_object_as_the_head(one, raw_pdf):
    data = raw_pdf(
        "BT /F 10 Tf 100 770 Td [(Chapter on limits) -20000 (7)] TJ 0 -300 Td (The text.) Tj ET",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Resources << /Font << /F 5 0 R >> >> /Contents 7 0 R >>",
        "<< /Length 91 >>\nstream\n"
        "BT /F 10 Tf 100 770 Td [(Chapter on limits) -20000 (8)] TJ 0 -300 Td (Another text.) Tj ET\nendstream",
        kids="[3 0 R 6 0 R]",
        count=2,
    )
    loaded = one(data, "a.pdf")
    assert loaded.text == "Chapter on limits\n\nThe text.\n\nAnother text."
    assert loaded.warnings[-1] == 'page numbers left out: "#" (7–8)'
