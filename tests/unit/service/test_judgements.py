"""The files of judgements: whose word counts, and how one is taken out while others append."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from context_engine.service.appending import append_line
from context_engine.service.judgements import ANSWERS, PASSAGES, erase_judgements, read_judgements, votes

Row = dict[str, Any]


def kept(folder: Path, name: Path, **row: Any) -> Row:
    append_line(folder / name, json.dumps(row))
    return row


def test_the_last_word_of_a_person_on_a_passage_counts(tmp_path: Path) -> None:
    same = {"by": "jo", "query_id": "q1", "source_id": "s", "chunk_id": "c"}
    kept(tmp_path, PASSAGES, **same, grade=2, search_id="1")
    last = kept(tmp_path, PASSAGES, **same, grade=0, search_id="2")
    other = kept(tmp_path, PASSAGES, **{**same, "chunk_id": "d"}, grade=2, search_id="1")
    answer = kept(tmp_path, ANSWERS, by="jo", query_id="q1", grade=2, search_id="1")
    assert votes(tmp_path) == [last, other, answer]
    assert len(list(read_judgements(tmp_path))) == 4


def test_two_people_have_a_word_each_and_unknown_ones_one_a_search(tmp_path: Path) -> None:
    row = {"query_id": "q1", "source_id": "s", "chunk_id": "c", "grade": 2}
    known = [kept(tmp_path, PASSAGES, **row, by=name, search_id="1") for name in ("jo", "li")]
    kept(tmp_path, PASSAGES, **row, search_id="1")
    unknown = [kept(tmp_path, PASSAGES, **row, search_id=search) for search in ("1", "2")]
    assert votes(tmp_path) == [*known, *unknown]


def test_without_files_there_is_no_judgement(tmp_path: Path) -> None:
    assert votes(tmp_path) == []
    assert erase_judgements(tmp_path, lambda _: True) == 0


def test_an_erased_judgement_leaves_no_byte_and_the_others_stay(tmp_path: Path) -> None:
    kept(tmp_path, PASSAGES, query="wé kept", search_id="1")
    kept(tmp_path, PASSAGES, query="card 4929", search_id="2")
    kept(tmp_path, ANSWERS, query="card 4929", search_id="2")
    assert erase_judgements(tmp_path, lambda row: row["search_id"] == "2", dry_run=True) == 2
    assert b"4929" in (tmp_path / PASSAGES).read_bytes()
    assert erase_judgements(tmp_path, lambda row: row["search_id"] == "2") == 2
    kept(tmp_path, PASSAGES, query="later", search_id="3")
    assert b"4929" not in (tmp_path / PASSAGES).read_bytes() + (tmp_path / ANSWERS).read_bytes()
    assert [row["query"] for row in read_judgements(tmp_path)] == ["wé kept", "later"]


@pytest.mark.parametrize("line", ["", "{", "[1]", '{"grade": 2'])
def test_a_line_that_is_no_judgement_is_passed_over(tmp_path: Path, line: str) -> None:
    append_line(tmp_path / PASSAGES, line)
    assert list(read_judgements(tmp_path)) == []
