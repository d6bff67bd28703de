"""A file that Dify hands to a tool: its name, and the address from which the plugin fetches it.

The address carries a signature that opens the file for some minutes to whoever has it: it shows in no error and no log.
"""

from __future__ import annotations

import mimetypes
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

from context_engine.adapters.http import InsideAddress, TooLarge, Untrusted, download
from context_engine.errors import (
    ContextEngineError,
    InvalidRequest,
    SourceError,
    SourceForbidden,
    SourceNotFound,
)
from context_engine.ingest import LOADERS, MOST_BYTES, shown_name

_FETCH_S: Final = 60.0
_MOST_NAME: Final = 200
_ADDRESS: Final = (
    "Set INTERNAL_FILES_URL (or FILES_URL) in the .env of Dify to the address at which the container of the plugin "
    "daemon reaches Dify's API, e.g. http://api:5001, and restart Dify"
)
_DIFYS: Final = re.compile(
    r".*/files/(?:\w+/)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:\.\w+|/(?:file|image)-preview)"
)
"""The path of a file that Dify holds; any other address is a link that some user gave."""

_LINKED: Final = "It was given as a link: upload the file to Dify instead"
_EXPIRED: Final = (
    "The address is good for FILES_ACCESS_TIMEOUT seconds (300 in Dify as delivered): run the workflow again. If it is "
    "refused again, something between the plugin and Dify refuses it"
)
_REMEDIES: Final[Mapping[type[SourceError], str]] = {
    SourceForbidden: _EXPIRED,
    SourceNotFound: f"If it was not deleted in Dify, the address leads to another place. {_ADDRESS}",
    InsideAddress: _LINKED,
    Untrusted: "Enter the certificate of its authority as 'CA certificate' in the plugin's credentials",
}


class FileNotFetched(ContextEngineError):
    """A file that Dify gave could not be fetched from the address that Dify gave with it."""

    code = "file_not_fetched"


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenFile:
    """A file of a tool's form.

    Attributes:
        name: its file name, as `shown_name` writes it; ends in `suffix`.
        suffix: says what it is, in lower case with its dot; "" where nothing says so.
        address: http or https URL, a secret.
        size: its bytes as Dify says; None where it does not.
    """

    name: str
    suffix: str
    address: str = field(repr=False)
    size: int | None = None

    @classmethod
    def read(cls, fields: Mapping[str, Any], name: str = "file") -> Self | None:
        """Return the file of a field, None where the field is empty.

        Args:
            fields: of the form; a file is an object with `url`, `filename`, `extension`, `mime_type` and `size`.
            name: of the field.

        Raises:
            InvalidRequest: something else stands there, or several files.
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
        said = value.get("filename")
        called = str(said).replace("\\", "/").rsplit("/", 1)[-1] if said else ""
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
        """Fetch the file and yield where it lies; it is removed afterwards.

        Args:
            authorities: PEM of certificates to trust beside the usual ones.

        Raises:
            FileNotFetched: it could not be fetched, or is too large; says why and what to set.
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
        """Whether Dify holds it: its address has the path and the signature of such a file."""
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
        """Refuse an address that is not whole, as Dify gives it while it knows none of its own."""
        try:
            parts = urlsplit(self.address)
            whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            whole = False
        if not whole:
            raise FileNotFetched(f"Dify gave no whole address for {self.name}, so it cannot be fetched. {_ADDRESS}.")

    def _origin(self) -> str:
        """Return where it is fetched from, without path, query and user."""
        parts = urlsplit(self.address)
        port = "" if parts.port is None else f":{parts.port}"
        return f"{parts.scheme}://{parts.hostname}{port}"


def _suffix(called: str, value: Mapping[str, Any]) -> str:
    """Return the first suffix that a loader reads, else the first of all: of the name, of the file, of its type."""
    extension, kind = str(value.get("extension") or ""), str(value.get("mime_type") or "")
    if extension and not extension.startswith("."):
        extension = f".{extension}"
    guessed = mimetypes.guess_extension(kind.partition(";")[0].strip()) or ""
    found = [one.lower() for one in (Path(called).suffix, extension, guessed) if one and "/" not in one]
    return next((one for one in found if one in LOADERS), found[0] if found else "")
