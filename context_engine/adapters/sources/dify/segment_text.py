"""What a segment of Dify says: its text, the line that its text begins with, and what belongs to it.

A general chunk and a parent begin with the line. Of a question and its answer the answer does. Where the parent is a
whole document, each child says its place: that of the best child is the place of what was found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Any, NamedTuple

from context_engine.core.chunking import ChunkLine, read_line, restored
from context_engine.core.models import PLACE_OF_MATCH


class SegmentText(NamedTuple):
    """A segment's text.

    Attributes:
        line: what its line says; None for a text without one.
        content: without the line; question and answer are one text.
        extra: of a parent the spans of the children that matched, and whether its place is that of a child; of a
            summary index the summary that matched, of a multimodal dataset the names of its pictures, of a question
            and its answer both.
    """

    line: ChunkLine | None
    content: str
    extra: dict[str, Any]


class _Child(NamedTuple):
    line: ChunkLine | None
    content: str
    score: float


def segment_text(record: Mapping[str, Any], *, has_line: bool) -> SegmentText:
    """Return what the segment of a well-formed record says.

    Args:
        record: of Dify's answer.
        has_line: whether its text was written with a line, or escaped; else it is left as it is, byte for byte.
    """
    content: str = record["segment"]["content"]
    extra = _beside(record)
    if answer := record["segment"].get("answer"):
        line, said = read_line(answer) if has_line else (None, answer)
        question = restored(content) if has_line else content
        text = f"{question}\n\n{said}" if said else question
        return SegmentText(line, text, {"question": question, "answer": said, **extra})
    line, content = read_line(content) if has_line else (None, content)
    children = _children(record, has_line=has_line)
    spans = [[start, start + len(one.content)] for one in children if (start := content.find(one.content)) >= 0]
    extra |= {"matched_spans": spans} if spans else {}
    best = max(children, key=lambda child: child.score, default=None)
    if best is not None and best.line:
        line, extra = _placed(line, best.line), extra | {PLACE_OF_MATCH: True}
    return SegmentText(line, content, extra)


def line_of_first(body: Mapping[str, Any]) -> ChunkLine:
    """Return what the line of the first segment in Dify's list says; nothing where it has none."""
    rows = body.get("data")
    row = rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], Mapping) else {}
    text = row.get("answer") or row.get("content")
    return (read_line(text)[0] if isinstance(text, str) else None) or ChunkLine()


def pictures_of(record: Mapping[str, Any]) -> list[str]:
    """Return the names of a record's pictures; their addresses are signed and stay here."""
    given = record.get("files")
    files = given if isinstance(given, list) else []
    return [name for one in files if isinstance(one, Mapping) and isinstance(name := one.get("name"), str) and name]


def _beside(record: Mapping[str, Any]) -> dict[str, Any]:
    summary, files = record.get("summary"), pictures_of(record)
    extra: dict[str, Any] = {"summary": summary} if isinstance(summary, str) and summary else {}
    return extra | ({"files": files} if files else {})


def _children(record: Mapping[str, Any], *, has_line: bool) -> list[_Child]:
    out: list[_Child] = []
    for given in record.get("child_chunks") or []:
        text, score = (given.get("content"), given.get("score")) if isinstance(given, Mapping) else (None, None)
        line, content = read_line(text) if has_line and isinstance(text, str) else (None, text)
        if isinstance(content, str) and content:
            out.append(_Child(line, content, score if isinstance(score, int | float) else -inf))
    return out


def _placed(line: ChunkLine | None, child: ChunkLine) -> ChunkLine:
    """Return a parent's line with the place that a child's says."""
    of_parent = line or ChunkLine()
    return replace(of_parent, path=child.path, section=child.section, page=child.page, reference=child.reference)
