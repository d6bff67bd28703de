"""The elements of a page as Markdown blocks; boilerplate is kept apart to be reported.

The tree is walked without recursion, because pages may nest deep."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Set
from html import unescape
from typing import TYPE_CHECKING, Final, cast

from context_engine.core.models import Notice, NoticeCode
from context_engine.ingest.loaded_document import file_notice, quoted
from context_engine.ingest.loaders.html_controls import CONTROLS, shown
from context_engine.ingest.loaders.html_hidden import hides
from context_engine.ingest.loaders.markdown import (
    CONTINUED,
    MarkdownBlock,
    heading,
    linked,
    one_line,
    pipe_table,
    plain,
)
from context_engine.ingest.loaders.mathml import formula
from context_engine.ingest.loaders.run_marks import LOWERED, RAISED, STRUCK, with_bold, written

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode


_NEVER_SHOWN: Final = frozenset(
    ("script", "style", "head", "-comment", "!doctype", "annotation", "annotation-xml", "embed")
)
_AROUND: Final = frozenset(("nav", "aside", "footer", "dialog"))
_NAVIGATING: Final = frozenset(("nav", "dialog"))
_CONTROLS: Final = frozenset(("button", "datalist", "progress", "meter"))
_INSTEAD: Final = frozenset(("noscript", "template", "iframe", "noframes", "canvas", "audio", "video", "svg"))
_RAW: Final = frozenset(("template", "iframe", "noframes"))  # the parser keeps their content as raw text
_FRAMES: Final = frozenset(("frame", "iframe"))
_ROLES: Final = frozenset(["navigation", "banner", "contentinfo", "complementary", "search", "dialog", "menu"])
_BOILERPLATE: Final = frozenset(
    (
        *("nav", "navbar", "navigation", "menu", "breadcrumb", "breadcrumbs", "sidebar", "footer", "skip-link"),
        *("cookie-banner", "cookie-notice", "pagination", "social-share"),
    )
)
_MARKUP: Final = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_NAVIGATION: Final = "navigation, page heads and feet"
_HIDDEN_TEXT: Final = "hidden text"
_BLOCK_TAGS: Final = (
    "address article blockquote body center dd details div dl dt fieldset figcaption figure footer form header hr html "
    "legend li main ol p pre section summary table ul caption thead tbody tfoot tr td th"
)
_BLOCKS: Final = frozenset(_BLOCK_TAGS.split())
_MOST_PERMALINK: Final = 3  # characters, as in "[#]"
_LONGEST_TERM: Final = 100  # characters
_HEADINGS: Final = {f"h{level}": level for level in range(1, 7)}
_STRUCTURED: Final = "table, h1, h2, h3, h4, h5, h6"
_MOST_SPAN: Final = 100
_RUNS: Final = {"s": STRUCK, "strike": STRUCK, "del": STRUCK, "sup": RAISED, "sub": LOWERED}


class Boilerplate:
    """Decides which elements are not content, and keeps their words by kind.

    Args:
        whole_page: whether the page is read whole, so that its `<header>` is not content.
        hidden: the elements that a style sheet hides, by their memory ids.
        alone: whether the page is no part of a site: of what stands around a text, it has at most navigation.
    """

    def __init__(self, *, whole_page: bool, hidden: Set[int] = frozenset(), alone: bool = False) -> None:
        self._hidden = hidden
        self._alone = alone
        self._around = _NAVIGATING if alone else _AROUND | {"header"} if whole_page else _AROUND
        self._kept: dict[str, list[str]] = {}
        self._frames: list[str] = []

    def drops(self, node: LexborNode) -> bool:
        """Whether an element is not content; its words are kept."""
        tag = node.tag or ""
        if tag in _NEVER_SHOWN or (tag == "a" and _is_permalink(node)):
            return True
        kind = self._kind(node, tag)
        if kind:
            self.keep(kind, _words(node, tag))
        if tag in _FRAMES:
            self._frames.append(node.attributes.get("src") or "one without an address")
        return kind is not None

    def keep(self, kind: str, text: str) -> None:
        if text:
            self._kept.setdefault(kind, []).append(text)

    def beside(self, text: str) -> None:
        """Keep text outside of the main content."""
        self.keep(_NAVIGATION, text)

    def take(self, other: Boilerplate) -> None:
        """Take over the text that another collection has set aside."""
        for kind, texts in other._kept.items():
            self._kept.setdefault(kind, []).extend(texts)
        self._frames += other._frames

    def notices(self) -> tuple[Notice, ...]:
        """Return a notice for each kind of text set aside, and one for the frames."""
        notices = [_set_aside(kind, list(dict.fromkeys(texts))) for kind, texts in self._kept.items()]
        if self._frames:
            left = f"frames are not read: {', '.join(self._frames)}"
            notices.append(file_notice(NoticeCode.EMBEDDED_NOT_READ, left, names=list(self._frames)))
        return tuple(notices)

    def _kind(self, node: LexborNode, tag: str) -> str | None:
        if tag in _INSTEAD or tag == "frame":
            return "fallback text"
        attributes = node.attributes
        if attributes and (
            "hidden" in attributes or attributes.get("aria-hidden") == "true" or hides(attributes.get("style") or "")
        ):
            return _HIDDEN_TEXT
        if node.mem_id in self._hidden:
            return _HIDDEN_TEXT
        if tag in _CONTROLS:
            return "controls of forms"
        if tag in self._around or (attributes and not self._alone and _is_boilerplate(attributes)):
            return _NAVIGATION
        return None


def _set_aside(kind: str, texts: list[str]) -> Notice:
    return file_notice(NoticeCode.BOILERPLATE_LEFT_OUT, f"{kind} set aside: {quoted(texts)}", kind=kind)


def _is_permalink(node: LexborNode) -> bool:
    """Return whether a link is only a sign for a place of its page: the "¶" beside a heading, the "↩" of a footnote."""
    if not (node.attributes.get("href") or "").startswith("#") or node.css_first("img, svg"):
        return False
    text = node.text(deep=True).strip()
    return 0 < len(text) <= _MOST_PERMALINK and not any(character.isalnum() for character in text)


def _is_boilerplate(attributes: dict[str, str | None]) -> bool:
    names = f"{attributes.get('id') or ''} {attributes.get('class') or ''}".lower().split()
    return attributes.get("role") in _ROLES or not _BOILERPLATE.isdisjoint(names)


def _words(node: LexborNode, tag: str) -> str:
    """Return the words in an element, without those of its scripts."""
    if tag in _RAW:
        return one_line(unescape(_MARKUP.sub(" ", node.html or "" if tag == "template" else node.text() or "")))
    return one_line(" ".join(unescape(_MARKUP.sub(" ", node.html or "")).split()))


class HtmlBlocks:
    """Turns one element into blocks.

    Args:
        aside: decides which elements are not content, and keeps their words.
        without: an element inside it that is left out.
    """

    def __init__(self, root: LexborNode, aside: Boilerplate, *, without: LexborNode | None = None) -> None:
        self._root = root
        self._without = None if without is None else without.mem_id
        self.aside = aside
        self._inline: list[str] = []
        self._lists: list[int | None] = []  # the last number of each open list, None for bullets
        self._mark = ""  # the mark that the next block of a list item begins with
        self._glossary = False
        self._bold = 0
        self._runs: list[str] = []  # the marks of the open runs
        self._link: tuple[str, int, int, int] | None = None  # target, place in `_inline`, and open marks of a link
        self._out: list[MarkdownBlock] = []

    def blocks(self) -> list[MarkdownBlock]:
        for event, node in _walk(self._root, self._is_dropped, _is_leaf):
            if event == "text":
                self._inline.append((node.text_content or "").replace("\n", " ").replace("\x00", ""))
            elif event == "open":
                self._opened(node, node.tag or "")
            else:
                self._closed(node, node.tag or "")
        self._flush()
        return self._out

    def _is_dropped(self, node: LexborNode) -> bool:
        return node.mem_id == self._without or self.aside.drops(node)

    def _opened(self, node: LexborNode, tag: str) -> None:
        if tag in _BLOCKS or tag in _HEADINGS:
            self._flush()
        if tag in CONTROLS:
            self._inline.append(shown(node, self.aside.keep))
        elif tag == "math":
            self._inline.append(f" {formula(node)} ")
        elif tag == "table" and _is_table(node):
            caption = node.css_first("caption")
            self._out += (
                [MarkdownBlock(one_line(caption.text()))] if caption is not None and caption.text().strip() else []
            )
            table = pipe_table(self._rows(node))
            self._out += [table] if table else []
        elif tag in ("ul", "ol"):
            start = (node.attributes.get("start") or "1")[:6]
            first = int(start) if start.isascii() and start.isdecimal() else 1
            self._lists.append(first - 1 if tag == "ol" else None)
        elif tag == "dl" and _is_glossary(node):
            self._lists.append(None)
            self._glossary = True
        elif tag == "li":
            self._mark = self._next_mark()
        elif tag == "br":
            self._inline.append("\n")
        elif tag == "a":
            self._link = (node.attributes.get("href") or "", len(self._inline), self._bold, len(self._runs))
        elif tag == "pre":
            self._out.append(MarkdownBlock(f"```\n{(node.text() or '').strip()}\n```"))
        elif tag in ("b", "strong", "dt"):
            self._mark = self._next_mark() if self._glossary and tag == "dt" else self._mark
            self._inline.append("\x00" if self._bold == 0 else "")
            self._bold += 1
        elif (mark := _RUNS.get(tag)) and mark not in self._runs:
            self._inline.append(mark)
            self._runs.append(mark)

    def _closed(self, node: LexborNode, tag: str) -> None:
        if tag in ("b", "strong", "dt"):
            self._bold = max(0, self._bold - 1)
            self._inline.append("\x00" if self._bold == 0 else "")
            if self._glossary and tag == "dt" and "".join(self._inline).rstrip("\x00 \n")[-1:].isalnum():
                self._inline.append(":")
        elif self._runs and _RUNS.get(tag) == self._runs[-1]:
            self._inline.append(self._runs.pop())
        elif tag == "a" and self._link:
            target, start, bold, runs = self._link
            if (bold, runs) == (self._bold, len(self._runs)):
                self._inline[start:] = [linked("".join(self._inline[start:]), target)]
            self._link = None
        if tag in _HEADINGS:
            text = one_line(written("".join(self._inline).replace("\x00", "")))
            self._inline = list(self._runs)
            self._out += [heading(_HEADINGS[tag], text)] if text else []
        elif tag in _BLOCKS:
            self._flush()
        if (tag in ("ul", "ol") or (tag == "dl" and self._glossary)) and self._lists:
            self._lists.pop()
            self._glossary = self._glossary and tag != "dl"
        if tag == "li":
            self._mark = ""

    def _flush(self) -> None:
        self._link = None  # a link around blocks
        text = _lines("".join([*self._inline, *reversed(self._runs)]))
        self._inline = [*(["\x00"] if self._bold else []), *self._runs]
        if not text:
            return
        depth = max(0, len(self._lists) - 1)
        indent = "  " * min(depth, 8)
        if self._mark:
            self._out.append(MarkdownBlock(f"{indent}{self._mark} {text}", item=True))
            self._mark = ""
        elif self._lists:
            self._out.append(MarkdownBlock(f"{indent}  {text}", item=True))
        else:
            self._out.append(MarkdownBlock(plain(text)))

    def _next_mark(self) -> str:
        last = self._lists[-1] if self._lists else None
        if last is None:
            return "-"
        self._lists[-1] = last + 1
        return f"{last + 1}."

    def _rows(self, table: LexborNode) -> list[list[str]]:
        """Return a table's cells; a merged cell is repeated in each of its rows, in its first column only."""
        out: list[list[str]] = []
        lasting: dict[int, tuple[str, int]] = {}  # column -> (text, rows it goes on for)
        for row in table.css("tr"):
            cells: list[str] = []
            open_cells = [] if self._is_dropped(row) else [cell for cell in _cells(row) if not self._is_dropped(cell)]
            while open_cells or len(cells) in lasting:
                column = len(cells)
                if column in lasting:
                    text, rows = lasting.pop(column)
                    if rows > 1:
                        lasting[column] = (text, rows - 1)
                    cells.append(text)
                    continue
                cell = open_cells.pop(0)
                text = self._cell_text(cell)
                rows = _span(cell, "rowspan")
                if rows > 1:
                    lasting[column] = (text, rows - 1)
                cells += [text, *[CONTINUED] * (_span(cell, "colspan") - 1)]
            out.append(cells)
        return out

    def _cell_text(self, cell: LexborNode) -> str:
        parts: list[str] = []
        link: tuple[str, int] | None = None
        for event, node in _walk(cell, self._is_dropped, lambda node: node.tag in CONTROLS or node.tag == "math"):
            if event == "text":
                parts.append(node.text_content or "")
            elif node.tag in CONTROLS:
                parts.append(shown(node, self.aside.keep) if event == "open" else "")
            elif node.tag == "math":
                parts.append(f" {formula(node)} " if event == "open" else "")
            elif node.tag == "br" or node.tag in _BLOCKS:
                parts.append(" ")
            elif node.tag == "a" and event == "open":
                link = (node.attributes.get("href") or "", len(parts))
            elif node.tag == "a" and link:
                parts[link[1] :] = [linked("".join(parts[link[1] :]), link[0])]
                link = None
            elif node.tag in _RUNS:
                parts.append(_RUNS[node.tag])
        return one_line(written("".join(parts)))


def _walk(
    root: LexborNode, is_dropped: Callable[[LexborNode], bool], is_leaf: Callable[[LexborNode], bool]
) -> Iterator[tuple[str, LexborNode]]:
    """Yield ("open" | "text" | "close", node) in page order; dropped nodes and leaves are not entered."""
    node = root
    while True:
        below = None
        if node.is_text_node:
            yield "text", node
        elif node.mem_id == root.mem_id or not is_dropped(node):
            yield "open", node
            below = None if is_leaf(node) else node.child
            if below is None:
                yield "close", node
        if below is not None:
            node = below
            continue
        while node.mem_id != root.mem_id and node.next is None:
            node = cast("LexborNode", node.parent)
            yield "close", node
        if node.mem_id == root.mem_id:
            return
        node = cast("LexborNode", node.next)


def _is_leaf(node: LexborNode) -> bool:
    return node.tag in ("pre", "math") or node.tag in CONTROLS or (node.tag == "table" and _is_table(node))


def _is_table(node: LexborNode) -> bool:
    """Whether a table holds data; a table with headings or tables inside, or with one column, is page layout."""
    if any(inner.mem_id != node.mem_id for inner in node.css(_STRUCTURED)):
        return False
    return any(len(_cells(row)) > 1 for row in node.css("tr"))


def _is_glossary(node: LexborNode) -> bool:
    """Return whether a `dl` explains terms: nothing inside it has a structure of its own, and each term is short."""
    terms = node.css("dt")
    return (
        bool(terms)
        and not node.css_first("dl dl, pre, " + _STRUCTURED)
        and all(len(term.text(deep=True)) <= _LONGEST_TERM for term in terms)
    )


def _cells(row: LexborNode) -> list[LexborNode]:
    return [cell for cell in row.iter() if cell.tag in ("td", "th")]


def _span(cell: LexborNode, name: str) -> int:
    number = (cell.attributes.get(name) or "1").strip()[:4]
    return min(max(int(number), 1), _MOST_SPAN) if number.isascii() and number.isdecimal() else 1


def _lines(text: str) -> str:
    """Return inline text with single spaces; its line breaks are kept and its bold words marked."""
    spans = text.split("\x00") if "\x00" in text else [text]
    inner = [span for span in spans[1::2] if span.strip()]
    text = with_bold(spans) if inner and "".join(spans[0::2]).strip(" .:;\n\t") else "".join(spans)
    lines = written(text).split("\n")
    return one_line(lines[0]) if len(lines) == 1 else "\n".join(filter(None, map(one_line, lines)))
