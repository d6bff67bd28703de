"""Books and manuals: `.epub`, versions 2 and 3.

Read: the pages in the order of the book, each like a web page that stands alone (notes, boxes and heads of chapters are
content); a page without a heading has that of the table of contents. Fields: title, author and dates of the package.
Reported, not read: the cover and pages of contents with words of their own, pages in other formats, missing or damaged
ones. Not read: the list for navigation, pictures, scripts; nothing is fetched. Refused: pages encrypted against copying
(DRM), zip bombs.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import unquote
from zipfile import ZipFile

from context_engine.core.models import Notice, NoticeCode
from context_engine.errors import MissingExtra
from context_engine.ingest.header import header_fields, moment, real_properties
from context_engine.ingest.loaded_document import (
    LoadedDocument,
    Skipped,
    contents_left_out,
    file_notice,
    missing,
    quoted,
    without_text,
)
from context_engine.ingest.loaders.archive import XmlParts, check_archive
from context_engine.ingest.loaders.docx_file import damaged
from context_engine.ingest.loaders.encoding import decoded
from context_engine.ingest.loaders.html_file import page_text
from context_engine.ingest.loaders.markdown import heading, one_line
from context_engine.ingest.loaders.source_file import SourceFile

_MOST_UNPACKED: Final = 512 << 20
_MOST_PART: Final = 64 << 20
_PAGES: Final = ("application/xhtml+xml", "text/html", "application/x-dtbook+xml", "text/x-oeb1-document")
_FONTS_ONLY: Final = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
_PROTECTED: Final = "is protected against copying (DRM): take a copy without the protection from its publisher"
_COVER: Final = re.compile(r"(?i)cover[-_ ]?(?:page)?(?:\.x?html?)?")
_HEADING: Final = re.compile(r"^#{1,6} ", re.MULTILINE)
_AS_XHTML: Final = '<?xml version="1.0"?>'


class _Item(NamedTuple):
    path: str
    name: str
    media: str
    properties: tuple[str, ...]


def load_epub(file: SourceFile) -> Iterator[LoadedDocument | Skipped]:
    """Yield the document of a book."""
    with file.open() as stream:
        if refused := check_archive(stream, "EPUB", _MOST_UNPACKED, _MOST_PART, main="meta-inf/container"):
            yield Skipped(file.name, refused)
            return
        with ZipFile(stream) as archive:
            yield _loaded(XmlParts(archive, "reading .epub files"), file)


def _loaded(parts: XmlParts, file: SourceFile) -> LoadedDocument | Skipped:
    path = _package(parts)
    root = parts.root(path)
    if root is None:
        return Skipped(file.name, "has no list of its pages: it is damaged, or no EPUB")
    items = _items(root, path)
    spine = [items[name] for entry in root.iter("{*}itemref") if (name := entry.get("idref")) in items]
    if _encrypted(parts).intersection(item.path.lower() for item in spine):
        return Skipped(file.name, _PROTECTED)
    book = _Book(parts, _guide(root, path), _labels(parts, root, items, path))
    for item in spine:
        book.add(item)
    text = "\n\n".join(book.texts)
    notices = (*book.notices(text), *damaged(parts.problems))
    if not text:
        return without_text(
            file.name, notices, pictures=any(item.media.startswith("image/") for item in items.values())
        )
    return LoadedDocument(path=file.name, text=text, fields=_fields(root), header=header_fields(text), notices=notices)


def _package(parts: XmlParts) -> str:
    container = parts.root("META-INF/container.xml")
    files = [] if container is None else [entry.get("full-path") or "" for entry in container.iter("{*}rootfile")]
    return next((unquote(path) for path in files if path), "")


def _items(root: Any, package: str) -> dict[str, _Item]:
    out = {}
    for entry in root.iter("{*}item"):
        name, kinds = entry.get("id") or "", (entry.get("properties") or "").split()
        out[name] = _Item(_target(package, entry.get("href")), name, entry.get("media-type") or "", tuple(kinds))
    return out


def _target(base: str, address: str | None) -> str:
    """Return the part that an address in the part `base` leads to."""
    path = unquote((address or "").partition("#")[0])
    return posixpath.normpath(posixpath.join(posixpath.dirname(base), path)) if path else ""


def _encrypted(parts: XmlParts) -> set[str]:
    """Return the encrypted parts in lower case, except fonts, which are only disguised."""
    root = parts.root("META-INF/encryption.xml")
    out: set[str] = set()
    for entry in () if root is None else root.iter("{*}EncryptedData"):
        method = entry.find("{*}EncryptionMethod")
        if method is None or method.get("Algorithm") not in _FONTS_ONLY:
            out |= {unquote(part.get("URI") or "").lower() for part in entry.iter("{*}CipherReference")}
    return out


def _guide(root: Any, package: str) -> dict[str, str]:
    """Return the pages that version 2 names by their kind: "cover", "toc", "text" …"""
    return {_target(package, part.get("href")): (part.get("type") or "").lower() for part in root.iter("{*}reference")}


def _labels(parts: XmlParts, root: Any, items: dict[str, _Item], package: str) -> dict[str, str]:
    """Return the heading of each page in the table of contents."""
    out: dict[str, str] = {}
    for item in items.values():
        if "nav" in item.properties:
            for link in _parsed(parts.data(item.path).decode("utf-8", "replace")).css("nav a[href]"):
                out.setdefault(_target(item.path, link.attributes.get("href")), one_line(link.text()))
    listed = next((spine.get("toc") for spine in root.iter("{*}spine")), "")
    path = items[listed].path if listed in items else ""
    contents = parts.root(path)
    for point in () if contents is None else contents.iter("{*}navPoint"):
        content = point.find("{*}content")
        label = one_line(point.findtext("{*}navLabel/{*}text") or "")
        out.setdefault(_target(path, None if content is None else content.get("src")), label)
    return out


def _parsed(text: str) -> Any:
    try:
        from selectolax.lexbor import LexborHTMLParser
    except ImportError as error:
        raise MissingExtra("reading .epub files", "documents") from error
    return LexborHTMLParser(text)


def _fields(root: Any) -> dict[str, Any]:
    modified = (meta.text or "" for meta in root.iter("{*}meta") if meta.get("property") == "dcterms:modified")
    authors = [one_line(author.text or "") for author in root.iter("{http://purl.org/dc/elements/1.1/}creator")]
    properties: dict[str, Any] = {
        "title": root.findtext(".//{http://purl.org/dc/elements/1.1/}title"),
        "author": ", ".join(filter(None, authors)),
        "created": moment((root.findtext(".//{http://purl.org/dc/elements/1.1/}date") or "").strip()),
        "modified": moment(next(modified, "").strip()),
    }
    return real_properties(properties)


class _Book:
    """Takes the pages of a book.

    Args:
        guide: the kinds of pages by their paths.
        labels: headings of pages by their paths.

    Attributes:
        texts: one of each page that has words.
    """

    def __init__(self, parts: XmlParts, guide: dict[str, str], labels: dict[str, str]) -> None:
        self._parts, self._guide, self._labels = parts, guide, labels
        self._notices: dict[str, Notice] = {}
        self._cover: list[str] = []
        self._contents: list[str] = []
        self._other: list[str] = []
        self.texts: list[str] = []

    def add(self, item: _Item) -> None:
        if item.media not in _PAGES:
            self._other.append(item.path)
            return
        data = self._parts.data(item.path)
        page = decoded(data, item.path) if data else Skipped(item.path, "is missing or empty")
        if isinstance(page, Skipped):
            self._parts.problems.append(str(page))
            return
        kind = self._guide.get(item.path, "")
        if kind == "cover" or _COVER.fullmatch(item.name):
            self._cover += _lines(page.text)
        elif kind == "toc" or "nav" in item.properties:
            self._contents += _lines(page.text)
        else:
            self._read(item, page.text)

    def _read(self, item: _Item, text: str) -> None:
        page = page_text(_AS_XHTML + text, alone=True)
        self._notices |= {notice.message: notice for notice in page.notices}
        label = self._labels.get(item.path)
        if page.text.strip():
            above = "" if not label or _HEADING.search(page.text) else f"{heading(1, label).text}\n\n"
            self.texts.append(f"{above}{page.text.strip()}")

    def notices(self, text: str) -> Iterator[Notice]:
        """Yield what is not in the text of the book."""
        yield from self._notices.values()
        if self._contents:
            yield contents_left_out(self._contents, text)
        if cover := missing(self._cover, text):
            yield file_notice(NoticeCode.BOILERPLATE_LEFT_OUT, f"cover set aside: {quoted(cover)}", kind="cover")
        if self._other:
            unread = f"pages in other formats are not read: {', '.join(self._other)}"
            yield file_notice(NoticeCode.EMBEDDED_NOT_READ, unread, names=self._other)


def _lines(page: str) -> list[str]:
    body = _parsed(page).body
    return [] if body is None else [line for line in map(one_line, body.text(separator="\n").splitlines()) if line]
