"""Messages: `.eml`.

Read: the subject as title; from, to, copies and date as lines and as fields; the text, its HTML form (like a web page)
if it has several; messages inside the message below their own subject. Attachments of a supported format
are separate documents, named by the message and their own name; the others are reported with their size. Not read:
other header lines, signatures, pictures; nothing is fetched. At most 200 attachments are read, the rest are reported.
"""

from __future__ import annotations

import binascii
import re
import tempfile
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from email import message_from_bytes, policy
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final

from context_engine.core.models import Notice, NoticeCode
from context_engine.ingest.loaded_document import LoadedDocument, Skipped, file_notice
from context_engine.ingest.loaders.encoding import decoded, meant
from context_engine.ingest.loaders.html_file import page_text
from context_engine.ingest.loaders.markdown import MarkdownBlock, heading, joined, one_line
from context_engine.ingest.loaders.source_file import SourceFile

_SHOWN: Final = ("From", "To", "Cc", "Date")
_MOST_ATTACHMENTS: Final = 200
_MOST_NESTED: Final = 10
_REPORTS: Final = (  # they consist of header lines
    "message/delivery-status", "message/disposition-notification", "message/feedback-report",
)  # fmt: skip
_FORMS: Final = ("text/html", "text/plain")  # of the same text, the richest first
_SUFFIXES: Final = {  # of parts without a name, if it is not the second half of their type
    "text/plain": "txt", "text/markdown": "md", "application/msword": "doc", "application/vnd.ms-excel": "xls",
    "application/vnd.ms-powerpoint": "ppt",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
}  # fmt: skip
_HEAD: Final = re.compile(rb"(?:[^\r\n]+\r?\n)*")
_UNFOLDED: Final = re.compile(rb"(?<=\?=)(\r?\n)(?==\?)")
ReadFile = Callable[[Path], Iterator[LoadedDocument | Skipped]]


@dataclass(slots=True)
class Mail:
    """The content of a message and of the messages inside it, read so far.

    Attributes:
        name: its file, for the documents.
        attached: name and bytes of each attachment; None: it is only a link.
    """

    name: str
    blocks: list[MarkdownBlock] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)
    attached: list[tuple[str, bytes | None]] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def begin(self, lines: Mapping[str, str], depth: int) -> None:
        """Take the header lines ("Subject", "From", "To", "Cc", "Date") of a message inside `depth` others."""
        subject = lines.get("Subject", "")
        if subject:
            self.blocks.append(heading(min(depth + 1, 6), subject))
        shown = [f"{name}: {lines[name]}" for name in _SHOWN if lines.get(name)]
        if shown:
            self.blocks.append(MarkdownBlock("\n".join(shown)))
        if depth == 0:
            fields: dict[str, Any] = {"title": subject}
            fields |= {name.lower(): lines.get(name) for name in ("From", "To", "Cc")}
            fields["date"] = _moment(lines.get("Date", ""))
            self.fields = {name: value for name, value in fields.items() if value}

    def add_text(self, text: str) -> bool:
        """Add a text; return whether it has any words."""
        if text.strip():
            self.blocks.append(MarkdownBlock(text.strip()))
        return bool(text.strip())

    def add_page(self, html: str) -> bool:
        """Add a web page; return whether it has any text."""
        page = page_text(html, alone=True)
        self.notices += page.notices
        return self.add_text(page.text)

    def documents(self, read: ReadFile, readable: Callable[[str], bool]) -> Iterator[LoadedDocument | Skipped]:
        """Yield the message, then the documents attached to it."""
        stored = [(name, data) for name, data in self.attached if data is not None and readable(name)]
        taken = stored[:_MOST_ATTACHMENTS]
        left = [_size(name, data) for name, data in self.attached if (name, data) not in taken]
        if left:
            unread = f"attachments are not read: {', '.join(left)}"
            self.notices.append(file_notice(NoticeCode.EMBEDDED_NOT_READ, unread, names=left))
        if self.blocks:
            text = joined(self.blocks)
            yield LoadedDocument(path=self.name, text=text, fields=self.fields, notices=tuple(self.notices))
        else:
            yield Skipped(self.name, "has no message header lines, or no text")
        for name, data in taken:
            yield from _attached(self.name, name, data, read)


def load_eml(file: SourceFile, read: ReadFile, readable: Callable[[str], bool]) -> Iterator[LoadedDocument | Skipped]:
    """Yield the message, then the documents attached to it.

    Args:
        readable: whether a file name has a supported suffix.
    """
    message = _message(file.read())
    mail = Mail(file.name)
    _read(message, mail, 0)
    if not message.keys():
        mail.blocks.clear()
    yield from mail.documents(read, readable)


def _message(data: bytes) -> EmailMessage:
    """Parse a message; an encoded word that continues a header line at the start of a line gets its missing space."""
    head = _HEAD.match(data)
    end = head.end() if head else 0
    return message_from_bytes(_UNFOLDED.sub(rb"\1 ", data[:end]) + data[end:], policy=policy.default)


def _read(message: EmailMessage, mail: Mail, depth: int) -> None:
    mail.begin({name: header_line(message, name) for name in ("Subject", *_SHOWN)}, depth)
    _part(message, mail, depth)


def _part(part: EmailMessage, mail: Mail, depth: int) -> None:
    kind = part.get_content_type()
    name = one_line(part.get_filename() or "")
    if kind == "message/rfc822" and depth < _MOST_NESTED:
        for inner in _messages(part):
            _read(inner, mail, depth + 1)
    elif kind in _REPORTS:
        mail.add_text(
            "\n\n".join("\n".join(f"{name}: {header_line(inner, name)}" for name in inner) for inner in _parts(part))
        )
    elif kind == "multipart/alternative" and part.is_multipart():
        _alternative(_parts(part), mail, depth)
    elif part.is_multipart():
        for inner in _parts(part):
            _part(inner, mail, depth)
    elif _is_text(part) and part.get_content_disposition() != "attachment" and not name:
        _text(part, mail)
    else:
        data = part.get_payload(decode=True)
        name = name or f"part.{_SUFFIXES.get(kind, part.get_content_subtype())}"
        mail.attached.append((name, data if isinstance(data, bytes) else b""))


def _messages(part: EmailMessage) -> list[EmailMessage]:
    """Return the message inside a part; some programs encode it, which is not allowed."""
    inner = _parts(part)
    encoded = str(part.get("Content-Transfer-Encoding", "")).strip().lower() == "base64"
    data = inner[0].get_payload(decode=True) if encoded and inner and not inner[0].keys() else None
    try:
        return [_message(b64decode(data))] if isinstance(data, bytes) else inner
    except binascii.Error:
        return inner


def _is_text(part: EmailMessage) -> bool:
    """Whether a part is text; a part declared multipart without parts is itself the text."""
    return part.get_content_maintype() in ("text", "multipart")


def _alternative(parts: list[EmailMessage], mail: Mail, depth: int) -> None:
    """Read the richest form of a text, and every part that is not a form of it."""
    forms = [part for part in parts if part.get_content_type() in _FORMS or part.is_multipart()]
    best = sorted(
        forms, key=lambda part: _FORMS.index(part.get_content_type()) if part.get_content_type() in _FORMS else -1
    )
    for part in best:
        before = len(mail.blocks)
        _part(part, mail, depth)
        if len(mail.blocks) > before:
            break
    for part in parts:
        if part not in forms:
            _part(part, mail, depth)


def _text(part: EmailMessage, mail: Mail) -> None:
    data = part.get_payload(decode=True)
    if not isinstance(data, bytes) or not data.strip():
        return
    text = decoded_text(data, part.get_content_charset(), mail)
    mail.add_page(text) if part.get_content_type() == "text/html" else mail.add_text(text)


def decoded_text(data: bytes, charset: str | None, mail: Mail) -> str:
    """Decode in the encoding that the message names, or else in a detected one."""
    for name in (meant(charset), charset) if charset else ("ascii",):
        try:
            return data.decode(name).replace("\r\n", "\n")
        except (LookupError, UnicodeDecodeError):
            continue
    known = decoded(data, mail.name)
    if isinstance(known, Skipped):
        problem = f"the text is not {charset or 'ASCII'}: characters that cannot be read are shown as \ufffd"
        mail.notices.append(file_notice(NoticeCode.DOCUMENT_REPAIRED, problem))
        return data.decode("utf-8", "replace").replace("\x00", "")
    mail.notices += known.notices
    return known.text


def _attached(path: str, name: str, data: bytes, read: ReadFile) -> Iterator[LoadedDocument | Skipped]:
    with tempfile.TemporaryDirectory(prefix="context-engine-") as folder:
        place = Path(folder) / f"attached{Path(name).suffix.lower()}"
        place.write_bytes(data)
        for document in read(place):
            if isinstance(document, Skipped):
                yield document._replace(path=path, reason=f"attachment {name}: {document.reason}")
                continue
            notices = tuple(note._replace(message=f"attachment {name}: {note.message}") for note in document.notices)
            part = ":".join(filter(None, (name, document.part)))
            yield replace(document, path=path, part=part, notices=notices)


def _size(name: str, data: bytes | None) -> str:
    return f"{name} ({'only a link' if data is None else f'{len(data):,} bytes'})"


def _moment(text: str) -> datetime | None:
    try:
        return parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None


def header_line(message: EmailMessage, name: str) -> str:
    """Return a header line as a person reads it; the standard library raises on some malformed ones."""
    try:
        value = message.get(name)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - a header line that the parser fails on is not shown
        return ""
    text = str(value or "")
    if "\ufffd" in text:
        text = _raw(message, name) or text
    return one_line(text.encode("utf-8", "replace").decode())


def _raw(message: EmailMessage, name: str) -> str:
    """Return a header line that the standard library cannot decode; "" if it cannot be decoded.

    A character may be split between two encoded words. Plain 8-bit characters are read in the most likely encoding.
    """
    raw = next((str(value) for key, value in message.raw_items() if key.lower() == name.lower()), "")
    if raw.isascii():
        try:
            return str(make_header(decode_header(raw)))
        except (HeaderParseError, LookupError, UnicodeDecodeError):
            return ""
    texts = (part.get_payload(decode=True) for part in message.walk() if part.get_content_maintype() == "text")
    body = next((text for text in texts if isinstance(text, bytes)), b"")
    known = decoded(raw.encode("utf-8", "surrogateescape") + b"\n" + body, name)
    return "" if isinstance(known, Skipped) else known.text.split("\n", 1)[0]


def _parts(part: EmailMessage) -> list[EmailMessage]:
    return [inner for inner in part.iter_parts() if isinstance(inner, EmailMessage)] if part.is_multipart() else []
