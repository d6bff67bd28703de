"""Makes the documents beside it: a fictitious bank's files in the formats that programs write.

    python tests/data/documents/make_documents.py

Needs the extra `documents` and fpdf2. The dates inside are fixed, so that a file made again differs only where the
library that wrote it does.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import docx
import fpdf
import openpyxl
from docx.oxml import OxmlElement
from docx.oxml.ns import qn

HERE = Path(__file__).parent
MADE = datetime(2026, 1, 12, 9, 30, tzinfo=UTC)


def word(path: Path) -> None:
    """A procedure with counted headings, a merged table, a bold definition and a page header."""
    document = docx.Document()
    core = document.core_properties
    core.title, core.author, core.version = "", "Market Risk Control", "9.9"
    core.created = core.modified = MADE.replace(tzinfo=None)
    header = document.sections[0].header
    header.is_linked_to_previous = False
    header.paragraphs[0].text = "Meridian Harbour Bank\tDocument No.: MHB-SOP-014"
    document.add_paragraph("Limit Breach Procedure", style="Title")
    document.add_paragraph("Version: 3.2")
    document.add_paragraph("Effective date: 1 February 2026")
    number_headings(document)
    document.add_heading("Purpose", 1)
    document.add_paragraph("This procedure says what a desk does when a trading limit is exceeded.")
    document.add_heading("Reporting", 1)
    document.add_heading("Who reports", 2)
    paragraph = document.add_paragraph()
    paragraph.add_run("Limit breach").bold = True
    paragraph.add_run(" means an exposure above an approved trading limit.")
    document.add_paragraph("The desk head reports every limit breach to Market Risk within 24 hours.")
    document.add_heading("How", 2)
    document.add_paragraph("State the limit and the exposure.", style="List Bullet")
    document.add_paragraph("State the cause.", style="List Bullet")
    document.add_heading("Approval", 1)
    table = document.add_table(rows=4, cols=3, style="Table Grid")
    rows = (
        ("Excess", "Approver", "Deadline"),
        ("up to 5 %", "Head of Market Risk", "24 hours"),
        ("above 5 %", "Chief Risk Officer", "4 hours"),
        ("", "Board Risk Committee", "next meeting"),
    )
    for row, texts in zip(table.rows, rows):
        for cell, text in zip(row.cells, texts):
            cell.text = text
    table.cell(2, 0).merge(table.cell(3, 0))
    document.save(str(path))


def number_headings(document: docx.document.Document) -> None:
    """Let Word count the headings: 1, 1.1, as a bank's template does."""
    numbering = document.part.numbering_part.element
    abstract = OxmlElement("w:abstractNum")
    abstract.set(qn("w:abstractNumId"), "77")
    for level, text in enumerate(("%1", "%1.%2")):
        element = OxmlElement("w:lvl")
        element.set(qn("w:ilvl"), str(level))
        for name, value in (
            ("start", "1"),
            ("numFmt", "decimal"),
            ("pStyle", f"Heading{level + 1}"),
            ("lvlText", text),
        ):
            child = OxmlElement(f"w:{name}")
            child.set(qn("w:val"), value)
            element.append(child)
        abstract.append(element)
    numbering.insert(0, abstract)
    number = numbering.add_num(77)
    for level in (1, 2):
        properties = document.styles[f"Heading {level}"].element.get_or_add_pPr().get_or_add_numPr()
        properties.get_or_add_numId().val = number.numId
        properties.get_or_add_ilvl().val = level - 1


def sheet(path: Path) -> None:
    """Two tables below captions, one with a head in two lines, and a cover of names and values."""
    book = openpyxl.Workbook()
    book.properties.created = book.properties.modified = MADE.replace(tzinfo=None)
    cover = book.active
    cover.title = "Cover"
    for row in (("Owner:", "Market Risk Control"), ("Version:", "2026-Q1"), ("Reviewed:", date(2026, 1, 31))):
        cover.append(row)
    limits = book.create_sheet("Limits")
    limits.append(("Counterparty limits as at 31 January 2026 (USD m)",))
    limits.append(())
    limits.append(("Entity ID", "Counterparty", "Limit", None, "Reviewed", "Utilised"))
    limits.append((None, None, "Spot", "Forward"))
    limits.append(("CP-001", "Harbour Trading Ltd", 25, 10.5, date(2026, 1, 15), 0.42))
    limits.append(("CP-002", "Quayside Metals Inc", 5, 0, date(2026, 1, 20), 1.05))
    limits.merge_cells("C3:D3")
    for row in (5, 6):
        limits.cell(row, 6).number_format = "0%"
    desks = book.create_sheet("Desks")
    for row in (("Desk", "Head", "Formula"), ("Rates", "A. Ferry", "=1+1"), ("Credit", "B. Pier", None)):
        desks.append(row)
    book.save(path)


def separated(path: Path) -> None:
    """Semicolons, quotes over two lines, Windows-1252, and cells that look like formulas."""
    rows = (
        "Entity ID;Name;Rating;Opened;Remark",
        'AC-0007;Café Noir GmbH;BB;31/03/2025;"pays late,\r\nsince 2024"',
        "AC-0008;Lighthouse Fund;A–;01/04/2025;=1+1",
        "AC-0009;Müller & Söhne;A;;+49 40 1234",
    )
    path.write_bytes("".join(f"{row}\r\n" for row in rows).encode("cp1252"))


class Notice(fpdf.FPDF):
    """A page with a head and a foot."""

    def header(self) -> None:
        self.set_font("helvetica", size=8)
        self.cell(0, 6, "Harbour Monetary Authority   Notice No.: 641", new_x="LMARGIN", new_y="NEXT")

    def footer(self) -> None:
        self.set_y(-15)
        self.set_font("helvetica", size=8)
        self.cell(0, 6, f"Page {self.page_no()} of {{nb}}", align="C")


def portable(path: Path) -> None:
    """A notice of three pages: headings in larger type, a paragraph over a page's end, a word cut at a line's end."""
    pdf = Notice()
    pdf.set_creation_date(MADE)
    pdf.set_title("Notice on Outsourcing")
    pdf.set_author("Harbour Monetary Authority")
    for number, title, text in SECTIONS:
        pdf.add_page()
        if number == 1:
            pdf.set_font("helvetica", "B", 18)
            pdf.multi_cell(0, 10, "Notice on Outsourcing", new_x="LMARGIN", new_y="NEXT")
            pdf.ln(4)
        pdf.set_font("helvetica", "B", 13)
        pdf.multi_cell(0, 8, f"{number} {title}", new_x="LMARGIN", new_y="NEXT")
        pdf.ln(2)
        pdf.set_font("helvetica", "", 10)
        for paragraph in text:
            pdf.multi_cell(0, 5, paragraph, new_x="LMARGIN", new_y="NEXT")
            pdf.ln(3)
    pdf.output(str(path))


NAMES = (
    "The register names the service provider, the country in which the service is carried out and the person who "
    "answers for it inside the bank."
)
SECTIONS = (
    (1, "Scope", ("This notice applies to every bank that lets a third party carry out a material activity.",)),
    (
        2,
        "Register",
        (
            f"A bank must keep a register of its material outsourcing arrangements and review it yearly. {NAMES}",
            "A bank must give the register to the Authority within 14 days of a request.",
        ),
    ),
    (3, "Exit plan", ("For every material arrangement a bank must hold a tested exit plan.",)),
)

PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Fees | Meridian Harbour Bank</title>
<meta name="author" content="Client Services"><meta name="dcterms.modified" content="2026-01-12">
<style>p { color: red }</style><script>document.write("never read")</script></head>
<body><nav><ul><li><a href="/">Home</a></li><li>Cards</li></ul></nav>
<header>Meridian Harbour Bank: banking by the water</header>
<main><h1>Fees for payments</h1>
<p>Fees are taken on the day of the payment.<br>All fees are in <b>harbour dollars</b>.</p>
<h2>Transfers</h2>
<table><tr><th>Kind</th><th>Channel</th><th>Fee</th></tr>
<tr><td rowspan="2">Transfer abroad</td><td>online</td><td>12.50</td></tr><tr><td>branch</td><td>30.00</td></tr></table>
<h2>Waivers</h2>
<ol><li>Students pay no fee for:<ul><li>domestic transfers</li><li>standing orders</li></ul></li>
<li>Staff pay half.</li></ol>
</main><aside>Try our card!</aside><footer>© Meridian Harbour Bank</footer></body></html>
"""


def main() -> None:
    """Write the five files."""
    word(HERE / "limit-breach-procedure.docx")
    sheet(HERE / "counterparty-limits.xlsx")
    separated(HERE / "accounts.csv")
    portable(HERE / "notice-641.pdf")
    (HERE / "fees.html").write_text(PAGE, "utf-8")


if __name__ == "__main__":
    main()
