"""A file that a loader reads: nothing but a regular file is opened, and read as it stood when it was opened."""

from __future__ import annotations

import io
import os
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


class UnreadableFile(Exception):
    """What a path leads to is not opened, or not read, and why."""


def kind_of(mode: int) -> str | None:
    """Return what something that is no regular file is called; None for a regular file.

    >>> kind_of(0o010644), kind_of(0o100644)
    ('a named pipe (FIFO)', None)
    """
    if stat.S_ISREG(mode):
        return None
    return next((name for is_one, name in _KINDS if is_one(mode)), "no regular file")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file inside the folder that is ingested.

    Attributes:
        path: where it is.
        name: its path relative to the folder, with "/"; what documents and errors are named by.
        settings: how it is read.
    """

    path: Path
    name: str
    settings: IngestSettings = field(default_factory=IngestSettings)

    def state(self) -> os.stat_result:
        """Return size, time of change and the like of what the path leads to; it is not opened.

        Raises:
            UnreadableFile: it is no regular file.
        """
        return _regular(self.path.stat())

    def read(self) -> bytes:
        """Return the whole content."""
        with self.open() as stream:
            return stream.read()

    def open(self) -> BinaryIO:
        """Open the content to be read piece by piece, as many bytes as the file has now, however it grows.

        Raises:
            UnreadableFile: it is no regular file, or one that gives more than it says it has.
        """
        self.state()  # to open a device may do something already
        raw = io.FileIO(self.path, opener=lambda path, _flags: os.open(path, _OPEN))
        try:
            size = _regular(os.fstat(raw.fileno())).st_size
            if size == 0 and raw.read(1):
                raise UnreadableFile("is no ordinary file: it says that it is empty, and gives something")
        except BaseException:
            raw.close()
            raise
        return io.BufferedReader(_Bounded(raw, size), 1 << 16)


def _regular(found: os.stat_result) -> os.stat_result:
    kind = kind_of(found.st_mode)
    if kind:
        raise UnreadableFile(f"is {kind}, which is not read: only files are")
    return found


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
"""From a file to its documents, and a `Skipped` for what gave none."""
