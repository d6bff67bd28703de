"""PDF: pages, headings, paragraphs, what is left out, what cannot be read."""

import fpdf
import pytest
from PIL import Image

from context_engine.core.models import DocumentRule
from context_engine.ingest.documents import chunks_of, prepare
from context_engine.ingest.loaded_document import NO_TEXT, page_at
from context_engine.ingest.loaders.pdf_digits import small_digits


class Pages(fpdf.FPDF):
    """Pages with a head and a foot, if they are given."""

    head = ""
    foot = ""

    def header(self):
        if self.head:
            self.set_font("helvetica", size=8)
            self.cell(0, 6, self.head, new_x="LMARGIN", new_y="NEXT")

    def footer(self):
        if self.foot:
            self.set_y(-15)
            self.set_font("helvetica", size=8)
            self.cell(0, 6, self.foot.replace("#", str(self.page_no())))

    def write_line(self, text, size=10, style=""):
        self.set_font("helvetica", style, size)
        self.multi_cell(0, size / 2, text, new_x="LMARGIN", new_y="NEXT")

    def gap(self):
        self.ln(5)


@pytest.fixture
def made():
    """The bytes of a PDF that a function fills."""

    def run(fill, **given):
        pdf = Pages()
        for name, value in given.items():
            setattr(pdf, name, value)
        fill(pdf)
        return bytes(pdf.output())

    return run


@pytest.mark.wording
def test_the_banks_notice(one, shipped):
    loaded = one(shipped("notice-641.pdf"), "n.pdf")
    assert loaded.text == (
        "Harbour Monetary Authority Notice No.: 641\n\n# Notice on Outsourcing\n\n## 1 Scope\n\n"
        "This notice applies to every bank that lets a third party carry out a material activity.\n\n## 2 Register\n\n"
        "A bank must keep a register of its material outsourcing arrangements and review it yearly. The register names "
        "the service provider, the country in which the service is carried out and the person who answers for it "
        "inside the bank.\n\nA bank must give the register to the Authority within 14 days of a request.\n\n"
        "## 3 Exit plan\n\nFor every material arrangement a bank must hold a tested exit plan."
    )
    assert loaded.fields["title"] == "Notice on Outsourcing"
    assert loaded.fields["author"] == "Harbour Monetary Authority"
    assert loaded.header == {"notice_id": "641"}  # it stands in the page's head alone
    starts = [0, *(loaded.text.index(heading) for heading in ("## 2", "## 3"))]
    assert loaded.pages == tuple(zip(starts, (1, 2, 3)))
    assert loaded.warnings == (
        "1 line at the top or bottom of pages kept where first seen; left out 2 times on pages 2–3",
        'page numbers left out: "Page # of 3" (1–3)',
    )


def test_chunks_know_their_pages(one, shipped, counter):
    loaded = one(shipped("notice-641.pdf"), "n.pdf")
    chunks = chunks_of(prepare(loaded, None, counter, max_chunk_tokens=60), counter)
    for chunk in chunks:
        assert chunk.metadata["page"] == page_at(loaded.pages, chunk.span[0])
        assert chunk.metadata.get("page_end", chunk.metadata["page"]) == page_at(loaded.pages, chunk.span[1] - 1)
    assert {chunk.metadata["page"] for chunk in chunks} >= {1, 2}
    (whole,) = chunks_of(prepare(loaded, DocumentRule(include="*", doc_type="default"), counter), counter)
    assert (whole.metadata["page"], whole.metadata["page_end"]) == (1, 3)


def test_a_document_without_pages_has_none_in_its_chunks(one, counter):
    (chunk,) = chunks_of(prepare(one("Text.", "a.md"), None, counter), counter)
    assert "page" not in chunk.metadata


@pytest.mark.wording
def test_heads_and_feet_of_pages_stay_once(one, made):
    names = ("Cash", "Credit", "Rates", "Metals")

    def fill(pdf):
        for name in names:
            pdf.add_page()
            pdf.write_line(f"{name} has a page of its own.")

    loaded = one(made(fill, head="Meridian Harbour Bank", foot="Page # of 4"), "a.pdf")
    sentences = [f"{name} has a page of its own." for name in names]
    assert loaded.text == "\n\n".join(["Meridian Harbour Bank", *sentences])
    assert loaded.pages == tuple(zip([0, *(loaded.text.index(sentence) for sentence in sentences[1:])], (1, 2, 3, 4)))
    assert loaded.warnings == (
        "1 line at the top or bottom of pages kept where first seen; left out 3 times on pages 2–4",
        'page numbers left out: "Page # of 4" (1–4)',
    )


@pytest.mark.wording
def test_the_lines_of_a_letter_that_come_back_on_its_second_page_are_kept(one, made):
    block = ("Facility letter", "Borrower: Seahorse Trading Ltd", "Limit: EUR 25 million")

    def fill(pdf):
        for sentence in ("The bank grants the facility.", "The facility ends in 2027."):
            pdf.add_page()
            for line in (*block, sentence):
                pdf.write_line(line)

    loaded = one(made(fill), "a.pdf")
    assert loaded.text.split("\n\n") == [*block, "The bank grants the facility.", "The facility ends in 2027."]
    assert loaded.warnings == (
        "3 lines at the top or bottom of pages kept where first seen; left out 3 times on page 2",
    )


@pytest.mark.parametrize(
    "foot, kept, told",
    [
        ("#", "", '"#" (1–3)'),
        ("- # -", "", '"- # -" (1–3)'),
        ("# / 3", "", '"# / 3" (1–3)'),
        ("Seite # von 3", "", '"Seite # von 3" (1–3)'),
        ("Harbour Bank | #", "Harbour Bank", '"#" (1–3)'),
        ("# \xb7 Harbour Bank", "Harbour Bank", '"#" (1–3)'),
        ("Harbour Bank, page # of 3", "Harbour Bank", '"page # of 3" (1–3)'),
    ],
)
@pytest.mark.wording
def test_page_numbers_are_left_out_and_told(one, made, foot, kept, told):
    def fill(pdf):
        for name in ("Cash", "Credit", "Rates"):
            pdf.add_page()
            pdf.write_line(f"{name}.")

    loaded = one(made(fill, foot=foot), "a.pdf")
    assert loaded.text.split() == f"Cash. {kept} Credit. Rates.".split()
    assert loaded.warnings[-1] == f"page numbers left out: {told}"


@pytest.mark.parametrize(
    "lines",
    [("Limit 5", "Limit 6"), ("Table 3", "Table 4"), ("Annex 1", "Annex 2"), ("1,250", "1,250,000"), ("7", "93")],
)
def test_numbers_that_are_no_pages_stay(one, made, lines):
    def fill(pdf):
        for line, desk in zip(lines, ("Cash", "Rates")):
            pdf.add_page()
            pdf.write_line(line)
            pdf.write_line(f"{desk} stands below it.")

    loaded = one(made(fill), "a.pdf")
    assert loaded.text.split("\n\n") == [
        f"{line} {desk} stands below it." for line, desk in zip(lines, ("Cash", "Rates"))
    ]
    assert loaded.warnings == ()


def test_a_document_of_nothing_but_page_numbers_keeps_them(one, made):
    def fill(pdf):
        for _ in range(3):
            pdf.add_page()

    assert one(made(fill, foot="Page #"), "a.pdf").text == "Page 1\n\nPage 2\n\nPage 3"


def test_a_header_block_is_read_line_by_line(one, made, counter):
    def fill(pdf):
        pdf.add_page()
        pdf.write_line("Notice on Capital", 18, "B")
        for line in ("Notice No.: 637", "Issued by: Harbour Monetary Authority", "Version: 2023"):
            pdf.write_line(line)
        pdf.write_line("Effective date: 2024-01-01")
        pdf.write_line("Classification: public")
        pdf.write_line("This notice applies to every bank in\nversion 3.2: no other stands.")

    loaded = one(made(fill), "n.pdf")

    assert loaded.text.splitlines()[2:] == [
        "Notice No.: 637",
        "",
        "Issued by: Harbour Monetary Authority",
        "",
        "Version: 2023",
        "",
        "Effective date: 2024-01-01",
        "",
        "Classification: public",
        "",
        "This notice applies to every bank in version 3.2: no other stands.",
    ]
    (chunk,) = chunks_of(prepare(loaded, None, counter), counter)
    assert (chunk.document_version, str(chunk.effective_from)) == ("2023", "2024-01-01")
    assert str(chunk.classification) == "public"
    assert chunk.metadata["notice_id"] == "637"


def test_a_paragraph_goes_on_over_the_end_of_a_page(one, made):
    def fill(pdf):
        pdf.add_page()
        pdf.write_line("A bank that outsources a service must")
        pdf.add_page()
        pdf.write_line("tell the Authority before it does so.")

    loaded = one(made(fill, foot="Page #"), "a.pdf")
    assert loaded.text == "A bank that outsources a service must tell the Authority before it does so."
    assert loaded.pages == ((0, 1), (loaded.text.index("tell"), 2))


def test_words_cut_at_the_end_of_a_line(one, made):
    def fill(pdf):
        pdf.add_page()
        for line in ("The year-end report of the coun-", "terparty is due. The year-", "end is in December."):
            pdf.write_line(line)

    assert one(made(fill), "a.pdf").text == (
        "The year-end report of the counterparty is due. The year-end is in December."
    )


@pytest.mark.parametrize(
    "lines, text",
    [
        (("It is risk and weighted, risk and weighted.", "A risk-", "weighted sum."), "A risk-weighted sum."),
        (("The years 2019-", "2020 were good."), "The years 2019-2020 were good."),
        (("A 12-", "month term."), "A 12-month term."),
        (("The non-", "European desk."), "The non-European desk."),
        (("A long-", "term loan."), "A long-term loan."),
        (("A third-", "party claim."), "A third-party claim."),
        (("The counter-", "party claims."), "The counterparty claims."),
        (("The long- and short-", "term limits."), "The long- and short-term limits."),
        (("See the pre-", "(and post-) trade checks."), "See the pre- (and post-) trade checks."),
    ],
)
def test_hyphens_that_cut_no_word_stay(one, made, lines, text):
    def fill(pdf):
        pdf.add_page()
        for line in lines:
            pdf.write_line(line)

    assert one(made(fill), "a.pdf").text.endswith(text)


def test_a_word_cut_at_the_end_of_a_page(one, made):
    def fill(pdf):
        pdf.add_page()
        pdf.write_line("A limit for the coun-")
        pdf.add_page()
        pdf.write_line("terparty is set.")

    loaded = one(made(fill), "a.pdf")
    assert loaded.text == "A limit for the counterparty is set."
    assert loaded.pages == ((0, 1), (loaded.text.index("terparty"), 2))


def test_headings_by_bookmark_and_by_bold_number(one, made):
    def fill(pdf):
        pdf.add_page()
        pdf.start_section("Overview")
        pdf.write_line("Overview")
        pdf.gap()
        pdf.write_line("The bank takes deposits.")
        pdf.gap()
        pdf.write_line("1.1 Deposits", style="B")
        pdf.gap()
        pdf.write_line("Deposits are insured.")
        pdf.gap()
        pdf.write_line("Not a heading but a bold word", style="B")

    assert one(made(fill), "a.pdf").text == (
        "# Overview\n\nThe bank takes deposits.\n\n# 1.1 Deposits\n\nDeposits are insured.\n\n"
        "Not a heading but a bold word"
    )


def test_small_print_does_not_make_headings_of_the_text(one, made):
    """The disclaimer has most letters of one size; the text of an offer is of two larger sizes."""

    def fill(pdf):
        pdf.add_page()
        pdf.write_line("Offer", size=16)
        for number in range(12):
            pdf.gap()
            pdf.write_line(f"The bank offers term {number} at a rate that is fixed", size=10 + number % 2)
        pdf.gap()
        for number in range(6):
            pdf.write_line(f"Clause {number} of the terms of business applies to every offer that is made.", size=7)

    text = one(made(fill), "a.pdf").text
    assert [line for line in text.split("\n") if line.startswith("#")] == ["# Offer"]


def test_a_line_of_contents_and_a_comment_are_no_headings(one, made):
    def fill(pdf):
        pdf.add_page()
        pdf.write_line("1 Scope " + ". " * 20 + "3", size=16)
        pdf.gap()
        pdf.write_line("# this line is a comment of a script, and no heading of the document")

    first, second = one(made(fill), "a.pdf").text.split("\n\n")
    assert first.startswith("1 Scope . .")
    assert second.startswith("\\# this line")


@pytest.mark.wording
def test_pages_that_are_pictures_are_told_and_nothing_else_is_an_error(one, refused, made):
    def scan(pdf):
        pdf.add_page()
        pdf.image(Image.new("RGB", (40, 40), "navy"), w=100)

    def half(pdf):
        scan(pdf)
        pdf.add_page()
        pdf.write_line("The second page has a text.")

    reason = refused(made(scan), "a.pdf")
    assert reason == "its pages are pictures without text: set `ocr`, or run a text recognition (OCR) over it first"
    assert refused(made(lambda pdf: (scan(pdf), scan(pdf))), "a.pdf") == reason  # said once for many such files
    loaded = one(made(half), "b.pdf")
    assert loaded.pages == ((0, 2),)
    assert loaded.warnings == ("page 1 is a picture without text, so it cannot be read",)


def test_an_empty_page_is_not_told_as_a_picture(one, made):
    def fill(pdf):
        pdf.add_page()
        pdf.add_page()
        pdf.write_line("Text.")

    assert one(made(fill), "a.pdf").warnings == ()


def test_a_document_of_empty_pages(refused, made):
    assert refused(made(lambda pdf: pdf.add_page()), "a.pdf") == NO_TEXT


def test_a_password(refused, one, made):
    def locked(pdf):
        pdf.add_page()
        pdf.write_line("Secret.")
        pdf.set_encryption("owner", "user")

    def restricted(pdf):
        pdf.add_page()
        pdf.write_line("Not to be printed.")
        pdf.set_encryption("owner", permissions=fpdf.enums.AccessPermission.none())

    assert refused(made(locked), "a.pdf") == "has a password: save it without one"
    assert one(made(restricted), "b.pdf").text == "Not to be printed."


def test_the_hyphens_of_a_compound_stay(one, made):
    def fill(pdf):
        pdf.add_page()
        for line in ("The state-of-", "the-art review is due, and so is the day-to-", "day report."):
            pdf.write_line(line)

    assert one(made(fill), "a.pdf").text == "The state-of-the-art review is due, and so is the day-to-day report."


def test_a_scan_with_a_stamped_page_number_is_told(one, made):
    def fill(pdf):
        pdf.add_page()
        pdf.write_line("The first page has a text.")
        pdf.set_auto_page_break(False)
        for _ in range(2):
            pdf.add_page()
            pdf.image(Image.new("RGB", (40, 40), "navy"), x=0, y=0, w=pdf.w, h=pdf.h)
            pdf.set_y(-20)
            pdf.write_line(f"Page {pdf.page_no()}")

    (notice, *_) = one(made(fill), "a.pdf").notices
    assert notice.detail == {"pages": [2, 3]}


def test_a_small_picture_beside_little_text_is_no_scan(one, made):
    def fill(pdf):
        pdf.add_page()
        pdf.write_line("The limit is 5 %.")
        pdf.image(Image.new("RGB", (40, 40), "navy"), w=40)

    assert one(made(fill), "a.pdf").notices == ()


def test_embedded_files_are_named(one, made):
    def fill(pdf):
        pdf.add_page()
        pdf.write_line("See the list.")
        pdf.embed_file(bytes=b"Desk,Limit\nRates,5\n", basename="limits.csv")

    (notice,) = one(made(fill), "a.pdf").notices
    assert (notice.code, notice.detail) == ("embedded_not_read", {"names": ["limits.csv"]})


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([("The limit is EUR 10", 10, 0), ("6", 6, 3.5), (" a year", 10, 0)], "The limit is EUR 10⁶ a year"),
        ([("It applies to outlets", 10, 0), ("33", 6, 3.5), (" abroad", 10, 0)], "It applies to outlets³³ abroad"),
        ([("The share of CO", 10, 0), ("2", 6, -2), (" falls.", 10, 0)], "The share of CO₂ falls."),
        ([("12", 6, 3.5), ("The note says more.", 10, 0)], "¹²The note says more."),
        ([("Form F-1208 of 2026.", 10, 0)], "Form F-1208 of 2026."),
    ],
)
def test_raised_and_lowered_digits_are_read_as_such(one, parts, text):
    pdf = fpdf.FPDF(unit="pt", format="A4")
    pdf.add_page()
    left = 60.0
    for words, size, rise in parts:
        pdf.set_font("helvetica", size=size)
        pdf.text(left, 300 - rise, words)
        left += pdf.get_string_width(words)
    assert one(bytes(pdf.output()), "a.pdf").text == text


@pytest.mark.parametrize(
    ("heights", "chars", "read"),
    [
        ([(0, 10), (0, 10), (4, 10)], "106", "10⁶"),
        ([(0, 10), (0, 10), (-2, 4)], "CO2", "CO₂"),
        ([(4, 10), (0, 10), (0, 10)], "1Th", "¹Th"),
        ([(0, 10), (4, 10), (0, 10), (4, 10)], "3000", "3000"),  # a recognised scan: sizes without order
        ([(0, 10), (0, 9), (4, 10)], "106", "106"),
        ([(0, 10), (0, 7)], "A1", "A1"),  # a smaller digit on the line
        ([(0, 10), (4, 10)], "xn", "xn"),
    ],
)
def test_only_a_run_of_raised_digits_in_an_even_word_is_taken_for_one(heights, chars, read):
    boxes = [(6.0 * at, float(low), 6.0 * at + 6, float(top)) for at, (low, top) in enumerate(heights)]
    assert small_digits(chars, boxes) == read
