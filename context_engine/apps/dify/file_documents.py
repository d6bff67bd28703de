"""The documents of a file that Dify gave, read and cut by a process of their own, within limits."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

from context_engine.apps.dify.given_file import GivenFile
from context_engine.core.models import DocumentRule
from context_engine.errors import ContextEngineError, Overloaded
from context_engine.ingest import LOADERS, CutDocument, IngestOptions, LoadedDocument, Skipped, cut_loaded, read_one
from context_engine.ingest.workers import Item

MOST_TEXT: Final = 4 * 1024 * 1024
"""Most bytes of a text as JSON: Dify ends a plugin that writes a line of more than five of these megabytes."""

_PATIENCE_S: Final = 80.0
"""Of a call, until nothing more is waited for but one answer of a loader, 30 seconds at most: Dify's runtime ends it
after 120."""

_LIBRARIES: Final = ("lxml", "pdfplumber", "pypdfium2", "selectolax")
"""Of the extra `documents`, which a package of the plugin may leave out."""

_WITHOUT: Final = (
    *(".csv", ".eml", ".erb", ".json", ".jsonl", ".markdown", ".md", ".ndjson", ".rtf", ".tmpl", ".tsv", ".txt"),
)
"""What is read without them."""

_AT_ONCE: Final = 4
_readers = threading.BoundedSemaphore(_AT_ONCE)


class FileNotRead(ContextEngineError):
    """A file that gives no document, or more than a tool can give back."""

    code = "file_not_read"


class MissingFormat(ContextEngineError):
    """A file of a format whose libraries this package of the plugin was packed without."""

    code = "missing_format"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDocuments:
    """What a file gave.

    Attributes:
        name: the file's, as it is shown.
        documents: at least one, in the order of the file.
        skipped: parts of the file that gave none.
    """

    name: str
    documents: tuple[CutDocument, ...]
    skipped: tuple[Skipped, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What of the file was guessed or left out, one sentence each."""
        several = len(self.documents) > 1
        said = (
            f"{one.document.loaded.place}: {sentence}" if several else sentence
            for one in self.documents
            for sentence in one.document.warnings
        )
        return (*said, *map(str, self.skipped))


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
        MissingFormat: this package of the plugin cannot read it.
        Overloaded: too many files are being read.
    """
    _refuse_missing(given)
    due = time.monotonic() + _PATIENCE_S
    with given.fetched(authorities) as path:
        return _read(given.name, read_one(path, rule, options or IngestOptions(), name=given.name), due)


def text_documents(
    documents: Sequence[LoadedDocument], *, rule: DocumentRule | None = None, options: IngestOptions | None = None
) -> FileDocuments:
    """Return documents that were read before (at least one, of one file), cut.

    Raises:
        FileNotRead: they give nothing, or too much; says why and what to do.
        Overloaded: too many files are being read.
    """
    due = time.monotonic() + _PATIENCE_S
    return _read(documents[0].path, cut_loaded(documents, rule, options or IngestOptions()), due)


def _read(name: str, found: Generator[Item], due: float) -> FileDocuments:
    documents: list[CutDocument] = []
    skipped: list[Skipped] = []
    with closing(found), _turn(name, due):
        size = 0
        for one in found:
            if isinstance(one, CutDocument):
                documents.append(one)
                size += text_size(one.document.loaded.text)
                refuse_long(name, size)
            else:
                skipped.append(one[1])
            if time.monotonic() > due:
                raise FileNotRead(f"{name} takes longer than {_PATIENCE_S:g} s to be fetched and read: split it")
    lost = [one for one in skipped if one.error and one.line is None and one.path == name]
    if lost or not documents:
        raise FileNotRead("; ".join(map(str, lost or skipped)) or f"{name}: has no text")
    return FileDocuments(name=name, documents=tuple(documents), skipped=tuple(skipped))


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


def _refuse_missing(given: GivenFile) -> None:
    if given.suffix in _WITHOUT or given.suffix not in LOADERS or all(map(find_spec, _LIBRARIES)):
        return
    raise MissingFormat(
        f"{given.name} cannot be read: this package of the plugin was packed without the libraries for {given.suffix}, "
        f"and reads {', '.join(_WITHOUT)}. Pack it with 'context-engine plugin pack --extras documents' and install "
        "that, or give a file of one of these"
    )


@contextmanager
def _turn(name: str, due: float) -> Iterator[None]:
    """Wait for one of the few turns: a file may take half a gigabyte to be read."""
    if not _readers.acquire(timeout=max(due - time.monotonic(), 0.0)):
        raise Overloaded(f"{name} was not read: {_AT_ONCE} other files took all the time. Run the workflow again")
    try:
        yield
    finally:
        _readers.release()
