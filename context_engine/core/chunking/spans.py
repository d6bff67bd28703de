"""Splits a text into blocks (paragraph, list, table) and atoms (sentence, item, row), between which it may be cut."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator
from typing import Final, NamedTuple

Span = tuple[int, int]
CJK: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"

# One set of characters to begin with, because the engine then skips to them; possessive, and begun only at the first of
# several stops: a page of dots takes no longer than a page of words.
_SENTENCE_END: Final = re.compile(
    r"[.!?…。！？।॥۔؟](?:(?<=[。！？])[。！？]*+[”’」』）》]*+\s*+|(?<=[।॥۔؟])\s++"
    r"|(?<=[.!?…])(?<![.!?…].)[.!?…]*+[\"'”’)\]*_]*+\s++(?=[\"'“‘(\[*_]*[^\W_a-z\u00df-\u00ff\u03ac-\u03ce\u0430-\u045f]))"
)
_ABBREVIATION: Final = re.compile(
    r"(?:\b(?:e\.g|i\.e|cf|vs|viz|al|No|Nos|Art|Arts|Sec|Sect|Cl|Para|paras?|pp?|Ch|Reg|Regs|Fig|Eq|Mr|Mrs|Ms|Dr|Prof"
    r"|St|Ltd|Inc|Corp|Co|Plc|approx|dept|est|incl|excl)|\b[A-Z]|^\s*[(]?(?:[a-zA-Z]|[ivxIVX]{1,5}|[\d.()a-z]*\d[\d.()a-z]*)|\n\s*[(]?\d{1,3})$"
)
_LINK: Final = re.compile(r"\[[^\[\]\n]{1,400}\]\(")
_TABLE: Final = re.compile(r"\s*\|")
_HEADED: Final = re.compile(r"^[ \t]*\|[^\n]*\n[ \t]*\|[ \t:|-]*-[ \t:|-]*\n", re.MULTILINE)
_ITEM: Final = re.compile(r"\s*(?:[-*+•·]|\d{1,3}[.)]|\(\w{1,4}\)|[a-z][.)])\s+\S")
_HEADING: Final = re.compile(r" {0,3}#{1,6}\s")
_FENCE: Final = re.compile(r"\s*(?:```|~~~)")
_INDENTED: Final = re.compile(r"(?:\t| {2,})\S")
_LONE: Final = re.compile(r"[ \t]*\|[ \t]*[^|\s][^|\n]*(?:\|[ \t]*)+\|[ \t]*\n?")  # a row with a first cell alone
_MOST_HEADING: Final = 100


class Atom(NamedTuple):
    """A span that is cut only if it does not fit alone.

    Attributes:
        block: number of the block it belongs to.
        whole: whether the block is a table, a list or code, which should stay in one piece.
        tokens: its own tokens; 0 if not counted.
    """

    start: int
    end: int
    block: int
    whole: bool
    tokens: int = 0


class TableHead(NamedTuple):
    """The head of a table in Markdown: the row above the rule, and the rule.

    Attributes:
        text: both lines.
        start: offset of the head.
        body: offset of the first row below it.
        end: offset of the end of the table.
        groups: the rows that name a group of the rows below them, in order.
    """

    text: str
    start: int
    body: int
    end: int
    groups: tuple[Span, ...] = ()

    def opening(self, text: str, start: int) -> str:
        """Return the lines that a piece begins with if it begins at a row: the head, and the row of its group."""
        above = [span for span in self.groups if span[0] <= start]
        if not above or above[-1][0] == start:
            return self.text
        return f"{self.text}\n{text[slice(*above[-1])].rstrip()}"


class _Block(NamedTuple):
    kind: str
    parts: list[Span]


def stripped(text: str, start: int, end: int) -> Span:
    """Return the span without the white space at its ends; start == end if nothing is left."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def atoms(text: str, start: int, end: int) -> list[Atom]:
    """Return the atoms of `text[start:end]` in order; all that lies between them is white space."""
    out: list[Atom] = []
    for number, block in enumerate(_glued(text, _blocks(text, start, end))):
        kept_whole = block.kind in ("table", "list", "code")
        out += [Atom(first, last, number, kept_whole) for first, last in block.parts]
    return out


def table_heads(text: str, start: int, end: int) -> list[TableHead]:
    """Return the heads of the tables in `text[start:end]` that have one, in order.

    >>> table_heads("| Desk | Limit |\\n|---|---|\\n| Rates | 5 |", 0, 42)[0][1:4]
    (0, 27, 42)
    """
    out: list[TableHead] = []
    for match in _HEADED.finditer(text, start, end):
        body = last = match.end()
        for first, stop in lines(text, body, end):
            if not _TABLE.match(text, first, stop):
                break
            last = stop
        out.append(TableHead(match[0].rstrip("\n"), match.start(), body, last, _groups(text, body, last)))
    return out


def _groups(text: str, start: int, end: int) -> tuple[Span, ...]:
    """Return the rows with a text in the first cell alone, if they name groups.

    Those in bold do; without any, all do if there are several and the first is the first row of all.
    """
    rows = list(lines(text, start, end))
    lone = [span for span in rows if _LONE.fullmatch(text, *span)]
    if not lone or len(lone) == len(rows):
        return ()
    bold = tuple(span for span in lone if text[slice(*span)].lstrip("| \t").startswith("**"))
    return bold or (tuple(lone) if len(lone) > 1 and lone[0] == rows[0] else ())


def sentences(text: str, start: int, end: int) -> list[Span]:
    """Return the sentences of `text[start:end]`, without the white space around them; none ends inside a link.

    >>> sentences("See No. 5 below. It applies.", 0, 28)
    [(0, 16), (17, 28)]
    >>> sentences("[Lost? Read on](a.md) first.", 0, 28)
    [(0, 28)]
    """
    out: list[Span] = []
    begin = start
    links = [match.span() for match in _LINK.finditer(text, start, end)] if text.find("](", start, end) >= 0 else []
    for match in _SENTENCE_END.finditer(text, start, end):
        if text[match.start()] == "." and ends_in_abbreviation(text[begin : match.start()]):
            continue
        if (at := bisect(links, (match.start(), end))) and match.start() < links[at - 1][1]:
            continue
        out.append(stripped(text, begin, match.end()))
        begin = match.end()
    out.append(stripped(text, begin, end))
    return [span for span in out if span[0] < span[1]]


def ends_in_abbreviation(text: str) -> bool:
    """Return whether the text before a full stop ends in an abbreviation, an initial or the number of an item.

    >>> ends_in_abbreviation("see No"), ends_in_abbreviation("It applies")
    (True, False)
    """
    return _ABBREVIATION.search(text[-12:]) is not None


def lines(text: str, start: int, end: int) -> Iterator[Span]:
    """Return the lines of `text[start:end]`, each with its line break."""
    while start < end:
        stop = text.find("\n", start, end)
        stop = end if stop < 0 else stop + 1
        yield start, stop
        start = stop


def _blocks(text: str, start: int, end: int) -> list[_Block]:
    """Group lines into blocks. A loose list (blank lines between its items) is one block."""
    groups: list[tuple[str, list[Span]]] = []
    blank, fenced = True, False
    for first, last in lines(text, start, end):
        line = text[first:last]
        fence = _FENCE.match(line) is not None
        if not line.strip() and not fenced:
            blank = True
            continue
        kind = "code" if fenced or fence else _kind(line)
        if groups and _continues(groups[-1][0], kind, line, blank, fenced):
            groups[-1][1].append((first, last))
        else:
            groups.append((kind, [(first, last)]))
        fenced ^= fence
        blank = False
    return [_parted(text, kind, spans) for kind, spans in groups]


def _kind(line: str) -> str:
    if _HEADING.match(line):
        return "heading"
    if _TABLE.match(line):
        return "table"
    return "list" if _ITEM.match(line) else "prose"


def _continues(previous: str, kind: str, line: str, blank: bool, fenced: bool) -> bool:
    if previous == "list":
        return kind == "list" or (kind == "prose" and (not blank or _INDENTED.match(line) is not None))
    if previous == "code":
        return fenced
    return previous == kind and not blank and kind != "heading"


def _parted(text: str, kind: str, spans: list[Span]) -> _Block:
    """Cut a block into its parts: rows, items with their continuation lines, or sentences."""
    start, end = stripped(text, spans[0][0], spans[-1][1])
    if kind == "prose":
        short = len(spans) == 1 and end - start <= _MOST_HEADING and text[end - 1] not in ".!?;,:。！？；，：…"
        return _Block("heading" if short else kind, sentences(text, start, end))
    if kind == "heading":
        return _Block(kind, [(start, end)])
    parts: list[Span] = []
    ruled = False  # whether the row before is the rule below a table's head: the first row stays with the head
    for first, last in spans:
        line = text[first:last]
        rule = kind == "table" and "-" in line and not line.strip(" \t\n:|-")
        goes_on = rule or ruled or (kind == "list" and _ITEM.match(line) is None)
        if parts and goes_on:
            parts[-1] = (parts[-1][0], last)
        else:
            parts.append((first, last))
        ruled = rule
    return _Block(kind, [span for span in (stripped(text, *part) for part in parts) if span[0] < span[1]])


def _glued(text: str, blocks: list[_Block]) -> list[_Block]:
    """Join a heading, or a sentence that ends in a colon, to the block that it introduces."""
    out: list[_Block] = []
    for block in blocks:
        if not block.parts:
            continue
        if out and _introduces(text, out[-1], block):
            intro = out.pop().parts
            joined = (intro[-1][0], block.parts[0][1])
            block = _Block(block.kind, [*intro[:-1], joined, *block.parts[1:]])
        out.append(block)
    return out


def _introduces(text: str, intro: _Block, block: _Block) -> bool:
    if intro.kind == "heading":
        return True
    return intro.kind == "prose" and block.kind in ("list", "table", "code") and text[intro.parts[-1][1] - 1] in ":："
