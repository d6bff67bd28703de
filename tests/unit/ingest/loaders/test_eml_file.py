"""EML: header lines, forms of one text, encodings, messages in messages, attachments."""

from base64 import b64encode
from email.message import EmailMessage
from quopri import encodestring as quoted

import docx
import pytest

from context_engine.ingest.documents import prepare
from context_engine.ingest.loaded_document import LoadedDocument, Skipped


@pytest.fixture
def message():
    made = EmailMessage()
    made["From"] = "Risk Control <risk@harbour.example>"
    made["To"] = "Desk Heads <desks@harbour.example>"
    made["Subject"] = "Limit breach of May"
    made["Date"] = "Mon, 12 Jan 2026 09:30:00 +0100"
    return made


WORDS = "Банк обязан"
HEAD = (
    "# Limit breach of May\n\nFrom: Risk Control <risk@harbour.example>\nTo: Desk Heads <desks@harbour.example>\n"
    "Date: Mon, 12 Jan 2026 09:30:00 +0100\n\n"
)


def test_header_lines_are_text_and_fields(one, message, counter):
    message.set_content("The breach was reported.\n")
    loaded = one(bytes(message), "a.eml")
    assert loaded.text == f"{HEAD}The breach was reported."
    assert loaded.fields["title"] == "Limit breach of May"
    assert loaded.fields["from"] == "Risk Control <risk@harbour.example>"
    assert loaded.fields["date"].isoformat() == "2026-01-12T09:30:00+01:00"
    prepared = prepare(loaded, None, counter)
    assert (prepared.base.title, prepared.warnings) == ("Limit breach of May", ())


def test_of_two_forms_of_one_text_the_web_page_is_read(one, message):
    message.set_content("Cash costs 5 USD.")
    message.add_alternative("<h2>Fees</h2><p>Cash costs <b>5 USD</b>.</p><script>x</script>", subtype="html")
    assert one(bytes(message), "a.eml").text == f"{HEAD}## Fees\n\nCash costs **5 USD**."


def test_the_title_of_a_page_is_not_repeated_below_the_subject(one, message):
    message.set_content("<title>Limit breach of May</title><p>Cash costs 5 USD.</p>", subtype="html")
    assert one(bytes(message), "a.eml").text == f"{HEAD}Cash costs 5 USD."


def test_an_empty_form_gives_way_to_the_other(one, message):
    message.set_content("The words.")
    message.add_alternative("<p> </p>", subtype="html")
    assert one(bytes(message), "a.eml").text == f"{HEAD}The words."


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (
            b"Content-Type: text/plain; charset=windows-1251\nContent-Transfer-Encoding: base64",
            b64encode(WORDS.encode("cp1251")),
        ),
        (
            b"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable",
            quoted(WORDS.encode()),
        ),
        (b"Content-Type: text/plain; charset=no-such-one", WORDS.encode()),
        (b"Content-Type: text/plain; charset=us-ascii", WORDS.encode()),
    ],
)
def test_encodings(one, head, body):
    subject = b"Subject: =?utf-8?B?0JHQsNC90Lo=?=\n"
    loaded = one(subject + head + b"\n\n" + body, "a.eml")
    assert loaded.text == f"# Банк\n\n{WORDS}"


def test_a_message_in_a_message(one, message):
    inner = EmailMessage()
    inner["Subject"], inner["From"] = "The limit", "desk@harbour.example"
    inner.set_content("It is 5 million.")
    message.set_content("See below.")
    message.add_attachment(inner)
    assert one(bytes(message), "a.eml").text == (
        f"{HEAD}See below.\n\n## The limit\n\nFrom: desk@harbour.example\n\nIt is 5 million."
    )


@pytest.mark.parametrize("kind", ["delivery-status", "feedback-report"])
def test_a_report_on_delivery_is_read(one, kind):
    status = "Reporting-MTA: dns; mail.example\n\nFinal-Recipient: rfc822;desk@harbour.example\nStatus: 5.1.1\n"
    parts = "--b\nContent-Type: text/plain\n\nNot delivered.\n--b\nContent-Type: message/"
    head = "Subject: Returned\nMIME-Version: 1.0\nContent-Type: multipart/report; boundary=b\n\n"
    text = one(f"{head}{parts}{kind}\n\n{status}--b--\n", "a.eml").text
    assert text.startswith("# Returned\n\nNot delivered.\n\nReporting-MTA: dns; mail.example")
    assert kind != "delivery-status" or text == (
        "# Returned\n\nNot delivered.\n\nReporting-MTA: dns; mail.example\n\n"
        "Final-Recipient: rfc822;desk@harbour.example\nStatus: 5.1.1"
    )


@pytest.mark.wording
def test_attachments_are_documents_of_their_own_or_said(read, message, saved, counter):
    document = docx.Document()
    document.add_paragraph("The policy itself.")
    message.set_content("Attached.")
    message.add_attachment(saved(document), maintype="application", subtype="x", filename="policy.docx")
    message.add_attachment("entity_id,limit\nAC-1,5\n", filename="limits.csv")
    message.add_attachment(b"\x89PNG1234", maintype="image", subtype="png", filename="logo.png")
    message.add_attachment(b"PK", maintype="application", subtype="x", filename="macro.docm")
    message.add_attachment(b"", maintype="application", subtype="x", filename="empty.docx")
    mail, policy, row, macro, empty = read(bytes(message), "mail.eml")
    assert mail.warnings == ("attachments are not read: logo.png (8 bytes)",)
    assert (policy.text, policy.path, policy.place) == ("The policy itself.", "mail.eml", "mail.eml:policy.docx")
    assert prepare(policy, None, counter).document_id == "mail:policy.docx"
    assert (row.record, row.fields, row.place) == (True, {"entity_id": "AC-1", "limit": "5"}, "mail.eml:limits.csv:2")
    assert isinstance(macro, Skipped)
    assert macro.reason == "attachment macro.docm: may hold macros, which are not read: save it as .docx"
    assert (empty.path, empty.reason) == ("mail.eml", "attachment empty.docx: is empty")


def test_an_attachment_named_to_lead_out_stays_inside(read, message, folder):
    message.set_content("Attached.")
    message.add_attachment("# Words", filename="../../../evil.md")
    _, attached = read(bytes(message), "mail.eml")
    assert isinstance(attached, LoadedDocument)
    assert attached.text.strip() == "# Words"


def test_parts_that_are_none_are_text(one):
    data = b"Subject: Fees\nContent-Type: multipart/mixed; boundary=x\n\nCash costs 5 USD.\n"
    assert one(data, "a.eml").text == "# Fees\n\nCash costs 5 USD."
    report = b"Subject: Fees\nContent-Type: text/calendar\n\nSUMMARY:Risk committee\n"
    assert one(report, "a.eml").text == "# Fees\n\nSUMMARY:Risk committee"


def test_what_is_no_message(refused):
    assert refused(b"\n\njust words", "a.eml") == "has no message header lines, or no text"


def test_messages_nested_without_end_do_not_break_the_run(read):
    data = b"Subject: a\nContent-Type: message/rfc822\n\n" * 3_000 + b"Subject: b\n\nwords"
    assert len(read(data, "a.eml")) >= 1


def test_a_header_line_of_plain_8_bit_characters_is_read_like_the_text(one):
    data = "Subject: Gebühr für Überziehung\nFrom: a@b.example\n\nDie Gebühr beträgt 5 € für Überziehungen.\n"
    loaded = one(data.encode("cp1252"), "a.eml")
    assert loaded.text.startswith("# Gebühr für Überziehung\n\n")
    assert loaded.fields["title"] == "Gebühr für Überziehung"
    assert one(data.encode("utf-8"), "a.eml").fields["title"] == "Gebühr für Überziehung"


def test_a_text_labelled_latin_1_is_windows_1252(one):
    head = "Subject: Fee\nContent-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: 8bit\n\n"
    data = head.encode() + "Die Gebühr beträgt 5 € – gültig ab Mai.".encode("cp1252")
    assert one(data, "a.eml").text.endswith("Die Gebühr beträgt 5 € – gültig ab Mai.")


@pytest.mark.parametrize("fold", [b"\n ", b"\n"])
def test_a_subject_of_several_encoded_words(one, fold):
    first, second = "Лимит превы".encode()[:-1], "Лимит превы".encode()[-1:] + "шен".encode()
    words = fold.join(b"=?utf-8?B?" + b64encode(part) + b"?=" for part in (first, second))
    loaded = one(b"Subject: " + words + b"\nContent-Type: text/plain\n\nThe text.\n", "a.eml")
    assert loaded.text == "# Лимит превышен\n\nThe text."


def test_an_attachment_without_a_name_is_read_by_its_type(read, message):
    message.set_content("See below.")
    message.add_attachment("Cash costs 5 USD.")
    _, attached = read(bytes(message), "a.eml")
    assert (attached.part, attached.text) == ("part.txt", "Cash costs 5 USD.\n")


def test_an_encoded_message_in_a_message(one):
    inner = b64encode(b"Subject: Breach\n\nReport it by noon.\n")
    head = b"Subject: Fwd\nContent-Type: multipart/mixed; boundary=x\n\n"
    part = b"--x\nContent-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\n" + inner + b"\n\n--x--\n"
    assert one(head + part, "a.eml").text == "# Fwd\n\n## Breach\n\nReport it by noon."
