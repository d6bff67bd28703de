"""PDF: pages, headings, paragraphs, what is left out, what cannot be read."""

import fpdf
import pytest
from PIL import Image

from context_engine.ingest import chunks_of, prepare
from context_engine.ingest.loaded import page_at


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


def test_the_banks_notice(one, shipped):
    loaded = one(shipped("notice-641.pdf"), "n.pdf")
    assert loaded.text == (
        "# Notice on Outsourcing\n\n## 1 Scope\n\n"
        "This notice applies to every bank that lets a third party carry out a material activity.\n\n## 2 Register\n\n"
        "A bank must keep a register of its material outsourcing arrangements and review it yearly. The register names "
        "the service provider, the country in which the service is carried out and the person who answers for it "
        "inside the bank.\n\nA bank must give the register to the Authority within 14 days of a request.\n\n"
        "## 3 Exit plan\n\nFor every material arrangement a bank must hold a tested exit plan."
    )
    assert loaded.fields["title"] == "Notice on Outsourcing"
    assert loaded.fields["author"] == "Harbour Monetary Authority"
    assert loaded.header == {"notice_id": "641"}  # it stands in the page's head alone
    starts = [loaded.text.index(heading) for heading in ("# Notice", "## 2", "## 3")]
    assert loaded.pages == tuple(zip(starts, (1, 2, 3)))


def test_chunks_know_their_pages(one, shipped, counter):
    loaded = one(shipped("notice-641.pdf"), "n.pdf")
    chunks = chunks_of(prepare(loaded, None, counter, max_chunk_tokens=60), counter)
    for chunk in chunks:
        assert chunk.metadata["page"] == page_at(loaded.pages, chunk.span[0])
        assert chunk.metadata.get("page_to", chunk.metadata["page"]) == page_at(loaded.pages, chunk.span[1] - 1)
    assert {chunk.metadata["page"] for chunk in chunks} >= {1, 2}
    (whole,) = chunks_of(prepare(loaded, None, counter), counter)
    assert (whole.metadata["page"], whole.metadata["page_to"]) == (1, 3)


def test_a_document_without_pages_has_none_in_its_chunks(one, counter):
    (chunk,) = chunks_of(prepare(one("Text.", "a.md"), None, counter), counter)
    assert "page" not in chunk.metadata


def test_heads_and_feet_of_pages_are_left_out(one, made):
    names = ("Cash", "Credit", "Rates", "Metals")

    def fill(pdf):
        for name in names:
            pdf.add_page()
            pdf.write_line(f"{name} has a page of its own.")

    text = one(made(fill, head="Meridian Harbour Bank", foot="Page # of 4"), "a.pdf").text
    assert text == "\n\n".join(f"{name} has a page of its own." for name in names)


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


def test_a_line_of_contents_and_a_comment_are_no_headings(one, made):
    def fill(pdf):
        pdf.add_page()
        pdf.write_line("1 Scope " + ". " * 20 + "3", size=16)
        pdf.gap()
        pdf.write_line("# this line is a comment of a script, and no heading of the document")

    first, second = one(made(fill), "a.pdf").text.split("\n\n")
    assert first.startswith("1 Scope . .")
    assert second.startswith("\\# this line")


def test_pages_that_are_pictures_are_told_and_nothing_else_is_an_error(one, refused, made):
    def scan(pdf):
        pdf.add_page()
        pdf.image(Image.new("RGB", (40, 40), "navy"), w=100)

    def half(pdf):
        scan(pdf)
        pdf.add_page()
        pdf.write_line("The second page has a text.")

    reason = refused(made(scan), "a.pdf")
    assert reason == "all 1 pages are pictures without text: run a text recognition (OCR) over it first"
    loaded = one(made(half), "b.pdf")
    assert loaded.pages == ((0, 2),)
    assert loaded.warnings == ("page 1 is a picture without text, so nothing of it is read",)


def test_an_empty_page_is_not_told_as_a_picture(one, made):
    def fill(pdf):
        pdf.add_page()
        pdf.add_page()
        pdf.write_line("Text.")

    assert one(made(fill), "a.pdf").warnings == ()


def test_a_document_of_empty_pages(refused, made):
    assert refused(made(lambda pdf: pdf.add_page()), "a.pdf") == "has no text"


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
