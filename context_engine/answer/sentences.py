"""A passage as statements: sentences, list items, table rows and whole lists, each with what it hangs on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from context_engine.answer.blocks import EXCEPTION, Nested, TextBlock, is_record, nested_blocks
from context_engine.answer.values import Evidence
from context_engine.core.chunking.spans import Span, TableHead, stripped, table_heads
from context_engine.core.text import STOP_WORDS, has_words, without_markup, words

_CODE_FOLLOWS: Final = re.compile(r"[ \t]*\n\s*(?:```|~~~)")
_STRUCK: Final = re.compile(
    r"~~.{1,2000}?~~|\[(?:deleted|Struck out): .{1,2000}?\]|<(del|s|strike)\b.{0,2000}?</\1>", re.DOTALL
)
_LEANS_BACK: Final = re.compile(
    r"(?:This|These|Those|That|It|Its|They|Their|He|She|His|Her|Such|Otherwise"
    r"|In (?:this|that|such|these|those) (?:case|event)s?|If (?:so|not)|The (?:same|latter|former))\b"
    r"|[^,;:.]{1,60}\b(?:must|shall|should|may|can|will|is|are) also\b"
)
_LIMITS: Final = re.compile(
    r"(?:(?:This|These|That|It|They|The (?:rule|requirement|limit|prohibition|obligation|above))\b.{0,60}?"
    r"\b(?:not|only|except|unless)\b|Except|Unless|However|Exceptions?\b|Notwithstanding|Otherwise|But\b|Only\b)",
    re.DOTALL,
)
_OWN_RULE: Final = re.compile(
    r"(?:Unless|Except (?:if|when|where))\b[^,;:.]+, (?!th(?:is|ese|ose|ey)\b|it\b)", re.DOTALL
)
_CONDITION: Final = re.compile(r"\b(?:if|unless|except|where|when|provided|in the (?:event|case))\b", re.IGNORECASE)
_COUNTED: Final = re.compile(r":[ \t]+[\d.,]+$", re.MULTILINE)
_UNIT: Final = re.compile(r"[^:\n]*\b(?:currency|unit)\b[^:\n]*:", re.IGNORECASE)
_MOST_ITEMS: Final = 50
_MOST_AROUND: Final = 8
_MOST_LIMITS: Final = 3
_SHORT: Final = 60
_TITLE: Final = 20


class StatementKind(StrEnum):
    """The form of a statement: a sentence or item, a lead-in alone, a row of a table, a field of a record, a list."""

    SENTENCE = "sentence"
    LEAD = "lead"
    ROW = "row"
    FIELD = "field"
    LIST = "list"


class RowCell(NamedTuple):
    """A cell of a table: its place, and the place of its column's name (empty if it has none)."""

    span: Span
    column: Span


class Statement(NamedTuple):
    """A part of a passage that can stand as an answer.

    Attributes:
        spans: its words in the passage, without struck ones; of a list, each item's.
        above: what it hangs on and is shown before it: lead-ins, the sentence that it refers back to, conditions.
        after: what limits it and stands right after it; the units of a record's number.
        around: what is near and helps to understand it, but is not shown: earlier sentences, the items above.
        headings: the document's title and the sections above, outermost first.
        cells: of a row; empty otherwise.
    """

    evidence: Evidence
    kind: StatementKind
    spans: tuple[Span, ...]
    above: tuple[Span, ...] = ()
    after: tuple[Span, ...] = ()
    around: tuple[Span, ...] = ()
    headings: tuple[str, ...] = ()
    cells: tuple[RowCell, ...] = ()

    def text(self, spans: Sequence[Span] | None = None) -> str:
        """Return the words of its spans, or of others in its passage, as a reader sees them."""
        shown = (_shown(self.evidence.text, span) for span in (self.spans if spans is None else spans))
        return " ".join(filter(None, shown))

    @property
    def start(self) -> int:
        """Where it begins in the passage."""
        return self.spans[0][0]


def statements(evidence: Evidence) -> list[Statement]:
    """Return the statements of a passage in their order; struck or deleted words are in none of them."""
    blocks = nested_blocks(evidence.text)
    out = [*_sentences(evidence, blocks), *_rows(evidence, blocks), *_lists(evidence, blocks)]
    return sorted(out, key=lambda statement: (statement.start, statement.kind is StatementKind.LIST))


def _sentences(evidence: Evidence, blocks: Sequence[Nested]) -> Iterator[Statement]:
    text = evidence.text
    leads = {each.parents[-1].spans[-1] for each in blocks if each.parents and each.block.kind == "item"}
    leads -= {each.block.spans[-1] for each in blocks if each.following and each.following[0].kind == "item"}
    for each in blocks:
        if each.block.kind == "row":
            continue
        shown, around = _above(text, each)
        headings = _headings(evidence, each.headings)
        of_record = is_record(text, each.block.spans)
        units = _units(text, each.block) if of_record else ()
        for place, span in enumerate(each.block.spans):
            earlier = each.block.spans[:1] if of_record else each.block.spans[max(place - _MOST_AROUND, 0) : place]
            last = earlier[-1:]
            before = last if _leans_back(_shown(text, span), [_shown(text, each) for each in last]) else ()
            after = _limits(text, each, place) if not of_record else units if _COUNTED.search(text, *span) else ()
            if spans := _unstruck(text, (span,)):
                yield Statement(
                    evidence,
                    StatementKind.FIELD
                    if of_record
                    else _kind(
                        _shown(text, span), is_lead=span in leads or _CODE_FOLLOWS.match(text, span[1]) is not None
                    ),
                    spans,
                    above=_unstruck(text, (*shown, *before)),
                    after=_unstruck(text, after),
                    around=(*around, *earlier),
                    headings=headings,
                )


def _leans_back(sentence: str, before: Sequence[str]) -> bool:
    """Return whether a sentence needs the one before it: "This", "they may also", "Logs" after "Access logs"."""
    first = sentence.split(" ", 1)[0]
    if _LEANS_BACK.match(sentence) or not first.istitle():
        return _LEANS_BACK.match(sentence) is not None
    pairs = pairwise(words(before[-1])) if before else ()
    return any(noun == first.lower() and {former, noun}.isdisjoint(STOP_WORDS) for former, noun in pairs)


def _kind(words: str, *, is_lead: bool) -> StatementKind:
    return (
        StatementKind.LEAD
        if words.endswith((":", "：")) or (is_lead and words[-1:].isalnum())
        else StatementKind.SENTENCE
    )


def _shown(text: str, span: Span) -> str:
    return _readable(text[slice(*span)])


@lru_cache(maxsize=16_384)
def _readable(text: str) -> str:
    return without_markup(text)


def _unstruck(text: str, spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return the parts of spans that are not struck out."""
    out: list[Span] = []
    for start, end in spans:
        for struck in _STRUCK.finditer(text, start, end):
            out.append(stripped(text, start, struck.start()))
            start = struck.end()
        out.append(stripped(text, start, end))
    return tuple(part for part in out if part[0] < part[1] and has_words(text[slice(*part)]))


def _above(text: str, each: Nested) -> tuple[list[Span], list[Span]]:
    """Return what a block hangs on, to be shown before it, and the sentences around it."""
    shown: list[Span] = []
    around: list[Span] = []
    for parent in each.parents:
        (shown if _leads(text, parent, each) else around).append(parent.spans[-1])
        around += parent.spans[:-1]
    if each.previous is not None and each.previous not in each.parents and not _is_other_row(text, each):
        around += each.previous.spans
    return shown, around


def _is_other_row(text: str, each: Nested) -> bool:
    """Return whether the block before a row is another row of data: neither a head nor the name of a group."""
    previous = each.previous
    if previous is None or each.block.kind != "row" or previous.kind != "row":
        return False
    return sum(has_words(text[slice(*span)]) for span in _split(text, previous.spans[0])) > 1


def _leads(text: str, parent: TextBlock, below: Nested) -> bool:
    """Return whether a block below another one cannot be understood without its last sentence.

    A lead-in is of the list that follows it, not of a paragraph after that list.
    """
    words = _shown(text, parent.spans[-1])
    if parent.kind == "item" and (len(words) <= _SHORT or _CONDITION.search(words)):
        return not (words.endswith((":", "：")) and _is_after_a_list(parent, below))
    if EXCEPTION.match(text, below.block.spans[0][0]):
        return True
    return (words.endswith((":", "：", "—")) or words[-1:].isalnum()) and not _is_after_a_list(parent, below)


def _is_after_a_list(parent: TextBlock, below: Nested) -> bool:
    """Return whether a paragraph below an item stands after the list that the item leads in."""
    return below.block.kind == "prose" and below.previous is not None and below.previous != parent


def _limits(text: str, each: Nested, place: int) -> tuple[Span, ...]:
    """Return the sentences right after one that limit it, in its own block or the next one.

    Below a title such as "Exceptions" the whole paragraph limits it.
    """
    own = each.block.spans[place + 1 : place + 1 + _MOST_LIMITS]
    limits = _limiting(text, own)
    if len(limits) < len(own) or not each.following:
        return limits
    first, *others = each.following
    if first.kind == "item":  # exceptions below the item
        return (*limits, *_limiting(text, [span for block in each.following for span in block.spans]))
    further = _limiting(text, first.spans)
    if others and len(further) == len(first.spans) == 1 and len(_shown(text, further[0])) <= _TITLE:
        further = (*further, *others[0].spans)
    return (*limits, *further)


def _limiting(text: str, spans: Sequence[Span]) -> tuple[Span, ...]:
    """Return the first of some sentences, as long as they limit what stands before them; at most three."""
    end = 0
    while end < min(len(spans), _MOST_LIMITS) and _is_limit(_shown(text, spans[end])):
        end += 1
    return tuple(spans[:end])


def _is_limit(sentence: str) -> bool:
    """Return whether a sentence limits the one before it; a lead-in, and a rule with its own "unless", do not."""
    is_limit = _LIMITS.match(sentence) or EXCEPTION.match(sentence)
    return is_limit is not None and not sentence.endswith((":", "：")) and not _OWN_RULE.match(sentence)


def _units(text: str, block: TextBlock) -> tuple[Span, ...]:
    """Return the fields of a record that say in what its numbers are counted; at most three."""
    return tuple(span for span in block.spans if _UNIT.match(text, *span))[:_MOST_LIMITS]


def _headings(evidence: Evidence, blocks: Sequence[TextBlock]) -> tuple[str, ...]:
    inside = (_shown(evidence.text, block.spans[0]) for block in blocks)
    return tuple(dict.fromkeys(filter(None, (*evidence.headings, *inside))))


def _rows(evidence: Evidence, blocks: Sequence[Nested]) -> Iterator[Statement]:
    """Yield the rows of the tables; a row without a head above it has cells without columns."""
    text = evidence.text
    heads = table_heads(text, 0, len(text))
    for each in blocks:
        start, end = each.block.spans[0]
        if each.block.kind != "row" or any(head.start <= start < head.body for head in heads):
            continue
        cells = _cells(text, (start, end), next((head for head in heads if head.body <= start < head.end), None))
        if cells:
            shown, around = _above(text, each)
            spans = tuple(cell.span for cell in cells)
            headings = _headings(evidence, each.headings)
            yield Statement(
                evidence, StatementKind.ROW, spans, _unstruck(text, shown), (), tuple(around), headings, cells
            )


def _cells(text: str, row: Span, head: TableHead | None) -> tuple[RowCell, ...]:
    """Return the cells of a row that hold words and are not struck."""
    columns = [] if head is None else _split(text, (head.start, text.index("\n", head.start)))
    cells = (
        RowCell(span, columns[place] if place < len(columns) else (span[0], span[0]))
        for place, span in enumerate(_split(text, row))
    )
    return tuple(
        cell for cell in cells if has_words(text[slice(*cell.span)]) and _unstruck(text, (cell.span,)) == (cell.span,)
    )


def _split(text: str, row: Span) -> list[Span]:
    """Return the cells of a row, blanks around them left out."""
    bars = [place for place in range(*row) if text[place] == "|" and text[place - 1 : place] != "\\"]
    edges = bars if text[slice(*row)].rstrip().endswith("|") else [*bars, row[1]]
    return [stripped(text, first + 1, last) for first, last in pairwise(edges)]


def _lists(evidence: Evidence, blocks: Sequence[Nested]) -> Iterator[Statement]:
    """Yield each list of at least two items that has a lead-in or numbers, as one statement."""
    text = evidence.text
    items = (each for each in blocks if each.block.kind == "item")
    for _, group in groupby(items, key=lambda each: (each.block.indent, each.parents, each.headings)):
        members = list(group)
        whole = ((each.block.spans[0][0], each.block.spans[-1][1]) for each in members[:_MOST_ITEMS])
        spans = _unstruck(text, whole)
        first = members[0]
        shown, around = _above(text, first)
        if len(spans) > 1 and (shown or first.block.ordered):
            after = _unstruck(text, _limits(text, members[-1], len(members[-1].block.spans) - 1))
            headings = _headings(evidence, first.headings)
            above = _unstruck(text, shown)
            yield Statement(evidence, StatementKind.LIST, spans, above, after, tuple(around), headings)
