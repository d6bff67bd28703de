"""Judgements: which text answers which question, read from JSON Lines, tab-separated or TREC files, and appended."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from context_engine.errors import ConfigError
from context_engine.evaluation.questions import json_lines, lines_of, rejected

Qrels = Mapping[str, Mapping[str, int]]
"""{question id: {gold id: grade}}; a grade above 0 is relevant."""
Rejected = Mapping[str, Collection[str]]
"""Question id to the gold ids judged not relevant."""
EXACT: Final = "="
"""Prefix of a chunk id that means this chunk alone, not the section that its id reads like."""
_QUESTION: Final = ("query_id", "qid", "query-id", "id")
_GOLD: Final = ("gold", "chunk_id", "passage_id", "doc_id", "document_id", "corpus-id", "content_sha256")
_GRADE: Final = ("grade", "relevance", "score", "rel")
_MOST_GRADE: Final = 1000
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


def read_qrels(path: Path) -> Qrels:
    """Return the judgements of a file.

    Forms: JSON Lines (`query_id`, one of `gold`, `chunk_id`, `document_id`, `content_sha256`, and `grade`); lines of
    question, gold id and grade; TREC's lines of question, 0, gold id and grade. In JSON Lines, which people append to,
    the last judgement of a pair counts, and `chunk_id` names that chunk alone, marked by `EXACT`; elsewhere a pair with
    two grades is an error.

    Raises:
        ConfigError: the file or a line cannot be used, or there is no judgement.
    """
    by_hand = path.suffix in (".jsonl", ".json", ".ndjson")
    qrels: dict[str, dict[str, int]] = {}
    for number, question, gold, grade in _from_json(path) if by_hand else _from_columns(path):
        grades = qrels.setdefault(question, {})
        if not by_hand and grades.get(gold, grade) != grade:
            raise rejected(path, number, f"{question} {gold} was graded {grades[gold]} above and is {grade} here")
        grades[gold] = grade
    if not qrels:
        raise ConfigError("holds no judgement", file=str(path))
    return qrels


def positive(qrels: Qrels) -> Qrels:
    """Return the relevant judgements (grade above 0) of each question that has any."""
    kept = {question: {gold: grade for gold, grade in rows.items() if grade > 0} for question, rows in qrels.items()}
    return {question: grades for question, grades in kept.items() if grades}


def check_judgements(path: Path) -> None:
    """Refuse a file that judgements cannot be appended to.

    Raises:
        ConfigError: it has another form.
    """
    if path.suffix != ".jsonl":
        raise ConfigError("judgements are kept as JSON Lines: name a file that ends in .jsonl", file=str(path))


def append_judgement(path: Path, judgement: Mapping[str, Any]) -> None:
    """Append one judgement to a JSON Lines file, creating it if necessary.

    Raises:
        ConfigError: the file has another form, or cannot be written.
    """
    check_judgements(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        broken_off = path.exists() and path.stat().st_size > 0 and path.read_bytes()[-1:] != b"\n"
        with path.open("a", encoding="utf-8") as file:
            file.write("\n" * broken_off + json.dumps(judgement, ensure_ascii=False) + "\n")
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=str(path)) from None


def _from_json(path: Path) -> Iterator[tuple[int, str, str, int]]:
    for number, row in json_lines(path):
        question = next((row[name] for name in _QUESTION if row.get(name) not in (None, "")), None)
        named_by = next((name for name in _GOLD if row.get(name) not in (None, "")), None)
        grade = next((row[name] for name in _GRADE if name in row), 1)
        if question is None or named_by is None:
            lacks = "query_id" if question is None else "gold, chunk_id or document_id"
            raise rejected(path, number, f"the judgement lacks {lacks}")
        gold = f"{EXACT if named_by == 'chunk_id' else ''}{row[named_by]}"
        yield number, str(question), gold, _grade(path, number, grade)


def _from_columns(path: Path) -> Iterator[tuple[int, str, str, int]]:
    for place, (number, line) in enumerate(lines_of(path)):
        columns = [part.strip() for part in line.split("\t")] if "\t" in line else line.split()
        if len(columns) not in (3, 4):
            form = "question, gold id and grade, or TREC's question, 0, gold id and grade"
            raise rejected(path, number, f"has {len(columns)} columns: write {form}")
        if place == 0 and not any(char.isdecimal() for char in columns[-1]):
            continue  # a heading
        yield number, columns[0], columns[-2], _grade(path, number, columns[-1])


def _grade(path: Path, number: int, value: Any) -> int:
    if isinstance(value, str):
        value = float(value) if _NUMBER.fullmatch(value) else value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not -_MOST_GRADE <= value <= _MOST_GRADE:
        raise rejected(path, number, f"the grade must be a whole number, 0 for not relevant, got {value!r}")
    return value
