"""Thumbs down as readers left them on the pages: the last judgement counts, within the period and the domain."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from context_engine.insight.gaps import DocumentName, ThumbDown, thumbs_down
from context_engine.service.judgements import ANSWERS, PASSAGES, WITHOUT_QUESTION

NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)
SINCE = NOW - timedelta(days=90)
ROW = {"query_id": "q-1", "query": "Who approves?", "domain": "ORM", "at": "2026-03-02T10:00:00Z", "search_id": "s1"}
PASSAGE = {"source_id": "sops", "chunk_id": "SOP-1@2#4", "document_id": "SOP-1", "document_version": "2"}


def write(folder: Path, name: Path, *rows: dict[str, Any]) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("".join(f"{json.dumps({**ROW, **row})}\n" for row in rows), "utf-8")


def test_passages_and_answers_are_read_with_what_was_judged(tmp_path: Path) -> None:
    assert thumbs_down(tmp_path, "ORM", SINCE) == []
    write(tmp_path, PASSAGES, {**PASSAGE, "grade": 0}, {**PASSAGE, "chunk_id": "SOP-1@2#5", "grade": 2})
    write(tmp_path, ANSWERS, {"grade": 0, "by": "ana"})
    passage = ThumbDown("s1", "2026-03-02T10:00:00Z", "", "Who approves?", DocumentName("sops", "SOP-1", "2"))
    answer = passage._replace(by="ana", document=None)
    assert thumbs_down(tmp_path, "ORM", SINCE) == [passage, answer]
    assert thumbs_down(tmp_path, "DESK", SINCE) == []
    assert thumbs_down(tmp_path, "ORM", NOW + timedelta(seconds=1)) == []


def test_the_last_judgement_of_each_reader_counts(tmp_path: Path) -> None:
    judged = [("ana", 0, "s1"), ("ana", 2, "s2"), ("ben", 0, "s3"), ("ben", 0, "s4")]
    rows = [{"by": by, "grade": grade, "search_id": search} for by, grade, search in judged]
    write(tmp_path, ANSWERS, *rows, {"grade": 0, "at": "soon"})
    assert [(thumb.by, thumb.search_id) for thumb in thumbs_down(tmp_path, "ORM", SINCE)] == [("ben", "s4")]


def test_a_question_that_the_record_hides_is_judged_without_its_words(tmp_path: Path) -> None:
    write(tmp_path, WITHOUT_QUESTION, {**PASSAGE, "query_id": "s1", "query": None, "grade": 0})
    (thumb,) = thumbs_down(tmp_path, "ORM", SINCE)
    assert (thumb.question, thumb.search_id) == (None, "s1")
