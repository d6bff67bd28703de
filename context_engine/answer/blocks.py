"""A passage as blocks: headings, paragraphs, list items and table rows, each with the blocks it stands below."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, Literal, NamedTuple

from context_engine.core.chunking.spans import Span, lines, sentences, stripped
from context_engine.core.text import has_words

_HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(?=\S)")
_QUOTED: Final = r"([ \t]*)(?:>[ \t]*)?"
_ITEM: Final = re.compile(_QUOTED + r"(?:[-*+•·‣]|(\d{1,3}[.)]|\(\w{1,4}\)|[a-z][.)]))[ \t]+(?=\S)")
_LINK_TARGET: Final = re.compile(r" {0,3}\[(?!\^)[^\]\n]+\]:[ \t]*\S+[ \t]*(?:[\"'(].*)?$")
"""A line that says only where the links of a text lead: "[guide]: https://example.org"."""
_FENCE: Final = re.compile(r"[ \t]*(?:```|~~~)")
_CALLOUT: Final = re.compile(r"([ \t]*)!!![ \t]*\w*[ \t]*\"?(.*?)\"?[ \t]*$", re.MULTILINE)
_FIELD: Final = re.compile(r"[^\W\d_][\w ()/&’'-]{0,50}:[ \t]+\S")
EXCEPTION: Final = re.compile(r"(?:except|excluding|other than|apart from|with the exception of)\b", re.IGNORECASE)
_TAB: Final = 4

BlockKind = Literal["heading", "prose", "item", "row"]


class TextBlock(NamedTuple):
    """A block of a text.

    Attributes:
        indent: columns before it; of a heading its level.
        spans: its sentences; the fields of a record; of a heading or row, the whole of it.
        ordered: whether it is an item with a number or letter.
    """

    kind: BlockKind
    indent: int
    spans: tuple[Span, ...]
    ordered: bool = False


class Nested(NamedTuple):
    """A block, not a heading, with its place in the text.

    Attributes:
        headings: the headings above it, outermost first.
        parents: the items above it, and the paragraph that its list follows, outermost first.
        previous: the block before it in its section.
        following: the next two paragraphs of its section, after the rest of its list or table, unless they are of a
            later item; or the items below it that begin with "except".
    """

    block: TextBlock
    headings: tuple[TextBlock, ...]
    parents: tuple[TextBlock, ...]
    previous: TextBlock | None
    following: tuple[TextBlock, ...]


def nested_blocks(text: str) -> list[Nested]:
    """Return the blocks of a text that are no headings, in order; code is left out, and each table row is a block.

    >>> [each.parents for each in nested_blocks("Keep:\\n- logs")][1][0].spans
    ((0, 5),)
    """
    blocks = _blocks(text)
    out: list[Nested] = []
    headings: list[TextBlock] = []
    parents: list[TextBlock] = []
    previous: TextBlock | None = None
    for block, following in zip(blocks, _following(text, blocks)):
        if block.kind == "heading":
            headings = [*(above for above in headings if above.indent < block.indent), block]
            parents, previous = [], None
            continue
        parents = _still_open(parents, block)
        out.append(Nested(block, tuple(headings), tuple(parents), previous, following))
        previous = block
        if block.kind != "row":
            parents.append(block)
    return out


def is_record(text: str, spans: Sequence[Span]) -> bool:
    """Return whether lines are fields such as "Limit: 5", at least two; the first may be a title."""
    fields = [_FIELD.match(text, *span) is not None for span in spans]
    return sum(fields) > 1 and all(fields[1:])


def _still_open(parents: Sequence[TextBlock], block: TextBlock) -> list[TextBlock]:
    """Return the parents that a block stands below, too."""
    if block.kind == "row":
        return list(parents) if parents and parents[-1].kind == "prose" else []
    if block.kind == "prose":
        return [above for above in parents if above.kind == "item" and above.indent < block.indent]
    beside = [above for above in parents if above.kind == "item" and above.indent == block.indent]
    begins_anew = bool(beside) and beside[-1].ordered != block.ordered
    return [
        above
        for above in parents
        if above.indent < block.indent or (above.kind == "prose" and above.indent == block.indent and not begins_anew)
    ]


def _following(text: str, blocks: Sequence[TextBlock]) -> list[tuple[TextBlock, ...]]:
    """Return what follows each block, as `Nested.following` says."""
    out: list[tuple[TextBlock, ...]] = []
    following: tuple[TextBlock, ...] = ()
    after: TextBlock | None = None
    for block in reversed(blocks):
        if after is None or after.kind == "heading":
            following = ()
        elif after.kind == "prose":
            following = (after, *following)[:2]
        elif after.kind != block.kind:
            following = ()
        is_of_another = bool(following) and following[0] is not after and following[0].indent > block.indent
        out.append(() if is_of_another else following)
        after = block
    return [_exceptions(text, blocks[place:]) or each for place, each in enumerate(reversed(out))]


def _exceptions(text: str, blocks: Sequence[TextBlock]) -> tuple[TextBlock, ...]:
    """Return the first items below the first block, as long as they begin with "except"."""
    block, *others = blocks
    below = takewhile(lambda item: item.kind == "item" and item.indent > block.indent, others)
    return tuple(takewhile(lambda item: EXCEPTION.match(text, item.spans[0][0]), below)) if block.kind == "item" else ()


@dataclass(slots=True)
class _Open:
    """The block that is being read.

    Attributes:
        rows: its lines.
    """

    kind: BlockKind
    indent: int
    ordered: bool
    rows: list[Span]

    def closed(self, text: str) -> TextBlock | None:
        """Return the finished block; None if it holds no words."""
        span = stripped(text, self.rows[0][0], self.rows[-1][1])
        if not has_words(text[slice(*span)]):
            return None
        rows = [stripped(text, *row) for row in self.rows]
        spans = rows if is_record(text, rows) else sentences(text, *span)
        return TextBlock(self.kind, self.indent, tuple(spans), self.ordered)


def _blocks(text: str) -> list[TextBlock]:
    out: list[TextBlock | None] = []
    current: _Open | None = None
    fenced = False
    for start, end in lines(text, 0, len(text)):
        line = text[start:end]
        fence = _FENCE.match(line) is not None
        opened = None if fence or fenced else _opened(line, start, end)
        fenced ^= fence
        if current is not None and isinstance(opened, _Open) and opened.kind == "prose":
            current.rows.append((start, end))
            continue
        out.append(None if current is None else current.closed(text))
        current = opened if isinstance(opened, _Open) else None
        out.append(opened if isinstance(opened, TextBlock) else None)
    out.append(None if current is None else current.closed(text))
    return [block for block in out if block is not None]


def _opened(line: str, start: int, end: int) -> TextBlock | _Open | None:
    """Return what a line begins: a whole block, or one that goes on; None for a blank line or the target of links.

    A line of prose goes on with the block above it.
    """
    if not line.strip() or _LINK_TARGET.match(line.rstrip()):
        return None
    if heading := _HEADING.match(line):
        return TextBlock("heading", len(heading[1]), ((start + heading.end(), start + len(line.rstrip())),))
    if line.lstrip().startswith("|"):
        first = len(line) - len(line.lstrip())
        return TextBlock("row", 0, ((start + first, start + len(line.rstrip())),))
    if callout := _CALLOUT.match(line):
        title = (start + callout.start(2), start + callout.end(2))
        return TextBlock("prose", _width(callout[1]), (title,)) if callout[2] else None
    if item := _ITEM.match(line):
        return _Open("item", _width(item[1]), item[2] is not None, [(start + item.end(), end)])
    return _Open("prose", _width(line[: len(line) - len(line.lstrip())]), False, [(start, end)])


def _width(blanks: str) -> int:
    return len(blanks.expandtabs(_TAB))
