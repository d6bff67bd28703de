"""Cutting a document into pieces: along its sections, in windows of fixed size, or by the fields of a record."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import takewhile
from typing import Final

from context_engine.core.chunking.contents import ContentsTable, between, without_contents
from context_engine.core.chunking.fields import field_pieces
from context_engine.core.chunking.outline import OutlineSection, outline
from context_engine.core.chunking.pack import Count, Piece, fit, pack
from context_engine.core.chunking.spans import Span, TableHead, atoms, stripped, table_heads
from context_engine.core.chunking.strategy import ChunkingStrategy
from context_engine.core.text.markup import has_words


def fixed_pieces(
    text: str, size: int, overlap: int, count: Count, contents: Sequence[ContentsTable] = ()
) -> list[Piece]:
    """Return windows of at most `size` tokens, each as full as its sentences, rows and items allow.

    The section and the heading path of a window are the innermost ones that apply to the whole window.

    Args:
        overlap: most tokens that a window repeats from the one before; whole sentences, items or rows.
        count: counts tokens.
        contents: tables of contents; no window contains or spans one.
    """
    sections = outline(without_contents(text, contents))
    starts = [section.start for section in sections]
    spans = (
        cut_span
        for span in between(contents, 0, len(text))
        for cut_span in _cut(text, span, size, overlap, count, keep_blocks=False)
    )
    pieces: list[Piece] = []
    for position, (content, (start, end)) in enumerate(spans):
        inside = sections[bisect_right(starts, start) - 1 : bisect_left(starts, end)]
        label, path = _common(inside)
        pieces.append(Piece(content, (start, end), label, path, position))
    return pieces


def _common(inside: list[OutlineSection]) -> tuple[str | None, tuple[str, ...]]:
    """Return number and path of the innermost section that contains all of these."""
    path = inside[0].path
    for section in inside[1:]:
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(path, section.path)))
        path = path[:shared]
    label = next((section.label for section in inside if section.path == path), None)
    return label, path


_TINY: Final = 32  # a section of at most 1/32 of a piece is tiny: a rule of one full sentence keeps its own number
_JOINED: Final = 8  # tiny siblings are joined up to 1/8 of a piece, and a title page of at most that with what follows
_MOST_HEAD: Final = 4  # the head of a table is repeated if it takes at most 1/4 of a piece
_SENTENCE: Final = re.compile(r"[^\n]{40,}[.!?。！？:：]\s*$|^\s*\||^[-*]\s", re.MULTILINE)  # or a table, or a list


def section_pieces(
    text: str, size: int, overlap: int, count: Count, contents: Sequence[ContentsTable] = ()
) -> list[Piece]:
    """Return a document's sections as pieces; a section over the limit is cut at paragraphs, then at sentences.

    A heading without text of its own opens the piece of its first subsection. Neighbouring sections of at most
    size/32 tokens below one heading become one piece of at most size/8, with the number of the first and the path of
    the heading.

    Args:
        overlap: most tokens that a part of a section repeats from the part before; whole sentences, items or rows.
        contents: tables of contents; no piece contains or spans one.
    """
    pieces: list[Piece] = []
    tokens = cache(partial(_tokens, text, count))
    for section in _joined(text, contents, size, tokens):
        span = stripped(text, section.start, section.end)
        fits = tokens(section.start, section.end) <= size
        whole = [(text[slice(*span)], span)]
        for content, (start, end) in whole if fits else _cut(text, span, size, overlap, count):
            if start == end:
                continue
            bare = not has_words(text[section.body : end])
            pieces.append(Piece(content, (start, end), section.label, section.path, len(pieces), bare))
    return pieces


def _joined(
    text: str, contents: Sequence[ContentsTable], size: int, tokens: Callable[[int, int], int]
) -> Iterator[OutlineSection]:
    """Yield the sections that become pieces; none is joined across a table of contents."""
    sections = outline(without_contents(text, contents))
    for start, end in between(contents, 0, len(text)):
        inside = [_within(section, start, end) for section in sections if section.start < end and start < section.end]
        joined = _siblings_joined(text, _openings_joined(text, inside), size, tokens)
        labelled = bool(inside and inside[0].label)
        yield from joined if labelled else _cover_joined(text, joined, size, tokens)


def _cover_joined(
    text: str, sections: list[OutlineSection], size: int, tokens: Callable[[int, int], int]
) -> list[OutlineSection]:
    """Join a title page (few words, no sentence) at the beginning of a document to the section that follows."""
    if len(sections) < 2 or sections[0].start or sections[0].label:
        return sections
    cover, first, *others = sections
    cover_text = text[cover.body : cover.end]
    if not cover_text.strip() or _SENTENCE.search(cover_text) or tokens(cover.start, cover.end) * _JOINED > size:
        return sections
    return [first._replace(start=cover.start), *others]


def _within(section: OutlineSection, start: int, end: int) -> OutlineSection:
    first, last = max(section.start, start), min(section.end, end)
    return section._replace(start=first, end=last, body=min(max(section.body, first), last))


def _cut(
    text: str, span: Span, size: int, overlap: int, count: Count, *, keep_blocks: bool = True
) -> Iterator[tuple[str, Span]]:
    """Yield contents and spans; a piece that begins inside a table begins with its head, and the row of its group."""
    heads = [head for head in table_heads(text, *span) if count(head.text) * _MOST_HEAD <= size]
    if heads and count(text[slice(*stripped(text, *span))]) <= size:
        heads = []  # one piece holds all of it
    long = [head for head in heads if not keep_blocks or count(text[head.start : head.end]) > size]
    limit = size - max((_opening_size(text, head, count) for head in long), default=0)
    parts = fit(text, atoms(text, *span), limit, count)
    for start, end in pack(text, parts, limit, overlap, count, keep_blocks=keep_blocks):
        head = next((head for head in heads if head.body <= start < head.end), None)
        content = text[start:end] if head is None else f"{head.opening(text, start)}\n{text[start:end]}"
        yield (content if head is None or count(content) <= size else text[start:end]), (start, end)


def _opening_size(text: str, head: TableHead, count: Count) -> int:
    """Return the tokens of the longest lines that a piece of a table may begin with."""
    longest = max((text[slice(*span)] for span in head.groups), key=len, default="")
    return count(f"{head.text}\n{longest}")


def _tokens(text: str, count: Count, start: int, end: int) -> int:
    """Return the tokens between two offsets, without the white space at the ends."""
    return count(text[slice(*stripped(text, start, end))])


def _openings_joined(text: str, sections: list[OutlineSection]) -> list[OutlineSection]:
    """Join a heading without text to the following section, if that belongs below it."""
    out: list[OutlineSection] = []
    for section in sections:
        last = out[-1] if out else None
        if last and _below(section, last) and _bare(text, last):
            out[-1] = section._replace(start=last.start)
        else:
            out.append(section)
    return out


def _bare(text: str, section: OutlineSection) -> bool:
    return not has_words(text[section.body : section.end])


def _below(section: OutlineSection, upper: OutlineSection) -> bool:
    return bool(upper.path) and len(section.path) > len(upper.path) and section.path[: len(upper.path)] == upper.path


def _siblings_joined(
    text: str, sections: list[OutlineSection], size: int, tokens: Callable[[int, int], int]
) -> list[OutlineSection]:
    out: list[OutlineSection] = []
    run: tuple[str, ...] | None = None  # the heading above the tiny sections that the last one is made of
    for section in sections:
        tiny = section.path and tokens(section.start, section.end) * _TINY <= size
        parent = section.path[:-1] if tiny else None
        if parent is not None and parent == run and tokens(out[-1].start, section.end) * _JOINED <= size:
            body = section.body if _bare(text, out[-1]) and _bare(text, section) else out[-1].body
            out[-1] = out[-1]._replace(end=section.end, path=parent, body=body)
        else:
            out.append(section)
        run = parent
    return out


CHUNKER_VERSION: Final = "13"
"""Raised whenever some text is cut differently: documents cut by an older version are then cut again."""


def cut(text: str, strategy: ChunkingStrategy, count: Count, contents: Sequence[ContentsTable] = ()) -> list[Piece]:
    """Return the pieces of a text, in order; none for a text of white space.

    Args:
        text: the document; for `field_level`, a record as written by `record_text`.
        count: counts tokens.
        contents: tables of contents; no piece contains or spans one. Not for `field_level`.
    """
    if strategy.method == "field_level":
        return field_pieces(text, strategy.chunk_size, count)
    if strategy.method == "section_aware":
        return section_pieces(text, strategy.chunk_size, strategy.overlap, count, contents)
    return fixed_pieces(text, strategy.chunk_size, strategy.overlap, count, contents)
