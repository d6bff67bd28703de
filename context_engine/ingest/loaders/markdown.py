"""Markdown blocks, which the loaders of all formatted documents produce."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

CONTINUED: Final = "\x04"
"""The text of a cell that a merged cell to its left covers."""
_MOST_HEAD: Final = 3  # rows
_MOST_GROUP: Final = 100  # characters: a longer cell over all columns is a text
_MOST_LEVEL: Final = 6
LINK_OPEN: Final = "\x0e"
LINK_CLOSE: Final = "\x0f"
"""Marks around the words of a field that is a link; no document holds these characters."""
HYPERLINK: Final = re.compile(r'\s*HYPERLINK\s+"([^"]+)"', re.IGNORECASE)
"""The instruction of such a field in a document of Word."""
_MOST_ADDRESS: Final = 500
_ADDRESS: Final = re.compile(r"(?i)(?:https?://|ftp://|mailto:)[^\x00-\x20\x7f]+")
_SCHEME: Final = re.compile(r"(?i)^(?:https?://|ftp://|mailto:)")
_ESCAPED: Final = str.maketrans({" ": "%20", "(": "%28", ")": "%29", "<": "%3C", ">": "%3E", "|": "%7C", "\\": "%5C"})
_LINK: Final = re.compile(r"\[([^\[\]\n]+)\]\((?:https?://|ftp://|mailto:)[^\s()<>|]+\)", re.IGNORECASE)
_PARTS: Final = re.compile(r"\[([^\[\]\n]+)\]\(([^\s()]+)\) \[([^\[\]\n]+)\]\(\2\)")
_LIKE_HEADING: Final = re.compile(r"#{1,6}\s")


class MarkdownBlock(NamedTuple):
    """A paragraph, heading or table, or (`item`) an item of a list."""

    text: str
    item: bool = False


def joined(blocks: Iterable[MarkdownBlock]) -> str:
    """Join blocks to one text, with a blank line between them except between items of a list."""
    out: list[str] = []
    before = False
    for block in blocks:
        if out:
            out.append("\n" if before and block.item else "\n\n")
        out.append(block.text)
        before = block.item
    return "".join(out)


def heading(level: int, text: str) -> MarkdownBlock:
    """Return a heading without link targets; levels deeper than 6 become 6."""
    return MarkdownBlock(f"{'#' * min(level, _MOST_LEVEL)} {unlinked(one_line(text))}")


def linked(text: str, target: str) -> str:
    """Return the words of a link with its target: `[words](https://bank.example/limits)`.

    The words alone are returned if the target is no address of the web or of mail, is very long, or is the words
    themselves; so are words over several lines.
    """
    words, address = text.strip(), target.strip().translate(_ESCAPED)
    if not words or "\n" in words or not _ADDRESS.fullmatch(address) or len(address) > _MOST_ADDRESS:
        return text
    if words.rstrip("/") in (address.rstrip("/"), _SCHEME.sub("", address).rstrip("/")) or "[" in words or "]" in words:
        return text
    start = text.index(words)
    return f"{text[:start]}[{words}]({address}){text[start + len(words) :]}"


def with_links(text: str, targets: Sequence[str]) -> str:
    """Return a text with the links of its fields, which stand between two marks."""
    if not targets:
        return text.replace(LINK_CLOSE, "")
    first, *parts = text.split(LINK_OPEN)
    out = [first]
    for part, target in zip(parts, targets):
        words, closed, rest = part.partition(LINK_CLOSE)
        out.append(f"{linked(words, target) if closed else words}{rest}")
    return "".join(out).replace(LINK_CLOSE, "")


def unlinked(text: str) -> str:
    """Return a text without the targets that `linked` wrote."""
    return _LINK.sub(r"\1", text) if "](" in text else text


def without_links(text: str) -> str:
    """Return a text without its links, words and targets."""
    return _LINK.sub("", text) if "](" in text else text


def with_whole_links(text: str) -> str:
    """Return a text in which the parts of a link over several lines are one link."""
    while "](" in text and (joined_parts := _PARTS.sub(r"[\1 \3](\2)", text)) != text:
        text = joined_parts
    return text


def pipe_table(rows: Sequence[Sequence[str]]) -> MarkdownBlock | None:
    """Return a table with the first row as its head; None if every cell is empty.

    Empty rows and columns are left out; short rows are filled with empty cells. A head of several rows, the upper ones
    with cells over several columns (`CONTINUED`), becomes one row: "Retail" above "Monthly" gives "Retail Monthly". A
    row below it that is one cell over all columns names a group of rows, and is in bold.
    """
    filled = [row for row in rows if any(cell.strip(f"{CONTINUED} \n\t") for cell in row)]
    head, *body = _with_one_head(filled) or [[]]
    kept = [[one_line(cell).replace("|", "\\|") for cell in row] for row in (head, *map(_marked_group, body))]
    width = max((len(row) for row in kept), default=0)
    full = [row + [""] * (width - len(row)) for row in kept]
    columns = [index for index in range(width) if any(row[index] for row in full)]
    if not columns:
        return None
    lines = ["| " + " | ".join(row[index] for index in columns) + " |" for row in full]
    lines.insert(1, "|" + " --- |" * len(columns))
    return MarkdownBlock("\n".join(lines))


def _with_one_head(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the rows with the rows of the head joined; other covered cells become empty."""
    count = 1
    while count < min(len(rows) - 1, _MOST_HEAD) and _is_grouped(rows[count - 1]) and _all_words(rows[count]):
        count += 1
    if count == 1:
        return [*([cell.replace(CONTINUED, "") for cell in row] for row in rows[:1]), *map(list, rows[1:])]
    head = [_spread(row) for row in rows[: count - 1]] + [rows[count - 1]]
    width = max(map(len, head))
    columns = ([row[place] for row in head if place < len(row)] for place in range(width))
    names = [" ".join(dict.fromkeys(one_line(text) for text in column if text.strip())) for column in columns]
    return [names, *map(list, rows[count:])]


def _marked_group(row: Sequence[str]) -> list[str]:
    """Return a row of the body without marks of covered cells; one cell over all columns is in bold."""
    text = one_line(row[0]) if row else ""
    covered = len(row) > 1 and all(cell == CONTINUED for cell in row[1:])
    if covered and text not in ("", CONTINUED) and len(text) <= _MOST_GROUP:
        return [text if text.startswith("**") else f"**{text}**", *("" for _ in row[1:])]
    return [cell.replace(CONTINUED, "") for cell in row]


def _is_grouped(row: Sequence[str]) -> bool:
    """Whether a row has a cell over several columns, and is no title over the whole table."""
    return CONTINUED in row and sum(bool(cell.strip()) and cell != CONTINUED for cell in row) > 1


def _all_words(row: Sequence[str]) -> bool:
    return all(not cell.strip(f"{CONTINUED} ") or any(map(str.isalpha, cell)) for cell in row)


def _spread(row: Sequence[str]) -> list[str]:
    """Return a row in which each covered cell has the text of the cell that covers it."""
    out: list[str] = []
    for cell in row:
        out.append(out[-1] if cell == CONTINUED and out else cell)
    return out


def plain(text: str) -> str:
    """Escape a text that looks like a heading but is not ("# this line is a comment")."""
    return f"\\{text}" if _LIKE_HEADING.match(text) else text


def one_line(text: str) -> str:
    """Return a text on one line, with single spaces."""
    return " ".join(text.split())
