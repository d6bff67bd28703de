"""The files of judgements: what they hold, whose word counts, and how one is taken out for good.

They stand below `judgements` in the data folder, one line of JSON each: `passages.jsonl` is a file of questions and
judgements like that of `eval judge`, and `answers.jsonl` holds judgements of whole answers. Where the ledger does not
keep the words of questions, judgements stand in `passages-without-question.jsonl` under the id of their search.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from context_engine.errors import ConfigError

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger

FOLDER: Final = "judgements"
PASSAGES: Final = Path(FOLDER, "passages.jsonl")
WITHOUT_QUESTION: Final = Path(FOLDER, "passages-without-question.jsonl")
ANSWERS: Final = Path(FOLDER, "answers.jsonl")
FILES: Final = (PASSAGES, WITHOUT_QUESTION, ANSWERS)

Judgement = Mapping[str, Any]


def read_judgements(data_dir: Path) -> Iterator[Judgement]:
    """Yield every judgement in the order of its file; a line that is none is passed over.

    Raises:
        ConfigError: a file cannot be read.
    """
    for name in FILES:
        for _, _, row in _lines(data_dir / name):
            yield row


def votes(data_dir: Path) -> list[Judgement]:
    """Return the judgements that count: of each person on each passage or answer the last one.

    Without a known person, the last judgement of the passage or answer of each search counts.

    Raises:
        ConfigError: a file cannot be read.
    """
    last: dict[tuple[str, ...], Judgement] = {}
    for row in read_judgements(data_dir):
        by, search = str(row.get("by", "")), str(row.get("search_id", ""))
        subject = (str(row.get("source_id", "")), str(row.get("chunk_id", "")))
        key = (by, str(row.get("query_id", "")), *subject) if by else ("", search, *subject)
        last.pop(key, None)
        last[key] = row
    return list(last.values())


def erase_judgements(data_dir: Path, wanted: Callable[[Judgement], bool], *, dry_run: bool = False) -> int:
    """Overwrite judgements with spaces, where they stand, while others may append; return how many.

    Args:
        wanted: whether a judgement is erased.
        dry_run: only count them.

    Raises:
        ConfigError: a file cannot be read or written.
    """
    return sum(_erase(data_dir / name, wanted, dry_run=dry_run) for name in FILES)


def erase_judgements_of(
    data_dir: Path, ledger: Ledger, callers: Collection[str], record_ids: Collection[str], *, dry_run: bool = False
) -> int:
    """Erase the judgements that callers gave, and those of records and of searches by the callers; return how many.

    Args:
        callers: pseudonyms.

    Raises:
        ConfigError: a file cannot be read or written.
    """
    from context_engine.audit.record.entry import read_entry

    def concerns(row: Judgement) -> bool:
        search_id = str(row.get("search_id", ""))
        if row.get("by") in callers or search_id in record_ids or row.get("answer_id") in record_ids:
            return True
        stored = ledger.entry(search_id) if callers and search_id else None
        asked = {} if stored is None or stored.entry is None else read_entry(stored.entry).get("caller") or {}
        return asked.get("pseudonym") in callers or asked.get("for") in callers

    return erase_judgements(data_dir, concerns, dry_run=dry_run)


def _erase(path: Path, wanted: Callable[[Judgement], bool], *, dry_run: bool) -> int:
    lines = [(start, size) for start, size, row in _lines(path) if wanted(row)]
    if not lines or dry_run:
        return len(lines)
    try:
        with path.open("r+b") as file:
            for start, size in lines:
                file.seek(start)
                file.write(b" " * size)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=str(path)) from None
    return len(lines)


def _lines(path: Path) -> Iterator[tuple[int, int, Judgement]]:
    """Yield the place, the size in bytes and the object of each line."""
    try:
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=str(path)) from None
    start = 0
    for line in lines:
        text = line.rstrip(b"\r\n")
        try:
            row = json.loads(text) if text.strip() else None
        except ValueError:
            row = None
        if isinstance(row, dict):
            yield start, len(text), row
        start += len(line)
