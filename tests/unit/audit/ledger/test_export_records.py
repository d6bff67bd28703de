"""A line of JSON holds an entry byte for byte; a cell of a table is never a formula."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.audit.formats.merkle import leaf_hash
from context_engine.audit.ledger.erase import Wanted, erase
from context_engine.audit.ledger.export import (
    CHUNK_COLUMNS,
    RECORD_COLUMNS,
    csv_lines,
    exported_entries,
    json_lines,
    safe_cell,
)
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.read import StoredEntry
from context_engine.testing.fakes import FixedClock

Searches = Callable[..., Any]


def of_entry(entry: bytes, index: int = 0) -> StoredEntry:
    return StoredEntry(index, entry, leaf_hash(entry), None, None)


def table(lines: list[str]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO("".join(lines))))


def test_every_line_proves_its_record(ledger: Ledger, searched: Searches) -> None:
    searched(ledger, "What is the rule?", "Which limit?")
    lines = list(json_lines(ledger, exported_entries(ledger)))
    for index, line in enumerate(lines):
        read = json.loads(line)
        entry = line[line.index(b'"entry":') + 8 : -1]
        assert read["index"] == index and json.loads(entry) == read["entry"]
        assert leaf_hash(entry).hex() == read["leaf"] and "addenda" not in read
    assert len(lines) == 2 and b"rule" not in b"".join(lines)


def test_texts_stand_beside_an_entry_where_they_are_asked_for(ledger: Ledger, searched: Searches) -> None:
    first, _ = searched(ledger, "What is the rule?", "Which limit?")
    erase(ledger, Wanted(record_ids=(first.search_id,)), reason="asked for", by="me", clock=FixedClock())
    lines = [json.loads(line) for line in json_lines(ledger, exported_entries(ledger, [0, 1]), with_texts=True)]
    for line in lines:
        for digest, held in line["addenda"].items():
            if held is not None:
                data = held["data"].encode() if "data" in held else base64.b64decode(held["base64"])
                assert held["kind"] in ("question", "candidates", "settings", "sources", "text", "card")
                assert _digest(bytes.fromhex(held["salt"]), data) == digest
    kinds = [[held and held["kind"] for held in line["addenda"].values()] for line in lines]
    assert None in kinds[0] and "question" not in kinds[0]
    assert {"question", "candidates", "text", "card", "settings", "sources"} == set(kinds[1])


def _digest(salt: bytes, data: bytes) -> str:
    return hashlib.sha256(salt + data).hexdigest()


@pytest.mark.parametrize("entry", [b"no json", b'{"a":\n1}', b"[1]", b"\xff\xfe", b""])
def test_an_entry_that_is_no_line_of_json_is_exported_all_the_same(ledger: Ledger, entry: bytes) -> None:
    (line,) = json_lines(ledger, [of_entry(entry)])
    assert base64.b64decode(json.loads(line)["entry_base64"]) == entry


def test_a_table_has_a_row_for_each_record(ledger: Ledger, searched: Searches) -> None:
    (result, *_) = searched(ledger, "What is the rule?", "Which limit?")
    rows = table(list(csv_lines(exported_entries(ledger))))
    assert list(rows[0]) == list(RECORD_COLUMNS) and len(rows) == 2
    assert rows[0]["id"] == result.search_id and rows[0]["kind"] == "search" and rows[0]["domain"] == "NPA"
    assert (rows[0]["candidates"], rows[0]["returned"], rows[0]["query_kept"]) == ("1", "1", "text")
    assert rows[0]["sources"] == "t1" and rows[0]["leaf"] == ledger.entry_at(0).leaf.hex()  # type: ignore[union-attr]


def test_a_table_may_have_a_row_for_each_chunk_shown(ledger: Ledger, searched: Searches, chunk_of: Any) -> None:
    chunks = [
        chunk_of("r-1", 0.9, document_id="=cmd()", document_version="3"),
        chunk_of("r-2", 0.8, document_id="sop-8"),
    ]
    (result,) = searched(ledger, "What is the rule?", chunks=chunks)
    rows = table(list(csv_lines(exported_entries(ledger), "chunks")))
    assert list(rows[0]) == list(CHUNK_COLUMNS)
    assert [(row["rank"], row["chunk"], row["document"], row["version"]) for row in rows] == [
        ("1", "r-1", "'=cmd()", "3"),
        ("2", "r-2", "sop-8", ""),
    ]
    assert {row["search_id"] for row in rows} == {result.search_id}


@given(st.text())
def test_no_cell_is_a_formula(text: str) -> None:
    cell = safe_cell(text)
    assert not cell.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"))
    assert cell.removeprefix("'") in (text.replace("\x00", ""), text.replace("\x00", "").removeprefix("'"))


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda one: st.lists(one)))
def test_an_entry_of_any_form_makes_rows_that_can_be_read(value: Any) -> None:
    names = ("caller", "counts", "chunks", "sources", "denied", "notices", "error", "query", "hashes", "id")
    entry = json.dumps(dict.fromkeys(names, value)).encode()
    (row,) = table(list(csv_lines([of_entry(entry)])))
    assert row["index"] == "0"
    list(csv_lines([of_entry(entry)], "chunks"))
