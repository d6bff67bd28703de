"""Contradictions that somebody has looked at and settled, with reason and name: one line of JSON each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from context_engine.errors import ConfigError
from context_engine.service.appending import append_line, read_lines
from context_engine.service.judgements import FOLDER

FILE: Final = f"{FOLDER}/settled-conflicts.jsonl"
"""The file in the data folder; a backup takes it with the judgements of readers."""


class Settled(NamedTuple):
    """A settled contradiction.

    Attributes:
        reason: why it is none, or what will be done.
        by: who settled it.
        at: when, ISO 8601 in UTC.
    """

    finding_id: str
    reason: str
    by: str
    at: str


def settled_conflicts(file: Path) -> Mapping[str, Settled]:
    """Return the settled contradictions of a file by their ids, the last line of each; none without the file.

    Raises:
        ConfigError: a line cannot be read.
    """
    out: dict[str, Settled] = {}
    for number, line in enumerate(read_lines(file), start=1):
        try:
            row = json.loads(line)
            entry = Settled(*(row[name] for name in Settled._fields))
        except (ValueError, KeyError, TypeError):
            problem = f"line {number} is no settled contradiction: it needs {', '.join(Settled._fields)}"
            raise ConfigError(problem, file=str(file)) from None
        out[entry.finding_id] = entry
    return out


def settle(file: Path, finding_id: str, *, reason: str, by: str, now: datetime) -> Settled:
    """Add a line for a contradiction.

    Raises:
        ConfigError: the file cannot be written.
    """
    entry = Settled(finding_id, reason, by, now.isoformat(timespec="seconds"))
    append_line(file, json.dumps(entry._asdict(), ensure_ascii=False))
    return entry
