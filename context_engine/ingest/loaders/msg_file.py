"""Messages as Outlook saves them: `.msg`.

Read like `.eml`: the subject as title; from, to, copies and date as lines and as fields; the text in the form that it
was written in (RTF, web page, also one kept inside RTF, or plain); messages inside the message below their own subject;
attachments of a supported format as separate documents, the others reported with their size. Appointments and
invitations with start, end (UTC) and location; tasks and contacts as messages. Not read: blind copies, other
properties, pictures; nothing is fetched.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.parser import HeaderParser
from email.policy import default
from email.utils import format_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast
from uuid import UUID

from context_engine.errors import MissingExtra
from context_engine.ingest.loaded_document import LoadedDocument, Skipped
from context_engine.ingest.loaders.docx_file import damaged
from context_engine.ingest.loaders.eml_file import Mail, ReadFile, decoded_text, header_line
from context_engine.ingest.loaders.markdown import one_line
from context_engine.ingest.loaders.rtf_file import RtfReader, load_rtf
from context_engine.ingest.loaders.source_file import SourceFile

if TYPE_CHECKING:
    from olefile import OleFileIO

_PROPERTIES: Final = "__properties_version1.0"
_EMBEDDED: Final = "__substg1.0_3701000D"
_ROOT_HEAD, _INNER_HEAD, _PART_HEAD = 32, 24, 8  # bytes before the properties of a message, one inside it, its parts
_STRING, _STRING8, _BINARY, _TIME = 0x001F, 0x001E, 0x0102, 0x0040
# MS-OXPROPS
_SUBJECT, _HEADERS, _SUBMITTED, _DELIVERED = 0x0037, 0x007D, 0x0039, 0x0E06
_BODY, _HTML, _RTF = 0x1000, 0x1013, 0x1009
_INTERNET_CODEPAGE, _CODEPAGE = 0x3FDE, 0x3FFD
_CHARSETS: Final = {20127: "ascii", 50220: "iso-2022-jp", 51932: "euc-jp", 54936: "gb18030", 65001: "utf-8"} | {
    28590 + part: f"iso-8859-{part}" for part in range(1, 16)
}
_SENDERS: Final = ((0x0042, (0x5D02, 0x0065)), (0x0C1A, (0x5D01, 0x0C1F)))  # name, addresses; on behalf of it first
_DISPLAY, _ADDRESSES, _KIND = 0x3001, (0x39FE, 0x3003), 0x0C15
_TO, _CC = 1, 2
_SHOWN_TO: Final = {_TO: 0x0E04, _CC: 0x0E03}
# Properties with a name have a tag of the file's own, which this folder of the root gives (MS-OXMSG 2.2.3).
_NAMED: Final = "__nameid_version1.0"
_SETS, _ENTRIES = 0x0002, 0x0003
_OF_APPOINTMENTS: Final = UUID("00062002-0000-0000-c000-000000000046").bytes_le
_LOCATION: Final = 0x8208
_MOMENTS: Final = {"Start": 0x820D, "End": 0x820E}
_FIRST_SET, _FIRST_TAG = 3, 0x8000
_NAMES, _CONTENT, _METHOD = (0x3707, 0x3704, _DISPLAY), 0x3701, 0x3705
_LINKS: Final = (2, 3, 4, 7)  # methods
_MOST_NESTED: Final = 10
_EPOCH: Final = datetime(1601, 1, 1, tzinfo=UTC)
_FIRST_WORDS: Final = (  # what every compressed text may refer to (MS-OXRTFCP)
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript \fdecor MS Sans Serif"
    rb"SymbolArialTimes New RomanCourier{\colortbl\red0\green0\blue0" + b"\r\n" + rb"\par \pard\plain\f0\fs20\b\i\u"
    rb"\tab\tx"
)
_WINDOW: Final = 4096
_HEAD: Final = 2048


def load_msg(file: SourceFile, read: ReadFile, readable: Callable[[str], bool]) -> Iterator[LoadedDocument | Skipped]:
    """Yield the message, then the documents attached to it.

    Args:
        readable: whether a file name has a supported suffix.

    Raises:
        MissingExtra: olefile is not installed.
    """
    try:
        from olefile import OleFileIO
    except ImportError as error:
        raise MissingExtra("reading .msg files", "documents") from error
    mail, problems = Mail(file.name), list[str]()
    try:
        ole = OleFileIO(file.read())
    except OSError as error:
        yield Skipped(file.name, f"is damaged or cut off: {error}")
        return
    with ole:
        root = _Storage(ole, (), _ROOT_HEAD, problems)
        if not root.has(_PROPERTIES):
            yield Skipped(file.name, "is an Office file, not an Outlook message: its suffix does not fit its content")
            return
        names = _tags_of_appointments(_Storage(ole, (_NAMED,), 0, problems)) if root.has(_NAMED) else {}
        _read(root, mail, 0, file, names)
    mail.notices += damaged(problems)
    yield from mail.documents(read, readable)


class _Storage:
    """The properties of a message, or of a recipient or an attachment of it.

    Args:
        head: bytes before the first property.
        problems: takes a line for each part that cannot be read.
        pages: the code pages of texts and of web pages, if the properties do not name them.
    """

    def __init__(
        self,
        ole: OleFileIO,
        path: tuple[str, ...],
        head: int,
        problems: list[str],
        pages: tuple[int | None, int | None] = (None, None),
    ) -> None:
        self._ole, self._path, self._problems = ole, path, problems
        rows = self._stream(_PROPERTIES)[head:]
        self._rows = {row[:2]: row[2] for row in struct.iter_unpack("<HH4x8s", rows[: len(rows) // 16 * 16])}
        self._pages = (self.number(_CODEPAGE) or pages[0], self.number(_INTERNET_CODEPAGE) or pages[1])

    def has(self, name: str) -> bool:
        return bool(self._ole.exists([*self._path, name]))

    def inner(self, start: str, head: int) -> Iterator[_Storage]:
        """Yield the storages whose name begins with `start`, in the order of their numbers."""
        depth = len(self._path)
        paths = self._ole.listdir(streams=False, storages=True)
        for path in sorted(path for path in paths if len(path) == depth + 1 and tuple(path[:depth]) == self._path):
            if path[depth].startswith(start):
                yield _Storage(self._ole, tuple(path), head, self._problems, self._pages)

    def number(self, tag: int) -> int | None:
        value = self._rows.get((0x0003, tag))
        return None if value is None else cast(int, struct.unpack("<i4x", value)[0])

    def moment(self, tag: int) -> datetime | None:
        value = self._rows.get((_TIME, tag))
        if value is None:
            return None
        try:
            return _EPOCH + timedelta(microseconds=struct.unpack("<Q", value)[0] // 10)
        except OverflowError:
            return None

    def data(self, tag: int) -> bytes:
        return self._stream(f"__substg1.0_{tag:04X}{_BINARY:04X}")

    def text(self, tag: int, mail: Mail) -> str:
        wide = self._stream(f"__substg1.0_{tag:04X}{_STRING:04X}")
        if wide:
            return wide.decode("utf-16-le", "replace").replace("\x00", "").replace("\r\n", "\n")
        narrow = self._stream(f"__substg1.0_{tag:04X}{_STRING8:04X}")
        return self.decoded(narrow.replace(b"\x00", b""), mail, web=tag == _BODY)

    def decoded(self, data: bytes, mail: Mail, *, web: bool) -> str:
        """Return a text in the code page that the message names; `web`: in that of its body."""
        page = next(filter(None, reversed(self._pages) if web else self._pages), None)
        charset = None if page is None else _CHARSETS.get(page, f"cp{page}")
        return decoded_text(data, charset, mail) if data else ""

    def _stream(self, name: str) -> bytes:
        if not self.has(name):
            return b""
        try:
            with self._ole.openstream([*self._path, name]) as stream:
                return cast(bytes, stream.read())
        except OSError:
            self._problems.append(f"a part of the message is damaged: {name}")
            return b""


def _tags_of_appointments(names: _Storage) -> dict[int, int]:
    """Return the tags that the properties of appointments have in this file, by their numbers."""
    sets, entries = names.data(_SETS), names.data(_ENTRIES)
    out = {}
    for number, kind, index in struct.iter_unpack("<IHH", entries[: len(entries) // 8 * 8]):
        at = ((kind >> 1) - _FIRST_SET) * 16
        if not kind & 1 and at >= 0 and sets[at : at + 16] == _OF_APPOINTMENTS:
            out[number] = _FIRST_TAG + index
    return out


def _appointment(message: _Storage, mail: Mail, names: Mapping[int, int]) -> str:
    """Return start, end and location of an appointment or invitation as lines; "" of another message."""
    moments = {label: message.moment(names.get(number, 0)) for label, number in _MOMENTS.items()}
    lines = [f"{label}: {format_datetime(moment)}" for label, moment in moments.items() if moment]
    location = one_line(message.text(names[_LOCATION], mail)) if _LOCATION in names else ""
    return "\n".join([*lines, *([f"Location: {location}"] if location else [])])


def _read(message: _Storage, mail: Mail, depth: int, file: SourceFile, names: Mapping[int, int]) -> None:
    mail.begin(_lines(message, mail), depth)
    mail.add_text(_appointment(message, mail, names))
    _body(message, mail, file)
    for part in message.inner("__attach_version1.0_#", _PART_HEAD):
        name = next((text for tag in _NAMES if (text := one_line(part.text(tag, mail)))), "part.bin")
        if part.has(_EMBEDDED) and depth < _MOST_NESTED:
            for inner in part.inner(_EMBEDDED, _INNER_HEAD):
                if inner.has(_PROPERTIES):
                    _read(inner, mail, depth + 1, file, names)
                else:
                    mail.attached.append((name, b""))
        else:
            mail.attached.append((name, None if part.number(_METHOD) in _LINKS else part.data(_CONTENT)))


def _lines(message: _Storage, mail: Mail) -> dict[str, str]:
    """Return the header lines: those that came with the message, else what its properties say."""
    source = message.text(_HEADERS, mail).lstrip("\n")
    source = source.split("\n", 1)[-1] if source.startswith("Microsoft Mail Internet Headers") else source
    headers = HeaderParser(policy=default).parsestr(source)
    out = {name: header_line(headers, name) for name in ("From", "To", "Cc", "Date")}
    subject = message.text(_SUBJECT, mail)
    out["Subject"] = one_line(subject[2:] if subject.startswith("\x01") else subject) or header_line(headers, "Subject")
    out["From"] = out["From"] or next((who for names in _SENDERS if (who := _person(message, *names, mail))), "")
    people = list(message.inner("__recip_version1.0_#", _PART_HEAD))
    for name, kind in (("To", _TO), ("Cc", _CC)):
        listed = [_person(who, _DISPLAY, _ADDRESSES, mail) for who in people if who.number(_KIND) == kind]
        out[name] = out[name] or ", ".join(filter(None, listed)) or one_line(message.text(_SHOWN_TO[kind], mail))
    moment = message.moment(_SUBMITTED) or message.moment(_DELIVERED)
    out["Date"] = out["Date"] or (format_datetime(moment) if moment else "")
    return out


def _person(who: _Storage, name: int, addresses: tuple[int, ...], mail: Mail) -> str:
    """Return a person as "Name <address>"; an address inside Exchange is not shown."""
    called = one_line(who.text(name, mail)).strip("'\"")
    address = next((text for tag in addresses if "@" in (text := one_line(who.text(tag, mail)))), "")
    return f"{called} <{address}>" if called and address and called != address else called or address


def _body(message: _Storage, mail: Mail, file: SourceFile) -> None:
    """Read the form that the message was written in; Exchange makes the others from it (MS-OXBBODY)."""
    rtf = unpacked(message.data(_RTF))
    in_rtf, from_text = (mark in rtf[:_HEAD] for mark in (b"\\fromhtml", b"\\fromtext"))
    if rtf and not in_rtf and not from_text and _add_rtf(rtf, mail, file):
        return
    html = message.decoded(message.data(_HTML), mail, web=True) or message.text(_HTML, mail)
    if html.strip() and mail.add_page(html):
        return
    if in_rtf and mail.add_page(_HtmlInRtf(rtf, file.settings.tracked_changes).page()):
        return
    mail.add_text(message.text(_BODY, mail))


def _add_rtf(rtf: bytes, mail: Mail, file: SourceFile) -> bool:
    with tempfile.TemporaryDirectory(prefix="context-engine-") as folder:
        path = Path(folder) / "body.rtf"
        path.write_bytes(rtf)
        document = next(load_rtf(replace(file, path=path)))
    if isinstance(document, Skipped):
        return False
    mail.notices += document.notices
    return mail.add_text(document.text)


def unpacked(data: bytes) -> bytes:
    """Return the RTF of a compressed text (MS-OXRTFCP), as far as it goes; b"" if it is none."""
    if len(data) < 16:
        return b""
    size, kind = struct.unpack("<4xI4s", data[:12])
    if kind == b"MELA":
        return data[16 : 16 + size]
    return _expanded(memoryview(data)[16:], size) if kind == b"LZFu" else b""


def _expanded(data: memoryview, size: int) -> bytes:
    out = bytearray(_FIRST_WORDS)
    start, position, end = len(out), 0, len(data)
    while position < end and len(out) - start < size:
        flags, position = data[position], position + 1
        for bit in range(8):
            if not flags >> bit & 1:
                out += data[position : position + 1]
                position += 1
                continue
            if position + 2 > end:
                return bytes(out[start:])
            pair = data[position] << 8 | data[position + 1]
            position += 2
            back = (len(out) - (pair >> 4)) % _WINDOW or _WINDOW  # how far back in the window of the last 4096 bytes
            if back == _WINDOW or back > len(out):
                return bytes(out[start : start + size])
            for _ in range((pair & 15) + 2):
                out.append(out[-back])
    return bytes(out[start : start + size])


class _HtmlInRtf(RtfReader):
    """Reads the web page inside an RTF text: its tags stand in groups, what only RTF needs between two marks."""

    def page(self) -> str:
        """Return the page (MS-OXRTFEX)."""
        self._page: list[str] = []
        self.blocks()
        return "".join(self._page)

    def _word(self, word: bytes, argument: bytes | None, *, starred: bool) -> bool:
        if word == b"htmltag" and starred:
            self._state.place = "tag"
        elif word == b"htmlrtf":
            self._state.hidden = argument != b"0"
        elif word not in (b"plain", b"v"):
            return super()._word(word, argument, starred=starred)
        return False

    def _put(self, text: str) -> None:
        if self._state.place not in ("body", "tag"):
            super()._put(text)
        elif not self._state.hidden:
            self._page.append(text)

    def _paragraph(self) -> None:
        self._decode()
        self._put("\n")
