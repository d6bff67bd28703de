"""Evaluation questions from JSON Lines or tab-separated files: ids, texts, domains, days and gold answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, Final

from context_engine.core.models.request import checked_query
from context_engine.errors import ConfigError, InvalidRequest

_ID: Final = ("id", "query_id", "qid", "_id")
_TEXT: Final = ("text", "query", "question")
_MOST_LABEL: Final = 60
_READ: Final = frozenset({*_ID, *_TEXT, "domain", "as_of", "answers", "gold", "note"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalQuestion:
    """One question.

    Attributes:
        domain: None if the file names none.
        as_of: the day for which the answer must hold; None: today.
        gold: grade by gold id, from the question's line.
        labels: the other fields of the line, by which results can be grouped.
    """

    id: str
    text: str
    domain: str | None = None
    as_of: date | None = None
    gold: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def asks(self) -> tuple[str, str | None, date | None]:
        """The fields that distinguish it from other questions: text, domain and day."""
        return self.text, self.domain, self.as_of


def rejected(path: Path, line: int, problem: str) -> ConfigError:
    return ConfigError(problem, file=str(path), key=f"line {line}")


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield number and text of each non-empty line.

    Raises:
        ConfigError: the file cannot be read, or is not UTF-8 text.
    """
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not UTF-8 text (byte {error.start}): save it as UTF-8", file=str(path)) from None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=str(path)) from None
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line.rstrip("\r")


def json_lines(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield number and object of each line.

    Raises:
        ConfigError: a line is not a JSON object.
    """
    for number, line in lines_of(path):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise rejected(path, number, f"is not JSON: {error}") from None
        if not isinstance(row, dict):
            raise rejected(path, number, "is not a JSON object: a line is one question, e.g. {...}")
        yield number, row


def read_questions(path: Path) -> tuple[EvalQuestion, ...]:
    """Return the questions of a file, in its order.

    JSON Lines (`.jsonl`, `.json`): "id", "text" or "query", optionally "domain", "as_of" and "answers" (gold ids, or
    objects with "document_id" and optionally "version" and "section"); any other field is a label. A file written by
    `eval judge` is accepted too. Other files: one question per line: id, tab, text.

    Raises:
        ConfigError: the file or a line is invalid, two questions have the same id, or the file holds no question.
    """
    rows = _from_json(path) if path.suffix in (".jsonl", ".json", ".ndjson") else _from_tabs(path)
    questions: dict[str, EvalQuestion] = {}
    for number, question in rows:
        other = questions.get(question.id)
        if other is not None and other.asks != question.asks:
            problem = f"question {question.id!r} occurs again with another text, domain or day: ids must be unique"
            raise rejected(path, number, problem)
        if other is not None:
            question = replace(other, gold={**other.gold, **question.gold})
        questions[question.id] = question
    if not questions:
        raise ConfigError("holds no question", file=str(path))
    return tuple(questions.values())


def _from_tabs(path: Path) -> Iterator[tuple[int, EvalQuestion]]:
    for place, (number, line) in enumerate(lines_of(path)):
        name, tab, text = line.partition("\t")
        if not tab:
            raise rejected(path, number, "must be an id, a tab and a question")
        if not name.strip():
            raise rejected(path, number, "the question lacks an id")
        if place == 0 and name.strip().lower() in _ID and text.strip().lower() in _TEXT:
            continue  # a header line
        yield number, EvalQuestion(id=name.strip(), text=_query(path, number, text.strip()))


def _from_json(path: Path) -> Iterator[tuple[int, EvalQuestion]]:
    for number, row in json_lines(path):
        name, text = _first(row, _ID), _first(row, _TEXT)
        if name is None or text is None:
            missing = "an id" if name is None else 'a "text" or "query": add it, or give --queries FILE'
            raise rejected(path, number, f"the question lacks {missing}")
        yield (
            number,
            EvalQuestion(
                id=str(name),
                text=_query(path, number, text),
                domain=str(row["domain"]) if row.get("domain") else None,
                as_of=_day(path, number, row.get("as_of")),
                gold={} if _is_judgement(row) else _gold(path, number, row.get("answers", row.get("gold", ()))),
                labels=_labels(row),
            ),
        )


def _first(row: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def _query(path: Path, number: int, text: Any) -> str:
    try:
        return checked_query(text)
    except InvalidRequest as error:
        raise rejected(path, number, str(error)) from None


def _day(path: Path, number: int, value: Any) -> date | None:
    if value is None:
        return None
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        raise rejected(path, number, f"as_of {value!r} is not a day: write it as 2025-06-30") from None


def _is_judgement(row: Mapping[str, Any]) -> bool:
    """Whether a row is a judgement, whose gold id and grade `read_qrels` reads."""
    return "answers" not in row and isinstance(row.get("gold"), str)


def _gold(path: Path, number: int, answers: Any) -> dict[str, int]:
    if not isinstance(answers, list | tuple):
        raise rejected(path, number, f"answers must be a list, got {type(answers).__name__}")
    return {_gold_id(path, number, answer): 1 for answer in answers}


def _gold_id(path: Path, number: int, answer: Any) -> str:
    """Return the gold id of an answer: the text itself, or document, version and section joined."""
    if isinstance(answer, str) and answer.strip():
        return answer.strip()
    if not isinstance(answer, dict) or not answer.get("document_id"):
        raise rejected(path, number, f'an answer is a gold id or {{"document_id": ...}}, got {answer!r}')
    version, section = answer.get("version"), answer.get("section")
    return f"{answer['document_id']}{f'@{version}' if version else ''}{f'#{section}' if section else ''}"


def _labels(row: Mapping[str, Any]) -> dict[str, str]:
    plain = {key: value for key, value in row.items() if key not in _READ and isinstance(value, str | int | float)}
    return {key: str(value) for key, value in plain.items() if len(str(value)) <= _MOST_LABEL}
