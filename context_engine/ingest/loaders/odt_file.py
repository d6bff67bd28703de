"""OpenDocument texts: `.odt`.

Read, in document order: headings by their level, lists with their marks, tables as pipe tables with a head of several
rows as one, text boxes and shapes below the paragraph they are anchored to, charts as tables and equations, footnotes,
endnotes and comments below their paragraph; page headers and footers once each, below the title; links with their
targets; struck words as `~~struck~~`, raised and lowered ones as in 10⁶ and CO₂; tracked changes as accepted, or as
`tracked_changes` says. Fields: properties a person wrote. Reported, not read: hidden text, tables of contents and
indexes, other objects, damaged parts. Not read: pictures, forms. Refused: macros, passwords, zip bombs, XML with a
document type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final
from zipfile import ZipFile

from context_engine.core.models import Notice, NoticeCode
from context_engine.ingest.header import header_fields, labelled, moment, real_properties
from context_engine.ingest.loaded_document import LoadedDocument, Skipped, contents_left_out, file_notice, without_text
from context_engine.ingest.loaders.archive import XmlParts, in_archive
from context_engine.ingest.loaders.docx_file import damaged, hidden_words
from context_engine.ingest.loaders.markdown import MarkdownBlock, joined, one_line
from context_engine.ingest.loaders.odt_text import OdtBody, qualified
from context_engine.ingest.loaders.ooxml import is_page_number
from context_engine.ingest.loaders.source_file import SourceFile

_MOST_UNPACKED: Final = 512 << 20
_TYPE: Final = b"application/vnd.oasis.opendocument.text"
_MARGINS: Final = (("header", "Page header"), ("footer", "Page footer"))
_META: Final = {
    "title": "{http://purl.org/dc/elements/1.1/}title",
    "author": qualified("meta", "initial-creator"),
    "created": qualified("meta", "creation-date"),
    "modified": "{http://purl.org/dc/elements/1.1/}date",
}


def load_odt(file: SourceFile) -> Iterator[LoadedDocument | Skipped]:
    """Yield the document of an OpenDocument text."""

    def read(archive: ZipFile) -> LoadedDocument | Skipped:
        parts = XmlParts(archive, "reading .odt files")
        return Skipped(file.name, why) if (why := _refused(parts)) else _loaded(parts, file)

    return in_archive(file, "ODT", _MOST_UNPACKED, read)


def _refused(parts: XmlParts) -> str | None:
    kind = parts.data("mimetype").strip()
    if kind and not kind.startswith(_TYPE):
        named = re.fullmatch(rb"application/vnd\.oasis\.opendocument\.([a-z-]{1,40})", kind)
        actual = f"an OpenDocument {named[1].decode()}" if named else "something else"
        return f"is {actual}, not a text (.odt): its suffix does not fit its content"
    if b"encryption-data" in parts.data("META-INF/manifest.xml"):
        return "is encrypted: save it without a password"
    return None


def _loaded(parts: XmlParts, file: SourceFile) -> LoadedDocument | Skipped:
    content, styles = parts.root("content.xml"), parts.root("styles.xml")
    unread: list[Notice] = []
    body = OdtBody(
        [root for root in (styles, content) if root is not None],
        file.settings.tracked_changes,
        lambda name: _object(parts, name, unread),
    )
    texts = [] if content is None else list(content.iter(qualified("office", "text")))
    blocks = [block for text in texts for block in body.blocks(text)]
    margins = [] if styles is None else _margins(styles, body)
    first = 1 if blocks and blocks[0].text.startswith("# ") else 0
    text = joined([*blocks[:first], *map(MarkdownBlock, margins), *blocks[first:]])
    fields = _fields(parts) | ({"title": body.title} if body.title else {})
    notices = (
        *damaged(parts.problems),
        *hidden_words(body.hidden),
        *([contents_left_out(body.contents, text)] if body.contents else []),
        *unread,
    )
    if not text.strip():
        pictures = any(parts.names(folder) for folder in ("Pictures/", "Object"))
        return without_text(file.name, notices, pictures=pictures)
    header = {
        **header_fields("\n".join(label for margin in margins for label in labelled(margin))),
        **header_fields(text),
    }
    return LoadedDocument(path=file.name, text=text, fields=fields, header=header, notices=notices, properties=True)


def _margins(styles: Any, body: OdtBody) -> list[str]:
    out: list[str] = []
    for name, label in _MARGINS:
        for ending in ("", "-first", "-left"):
            for element in styles.iter(qualified("style", f"{name}{ending}")):
                text = one_line(joined(body.blocks(element)))
                out += [] if is_page_number(text) or text == body.title else [f"{label}: {text}"]
    return list(dict.fromkeys(out))


def _object(parts: XmlParts, name: str, unread: list[Notice]) -> Sequence[MarkdownBlock]:
    """Return a chart as title and table, or an equation as its formula; any other object is reported."""
    root = parts.root(f"{name}/content.xml") if name else None
    if root is None:
        called = name or "one without a name"
        unread.append(
            file_notice(NoticeCode.EMBEDDED_NOT_READ, f"an embedded file is not read: {called}", names=[called])
        )
        return ()
    formula = root.find(".//{*}annotation")
    if formula is not None:
        return [MarkdownBlock(one_line(formula.text or ""))] if (formula.text or "").strip() else ()
    inner = OdtBody([root], "accept", lambda _: ())
    bodies = (
        [root] if root.find(f".//{qualified('office', 'body')}") is None else root.iter(qualified("office", "body"))
    )
    return [block for body in bodies for block in inner.blocks(body)]


def _fields(parts: XmlParts) -> dict[str, Any]:
    root = parts.root("meta.xml")
    if root is None:
        return {}
    properties: dict[str, Any] = {name: root.findtext(f".//{tag}") or "" for name, tag in _META.items()}
    stamped = re.compile(r"(\.\d{6})\d+")  # nanoseconds
    for name in ("created", "modified"):
        properties[name] = moment(stamped.sub(r"\1", properties[name]))
    return real_properties(properties)
