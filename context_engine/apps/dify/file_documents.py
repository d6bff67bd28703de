"""A file that Dify passes to a tool: downloaded, then parsed and cut in a separate process.

The download address has a signature that opens the file for some minutes, so it appears in no error and no log."""

from __future__ import annotations

import json
import mimetypes
import re
import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

from context_engine.adapters.http import InsideAddress, TooLarge, Untrusted, download
from context_engine.core.models import DocumentRule
from context_engine.errors import (
    ContextEngineError,
    InvalidRequest,
    Overloaded,
    SourceError,
    SourceForbidden,
    SourceNotFound,
)
from context_engine.ingest.files import shown_name
from context_engine.ingest.loaded_document import LoadedDocument, Skipped
from context_engine.ingest.loaders import LOADERS, MOST_BYTES
from context_engine.ingest.reading import CutDocument, IngestOptions
from context_engine.ingest.workers import Item, cut_loaded, read_one

_FETCH_S: Final = 60.0
_MOST_NAME: Final = 200

_ADDRESS: Final = (
    "Set INTERNAL_FILES_URL (or FILES_URL) in the .env of Dify to the address at which the container of the plugin "
    "daemon reaches Dify's API, e.g. http://api:5001, and restart Dify"
)

_DIFYS: Final = re.compile(
    r".*/files/(?:\w+/)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:\.\w+|/(?:file|image)-preview)"
)
"""The path of a file that Dify stores; any other address is a link from a user."""

_LINKED: Final = "It was given as a link: upload the file to Dify instead"

_EXPIRED: Final = (
    "The address is valid for FILES_ACCESS_TIMEOUT seconds (Dify's default: 300): run the workflow again. If it is "
    "refused again, a proxy between the plugin and Dify refuses it"
)

_REMEDIES: Final[Mapping[type[SourceError], str]] = {
    SourceForbidden: _EXPIRED,
    SourceNotFound: f"If it was not deleted in Dify, the address is that of another server. {_ADDRESS}",
    InsideAddress: _LINKED,
    Untrusted: "Enter the certificate of its authority as 'CA certificate' in the plugin's credentials",
}


class FileNotFetched(ContextEngineError):
    """A file could not be downloaded from the address that Dify gave."""

    code = "file_not_fetched"


@dataclass(frozen=True, slots=True, kw_only=True)
class DifyFile:
    """A file in a tool's form.

    Attributes:
        name: its file name, as written by `shown_name`; ends in `suffix`.
        suffix: the format, in lower case with its dot, or "" if unknown.
        address: http or https URL, a secret.
        size: in bytes, as stated by Dify, or None.
    """

    name: str
    suffix: str
    address: str = field(repr=False)
    size: int | None = None

    @classmethod
    def read(cls, fields: Mapping[str, Any], name: str = "file") -> Self | None:
        """Return the file in a field, or None if the field is empty.

        Args:
            fields: of the form; a file is an object with `url`, `filename`, `extension`, `mime_type` and `size`.

        Raises:
            InvalidRequest: the value is not a file, or is several files.
        """
        value = fields.get(name)
        if value is None or value == "" or value == []:
            return None
        if isinstance(value, list):
            if len(value) > 1:
                raise InvalidRequest(f"{name} holds {len(value)} files: give one, from an Iteration node for example")
            (value,) = value
        if not isinstance(value, Mapping) or not isinstance(value.get("url"), str):
            raise InvalidRequest(f"{name} must be a file of Dify's, got {type(value).__name__}: choose a file variable")
        file_name = value.get("filename")
        called = str(file_name).replace("\\", "/").rsplit("/", 1)[-1] if file_name else ""
        suffix = _suffix(called, value)
        stem = called[: len(called) - len(suffix)] if called.lower().endswith(suffix) else called
        size = value.get("size")
        return cls(
            name=shown_name(f"{(stem or 'file')[:_MOST_NAME]}{suffix}"),
            suffix=suffix,
            address=value["url"],
            size=size if isinstance(size, int) and size >= 0 else None,
        )

    @contextmanager
    def fetched(self, authorities: str | None = None) -> Iterator[Path]:
        """Download the file and yield its path; it is removed afterwards.

        Args:
            authorities: PEM of certificates to trust beside the usual ones.

        Raises:
            FileNotFetched: the download failed, or the file is too large; the message says why and what to set.
        """
        self._refuse_size(self.size or 0)
        self._refuse_address()
        with tempfile.TemporaryDirectory(prefix="context-engine-file-") as folder:
            path = Path(folder) / f"file{self.suffix}"
            with path.open("wb") as target:
                problem = self._download(target, authorities)
            if problem is not None:
                raise problem
            yield path

    @property
    def is_difys(self) -> bool:
        """Whether Dify stores the file: its address has the path and the signature of such a file."""
        parts = urlsplit(self.address)
        return bool(_DIFYS.fullmatch(parts.path)) and "sign" in parse_qs(parts.query)

    def _download(self, target: Any, authorities: str | None) -> FileNotFetched | None:
        try:
            download(
                self.address,
                target,
                most_bytes=MOST_BYTES,
                seconds=_FETCH_S,
                authorities=authorities,
                outside_only=not self.is_difys,
            )
        except TooLarge as error:
            return FileNotFetched(f"{self.name} {error.problem}, at most {MOST_BYTES:,} are read: split it")
        except SourceError as error:
            remedy = _REMEDIES.get(type(error), _ADDRESS)
            return FileNotFetched(f"{self.name} could not be fetched from {self._origin()}: {error.problem}. {remedy}.")
        return None

    def _refuse_size(self, size: int) -> None:
        if size > MOST_BYTES:
            raise FileNotFetched(f"{self.name} has {size:,} bytes, at most {MOST_BYTES:,} are read: split it")

    def _refuse_address(self) -> None:
        """Refuse an incomplete address, which Dify sends if its own address is not configured."""
        try:
            parts = urlsplit(self.address)
            complete = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            complete = False
        if not complete:
            raise FileNotFetched(
                f"Dify gave an incomplete address for {self.name}, so it cannot be fetched. {_ADDRESS}."
            )

    def _origin(self) -> str:
        """Return the origin of the address, without path, query and user."""
        parts = urlsplit(self.address)
        port = "" if parts.port is None else f":{parts.port}"
        return f"{parts.scheme}://{parts.hostname}{port}"


def _suffix(called: str, value: Mapping[str, Any]) -> str:
    """Return the first suffix with a loader among those of name, extension and type; otherwise the first of them."""
    extension, kind = str(value.get("extension") or ""), str(value.get("mime_type") or "")
    if extension and not extension.startswith("."):
        extension = f".{extension}"
    guessed = mimetypes.guess_extension(kind.partition(";")[0].strip()) or ""
    suffixes = [suffix.lower() for suffix in (Path(called).suffix, extension, guessed) if suffix and "/" not in suffix]
    return next((suffix for suffix in suffixes if suffix in LOADERS), suffixes[0] if suffixes else "")


MOST_TEXT: Final = 4 * 1024 * 1024
"""Most bytes of a text as JSON: Dify stops a plugin that writes a line of more than 5 MiB."""

_PATIENCE_S: Final = 80.0
"""Seconds of a call after which no further wait begins. The last wait, for a loader, takes at most 30 s, and Dify's
runtime ends the call after 120 s."""

_LIBRARIES: Final = ("lxml", "pdfplumber", "pypdfium2", "selectolax")
"""Formats of the extra `documents`, which a plugin package may omit."""

_WITHOUT: Final = (
    *(".csv", ".eml", ".erb", ".ipynb", ".json", ".jsonl", ".markdown", ".md", ".ndjson", ".rtf", ".tmpl", ".tsv"),
    ".txt",
)
"""Formats read without that extra."""

_AT_ONCE: Final = 4
_readers = threading.BoundedSemaphore(_AT_ONCE)


class FileNotRead(ContextEngineError):
    """A file that has no document, or more than a tool can return."""

    code = "file_not_read"


class MissingFormat(ContextEngineError):
    """A file format whose libraries this plugin package does not include."""

    code = "missing_format"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDocuments:
    """The documents of a file, cut.

    Attributes:
        name: the file's display name.
        documents: at least one, in the order of the file.
        skipped: parts of the file without a document.
    """

    name: str
    documents: tuple[CutDocument, ...]
    skipped: tuple[Skipped, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Guesses and omissions, one sentence each."""
        several = len(self.documents) > 1
        sentences = (
            f"{document.document.loaded.place}: {sentence}" if several else sentence
            for document in self.documents
            for sentence in document.document.warnings
        )
        return (*sentences, *map(str, self.skipped))


def file_documents(
    file: DifyFile,
    *,
    rule: DocumentRule | None = None,
    options: IngestOptions | None = None,
    authorities: str | None = None,
) -> FileDocuments:
    """Download a file, parse it, and return its documents, cut.

    Args:
        rule: how to cut it; None to decide by the document.
        options: the chunking table and the limits; None for the defaults.
        authorities: PEM of certificates to trust for the download, beside the usual ones.

    Raises:
        FileNotFetched: the download failed.
        FileNotRead: no document, or too much text; the message says why and what to do.
        MissingFormat: this plugin package cannot read the format.
        Overloaded: too many files are being read.
    """
    _refuse_missing(file)
    due = time.monotonic() + _PATIENCE_S
    with file.fetched(authorities) as path:
        return _read(file.name, read_one(path, rule, options or IngestOptions(), name=file.name), due)


def text_documents(
    documents: Sequence[LoadedDocument], *, rule: DocumentRule | None = None, options: IngestOptions | None = None
) -> FileDocuments:
    """Cut documents that are already parsed (at least one, of one file).

    Raises:
        FileNotRead: no text, or too much; the message says why and what to do.
        Overloaded: too many files are being read.
    """
    due = time.monotonic() + _PATIENCE_S
    return _read(documents[0].path, cut_loaded(documents, rule, options or IngestOptions()), due)


def _read(name: str, items: Generator[Item], due: float) -> FileDocuments:
    documents: list[CutDocument] = []
    skipped: list[Skipped] = []
    with closing(items), _turn(name, due):
        size = 0
        for item in items:
            if isinstance(item, CutDocument):
                documents.append(item)
                size += text_size(item.document.loaded.text)
                refuse_long(name, size)
            else:
                skipped.append(item[1])
            if time.monotonic() > due:
                raise FileNotRead(f"{name} takes longer than {_PATIENCE_S:g} s to download and read: split it")
    lost = [skip for skip in skipped if skip.error and skip.line is None and skip.path == name]
    if lost or not documents:
        raise FileNotRead("; ".join(map(str, lost or skipped)) or f"{name}: has no text")
    return FileDocuments(name=name, documents=tuple(documents), skipped=tuple(skipped))


def text_size(text: str) -> int:
    """Return the size in bytes of a text as JSON in UTF-8, the form in which Dify's runtime writes it.

    >>> text_size('say "é"\\n')
    12
    """
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")) - 2


def refuse_long(name: str, size: int) -> None:
    """Refuse a text of more bytes (by `text_size`) than fit into one message of the plugin.

    Raises:
        FileNotRead: the text is too long.
    """
    if size > MOST_TEXT:
        most = MOST_TEXT // 1024 // 1024
        raise FileNotRead(
            f"{name} gives more than {most} MiB of text, which Dify's plugin runtime cannot transmit: split it"
        )


def _refuse_missing(file: DifyFile) -> None:
    if file.suffix in _WITHOUT or file.suffix not in LOADERS or all(map(find_spec, _LIBRARIES)):
        return
    raise MissingFormat(
        f"{file.name} cannot be read: this package of the plugin was packed without the libraries for {file.suffix}, "
        f"and reads {', '.join(_WITHOUT)}. Pack it with 'context-engine plugin pack --extras documents' and install "
        "that, or give a file of one of these"
    )


@contextmanager
def _turn(name: str, due: float) -> Iterator[None]:
    """Wait for one of a few slots, because parsing a file may take half a gigabyte."""
    if not _readers.acquire(timeout=max(due - time.monotonic(), 0.0)):
        raise Overloaded(
            f"{name} was not read: {_AT_ONCE} other files were being read for too long. Run the workflow again"
        )
    try:
        yield
    finally:
        _readers.release()
