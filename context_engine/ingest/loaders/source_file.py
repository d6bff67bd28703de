"""Open files safely: only regular files, and only if the first bytes fit the suffix."""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from context_engine.core.models import IngestSettings
from context_engine.ingest.loaded_document import LoadedDocument, Skipped

_KINDS: Final = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe (FIFO)"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_OPEN: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
EMPTY: Final = "is empty"
"""The reason for a file without bytes; not an error."""
_OLD: Final = {".doc": ".docx", ".ppt": ".pptx", ".xls": ".xlsx"}
_SIGNS: Final[tuple[tuple[bytes, str, frozenset[str]], ...]] = (
    (b"PK\x05\x06", "an empty zip archive", frozenset()),
    (b"\x89PNG", "a PNG image", frozenset()),
    (b"\xff\xd8\xff", "a JPEG image", frozenset()),
    (b"GIF8", "a GIF image", frozenset()),
    (b"\x1f\x8b", "a gzip archive", frozenset()),
    (b"SQLite format 3", "an SQLite file", frozenset()),
)
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_BEFORE_OLE: Final = (
    *(b"\x09\x00", b"\x09\x02", b"\x09\x04", b"\x09\x08", b"\xdb\xa5", b"\x9b\xa5", b"\x31\xbe", b"<?xml"),
)
_RTF: Final = b"{\\rtf"
_PDF: Final = re.compile(rb"\s*%PDF-")
_HTML: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL
)
_TEXT: Final = (".htm", ".html", ".md", ".markdown", ".txt", ".eml", ".erb", ".tmpl")


class UnreadableFile(Exception):
    """A path does not lead to a readable regular file."""


def kind_of(mode: int) -> str | None:
    """Return the kind of a special file by its mode; None for a regular file.

    >>> kind_of(0o010644), kind_of(0o100644)
    ('a named pipe (FIFO)', None)
    """
    if stat.S_ISREG(mode):
        return None
    return next((name for is_kind, name in _KINDS if is_kind(mode)), "no regular file")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file inside the ingested folder.

    Attributes:
        name: its path relative to the folder, with "/", for documents and errors.
    """

    path: Path
    name: str
    settings: IngestSettings = field(default_factory=IngestSettings)

    def state(self) -> os.stat_result:
        """Return the `stat` of the file without opening it.

        Raises:
            UnreadableFile: it is not a regular file.
        """
        return _regular(self.path.stat())

    def read(self) -> bytes:
        """Return the whole content."""
        with self.open() as stream:
            return stream.read()

    def open(self) -> BinaryIO:
        """Open the content for streaming; the stream ends at the current size even if the file grows.

        Raises:
            UnreadableFile: not a regular file, or content although the size is 0.
        """
        self.state()  # before opening, because opening a device may have an effect
        raw = io.FileIO(self.path, opener=lambda path, _flags: os.open(path, _OPEN))
        try:
            size = _regular(os.fstat(raw.fileno())).st_size
            if size == 0 and raw.read(1):
                raise UnreadableFile("is not an ordinary file: its size is 0, but it has content")
        except BaseException:
            raw.close()
            raise
        return io.BufferedReader(_Bounded(raw, size), 1 << 16)


def _regular(state: os.stat_result) -> os.stat_result:
    kind = kind_of(state.st_mode)
    if kind:
        raise UnreadableFile(f"is {kind}, which is not read: only regular files are")
    return state


class _Bounded(io.RawIOBase):
    """The first `size` bytes of a file."""

    def __init__(self, raw: io.FileIO, size: int) -> None:
        self._raw, self._size = raw, size
        raw.seek(0)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._raw.fileno()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        left = max(self._size - self._raw.tell(), 0)
        return self._raw.readinto(memoryview(buffer)[:left]) or 0 if left else 0

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_END:
            return self._raw.seek(max(self._size + offset, 0))
        return self._raw.seek(offset, whence)

    def tell(self) -> int:
        return self._raw.tell()

    def close(self) -> None:
        self._raw.close()
        super().close()


Loader = Callable[[SourceFile], Iterator[LoadedDocument | Skipped]]
"""Yields the documents of a file, and a `Skipped` for each part that gave none."""


def mismatch(start: bytes, suffix: str, *, zipped: bool) -> str | None:
    """Return why a file's first bytes contradict its suffix; None if they do not.

    Args:
        start: the first bytes, at least 1024 if the file has them.
        zipped: whether files with this suffix are zip archives.
    """
    if not start:
        return EMPTY
    if start.startswith(_OLE):
        return _old_office(suffix, zipped=zipped)
    if _PDF.match(start):
        return None if suffix == ".pdf" else f"is a PDF, not {suffix}: rename it"
    if start.startswith(b"PK\x03\x04"):
        return None if zipped else _zipped(suffix)
    if start.lstrip().startswith(_RTF):
        return None if suffix == ".rtf" else f"is RTF, not {suffix}: rename it to .rtf"
    for sign, kind, suffixes in _SIGNS:
        if start.startswith(sign):
            return None if suffix in suffixes else f"is {kind}, not {suffix}"
    if _HTML.match(start) and suffix not in _TEXT:
        return f"is HTML, not {suffix}: rename it"
    return _no_sign(start, suffix, zipped=zipped)


def _old_office(suffix: str, *, zipped: bool) -> str | None:
    if suffix in _OLD or suffix == ".msg":
        return None
    if zipped:
        return f"is an old Office file, or one with a password: save it as {suffix} without a password"
    return f"is an old Office file, not {suffix}"


def _zipped(suffix: str) -> str:
    if suffix in _OLD:
        return f"is a zip archive, as {_OLD[suffix]} files are, not {suffix}: rename it to {_OLD[suffix]}"
    return f"is a zip archive (DOCX, XLSX), not {suffix}"


def _no_sign(start: bytes, suffix: str, *, zipped: bool) -> str | None:
    if suffix == ".xls" and not start.startswith(_BEFORE_OLE):
        return "does not begin like an .xls file; if it is a table as text, rename it to .csv"
    if suffix == ".doc" and not start.startswith(_BEFORE_OLE):
        return "does not begin like a .doc file; if it is text, rename it to .txt"
    if suffix == ".msg":
        return "does not begin like a .msg file; if it is a mail as text, rename it to .eml"
    if zipped or suffix in (".ppt", ".rtf"):
        return f"does not begin like a {suffix} file"
    if suffix == ".pdf" and b"%PDF-" not in start[:1024]:
        return "does not begin like a PDF"
    return None
