"""Web pages: `.html`, `.htm`.

Read: the main content (`<main>` or the only `<article>` if hardly any text is outside of it, else the body) with
headings, lists, tables (cells that span several rows repeated, a head of several rows as one), definition lists (a term
and what it means as one item, unless they hold tables, headings or code), quotations, code and formulas in MathML;
links with the targets that are addresses of their own; bold words as `**bold**`, struck ones as `~~struck~~`, raised
and lowered ones as in 10⁶ and CO₂; filled-in, ticked and chosen values of forms; pictures by their alternative text.
The encoding is given by the byte order mark, UTF-8, the `<meta>` or XML declaration, or a guess. Fields: title, author
and dates of the head element. Reported, with their words, not read: navigation, page headers and footers, asides,
elements that are hidden by an attribute or a style, form controls, fallback content (`<noscript>`, `<template>`),
frames. Not read: scripts, styles, comments, targets within the site, signs that only link to their own heading ("¶");
nothing is fetched. Refused: elements nested over 5,000 deep.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from context_engine.core.models import Notice, messages
from context_engine.core.text import without_templating
from context_engine.errors import MissingExtra
from context_engine.ingest.header import header_fields, moment, real_properties
from context_engine.ingest.loaded_document import LoadedDocument, Skipped, missing
from context_engine.ingest.loaders.encoding import Decoded, decoded
from context_engine.ingest.loaders.html_blocks import Boilerplate, HtmlBlocks
from context_engine.ingest.loaders.html_hidden import hidden_elements
from context_engine.ingest.loaders.markdown import MarkdownBlock, heading, joined, one_line
from context_engine.ingest.loaders.source_file import SourceFile
from context_engine.ingest.loaders.text_file import LEADS_ELSEWHERE, ONLY_TAGS, load_text

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode


_CHARSET: Final = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{2,40})|<\?xml[^>]{0,100}?encoding\s*=\s*[\"']([\w.:-]{2,40})",
    re.IGNORECASE,
)
_NO_CONTENT: Final = "has no text outside of scripts and navigation: save the page as the browser shows it"
_HEAD: Final = 4096
_TAG: Final = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
_MOST_DEPTH: Final = 5_000  # parsing time grows with the square of the depth
_NO_DEPTH: Final = "area base br col embed hr img input link meta param source track wbr p li td th tr"
_VOID: Final = frozenset(_NO_DEPTH.split())
_MAIN: Final = ("main", "[role=main]", "article")
_LEAST_MAIN: Final = 200
_MOST_BESIDE: Final = 2_000  # with more characters outside of the main content, the whole page is read
_XHTML: Final = re.compile(r"\s*<\?xml|(?:\s*<!--.*?-->)*\s*<!DOCTYPE[^>]{0,300}XHTML", re.IGNORECASE | re.DOTALL)
_CLOSED: Final = re.compile(r"<([a-zA-Z][a-zA-Z0-9]*)((?:\s[^<>]*?)?)\s*/>")
_MARKED: Final = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
_EMPTY: Final = _VOID - frozenset(("p", "li", "td", "th", "tr")) | {"frame"}
_SEVEN_BITS: Final = ("iso-2022-", "hz-gb")  # they decode as UTF-8 too, but to other characters
_REFRESH: Final = re.compile(r"\s*\d+(?:\.\d*)?\s*[;,]\s*(?:url\s*=\s*)?\S", re.IGNORECASE)
_MOST_STUB: Final = 40  # words of a page that only redirects to another
_DATES: Final = {
    "created": ("article:published_time", "dcterms.created", "dcterms.issued", "dc.date", "date"),
    "modified": ("article:modified_time", "dcterms.modified", "last-modified"),
}
_TEXT: Final = (".markdown", ".md", ".txt")
_HTML: Final = (".htm", ".html")
_FIRST: Final = 4096


def load_html(file: SourceFile, *, template: bool = False) -> Iterator[LoadedDocument | Skipped]:
    """Yield the document of a web page; `template` leaves out the tags that a program fills in."""
    data = file.read()
    text = decoded_page(data, file.name)
    if isinstance(text, Skipped):
        yield text
        return
    try:
        page = page_text(without_templating(text.text) if template else text.text)
    except ValueError as error:
        yield Skipped(file.name, str(error))
        return
    notices = (*text.notices, *page.notices)
    if page.refreshed and len(page.text.split()) <= _MOST_STUB:
        yield Skipped(file.name, LEADS_ELSEWHERE, error=False)
        return
    if not page.text.strip():
        why = ONLY_TAGS if template else "; ".join((_NO_CONTENT, *messages(page.notices)))
        yield Skipped(file.name, why, error=not template)
        return
    header = header_fields(page.text)
    yield LoadedDocument(
        path=file.name, text=page.text, fields=page.fields, header=header, notices=notices, properties=True
    )


def decoded_page(data: bytes, name: str, charset: str | None = None) -> Decoded | Skipped:
    """Return the text of a web page; `charset` as stated outside of it, else as its head says."""
    match = None if charset else _CHARSET.search(data[:_HEAD])
    declared = (match[1] or match[2]).decode("ascii").lower() if match else charset
    if declared is not None and declared.startswith(_SEVEN_BITS):
        try:
            return Decoded(data.decode(declared).replace("\r\n", "\n"), ())
        except (LookupError, UnicodeDecodeError):
            pass
    wide = declared is not None and declared.startswith(("utf-16", "utf-32"))  # readable as ASCII, so it is not
    return decoded(data, name, declared=None if wide else declared)


class HtmlPage(NamedTuple):
    """The text of a page, the fields of its head, notices about omissions, and whether it redirects elsewhere."""

    text: str
    fields: dict[str, Any]
    notices: tuple[Notice, ...]
    refreshed: bool = False


def page_text(text: str, *, alone: bool = False) -> HtmlPage:
    """Return a page as Markdown.

    Args:
        alone: whether it is no part of a site, as a mail or a chapter of a book: all but navigation is content, and
            what its head says is left to the caller.

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
    page = LexborHTMLParser(_as_html(text) if _XHTML.match(text) else text)
    blocks, aside = _whole(page, alone=True) if alone else _read(page)
    title = "" if alone else one_line(" ".join(title_node.text() for title_node in page.css("head > title")))
    if title and not any(block.text.startswith("#") for block in blocks) and blocks:
        blocks.insert(0, heading(1, title))
    body = joined(blocks)
    if title not in body and missing([title], body):
        aside.keep("the title of the page", title)
    return HtmlPage(body, _fields(page), aside.notices(), _refreshed(page))


def _refreshed(page: LexborHTMLParser) -> bool:
    refresh = (
        meta.attributes for meta in page.css("meta") if (meta.attributes.get("http-equiv") or "").lower() == "refresh"
    )
    return any(_REFRESH.match(attributes.get("content") or "") for attributes in refresh)


def _as_html(text: str) -> str:
    """Rewrite self-closing elements and CDATA sections, which mean something else in HTML."""
    text = _CLOSED.sub(
        lambda match: match[0] if match[1].lower() in _EMPTY else f"<{match[1]}{match[2]}></{match[1]}>", text
    )
    return _MARKED.sub(lambda match: escape(match[1], quote=False), text)


def _depth(text: str) -> int:
    """Estimate how deep elements are nested; those with an optional end tag do not count."""
    depth = most = 0
    for match in _TAG.finditer(text):
        if match[2].lower() not in _VOID:
            depth = max(0, depth - 1) if match[1] else depth + 1
            most = max(most, depth)
    return most


def _read(page: LexborHTMLParser) -> tuple[list[MarkdownBlock], Boilerplate]:
    """Return the main content if it is nearly everything, else the whole page; and the elements set aside."""
    body, main = page.body or page.root, _main(page)
    if body is not None and main is not None:
        hidden = hidden_elements(page)
        inner = HtmlBlocks(main, Boilerplate(whole_page=False, hidden=hidden))
        blocks = inner.blocks()
        outer = HtmlBlocks(body, Boilerplate(whole_page=True, hidden=hidden), without=main)
        beside = joined(outer.blocks())
        if sum(len(block.text) for block in blocks) >= _LEAST_MAIN and len(beside) <= _MOST_BESIDE:
            inner.aside.beside(beside)
            inner.aside.take(outer.aside)
            return blocks, inner.aside
    return _whole(page, alone=False)


def _whole(page: LexborHTMLParser, *, alone: bool) -> tuple[list[MarkdownBlock], Boilerplate]:
    body = page.body or page.root
    aside = Boilerplate(whole_page=True, hidden=hidden_elements(page), alone=alone)
    return ([] if body is None else HtmlBlocks(body, aside).blocks()), aside


def _main(page: LexborHTMLParser) -> LexborNode | None:
    for selector in _MAIN:
        candidates = page.css(selector)
        if len(candidates) == 1:
            return candidates[0]
    return None


def _fields(page: LexborHTMLParser) -> dict[str, Any]:
    title = page.css_first("h1") or page.css_first("title")
    properties: dict[str, Any] = {"title": one_line(title.text()) if title else None}
    named: dict[str, str] = {}
    for meta in page.css("meta"):
        key = meta.attributes.get("name") or meta.attributes.get("property") or ""
        named.setdefault(key.lower(), meta.attributes.get("content") or "")
    properties["author"] = named.get("author")
    for field, keys in _DATES.items():
        properties[field] = next((date for key in keys if (date := moment(named.get(key, "")))), None)
    return real_properties(properties)


def load_template(file: SourceFile) -> Iterator[LoadedDocument | Skipped]:
    """Yield the document of a template, read as the format that its suffix or content shows."""
    kind = PurePath(file.path.stem).suffix.lower()
    if kind in _TEXT or (kind not in _HTML and not kind[1:].isalpha() and not _is_html(file)):
        yield from load_text(file)
    elif kind in _HTML or not kind[1:].isalpha():
        yield from load_html(file, template=True)
    else:
        reason = f"{kind}{file.path.suffix} cannot be read; supported templates are Markdown, text and HTML"
        yield Skipped(file.name, reason, error=False)


def _is_html(file: SourceFile) -> bool:
    with file.open() as stream:
        return without_templating(stream.read(_FIRST).decode("utf-8", "replace")).lstrip().startswith("<")
