"""Outlook messages: header lines, forms of the text, code pages, messages in messages, attachments."""

import struct
import sys
from uuid import UUID

import docx
import pytest

from context_engine.ingest.loaded_document import LoadedDocument, Skipped
from context_engine.ingest.loaders.msg_file import unpacked
from tests.outlook_file import compound_file, outlook_message

SUBJECT, BODY, HTML, RTF, HEADERS, SENT = 0x0037, 0x1000, 0x1013, 0x1009, 0x007D, 0x0039
SENDER, SENDER_ADDRESS, NAME, ADDRESS, KIND = 0x0C1A, 0x5D01, 0x3001, 0x39FE, 0x0C15
FILE_NAME, CONTENT, METHOD, INTERNET_CODEPAGE, CODEPAGE = 0x3707, 0x3701, 0x3705, 0x3FDE, 0x3FFD
JANUARY = 134126820000000000  # 2026-01-12 09:00 UTC in units of 100 ns since 1601
HEAD = "# Limit breach of May\n\nFrom: Risk Control <risk@harbour.example>\n"


def packed(rtf):
    """RTF as Outlook compresses it, every byte literal."""
    out = b"".join(b"\x00" + rtf[start : start + 8] for start in range(0, len(rtf), 8))
    return struct.pack("<II4sI", len(out) + 12, len(rtf), b"LZFu", 0) + out


def made(texts=(), **parts):
    shown = {SUBJECT: "Limit breach of May", SENDER: "Risk Control", SENDER_ADDRESS: "risk@harbour.example"}
    return compound_file(outlook_message(shown | dict(texts), **parts))


def person(name, address, kind):
    return outlook_message({NAME: name, ADDRESS: address}, numbers={KIND: kind}, head=8)


def attached(name, content, **numbers):
    return outlook_message({FILE_NAME: name}, data={CONTENT: content}, numbers=numbers, head=8)


def test_header_lines_are_text_and_fields(one):
    people = [
        person("Desk Heads", "desks@harbour.example", 1),
        person("Audit", "/O=BANK/CN=AUDIT", 2),
        person("Secret", "x@y.example", 3),
    ]
    loaded = one(made({BODY: "The breach was\r\nreported.\r\n"}, times={SENT: JANUARY}, recipients=people), "a.msg")
    assert loaded.text == (
        f"{HEAD}To: Desk Heads <desks@harbour.example>\nCc: Audit\nDate: Mon, 12 Jan 2026 09:00:00 +0000\n\n"
        "The breach was\nreported."
    )
    assert loaded.fields["title"] == "Limit breach of May"
    assert loaded.fields["cc"] == "Audit"
    assert loaded.fields["date"].isoformat() == "2026-01-12T09:00:00+00:00"
    assert loaded.warnings == ()


def test_header_lines_that_came_with_the_message_come_first(one):
    headers = "From: =?utf-8?B?0JHQsNC90Lo=?= <bank@harbour.example>\r\nDate: Mon, 12 Jan 2026 10:00:00 +0100\r\n\r\n"
    loaded = one(made({BODY: "Words.", HEADERS: headers}, times={SENT: JANUARY}), "a.msg")
    assert loaded.fields["from"] == "Банк <bank@harbour.example>"
    assert loaded.fields["date"].isoformat() == "2026-01-12T10:00:00+01:00"


def test_a_web_page_is_read_in_its_code_page(one):
    page = "<h2>Gebühren</h2><table><tr><th>Code</th><th>Fee</th></tr><tr><td>F1</td><td>5 €</td></tr></table>"
    data = made({BODY: "plain"}, data={HTML: page.encode("cp1252")}, numbers={INTERNET_CODEPAGE: 1252})
    assert one(data, "a.msg").text == f"{HEAD}\n## Gebühren\n\n| Code | Fee |\n| --- | --- |\n| F1 | 5 € |"


def test_the_web_page_inside_rtf_is_read_as_a_page(one):
    rtf = (
        rb"{\rtf1\ansi\ansicpg1252\fromhtml1 \deff0{\fonttbl{\f0\fswiss Arial;}}{\*\htmltag64 <html><body>}\htmlrtf {"
        rb"\htmlrtf0 {\*\htmltag96 <h2>}\htmlrtf {\b \htmlrtf0 Fees\htmlrtf }\htmlrtf0 {\*\htmltag104 </h2>}"
        rb"{\*\htmltag148 <table><tr><td>}Code{\*\htmltag156 </td><td>}\'a3{\*\htmltag84 &lt;}\htmlrtf <\htmlrtf0 5"
        rb"{\*\htmltag156 </td></tr>}{\*\mhtmltag148 <tr>no</tr>}{\*\htmltag158 <tr><td>F1</td><td>\{x\}}"
        rb"{\*\htmltag8 </td></tr></table>}\u8364?\htmlrtf\par\htmlrtf0}"
    )
    loaded = one(made({BODY: "plain"}, data={RTF: packed(rtf)}), "a.msg")
    assert loaded.text == f"{HEAD}\n## Fees\n\n| Code | £<5 |\n| --- | --- |\n| F1 | {{x}} |\n\n€"


def test_rtf_of_its_own_is_read_and_that_of_a_plain_text_is_not(one):
    own = rb"{\rtf1\ansi Cash\par \trowd\cellx100\cellx200\intbl a\cell b\cell\row 1\cell 2\cell\row}"
    assert one(made({BODY: "plain"}, data={RTF: packed(own)}), "a.msg").text.startswith(f"{HEAD}\nCash\n\n| a | b |")
    plain = rb"{\rtf1\ansi\fromtext Cash\par}"
    assert one(made({BODY: "The plain."}, data={RTF: packed(plain)}), "a.msg").text == f"{HEAD}\nThe plain."
    assert one(made({BODY: "The plain."}, data={RTF: b"LZFu broken"}), "a.msg").text == f"{HEAD}\nThe plain."


def test_compressed_words_refer_to_words_before():
    example = "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a800fa0"
    data = bytes.fromhex(example)  # the example of MS-OXRTFCP
    assert unpacked(data) == b"{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n"


@pytest.mark.parametrize(("numbers", "encoding"), [({CODEPAGE: 1251}, "cp1251"), ({CODEPAGE: 65001}, "utf-8")])
def test_texts_in_a_code_page(one, numbers, encoding):
    parts = outlook_message({SUBJECT: "Банк", BODY: "Банк обязан"}, numbers=numbers, narrow=encoding)
    loaded = one(compound_file(parts), "a.msg")
    assert (loaded.text, loaded.warnings) == ("# Банк\n\nБанк обязан", ())


def test_a_message_in_a_message(one):
    inner = outlook_message({SUBJECT: "The limit", BODY: "It is 5 million."}, head=24)
    holder = {**outlook_message({FILE_NAME: "The limit"}, numbers={METHOD: 5}, head=8), "__substg1.0_3701000D": inner}
    loaded = one(made({BODY: "See below."}, attachments=[holder]), "a.msg")
    assert loaded.text == f"{HEAD}\nSee below.\n\n## The limit\n\nIt is 5 million."


@pytest.mark.wording
def test_attachments_are_documents_of_their_own_or_said(read, saved):
    document = docx.Document()
    document.add_paragraph("The policy itself.")
    link = outlook_message({FILE_NAME: "budget.xlsx"}, numbers={METHOD: 7}, head=8)
    parts = [attached("policy.docx", saved(document)), attached("logo.png", b"\x89PNG1234"), link]
    mail, policy = read(made({BODY: "Attached."}, attachments=parts), "mail.msg")
    assert mail.warnings == ("attachments are not read: logo.png (8 bytes), budget.xlsx (only a link)",)
    assert (policy.text, policy.path, policy.place) == ("The policy itself.", "mail.msg", "mail.msg:policy.docx")


def test_what_is_no_message(refused, one):
    assert "not an Outlook message" in refused(compound_file({"WordDocument": b"words"}), "a.msg")
    assert refused(b"From: a@b.example\n\nwords", "a.msg") == (
        "does not begin like a .msg file; if it is a mail as text, rename it to .eml"
    )
    assert refused(compound_file(outlook_message()), "a.msg") == "has no message header lines, or no text"


def test_a_message_cut_off_is_an_error_or_gives_what_it_still_holds(read):
    data = made({BODY: "Cash costs 5 USD. " * 400})
    for size in range(8, len(data), 97):
        assert all(isinstance(part, LoadedDocument | Skipped) for part in read(data[:size], "a.msg"))


def test_without_its_library_the_extra_is_named(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "olefile", None)
    assert "documents" in refused(made({BODY: "words"}), "a.msg")


@pytest.mark.parametrize("narrow", [None, "cp1252"])
def test_an_appointment_has_its_times_and_its_location(one, narrow):
    """The file gives each property of appointments a tag: here start 8000, end 8002 and location 8003."""
    other, appointments = UUID("00062008-0000-0000-c000-000000000046"), UUID("00062002-0000-0000-c000-000000000046")
    rows = [(0x820D, 4, 0), (0x820E, 3, 1), (0x820E, 4, 2), (0x8208, 4, 3), (0, 4 << 1 | 1, 4)]
    entries = b"".join(
        struct.pack("<IHH", number, kind if index == 4 else kind << 1, index) for number, kind, index in rows
    )
    tree = outlook_message(
        {SUBJECT: "Limit review", 0x8003: "Room 4", BODY: "Bring the report."},
        times={0x8000: JANUARY, 0x8001: 0, 0x8002: JANUARY + 36_000_000_000},
        narrow=narrow,
    )
    named = {"__substg1.0_00020102": other.bytes_le + appointments.bytes_le, "__substg1.0_00030102": entries}
    assert one(compound_file({**tree, "__nameid_version1.0": named}), "a.msg").text == (
        "# Limit review\n\nStart: Mon, 12 Jan 2026 09:00:00 +0000\nEnd: Mon, 12 Jan 2026 10:00:00 +0000\n"
        "Location: Room 4\n\nBring the report."
    )
