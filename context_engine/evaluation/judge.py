"""Judgements by a person: which questions are asked, and the record that is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

from context_engine.core.models import RankedChunk, SearchResult, utc_text
from context_engine.core.text import content_sha256
from context_engine.errors import InvalidRequest
from context_engine.evaluation.qrels import EXACT, read_qrels
from context_engine.evaluation.questions import read_questions


def question_id(path: Path, query: str, domain: str, as_of: date | None = None, name: str | None = None) -> str:
    """Return the id of a question: its id in the file, else one made of its text, domain and day.

    Args:
        as_of: the day asked about, if one was given.
        name: the requested id, if any.

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
    day = f" {as_of.isoformat()}" if as_of else ""
    same = next((question.id for question in known if question.asks == asks), None)
    return same or f"q-{content_sha256(f'{domain} {query}{day}')[:10]}"


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
        as_of: the day asked about, if one was given.
        by, at: who judged, and when; omitted if None.
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
