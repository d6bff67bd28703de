"""Files that are broken, locked, in disguise or hostile: each one error, and nothing else."""

import docx
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from context_engine.ingest.loaders import LOADERS

WORD, SHEET, NOTICE = "limit-breach-procedure.docx", "counterparty-limits.xlsx", "notice-641.pdf"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
ENTITIES = b'<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>'


@pytest.mark.parametrize("name", [WORD, SHEET, NOTICE])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_cut_off(refused, shipped, name, share):
    data = shipped(name)
    assert refused(data[: int(len(data) * share)], name).startswith("is damaged")


@pytest.mark.parametrize("suffix", sorted(suffix[1:] for suffix in LOADERS))
def test_zero_bytes(empty, suffix):
    assert empty(b"", f"a.{suffix}") == "is empty"


@pytest.mark.parametrize("suffix", ["docx", "xlsx"])
def test_a_password_or_the_format_of_the_nineties(refused, suffix):
    assert refused(OLE, f"a.{suffix}") == (
        f"is an old Office file, or one with a password: save it as .{suffix} without a password"
    )


@pytest.mark.parametrize(
    ("content", "name", "says"),
    [
        (NOTICE, "a.docx", "is a PDF, not .docx: rename it"),
        (NOTICE, "a.csv", "is a PDF, not .csv: rename it"),
        (WORD, "a.pdf", "is a zip archive (DOCX, XLSX), not .pdf"),
        (WORD, "a.txt", "is a zip archive (DOCX, XLSX), not .txt"),
        (WORD, "a.xlsx", "is DOCX, not XLSX: its suffix does not fit its content"),
        (SHEET, "a.docx", "is XLSX, not DOCX: its suffix does not fit its content"),
        ("fees.html", "a.docx", "is HTML, not .docx: rename it"),
        ("fees.html", "a.csv", "is HTML, not .csv: rename it"),
        (b"plain words", "a.docx", "does not begin like a .docx file"),
        (b"plain words", "a.pdf", "does not begin like a PDF"),
        (b"\x89PNG\r\n\x1a\n", "a.pdf", "is a PNG image, not .pdf"),
        (OLE, "a.pdf", "is an old Office file, not .pdf"),
        (b"{\\rtf1 words}", "a.doc", "is RTF, not .doc: rename it to .rtf"),
        (b"{\\rtf1 words}", "a.txt", "is RTF, not .txt: rename it to .rtf"),
        (b"<html><table>", "a.xls", "is HTML, not .xls: rename it"),
        (b"<html><p>", "a.doc", "is HTML, not .doc: rename it"),
        (
            b"a;b\n1;2\n",
            "a.xls",
            "does not begin like an .xls file; if it is a table as text, rename it to .csv",
        ),
        (b"plain words", "a.doc", "does not begin like a .doc file; if it is text, rename it to .txt"),
        (b"plain words", "a.rtf", "does not begin like a .rtf file"),
        (WORD, "a.doc", "is a zip archive, as .docx files are, not .doc: rename it to .docx"),
        (WORD, "a.odt", "is DOCX, not ODT: its suffix does not fit its content"),
        (WORD, "a.pptx", "is DOCX, not PPTX: its suffix does not fit its content"),
    ],
)
def test_a_wrong_suffix(refused, shipped, content, name, says):
    assert refused(shipped(content) if isinstance(content, str) else content, name) == says


def test_macros(refused, shipped, zipped):
    assert refused(shipped(WORD), "a.docm") == "may hold macros, which are not read: save it as .docx"
    assert refused(shipped(SHEET), "a.xlsm") == "may hold macros, which are not read: save it as .xlsx"
    assert refused(b"PK", "a.pptm") == "may hold macros, which are not read: save it as .pptx"
    hidden = zipped(shipped(WORD), added={"word/vbaProject.bin": b"x"})
    assert refused(hidden, "a.docx") == "holds macros: save it without them"


@pytest.mark.parametrize("part", ["word/document.xml", "word/styles.xml", "docProps/core.xml", "_rels/.rels"])
@pytest.mark.parametrize("before", [b"", b"<!-- <a -->", b" " * 1_000])
def test_entities_in_any_part_of_a_word_file(refused, shipped, zipped, part, before):
    def declare(xml):
        return xml[: xml.index(b"?>") + 2] + before + ENTITIES + xml[xml.index(b"?>") + 2 :]

    reason = refused(zipped(shipped(WORD), {part: declare}), "a.docx")
    assert reason == f"has a part {part} with a document type (entities), which is not read"


def test_entities_in_utf16_and_behind_much_space(refused, shipped, zipped):
    def wide(xml):
        return (ENTITIES.decode() + "<worksheet/>").encode("utf-16")

    def far(xml):
        return b"<!--" + b" " * 100_000 + b"-->" + ENTITIES + b"<worksheet/>"

    for change in (wide, far):
        reason = refused(zipped(shipped(SHEET), {"xl/worksheets/sheet1.xml": change}), "a.xlsx")
        assert reason.endswith("with a document type (entities), which is not read")


def test_zip_bombs(refused, shipped, zipped):
    bomb = zipped(shipped(WORD), added={"word/media/image1.png": bytes(20 << 20)})
    assert refused(bomb, "a.docx").endswith("times its size: a zip bomb")

    def swell(xml):
        return xml.replace(b"<sheetData>", b"<sheetData>" + b" " * (20 << 20))

    bomb = zipped(shipped(SHEET), {"xl/worksheets/sheet1.xml": swell})
    assert refused(bomb, "a.xlsx").startswith("unpacks xl/worksheets/sheet1.xml to ")


@pytest.mark.parametrize(
    "name", ["../../evil.xml", "/etc/evil.xml", "word/../../evil.xml", "..\\evil.xml", "C:\\evil.xml"]
)
def test_parts_whose_names_lead_out(refused, shipped, zipped, name):
    reason = refused(zipped(shipped(WORD), added={name: b"<a/>"}), "a.docx")
    assert reason.startswith("has parts whose names lead out of the archive")


def test_too_many_parts(refused, shipped, zipped):
    parts = {f"word/x{number}.bin": b"" for number in range(10_001)}
    assert refused(zipped(shipped(WORD), added=parts), "a.docx").startswith("has too many parts")


@pytest.mark.wording
def test_xml_that_is_none(refused, shipped, zipped):
    broken = zipped(shipped(WORD), {"word/document.xml": lambda xml: xml[:500]})
    reason = refused(broken, "a.docx")
    assert reason.startswith("has no text; word/document.xml is damaged (line ")


def test_external_references_are_not_followed(one, saved, monkeypatch):
    import socket

    def refuse(*_):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    document = docx.Document()
    document.add_paragraph("Body.")
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/"
    for end in ("attachedTemplate", "image", "aFChunk", "subDocument"):
        document.part.relate_to(f"http://example.invalid/{end}", kind + end, is_external=True)
    link = parse_xml(f'<w:altChunk {nsdecls("w", "r")} r:id="rId99"/>')
    document.element.body.insert(0, link)
    assert one(saved(document), "a.docx").text == "Body."


def test_a_file_over_the_limit_is_not_opened(refused, shipped):
    reason = refused(shipped(NOTICE), "a.pdf", most_bytes=2_000)
    assert reason.startswith(f"has {len(shipped(NOTICE)):,} bytes, at most 2,000 are read")


def test_files_of_records_have_a_limit_of_their_own(read, refused):
    content = "a,b\n1,2\n"
    assert read(content, "a.csv", most_bytes=4)[0].fields == {"a": "1", "b": "2"}
    assert refused(content, "b.csv", most_streamed_bytes=4).startswith("has 8 bytes, at most 4 are read")


@pytest.mark.parametrize(
    ("name", "library", "what"),
    [
        (WORD, "lxml", "reading .docx files"),
        (NOTICE, "pypdfium2", "reading .pdf files"),
        ("fees.html", "selectolax.lexbor", "reading .html files"),
    ],
)
def test_without_the_extra_the_error_names_it(refused, shipped, monkeypatch, name, library, what):
    import sys

    monkeypatch.setitem(sys.modules, library, None)
    assert refused(shipped(name), name) == (
        f"{what} needs an optional dependency. Install it with: pip install 'dify-context-engine[documents]'"
    )


@pytest.mark.usefixtures("collector_off")
def test_deep_json(refused):
    assert refused("[" * 100_000, "a.json") == "the file is nested too deep"
