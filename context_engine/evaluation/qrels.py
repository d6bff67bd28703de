"""Read and append judgements (JSON Lines, tab-separated or TREC files); read and write run files in TREC's form."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from math import isnan, nan
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from context_engine.core.models import RankedChunk, SearchResult, utc_text
from context_engine.core.text import content_sha256
from context_engine.errors import ConfigError, InvalidRequest
from context_engine.evaluation.questions import json_lines, lines_of, read_questions, rejected

Qrels = Mapping[str, Mapping[str, int]]
"""{question id: {gold id: grade}}; a grade above 0 is relevant."""

Rejected = Mapping[str, Collection[str]]
"""Question id to the gold ids judged not relevant."""

EXACT: Final = "="
"""Prefix of an exact chunk id: only this chunk, not the section of the same name."""

_QUESTION: Final = ("query_id", "qid", "query-id", "id")
_GOLD: Final = ("gold", "chunk_id", "passage_id", "doc_id", "document_id", "corpus-id", "content_sha256")
_GRADE: Final = ("grade", "relevance", "score", "rel")
_MOST_GRADE: Final = 1000
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


def read_qrels(path: Path) -> Qrels:
    """Return the judgements of a file.

    Forms: JSON Lines (`query_id`, one of `gold`, `chunk_id`, `document_id`, `content_sha256`, and `grade`); lines of
    question, gold id and grade; TREC's lines of question, 0, gold id and grade. In JSON Lines, which people append to,
    the last judgement of a pair counts, and `chunk_id` names only that chunk (prefix `EXACT`); of several people (`by`)
    the last of each counts, and the grade that most of them give, of equally many the lower. In the other forms, two
    grades for a pair are an error.

    Raises:
        ConfigError: the file or a line is invalid, or the file holds no judgement.
    """
    by_hand = path.suffix in (".jsonl", ".json", ".ndjson")
    qrels = _agreed(_from_json(path)) if by_hand else _only_grades(path)
    if not qrels:
        raise ConfigError("holds no judgement", file=str(path))
    return qrels


def _agreed(rows: Iterable[tuple[str, str, int, str]]) -> Qrels:
    """Return the grade of each question and gold id on which most people agree, each with the last word."""
    people: dict[tuple[str, str], dict[str, int]] = {}
    for question, gold, grade, by in rows:
        people.setdefault((question, gold), {})[by] = grade
    qrels: dict[str, dict[str, int]] = {}
    for (question, gold), grades in people.items():
        counts = Counter(grades.values())
        qrels.setdefault(question, {})[gold] = min(counts, key=lambda grade: (-counts[grade], grade))
    return qrels


def _only_grades(path: Path) -> Qrels:
    qrels: dict[str, dict[str, int]] = {}
    for number, question, gold, grade in _from_columns(path):
        grades = qrels.setdefault(question, {})
        if grades.setdefault(gold, grade) != grade:
            raise rejected(path, number, f"{question} {gold} was graded {grades[gold]} above and is {grade} here")
    return qrels


def positive(qrels: Qrels) -> Qrels:
    """Return the relevant judgements (grade above 0) of each question that has any."""
    kept = {question: {gold: grade for gold, grade in rows.items() if grade > 0} for question, rows in qrels.items()}
    return {question: grades for question, grades in kept.items() if grades}


def check_judgements(path: Path) -> None:
    """Refuse a file to which judgements cannot be appended.

    Raises:
        ConfigError: the file is not JSON Lines.
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


def _from_json(path: Path) -> Iterator[tuple[str, str, int, str]]:
    """Yield question, gold id, grade and judge ("" if unknown) of each line."""
    for number, row in json_lines(path):
        question = next((row[name] for name in _QUESTION if row.get(name) not in (None, "")), None)
        named_by = next((name for name in _GOLD if row.get(name) not in (None, "")), None)
        grade = next((row[name] for name in _GRADE if name in row), 1)
        if question is None or named_by is None:
            lacks = "query_id" if question is None else "gold, chunk_id or document_id"
            raise rejected(path, number, f"the judgement lacks {lacks}")
        gold = f"{EXACT if named_by == 'chunk_id' else ''}{row[named_by]}"
        yield str(question), gold, _grade(path, number, grade), str(row.get("by", ""))


def _from_columns(path: Path) -> Iterator[tuple[int, str, str, int]]:
    for place, (number, line) in enumerate(lines_of(path)):
        columns = [part.strip() for part in line.split("\t")] if "\t" in line else line.split()
        if len(columns) not in (3, 4):
            form = "question, gold id and grade, or TREC's question, 0, gold id and grade"
            raise rejected(path, number, f"has {len(columns)} columns: write {form}")
        if place == 0 and (columns[0].casefold() in _QUESTION or columns[-1].casefold() in _GRADE):
            continue  # a header line
        yield number, columns[0], columns[-2], _grade(path, number, columns[-1])


def _grade(path: Path, number: int, value: Any) -> int:
    if isinstance(value, str):
        value = float(value) if _NUMBER.fullmatch(value) else value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not -_MOST_GRADE <= value <= _MOST_GRADE:
        raise rejected(path, number, f"the grade must be a whole number, 0 for not relevant, got {value!r}")
    return value


_BREAKS_A_LINE: Final = re.compile(r"[\s%]")


def _written(name: str) -> str:
    return _BREAKS_A_LINE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), name) or "-"


def write_run(path: Path, rankings: Mapping[str, Sequence[tuple[str, float]]], tag: str) -> None:
    """Write rankings: question id to (chunk id, score), best first; white space in an id becomes %20.

    Raises:
        ConfigError: the file cannot be written.
    """
    tag = _written("-".join(tag.split()))
    lines = [
        f"{_written(question)} Q0 {_written(name)} {rank} {score:.6f} {tag}\n"
        for question, places in rankings.items()
        for rank, (name, score) in enumerate(places, start=1)
    ]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(lines), "utf-8")
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=str(path)) from None


def read_run(path: Path) -> Mapping[str, Sequence[tuple[str, float]]]:
    """Return the rankings of a run file, best first; equal scores stay in the order of the file.

    Lines of three columns (question, id, score) are accepted too.

    Raises:
        ConfigError: the file or a line is invalid, an id appears twice for a question, or the file is empty.
    """
    rankings: dict[str, dict[str, float]] = {}
    for number, line in lines_of(path):
        columns = line.split()
        if len(columns) not in (3, 6):
            problem = f"has {len(columns)} columns: a run has six (question Q0 id rank score tag) or three"
            raise rejected(path, number, problem)
        question, name = unquote(columns[0]), unquote(columns[1 if len(columns) == 3 else 2])
        scores = rankings.setdefault(question, {})
        if name in scores:
            raise rejected(path, number, f"{name} appears twice for question {question}")
        scores[name] = _score(path, number, columns[2 if len(columns) == 3 else 4])
    if not rankings:
        raise ConfigError("holds no ranking", file=str(path))
    return {question: _best_first(scores.items()) for question, scores in rankings.items()}


def _best_first(places: Iterable[tuple[str, float]]) -> Sequence[tuple[str, float]]:
    return sorted(places, key=lambda place: -place[1])


def _score(path: Path, number: int, text: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = nan
    if isnan(score):
        raise rejected(path, number, f"the score must be a number, got {text!r}")
    return score


def question_id(path: Path, query: str, domain: str, as_of: date | None = None, name: str | None = None) -> str:
    """Return the id of a question: the requested one (`name`), its id in the file, or a hash of text, domain and day.

    Raises:
        ConfigError: the file cannot be read.
        InvalidRequest: the file holds another question under the requested id.
    """
    known = read_questions(path) if path.exists() and path.stat().st_size else ()
    asks = (query, domain, as_of)
    if name is not None:
        other = next((question for question in known if question.id == name and question.asks != asks), None)
        if other is not None:
            raise InvalidRequest(f"{path} holds another question as {name!r}: {other.text!r}: give another --id")
        return name
    same = next((question.id for question in known if question.asks == asks), None)
    return same or hashed_id(query, domain, as_of)


def hashed_id(query: str, domain: str, as_of: date | None = None) -> str:
    """Return an id of a question made from its text, domain and day."""
    day = f" {as_of.isoformat()}" if as_of else ""
    return f"q-{content_sha256(f'{domain} {query}{day}')[:10]}"


def to_judge(path: Path, question: str, result: SearchResult) -> Sequence[RankedChunk]:
    """Return the chunks of a result that have no judgement in the file.

    Raises:
        ConfigError: the file cannot be read.
    """
    judged = read_qrels(path).get(question, {}) if path.exists() and path.stat().st_size else {}
    names = {name.removeprefix(EXACT) for name in judged}
    return [chunk for chunk in result.chunks if chunk.chunk_id not in names]


def judgement(
    question: str,
    result: SearchResult,
    chunk: RankedChunk,
    grade: int,
    *,
    as_of: date | None = None,
    by: str | None = None,
    at: datetime | None = None,
) -> Mapping[str, Any]:
    """Return one judgement as a line of a JSON Lines file, which also serves as a file of questions.

    Args:
        by, at: the judge and the time; omitted if None.
    """
    row: dict[str, Any] = {
        "query_id": question,
        "query": result.query,
        "domain": result.domain,
        "as_of": as_of.isoformat() if as_of else None,
        "chunk_id": chunk.chunk_id,
        "grade": grade,
        "source_id": chunk.source_id,
        "document_id": chunk.chunk.document_id,
        "document_version": chunk.chunk.document_version,
        "section": chunk.chunk.section,
        "content_sha256": content_sha256(chunk.content),
        "rank": chunk.rank,
        "by": by,
        "at": utc_text(at) if at else None,
    }
    return {key: value for key, value in row.items() if value is not None}
