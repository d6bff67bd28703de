"""Parts of a zip archive, with bounds on their size, and the XML in them."""

from __future__ import annotations

import errno
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, BinaryIO, Final
from zipfile import BadZipFile, ZipFile, ZipInfo

from context_engine.errors import MissingExtra
from context_engine.ingest.loaded_document import LoadedDocument, Skipped
from context_engine.ingest.loaders.source_file import SourceFile

_MOST_PART: Final = 64 << 20  # bytes of a part that lxml parses in memory
_MOST_ENTRIES: Final = 10_000
_MOST_RATIO: Final = 200  # of a part over _SMALL; what offices write stays below 100
_SMALL: Final = 16 << 20
_ENCRYPTED: Final = 0x1
_KINDS: Final = {
    "word/document": "DOCX", "xl/workbook": "XLSX", "ppt/presentation": "PPTX", "content": "ODT",
    "document": "DOCX", "workbook": "XLSX", "presentation": "PPTX",  # some programs write no folders
}  # fmt: skip
_CONTENT_TYPES: Final = "[Content_Types].xml"
_TYPES: Final = (  # of the main part, which some programs give another name
    (b"wordprocessingml.document.main+xml", "DOCX"), (b"spreadsheetml.sheet.main+xml", "XLSX"),
    (b"presentationml.presentation.main+xml", "PPTX"),
)  # fmt: skip
_MODULE: Final = re.compile(r"Basic/[^/]+/(?!(?:script|dialog)-l[bc]\.xml$)[^/]+$|Scripts/.+[^/]$")  # of ODF
_ROOT: Final = re.compile(rb"<[A-Za-z_]")
_BEFORE_ROOT: Final = re.compile(rb"<!--.*?-->|<\?.*?\?>", re.DOTALL)
_EXTERNAL: Final = re.compile(rb'<!DOCTYPE\s+[\w:.-]+\s+(?:PUBLIC\s+"[^"<>[]*"|SYSTEM)\s+"[^"<>[]*"\s*>')
_PROLOG: Final = 1 << 16
_BLOCK: Final = 1 << 16
_STRICT: Final = (  # namespaces of ISO 29500 Strict, and the transitional ones that most programs write
    (b"http://purl.oclc.org/ooxml/officeDocument/", b"http://schemas.openxmlformats.org/officeDocument/2006/"),
    (b"http://purl.oclc.org/ooxml/drawingml/", b"http://schemas.openxmlformats.org/drawingml/2006/"),
    (b"http://purl.oclc.org/ooxml/wordprocessingml/", b"http://schemas.openxmlformats.org/wordprocessingml/2006/"),
    (b"http://purl.oclc.org/ooxml/presentationml/", b"http://schemas.openxmlformats.org/presentationml/2006/"),
)


def check_archive(stream: BinaryIO, kind: str, most_bytes: int, most_part: int, *, main: str = "") -> str | None:
    """Return why an Office file is refused, None if it may be opened. Nothing is unpacked to disk.

    Args:
        kind: the expected format: "DOCX", "XLSX", "PPTX", "ODT", or another one with its `main` part.
        most_bytes: limit for all parts together, unpacked.
        most_part: limit in bytes for a part that the parser holds in memory.
        main: start of the main part's path, in lower case, for a format other than the four.
    """
    try:
        with ZipFile(stream) as archive:
            return _refused(archive, kind, {main: kind, **_KINDS} if main else _KINDS, most_bytes, most_part)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a seek before the start of the file
            raise
    except (BadZipFile, EOFError, ValueError, OverflowError, NotImplementedError):  # the last: an unknown compression
        pass
    return "is damaged or cut off: it is not a complete zip archive"


def in_archive(
    file: SourceFile, kind: str, most_bytes: int, read: Callable[[ZipFile], LoadedDocument | Skipped]
) -> Iterator[LoadedDocument | Skipped]:
    """Yield the document that `read` makes of an Office file, or the reason why it is refused."""
    with file.open() as stream:
        if refused := check_archive(stream, kind, most_bytes, _MOST_PART):
            yield Skipped(file.name, refused)
            return
        with ZipFile(stream) as archive:
            yield read(archive)


def _refused(archive: ZipFile, kind: str, kinds: Mapping[str, str], most_bytes: int, most_part: int) -> str | None:
    entries = archive.infolist()
    names = {entry.filename for entry in entries}
    total = sum(entry.file_size for entry in entries)
    if len(entries) > _MOST_ENTRIES or len(names) < len(entries):
        return "has too many parts, or two with the same name: no office program wrote it"
    if any(entry.flag_bits & _ENCRYPTED for entry in entries):
        return "is encrypted: save it without a password"
    if any(_leads_out(name) for name in names):
        return "has parts whose names lead out of the archive: no office program wrote it"
    if kind == "XLSX" and "xl/workbook.bin" in names:
        return "is a binary workbook (.xlsb): save it as .xlsx"
    actual = next(
        (name_of_kind for start, name_of_kind in kinds.items() if any(_is_main(name, start) for name in names)), None
    )
    if actual is None and _CONTENT_TYPES in names:
        actual = _typed(archive)
    if actual != kind:
        actual = actual or "a zip archive that is not an Office file"
        return f"is {actual}, not {kind}: its suffix does not fit its content"
    if kind in _KINDS.values() and any(map(_is_macro, names)):  # the scripts of a book are no macros
        return "holds macros: save it without them"
    if total > most_bytes:
        return f"unpacks to {total:,} bytes, at most {most_bytes:,} are read"
    bomb = next((entry for entry in entries if _swells(entry)), None)
    if bomb:
        return f"unpacks {bomb.filename} to {bomb.file_size // max(1, bomb.compress_size)} times its size: a zip bomb"
    return _refused_part(archive, entries, most_part)


def _typed(archive: ZipFile) -> str | None:
    """Return the format that the types of the parts name."""
    try:
        with archive.open(_CONTENT_TYPES) as part:
            types = part.read(_PROLOG)
    except (BadZipFile, NotImplementedError, zlib.error):
        return None
    return next((kind for name, kind in _TYPES if name in types), None)


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
            continue  # reported when the part is read
        if _declares(prolog):
            return f"has a part {entry.filename} with a document type (entities), which is not read"
    return None


def _declares(prolog: bytes) -> bool:
    """Whether XML has a document type, or could have one after the examined prolog.

    One that only names a file, as formulas of OpenOffice do, is none: the file is never fetched.
    """
    prolog = _EXTERNAL.sub(b"", prolog, count=1)
    if b"<!DOCTYPE" in prolog or b"<!ENTITY" in prolog:
        return True
    bare = _BEFORE_ROOT.sub(b"", prolog)
    root = _ROOT.search(bare)
    return b"<!--" in bare[: root.start() if root else None] or (root is None and len(prolog) >= _PROLOG // 2)


def _is_macro(name: str) -> bool:
    return PurePosixPath(name).name.lower() == "vbaproject.bin" or _MODULE.match(name) is not None


def _is_main(name: str, start: str) -> bool:
    plain = name.replace("\\", "/").lower()
    return plain.startswith(start) and plain.endswith(".xml") and "/" not in plain[len(start) :]


def _leads_out(name: str) -> bool:
    return name.startswith(("/", "\\")) or ".." in re.split(r"[/\\]", name) or name[1:2] == ":"


def _swells(entry: ZipInfo) -> bool:
    return entry.file_size > _SMALL and entry.file_size > _MOST_RATIO * entry.compress_size


class XmlParts:
    """The parts of an archive by name; letter case and the direction of slashes do not matter.

    Args:
        archive: the file, already checked by `check_archive`.
        kind: the feature, for the error if lxml is not installed.

    Attributes:
        problems: one line for each part that could not be read.

    Raises:
        MissingExtra: lxml is not installed.
    """

    def __init__(self, archive: ZipFile, kind: str) -> None:
        try:
            from lxml import etree
        except ImportError as error:
            raise MissingExtra(kind, "documents") from error
        self._etree = etree
        self._archive = archive
        self._names = {_plain(name): name for name in archive.namelist()}
        self.problems: list[str] = []

    def __contains__(self, name: str) -> bool:
        return _plain(name) in self._names

    def names(self, start: str) -> list[str]:
        """Return the parts in a folder, sorted by name."""
        return sorted(name for plain, name in self._names.items() if plain.startswith(start.lower()))

    def size(self, name: str) -> int:
        """Return the unpacked size of a part in bytes."""
        return self._archive.getinfo(self._names[_plain(name)]).file_size

    def data(self, name: str) -> bytes:
        """Return a part's bytes as far as they can be unpacked; b"" if the part is missing."""
        entry = self._names.get(_plain(name))
        out = bytearray()
        if entry is None:
            return b""
        try:
            with self._archive.open(entry) as part:
                while block := part.read(_BLOCK):
                    out += block
        except (BadZipFile, EOFError, NotImplementedError, OSError, zlib.error) as error:
            if isinstance(error, OSError) and error.errno != errno.EINVAL:  # a seek before the start of the file
                raise
            self.problems.append(f"{entry} is damaged: it cannot be unpacked to its end")
        return bytes(out)

    def root(self, name: str) -> Any | None:
        """Return a part's root element, recovered as far as possible if damaged; None if missing or unreadable."""
        data = self.data(name)
        if not data.strip():
            return None
        for old, new in _STRICT if b"://purl.oclc.org/ooxml/" in data else ():
            data = data.replace(old, new)
        try:
            return self._etree.fromstring(data, self._parser(recover=False))
        except self._etree.XMLSyntaxError as error:
            root = self._recovered(data)
            line = f"{name} is damaged (line {error.lineno or 1}): "
            self.problems.append(line + ("it cannot be read" if root is None else "only its sound part was read"))
            return root

    def _recovered(self, data: bytes) -> Any | None:
        try:
            return self._etree.fromstring(data, self._parser(recover=True))
        except self._etree.XMLSyntaxError:
            return None

    def _parser(self, *, recover: bool) -> Any:
        return self._etree.XMLParser(
            resolve_entities=False,
            no_network=True,
            load_dtd=False,
            remove_comments=True,
            remove_pis=True,
            recover=recover,
        )


def _plain(name: str) -> str:
    return name.replace("\\", "/").lstrip("/").lower()
