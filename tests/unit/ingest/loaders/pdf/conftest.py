"""PDFs written object by object, for what no writer of PDFs would write; pages of plain text."""

import fpdf
import pytest

HELVETICA = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"


@pytest.fixture
def raw_pdf():
    """The bytes of a PDF of one page, 600 points wide and 800 high.

    Its objects are 1 catalog, 2 pages, 3 page, 4 content, 5 the font /F, and from 6 on those given.
    """

    def run(content="", *objects, page="", catalog="", font=HELVETICA, kids="[3 0 R]", count=1):
        resources = "/Resources << /Font << /F 5 0 R >> >>"
        bodies = [
            f"<< /Type /Catalog /Pages 2 0 R {catalog} >>",
            f"<< /Type /Pages /Kids {kids} /Count {count} >>",
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] {resources} /Contents 4 0 R {page} >>",
            stream(content),
            font,
            *objects,
        ]
        out = b"%PDF-1.7\n"
        offsets = []
        for number, body in enumerate(bodies, start=1):
            offsets.append(len(out))
            out += f"{number} 0 obj\n{body}\nendobj\n".encode("latin-1")
        table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
        size = len(bodies) + 1
        end = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer << /Size {size} /Root 1 0 R >>\n"
        return out + f"{end}startxref\n{len(out)}\n%%EOF\n".encode()

    return run


@pytest.fixture
def form_pdf(raw_pdf):
    """The bytes of a PDF with fields and annotations, which stand one below the other; `fields` are those of a form."""

    def run(*annotations, content="", fields=(), objects=()):
        placed = [
            f"<< /Type /Annot /Rect [100 {700 - 30 * row} 300 {720 - 30 * row}] {body} >>"
            for row, body in enumerate((*fields, *annotations))
        ]
        numbers = [f"{number} 0 R" for number in range(6, 6 + len(placed))]
        form = f"/AcroForm << /Fields [{' '.join(numbers[: len(fields)])}] >>" if fields else ""
        return raw_pdf(content, *placed, *objects, page=f"/Annots [{' '.join(numbers)}]", catalog=form)

    return run


@pytest.fixture
def typeset():
    """The bytes of a PDF whose page holds texts, given as (millimetres from the left, from the top, text)."""

    def run(*texts, size=10, turn=0, **given):
        pdf = fpdf.FPDF()
        pdf.add_page()
        pdf.set_font("helvetica", size=size)
        with pdf.rotation(turn, 105, 148):
            for x, y, text in texts:
                pdf.text(x, y, text)
        for name, value in given.items():
            setattr(pdf, name, value)
        return bytes(pdf.output())

    return run


def stream(content, entries=""):
    """A stream object."""
    return f"<< /Length {len(content)} {entries} >>\nstream\n{content}\nendstream"
