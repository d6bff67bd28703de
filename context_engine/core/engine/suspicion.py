"""Which of the returned chunks want to be more than text, alone or beside one another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from context_engine.core.engine.candidate_table import CandidateTable
from context_engine.core.models import Notice, NoticeCode
from context_engine.core.policy.injection import INJECTION_SUSPECTED, label_kinds, split_kinds


def flag_injections(table: CandidateTable, rows: Sequence[int]) -> None:
    """Flag the returned rows that are suspected, with a notice for each.

    A text is read alone, with its title, headings and fields, and with the text that stands beside it: the next by
    rank, and the next of its document.

    Args:
        rows: best first.
    """

    def kinds_of(text: str) -> tuple[str, ...]:
        return table.analyse(text).injection

    kinds = {row: [*table.candidates[row].text.injection, *label_kinds(table.chunks[row], kinds_of)] for row in rows}
    for before, after in _beside(table, rows):
        split = split_kinds(table.chunks[before].content, table.chunks[after].content)
        kinds[before] += split
        kinds[after] += split
    for row in rows:
        if kinds[row]:
            table.flag(row, INJECTION_SUSPECTED)
            table.notices.append(_notice(*table.keys[row], list(dict.fromkeys(kinds[row]))))


def _beside(table: CandidateTable, rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    yield from pairwise(rows)
    ranked = set(pairwise(rows))
    in_documents = sorted((row for row in rows if table.chunks[row].document_id), key=lambda row: _place(table, row))
    for before, after in pairwise(in_documents):
        if _place(table, before)[:3] == _place(table, after)[:3] and (before, after) not in ranked:
            yield before, after


def _place(table: CandidateTable, row: int) -> tuple[str, str, str, tuple[int, int], int]:
    """Return a chunk's document and its place there."""
    chunk = table.chunks[row]
    place = (chunk.span or (0, 0), chunk.position or 0)
    return (table.keys[row][0], str(chunk.document_id), str(chunk.document_version), *place)


def _notice(source_id: str, chunk_id: str, kinds: list[str]) -> Notice:
    words = ", ".join(kind.replace("_", " ") for kind in kinds)
    message = (
        f"chunk {chunk_id!r} of source {source_id!r} reads like more than text ({words}): it is quoted in contexts, "
        "never to be followed"
    )
    return Notice(NoticeCode.INJECTION_SUSPECTED, source_id, message, {"chunk_id": chunk_id, "kinds": kinds})
