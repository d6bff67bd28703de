"""Tables of contents of PDFs are in no chunk; a title page is in the first; what is set aside is in the report."""

import re

import fpdf
import pytest

from context_engine.core.models import NoticeCode
from context_engine.ingest.documents import chunks_of, prepare

SECTIONS = [
    ("1 Scope", "This standard applies to every desk that takes a position for the bank."),
    ("2 Limits", "No desk may hold more than its limit at the end of a day."),
    ("2.1 Waivers", "A waiver of a limit is given in writing by the head of risk."),
    ("3 Reports", "Each desk reports its positions to the head of risk before noon."),
    ("4 Review", "The board reviews this standard once a year, and its limits each quarter."),
]


class Standard(fpdf.FPDF):
    """A standard with a page head, a page number, a cover, a table of contents and a section a page."""

    roman = False

    def header(self):
        if self.page_no() > 1:
            self.set_font("helvetica", size=8)
            self.cell(0, 6, "Meridian Harbour Bank - limits standard", new_x="LMARGIN", new_y="NEXT")

    def footer(self):
        self.set_y(-15)
        self.set_font("helvetica", size=8)
        self.cell(
            0,
            6,
            f"Page {('', 'i', 'ii', 'iii', 'iv', 'v', 'vi', 'vii', 'viii')[self.page_no()]}"
            if self.roman
            else str(self.page_no()),
        )

    def cover(self):
        self.add_page()
        self.set_y(80)
        self.write_line("Standard for desk limits", 28)
        self.write_line("Final", 14)
        self.write_line("October 2026", 10)

    def write_line(self, text, size=10):
        self.set_font("helvetica", size=size)
        self.multi_cell(0, size / 2, text, new_x="LMARGIN", new_y="NEXT")
        self.ln(4)

    def dotted(self, title, page):
        self.set_font("helvetica", size=10)
        dots = "." * int((150 - self.get_string_width(title)) / self.get_string_width("."))
        self.cell(0, 6, f"{title} {dots} {page}", new_x="LMARGIN", new_y="NEXT")

    def aligned(self, title, page):
        self.set_font("helvetica", size=10)
        self.cell(150, 6, title)
        self.cell(20, 6, str(page), align="R", new_x="LMARGIN", new_y="NEXT")

    def contents(self, entry, heading="Contents", sections=SECTIONS, first=3):
        self.add_page()
        if heading:
            self.write_line(heading, 16)
        for number, (title, _) in enumerate(sections, start=first):
            entry(title, number)

    def body(self):
        for title, text in SECTIONS:
            self.add_page()
            self.write_line(title, 16)
            self.write_line(text)


def standard(*, entry="dotted", heading="Contents", roman=False, cover=True):
    pdf = Standard()
    pdf.roman = roman
    if cover:
        pdf.cover()
    pdf.contents(getattr(pdf, entry), heading)
    pdf.body()
    return bytes(pdf.output())


@pytest.mark.parametrize(
    ("entry", "heading", "roman"),
    [
        ("dotted", "Contents", False),
        ("dotted", "", False),
        ("aligned", "Contents", False),
        ("dotted", "Contents", True),
    ],
    ids=["dots", "dots without a heading", "page numbers on the right", "Roman numbers at the foot"],
)
def test_a_table_of_contents_is_in_no_chunk_and_in_the_report(one, counter, entry, heading, roman):
    loaded = one(standard(entry=entry, heading=heading, roman=roman), "limits.pdf")
    assert "....." not in loaded.text
    assert "Contents" not in loaded.text
    for title, text in SECTIONS:
        assert loaded.text.count(title) == 1, loaded.text
        assert text in loaded.text
    (notice,) = [one for one in loaded.notices if one.code is NoticeCode.CONTENTS_LEFT_OUT]
    assert dict(notice.detail) == {"lines": len(SECTIONS) + bool(heading), "pages": [2]}
    chunks = chunks_of(prepare(loaded, None, counter), counter)
    assert [chunk.section for chunk in chunks if chunk.section] == ["1", "2", "2.1", "3", "4"]


def test_headings_behind_a_table_of_contents_stay_though_the_table_has_a_page_head_of_its_own(one):
    pdf = Standard()
    pdf.contents(pdf.dotted, sections=SECTIONS[:3])
    pdf.contents(pdf.dotted, sections=SECTIONS[3:], first=6)
    pdf.body()
    loaded = one(bytes(pdf.output()), "limits.pdf")
    assert [line for line in loaded.text.splitlines() if line.startswith("#")] == [
        f"# {title}" for title, _ in SECTIONS
    ]


def test_a_list_of_fees_with_dots_is_no_table_of_contents(one):
    pdf = Standard()
    pdf.add_page()
    pdf.write_line("Fees", 16)
    for name, fee in (("Account in euro", 12), ("Account in dollar", 15), ("Card", 9), ("Transfer abroad", 4)):
        pdf.dotted(name, fee)
    loaded = one(bytes(pdf.output()), "fees.pdf")
    assert "Transfer abroad" in loaded.text
    assert not any(notice.code is NoticeCode.CONTENTS_LEFT_OUT for notice in loaded.notices)


def test_a_document_of_contents_alone_keeps_them(one):
    pdf = Standard()
    pdf.contents(pdf.dotted)
    loaded = one(bytes(pdf.output()), "contents.pdf")
    assert all(title in loaded.text for title, _ in SECTIONS)


def test_a_title_page_is_in_the_first_chunk_with_what_follows_and_names_the_document(one, counter):
    document = prepare(one(standard(), "d-0417.pdf"), None, counter)
    first, *others = chunks_of(document, counter)
    assert document.base.title == "Standard for desk limits"
    for words in ("Standard for desk limits", "Final", "October 2026", SECTIONS[0][1]):
        assert words in first.content
    assert (first.metadata["page"], first.metadata["page_end"]) == (1, 3)
    assert not any("October 2026" in chunk.content for chunk in others)


@pytest.mark.wording
def test_running_heads_and_page_numbers_are_counted_with_their_pages(one):
    loaded = one(standard(), "limits.pdf")
    assert loaded.text.count("Meridian Harbour Bank") == 1
    (notice,) = [one for one in loaded.notices if one.code is NoticeCode.RUNNING_HEADS_LEFT_OUT]
    assert dict(notice.detail) == {"count": 5, "pages": [3, 4, 5, 6, 7]}
    assert notice.message.endswith("left out 5 times on pages 3–7")


@pytest.mark.wording
def test_roman_page_numbers_are_left_out(one):
    loaded = one(standard(roman=True), "limits.pdf")
    assert "Page" not in loaded.text
    (notice,) = [one for one in loaded.notices if one.code is NoticeCode.PAGE_NUMBERS_LEFT_OUT]
    assert notice.message == 'page numbers left out: "Page #" (1–7)'


class Book(Standard):
    """A standard whose pages end with the title of the first section that begins there, and the page's number."""

    started = ""

    def header(self):
        pass

    def footer(self):
        self.set_y(-15)
        self.set_font("helvetica", size=8)
        self.cell(120, 6, self.started)
        self.cell(20, 6, str(self.page_no()), align="R")

    def body(self):
        for start in range(0, len(SECTIONS), 2):
            self.add_page()
            self.started = SECTIONS[start][0].replace(" ", ". ", 1)
            for title, text in SECTIONS[start : start + 2]:
                self.write_line(title, 16)
                self.write_line(text)


def test_a_heading_repeated_beside_the_page_number_begins_no_section(one):
    book = Book()
    book.body()
    loaded = one(bytes(book.output()), "limits.pdf")
    assert "1. Scope" not in loaded.text
    for title, text in SECTIONS:
        assert f"{title}\n\n{text}" in loaded.text
    assert NoticeCode.RUNNING_HEADS_LEFT_OUT in {notice.code for notice in loaded.notices}


class WideMargins(Standard):
    """Pages with a head and a number an eighth of the page and more from its edges."""

    title_size = 9

    def header(self):
        self.set_xy(20, 42)
        self.set_font("helvetica", size=self.title_size)
        self.cell(0, 6, "Limits of the desks")
        self.set_y(60)

    def footer(self):
        self.set_y(-50)
        self.set_font("helvetica", size=9)
        self.cell(0, 6, str(self.page_no()), align="C")


def _wide(title_size=9):
    pdf = WideMargins()
    pdf.title_size = title_size
    for number in range(1, 5):
        pdf.add_page()
        pdf.write_line(f"The limit of desk {number} is checked every day and a breach is told to the head of")
    return bytes(pdf.output())


def test_heads_and_numbers_of_pages_with_wide_margins_are_left_out(one):
    text = one(_wide(), "limits.pdf").text
    assert text.count("Limits of the desks") == 1
    assert not re.search(r"(?m)^\d$", text)
    assert text.count("head of The limit") == 0 and text.count("The limit of desk") == 4


def test_a_large_title_on_every_page_stays(one):
    assert one(_wide(title_size=20), "limits.pdf").text.count("Limits of the desks") == 4


def test_two_pages_with_roman_numerals_are_enough(one):
    pdf = fpdf.FPDF()
    pdf.set_font("helvetica", size=10)
    for number, numeral in enumerate(("", "ii", "iii", ""), start=1):
        pdf.add_page()
        pdf.text(180, 12, numeral)
        pdf.text(20, 80, f"The limit of desk {number} is checked every day.")
    assert not re.search(r"(?m)^i+$", one(bytes(pdf.output()), "limits.pdf").text)
