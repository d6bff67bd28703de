"""Run files in TREC's form: question, Q0, id, rank, score, tag."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import isnan, nan
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from context_engine.errors import ConfigError
from context_engine.evaluation.questions import lines_of, rejected

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
        ConfigError: the file or a line cannot be used, an id appears twice for a question, or there is no line.
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
