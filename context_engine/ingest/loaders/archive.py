"""What is refused before an office file is opened: a zip that is none, is a bomb, holds macros or XML with entities."""

from __future__ import annotations

import errno
import re
import zlib
from pathlib import PurePosixPath
from typing import BinaryIO, Final
from zipfile import BadZipFile, ZipFile, ZipInfo

_MOST_ENTRIES: Final = 10_000
_MOST_RATIO: Final = 200  # of a part over _SMALL; what offices write stays below 100
_SMALL: Final = 16 << 20
_ENCRYPTED: Final = 0x1
_KINDS: Final = {"word/document": "DOCX", "xl/workbook": "XLSX", "ppt/presentation": "PPTX", "content": "ODT"}
_MODULE: Final = re.compile(r"Basic/[^/]+/(?!(?:script|dialog)-l[bc]\.xml$)[^/]+$|Scripts/.+[^/]$")  # of ODF
_ROOT: Final = re.compile(rb"<[A-Za-z_]")
_BEFORE_ROOT: Final = re.compile(rb"<!--.*?-->|<\?.*?\?>", re.DOTALL)
_PROLOG: Final = 1 << 16


def check_archive(stream: BinaryIO, kind: str, most_bytes: int, most_part: int) -> str | None:
    """Return why an Office file is not opened, None where it may be. Nothing is unpacked to disk.

    Args:
        stream: the file.
        kind: what it must be, "DOCX", "XLSX", "PPTX" or "ODT".
        most_bytes: most bytes of all parts unpacked.
        most_part: most bytes of a part that the parser holds in memory as a whole.
    """
    try:
        with ZipFile(stream) as archive:
            return _refused(archive, kind, most_bytes, most_part)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a place before the beginning of the file
            raise
    except (BadZipFile, EOFError, ValueError, OverflowError, NotImplementedError):  # the last: an unknown compression
        pass
    return "is damaged or cut off: it is no complete zip archive"


def _refused(archive: ZipFile, kind: str, most_bytes: int, most_part: int) -> str | None:
    entries = archive.infolist()
    names = {entry.filename for entry in entries}
    total = sum(entry.file_size for entry in entries)
    if len(entries) > _MOST_ENTRIES or len(names) < len(entries):
        return "has too many parts, or two of one name: it is no document an office program wrote"
    if any(entry.flag_bits & _ENCRYPTED for entry in entries):
        return "is encrypted: save it without a password"
    if any(_leads_out(name) for name in names):
        return "has parts whose names lead out of the archive: it is no document an office program wrote"
    if kind == "XLSX" and "xl/workbook.bin" in names:
        return "is a binary workbook (.xlsb): save it as .xlsx"
    found = next((one for start, one in _KINDS.items() if any(_is_main(name, start) for name in names)), None)
    if found != kind:
        return f"is {found or 'a zip archive that is no Office file'}, not {kind}: its suffix does not fit its content"
    if any(PurePosixPath(name).name.lower() == "vbaproject.bin" or _MODULE.match(name) for name in names):
        return "holds macros: save it without them"
    if total > most_bytes:
        return f"unpacks to {total:,} bytes, at most {most_bytes:,} are read"
    bomb = next((entry for entry in entries if _swells(entry)), None)
    if bomb:
        return f"unpacks {bomb.filename} to {bomb.file_size // max(1, bomb.compress_size)} times its size: a zip bomb"
    return _refused_part(archive, entries, most_part)


def _refused_part(archive: ZipFile, entries: list[ZipInfo], most_part: int) -> str | None:
    for entry in entries:
        if not entry.filename.lower().endswith((".xml", ".rels")) or entry.filename.startswith("META-INF/"):
            continue
        if entry.file_size > most_part and "worksheets/" not in entry.filename:
            return f"has a part {entry.filename} of {entry.file_size:,} bytes, at most {most_part:,} are read"
        try:
            with archive.open(entry) as part:
                prolog = part.read(_PROLOG).replace(b"\x00", b"")  # UTF-16 reads as ASCII without them
        except (BadZipFile, zlib.error):
            continue  # whoever reads it says so
        if _declares(prolog):
            return f"has a part {entry.filename} with a document type (entities), which is not read"
    return None


def _declares(prolog: bytes) -> bool:
    """Whether XML has a document type, or hides whether it has one behind more than the bytes given."""
    if b"<!DOCTYPE" in prolog or b"<!ENTITY" in prolog:
        return True
    bare = _BEFORE_ROOT.sub(b"", prolog)
    root = _ROOT.search(bare)
    return b"<!--" in bare[: root.start() if root else None] or (root is None and len(prolog) >= _PROLOG // 2)


def _is_main(name: str, start: str) -> bool:
    plain = name.replace("\\", "/").lower()
    return plain.startswith(start) and plain.endswith(".xml") and "/" not in plain[len(start) :]


def _leads_out(name: str) -> bool:
    return name.startswith(("/", "\\")) or ".." in re.split(r"[/\\]", name) or name[1:2] == ":"


def _swells(entry: ZipInfo) -> bool:
    return entry.file_size > _SMALL and entry.file_size > _MOST_RATIO * entry.compress_size
