"""Small files of every kind, made from random numbers alone: what `bench_ingest` reads and `fuzz_loaders` breaks."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Callable
from random import Random
from typing import Final

__all__ = ["MAKERS"]

WORDS: Final = (
    *("approval", "audit", "balance", "board", "breach", "capital", "clause", "clearing", "committee"),
    *("counterparty", "credit", "desk", "exposure", "harbour", "instrument", "issuer", "ledger", "limit"),
    *("margin", "market", "maturity", "meridian", "notice", "officer", "policy", "product", "rate"),
    *("register", "report", "review", "risk", "rule", "sanction", "settlement", "spread", "statement"),
    *("threshold", "trade", "treasury", "value", "vault"),
)


def _sentence(rng: Random) -> str:
    words = rng.choices(WORDS, k=rng.randint(6, 18))
    return f"{' '.join(words).capitalize()} {rng.randint(1, 5000)} {rng.choice(('EUR', 'USD', '%', 'days'))}."


def _paragraphs(rng: Random) -> list[str]:
    return [" ".join(_sentence(rng) for _ in range(rng.randint(1, 4))) for _ in range(rng.randint(2, 6))]


def _rows(rng: Random) -> list[list[str]]:
    names = ["entity_id", "name", "limit", "currency", "reviewed"]
    rows = [
        [f"E{rng.randrange(10**12)}", _sentence(rng)[:40], str(rng.randint(1, 9_999)), "EUR", f"2026-0{month}-15"]
        for month in range(1, rng.randint(3, 9))
    ]
    return [names, *rows]


def markdown(rng: Random) -> bytes:
    """Return Markdown with front matter, headings and a table."""
    parts = [f"---\nversion: '{rng.randint(1, 9)}'\ntitle: {_sentence(rng)[:30]}\n---\n# {_sentence(rng)[:40]}\n"]
    for number, text in enumerate(_paragraphs(rng), start=1):
        parts.append(f"## {number} {text[:20]}\n\n{text}\n")
    parts.append("\n".join(f"| {' | '.join(row)} |" for row in [_rows(rng)[0], ["---"] * 5, *_rows(rng)[1:]]))
    return "\n".join(parts).encode()


def text(rng: Random) -> bytes:
    """Return plain text with numbered clauses."""
    return "\n\n".join(f"{number}. {one}" for number, one in enumerate(_paragraphs(rng), start=1)).encode()


def html(rng: Random) -> bytes:
    """Return a page with headings, a list and a table."""
    body = "".join(f"<h2>{one[:20]}</h2><p>{one}</p>" for one in _paragraphs(rng))
    cells = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in _rows(rng))
    page = f"<html><head><title>{_sentence(rng)}</title></head><body>{body}<ul><li>{_sentence(rng)}</ul>"
    return f"<!doctype html>{page}<table>{cells}</table></body></html>".encode()


def table(delimiter: str) -> Callable[[Random], bytes]:
    """Return what makes a table of records."""

    def make(rng: Random) -> bytes:
        out = io.StringIO()
        csv.writer(out, delimiter=delimiter).writerows(_rows(rng))
        return out.getvalue().encode()

    return make


def json_file(rng: Random) -> bytes:
    """Return an object with a list of records."""
    names, *rows = _rows(rng)
    items = [{**dict(zip(names, row, strict=True)), "limits": [{"amount": rng.randint(1, 99)}]} for row in rows]
    return json.dumps({"as_of": "2026-01-31", "items": items}).encode()


def jsonl(rng: Random) -> bytes:
    """Return a record a line."""
    names, *rows = _rows(rng)
    return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows).encode()


def docx(rng: Random) -> bytes:
    """Return a Word file with headings, a list and a table."""
    import docx

    document = docx.Document()
    document.core_properties.title = _sentence(rng)[:40]
    for one in _paragraphs(rng):
        document.add_heading(one[:20], level=rng.randint(1, 3))
        document.add_paragraph(one, style=rng.choice(("Normal", "List Bullet", "List Number")))
    rows = _rows(rng)
    cells = document.add_table(rows=len(rows), cols=5)
    for row, values in zip(cells.rows, rows, strict=True):
        for cell, value in zip(row.cells, values, strict=True):
            cell.text = value
    return _saved(document.save)


def xlsx(rng: Random) -> bytes:
    """Return a workbook with a sheet of records and a small one."""
    import openpyxl

    book = openpyxl.Workbook()
    for row in _rows(rng):
        book.active.append(row)
    second = book.create_sheet("Limits")
    second.append(["Net exposure limit", rng.randint(1, 99) * 1e6])
    second.merge_cells("A3:B3")
    second["A3"] = _sentence(rng)
    return _saved(book.save)


def pdf(rng: Random) -> bytes:
    """Return one to three pages of text; what they hold is packed in every second file."""
    from fpdf import FPDF

    paper = FPDF()
    paper.set_compression(rng.random() < 0.5)
    paper.set_title(_sentence(rng)[:40])
    for _ in range(rng.randint(1, 3)):
        paper.add_page()
        paper.set_font("Helvetica", "B", 16)
        paper.cell(0, 10, _sentence(rng)[:30], new_x="LMARGIN", new_y="NEXT")
        paper.set_font("Helvetica", "", 11)
        for one in _paragraphs(rng):
            paper.multi_cell(0, 6, one, new_x="LMARGIN", new_y="NEXT")
    return bytes(paper.output())


def pptx(rng: Random) -> bytes:
    """Return a presentation of a few slides; needs python-pptx."""
    import pptx

    show = pptx.Presentation()
    for one in _paragraphs(rng):
        slide = show.slides.add_slide(show.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text = one[:20], one
    return _saved(show.save)


def odt(rng: Random) -> bytes:
    """Return an OpenDocument text."""
    body = "".join(
        f"<text:h text:outline-level='1'>{one[:20]}</text:h><text:p>{one}</text:p>" for one in _paragraphs(rng)
    )
    names = "".join(
        f" xmlns:{name}='urn:oasis:names:tc:opendocument:xmlns:{name}:1.0'" for name in ("office", "text", "table")
    )
    root = f"<office:document-content{names}><office:body><office:text>{body}</office:text></office:body>"
    listed = (
        "<manifest:file-entry manifest:full-path='/' manifest:media-type='application/vnd.oasis.opendocument.text'/>"
    )
    manifest = f"<manifest:manifest xmlns:manifest='urn:oasis:names:tc:opendocument:xmlns:manifest:1.0'>{listed}"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.text")
        archive.writestr("META-INF/manifest.xml", f"{manifest}</manifest:manifest>")
        archive.writestr("content.xml", f"<?xml version='1.0' encoding='UTF-8'?>{root}</office:document-content>")
    return out.getvalue()


def rtf(rng: Random) -> bytes:
    """Return rich text."""
    body = r"\par ".join(_paragraphs(rng))
    head = rf"{{\fonttbl{{\f0 Helvetica;}}}}{{\info{{\title {_sentence(rng)[:30]}}}}}"
    return rf"{{\rtf1\ansi{head}\f0\fs22 {body}\par}}".encode()


def eml(rng: Random) -> bytes:
    """Return a mail with two forms of its text and an attachment."""
    from email.message import EmailMessage

    mail = EmailMessage()
    mail["From"], mail["To"] = "desk@meridian-harbour.example", "audit@meridian-harbour.example"
    mail["Subject"], mail["Date"] = _sentence(rng)[:40], "Mon, 02 Mar 2026 10:00:00 +0000"
    mail.set_content("\n\n".join(_paragraphs(rng)))
    mail.add_alternative(html(rng).decode(), subtype="html")
    mail.add_attachment(table(",")(rng), maintype="text", subtype="csv", filename="limits.csv")
    return mail.as_bytes()


def _saved(save: Callable[[io.BytesIO], object]) -> bytes:
    out = io.BytesIO()
    save(out)
    return out.getvalue()


MAKERS: Final[dict[str, Callable[[Random], bytes]]] = {
    ".csv": table(","),
    ".docx": docx,
    ".eml": eml,
    ".htm": html,
    ".html": html,
    ".json": json_file,
    ".jsonl": jsonl,
    ".markdown": markdown,
    ".md": markdown,
    ".ndjson": jsonl,
    ".odt": odt,
    ".pdf": pdf,
    ".pptx": pptx,
    ".rtf": rtf,
    ".tsv": table("\t"),
    ".txt": text,
    ".xlsx": xlsx,
}
