"""XML parts of an office file, read as far as they are sound; nothing outside the archive is ever opened."""

from __future__ import annotations

import errno
import zlib
from typing import Any, Final
from zipfile import BadZipFile, ZipFile

from context_engine.errors import MissingExtra

_BLOCK: Final = 1 << 16
_STRICT: Final = (  # ISO 29500 strict: (what its names begin with, what the names everyone else writes begin with)
    (b"http://purl.oclc.org/ooxml/officeDocument/", b"http://schemas.openxmlformats.org/officeDocument/2006/"),
    (b"http://purl.oclc.org/ooxml/drawingml/", b"http://schemas.openxmlformats.org/drawingml/2006/"),
    (b"http://purl.oclc.org/ooxml/wordprocessingml/", b"http://schemas.openxmlformats.org/wordprocessingml/2006/"),
    (b"http://purl.oclc.org/ooxml/presentationml/", b"http://schemas.openxmlformats.org/presentationml/2006/"),
)


class XmlParts:
    """The parts of an archive by name, whatever the case of its letters and whichever way its slashes lean.

    Args:
        archive: the file; entities and bombs were refused before.
        what: what is read, for the error where lxml is not installed.

    Attributes:
        problems: what could not be read, a line each.

    Raises:
        MissingExtra: lxml is not installed.
    """

    def __init__(self, archive: ZipFile, what: str) -> None:
        try:
            from lxml import etree
        except ImportError as error:
            raise MissingExtra(what, "documents") from error
        self._etree = etree
        self._archive = archive
        self._names = {_plain(name): name for name in archive.namelist()}
        self.problems: list[str] = []

    def __contains__(self, name: str) -> bool:
        return _plain(name) in self._names

    def names(self, start: str) -> list[str]:
        """Return the parts in a folder, in the order of their names."""
        return sorted(name for plain, name in self._names.items() if plain.startswith(start.lower()))

    def size(self, name: str) -> int:
        """Return how many bytes a part has unpacked."""
        return self._archive.getinfo(self._names[_plain(name)]).file_size

    def data(self, name: str) -> bytes:
        """Return a part as it stands, as far as it can be unpacked; empty where there is none."""
        entry = self._names.get(_plain(name))
        out = bytearray()
        if entry is None:
            return b""
        try:
            with self._archive.open(entry) as part:
                while block := part.read(_BLOCK):
                    out += block
        except (BadZipFile, EOFError, NotImplementedError, OSError, zlib.error) as error:
            if isinstance(error, OSError) and error.errno != errno.EINVAL:  # a place before the beginning of the file
                raise
            self.problems.append(f"{entry} is damaged: it cannot be unpacked to its end")
        return bytes(out)

    def root(self, name: str) -> Any | None:
        """Return the root element of a part, of a damaged one what is sound of it; None where there is nothing."""
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
            self.problems.append(line + ("it cannot be read" if root is None else "what is sound of it was read"))
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
