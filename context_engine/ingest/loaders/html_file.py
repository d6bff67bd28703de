"""Web pages: `.html`, `.htm`.

Read: the main content (`<main>`, the only `<article>`, else the body) with headings, lists, tables (cells that span
several rows repeated), definition lists, quotations and code; bold words as `**bold**`. The encoding is the file's
mark, UTF-8, the one its `<meta>` names, or a guess. Fields: title, author and dates of the page's head. Not read:
navigation, page heads and feet, asides, scripts, styles, forms' controls, hidden elements, pictures, frames, comments,
links' targets; nothing is fetched. Refused: elements nested over 5,000 deep.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from context_engine.errors import MissingExtra
from context_engine.ingest.header import header_fields
from context_engine.ingest.loaded import LoadedDocument, Skipped
from context_engine.ingest.loaders.encoding import decoded
from context_engine.ingest.loaders.html_blocks import HtmlBlocks
from context_engine.ingest.loaders.markdown import Block, joined, one_line
from context_engine.ingest.loaders.properties import moment, real_properties
from context_engine.ingest.loaders.source_file import SourceFile

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

__all__ = ["Page", "load_html", "page_text"]

_CHARSET: Final = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.IGNORECASE)
_HEAD: Final = 4096
_TAG: Final = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
_MOST_DEPTH: Final = 5_000  # the time of parsing grows with its square
_NO_DEPTH: Final = "area base br col embed hr img input link meta param source track wbr p li td th tr"
_VOID: Final = frozenset(_NO_DEPTH.split())
_MAIN: Final = ("main", "[role=main]", "article")
_LEAST_MAIN: Final = 200
_DATES: Final = {
    "created": ("article:published_time", "dcterms.created", "dcterms.issued", "dc.date", "date"),
    "modified": ("article:modified_time", "dcterms.modified", "last-modified"),
}


def load_html(file: SourceFile) -> Iterator[LoadedDocument | Skipped]:
    """Yield the document of a web page."""
    data = file.read()
    declared = _CHARSET.search(data[:_HEAD])
    found = decoded(data, file.name, declared=declared[1].decode("ascii") if declared else None)
    if isinstance(found, Skipped):
        yield found
        return
    try:
        page = page_text(found.text)
    except ValueError as error:
        yield Skipped(file.name, str(error))
        return
    warnings = (*found.warnings, *page.warnings)
    if not page.text.strip():
        yield Skipped(file.name, "; ".join(("has no text outside of scripts and navigation", *page.warnings)))
        return
    header = header_fields(page.text)
    yield LoadedDocument(path=file.name, text=page.text, fields=page.fields, header=header, warnings=warnings)


class Page(NamedTuple):
    """The text of a page, what its head says, and what was set aside."""

    text: str
    fields: dict[str, Any]
    warnings: tuple[str, ...]


def page_text(text: str) -> Page:
    """Return a page as Markdown.

    Raises:
        MissingExtra: selectolax is not installed.
        ValueError: its elements are nested too deep.
    """
    try:
        from selectolax.lexbor import LexborHTMLParser
    except ImportError as error:
        raise MissingExtra("reading .html files", "documents") from error
    if _depth(text) > _MOST_DEPTH:
        raise ValueError(f"has elements nested over {_MOST_DEPTH:,} deep")
    page = LexborHTMLParser(text)
    return Page(joined(_blocks(page)), _fields(page), ())


def _depth(text: str) -> int:
    """Return about how deep elements are nested; those that close by themselves do not count."""
    depth = most = 0
    for match in _TAG.finditer(text):
        if match[2].lower() not in _VOID:
            depth = max(0, depth - 1) if match[1] else depth + 1
            most = max(most, depth)
    return most


def _blocks(page: LexborHTMLParser) -> list[Block]:
    main = _main(page)
    if main is not None:
        found = HtmlBlocks(main, whole_page=False).blocks()
        if sum(len(block.text) for block in found) >= _LEAST_MAIN:
            return found
    body = page.body or page.root
    return [] if body is None else HtmlBlocks(body, whole_page=True).blocks()


def _main(page: LexborHTMLParser) -> LexborNode | None:
    for selector in _MAIN:
        found = page.css(selector)
        if len(found) == 1:
            return found[0]
    return None


def _fields(page: LexborHTMLParser) -> dict[str, Any]:
    title = page.css_first("h1") or page.css_first("title")
    given: dict[str, Any] = {"title": one_line(title.text()) if title else None}
    named: dict[str, str] = {}
    for meta in page.css("meta"):
        key = meta.attributes.get("name") or meta.attributes.get("property") or ""
        named.setdefault(key.lower(), meta.attributes.get("content") or "")
    given["author"] = named.get("author")
    for field, keys in _DATES.items():
        given[field] = next((found for key in keys if (found := moment(named.get(key, "")))), None)
    return real_properties(given)
