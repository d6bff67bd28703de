"""The documents of a file that Dify gave, read and cut by a process of their own, within limits."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Final

from context_engine.apps.dify.given_file import GivenFile
from context_engine.core.models import DocumentRule
from context_engine.errors import ContextEngineError, Overloaded
from context_engine.ingest import CutDocument, IngestOptions, Skipped, read_one

__all__ = ["MOST_TEXT", "FileDocuments", "FileNotRead", "file_documents", "refuse_long", "text_size"]

MOST_TEXT: Final = 4 * 1024 * 1024
"""Most bytes of a text as JSON: Dify ends a plugin that writes a line of more than five of these megabytes."""

_READ_S: Final = 45.0
"""Beside a fetch of 60 seconds: Dify's runtime ends a call after 120."""

_AT_ONCE: Final = 4
_readers = threading.BoundedSemaphore(_AT_ONCE)


class FileNotRead(ContextEngineError):
    """A file that gives no document, or more than a tool can give back."""

    code = "file_not_read"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDocuments:
    """What a file gave.

    Attributes:
        name: the file's, as it is shown.
        documents: at least one, in the order of the file.
        warnings: what of the file was guessed or left out, one sentence each.
    """

    name: str
    documents: tuple[CutDocument, ...]
    warnings: tuple[str, ...]


def file_documents(
    given: GivenFile,
    *,
    rule: DocumentRule | None = None,
    options: IngestOptions | None = None,
    authorities: str | None = None,
) -> FileDocuments:
    """Fetch a file, read it, and return its documents, cut.

    Args:
        given: the file.
        rule: how it is cut; None takes that from the document.
        options: how it is cut, and what it may cost; the usual if None.
        authorities: PEM of certificates to trust when it is fetched, beside the usual ones.

    Raises:
        FileNotFetched: it could not be fetched.
        FileNotRead: it gives no document, or too much; says why and what to do.
        Overloaded: too many files are being read.
    """
    documents: list[CutDocument] = []
    skipped: list[Skipped] = []
    with given.fetched(authorities) as path, _turn(given.name):
        due, size = time.monotonic() + _READ_S, 0
        with closing(read_one(path, rule, options or IngestOptions(), name=given.name)) as found:
            for one in found:
                if isinstance(one, CutDocument):
                    documents.append(one)
                    size += text_size(one.document.loaded.text)
                    refuse_long(given.name, size)
                else:
                    skipped.append(one[1])
                if time.monotonic() > due:
                    raise FileNotRead(f"{given.name} takes longer than {_READ_S:g} s to be read: split it")
    lost = [one for one in skipped if one.error and one.line is None and one.path == given.name]
    if lost or not documents:
        raise FileNotRead("; ".join(map(str, lost or skipped)) or f"{given.name}: has no text")
    return FileDocuments(name=given.name, documents=tuple(documents), warnings=_warnings(documents, skipped))


def text_size(text: str) -> int:
    """Return the bytes that a text takes as Dify's runtime writes it: JSON in UTF-8.

    >>> text_size('say "é"\\n')
    12
    """
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")) - 2


def refuse_long(name: str, size: int) -> None:
    """Refuse a text that does not fit into one message of the plugin.

    Args:
        name: of the file.
        size: bytes, as `text_size` counts them.

    Raises:
        FileNotRead: it does not.
    """
    if size > MOST_TEXT:
        most = MOST_TEXT // 1024 // 1024
        raise FileNotRead(
            f"{name} gives more than {most} MiB of text, which Dify's plugin runtime cannot carry: split it"
        )


def _warnings(documents: list[CutDocument], skipped: list[Skipped]) -> tuple[str, ...]:
    several = len(documents) > 1
    said = [
        f"{one.document.loaded.place}: {sentence}" if several else sentence
        for one in documents
        for sentence in one.document.warnings
    ]
    return (*said, *map(str, skipped))


@contextmanager
def _turn(name: str) -> Iterator[None]:
    """Wait for one of the few turns: a file may take half a gigabyte to be read."""
    if not _readers.acquire(timeout=_READ_S):
        problem = f"{name} was not read: {_AT_ONCE} other files took all the time. Run the workflow again"
        raise Overloaded(problem, retry_after_s=_READ_S)
    try:
        yield
    finally:
        _readers.release()
