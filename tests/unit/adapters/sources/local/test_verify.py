"""Verifying finds what was damaged, and says how to fix it."""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from context_engine.adapters.sources.local import LocalBase, verify
from context_engine.core.models import Chunk
from context_engine.errors import StoreError


@pytest.fixture(autouse=True)
def some(base: LocalBase) -> None:
    with base.writer() as writer:
        for n in range(8):
            writer.put(
                "sop", f"d{n}", "", "h", [Chunk(content=f"limit {n} {m}", chunk_id=f"c{n}-{m}") for m in range(4)]
            )
        writer.commit()
        writer.delete("sop", "d0", "")


@pytest.fixture
def alter(base: LocalBase, folder: Path) -> Callable[..., None]:
    """Changes the database behind the base's back."""

    def run(statement: str, *rows: Iterable[object]) -> None:
        base.close()
        with sqlite3.connect(folder / "base.sqlite3") as connection:
            connection.executemany(statement, rows or [()])

    return run


def problems(base: LocalBase) -> str:
    report = base.verify()
    assert report.ok is (not report.problems)
    return "\n".join(report.problems)


def test_a_sound_base(base: LocalBase) -> None:
    report = base.verify()
    assert report.ok and (report.documents, report.chunks, report.indexed) == (7, 28, 28)


def test_no_base(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no knowledge base"):
        LocalBase(tmp_path / "none").verify()


def test_a_changed_text(base: LocalBase, alter: Callable[..., None]) -> None:
    alter("UPDATE chunks SET content = 'limit 1 9' WHERE chunk_id = 'c1-1'")
    assert "is not as it was written" in problems(base)


def test_changed_metadata(base: LocalBase, alter: Callable[..., None]) -> None:
    alter("UPDATE chunks SET fields = '{}' WHERE chunk_id = 'c1-1'")
    assert "is not as it was written" in problems(base)


def test_lost_rows(base: LocalBase, alter: Callable[..., None]) -> None:
    alter("DELETE FROM chunks WHERE chunk_id LIKE 'c1-%'")
    told = problems(base)
    assert "document 'd1' has 0 chunks, 4 were written" in told
    assert told.count("is in the index but deleted") == 4


def test_many_lost_rows_are_counted(base: LocalBase, alter: Callable[..., None]) -> None:
    alter("DELETE FROM chunks")
    assert "23 more chunk rows like it" in problems(base)


def test_a_row_the_index_never_saw(base: LocalBase, alter: Callable[..., None]) -> None:
    alter("INSERT INTO chunks SELECT 9999, doc_key, chunk_id, content, fields, digest FROM chunks WHERE rid = 5")
    assert "chunk row 9999 is not in the index: run 'context-engine kb rebuild'" in problems(base)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE chunks SET content = 'limit 1 9' WHERE chunk_id = 'c1-1'",
        "UPDATE chunks SET fields = '{' WHERE chunk_id = 'c1-1'",
        "UPDATE chunks SET content = CAST(x'ff' AS TEXT) WHERE chunk_id = 'c1-1'",
        "UPDATE chunks SET doc_key = 999 WHERE chunk_id = 'c1-1'",
        "DELETE FROM chunks WHERE chunk_id = 'c1-1'",
        "INSERT INTO chunks SELECT 9999, doc_key, 'x', content, fields, digest FROM chunks WHERE chunk_id = 'c1-1'",
    ],
)
def test_a_damaged_document_is_mended_by_rebuild_and_then_ingest(
    base: LocalBase, alter: Callable[..., None], damage: str
) -> None:
    alter(damage)
    assert "run 'context-engine kb rebuild', then 'context-engine ingest'" in problems(base)
    assert base.rebuild() == 1
    assert base.rebuild() == 1  # until it is ingested
    with base.writer() as writer:
        assert {key[0] for key, kept in writer.documents("sop").items() if kept != "h"} == {"d1"}
        for n in range(1, 8):
            chunks = [Chunk(content=f"limit {n} {m}", chunk_id=f"c{n}-{m}") for m in range(4)]
            assert writer.put("sop", f"d{n}", "", "h", chunks) is (n == 1)
    report = base.verify()
    assert report.ok and (report.documents, report.chunks, report.indexed) == (7, 28, 28)
    assert base.rebuild() == 0


def test_a_changed_text_is_not_found_after_a_rebuild(base: LocalBase, alter: Callable[..., None]) -> None:
    alter("UPDATE chunks SET content = 'tampered' WHERE chunk_id = 'c1-1'")
    base.rebuild()
    assert base.search("tampered", source_id="sop", top_k=5) == []
    assert "is not in the index" not in problems(base)


def test_a_base_that_cannot_be_read_is_to_be_moved_away(base: LocalBase, folder: Path) -> None:
    base.close()
    (folder / "base.sqlite3").write_bytes((folder / "base.sqlite3").read_bytes()[:5000])
    for use in (base.verify, base.writer, base.stats):
        with pytest.raises(StoreError, match=rf"move the folder {folder} away and run 'context-engine ingest' again"):
            use()


def test_a_chunk_of_no_document(base: LocalBase, alter: Callable[..., None]) -> None:
    alter("UPDATE chunks SET doc_key = 999 WHERE chunk_id = 'c1-1'")
    assert "belongs to nothing" in problems(base)


def test_an_index_behind(base: LocalBase, alter: Callable[..., None]) -> None:
    alter("UPDATE state SET generation = generation + 1")
    alter("UPDATE partitions SET generation = generation + 1")
    assert "the index holds commit 2 of 3" in problems(base)


@pytest.mark.parametrize("suffix", ["store", "idx", "term", "fast", "fieldnorm"])
@pytest.mark.parametrize("place", [0.0, 0.5, 0.999])
def test_a_flipped_byte_in_the_index(base: LocalBase, folder: Path, suffix: str, place: float) -> None:
    base.close()
    path = next((folder / "index-1" / "1").glob(f"*.{suffix}"))
    data = bytearray(path.read_bytes())
    data[int(place * (len(data) - 1))] ^= 0x10
    path.write_bytes(data)
    told = problems(base)
    assert path.name in told and "run 'context-engine kb rebuild'" in told
    base.rebuild()
    assert base.verify().ok


def test_a_truncated_index_file(base: LocalBase, folder: Path) -> None:
    base.close()
    path = next((folder / "index-1" / "1").glob("*.idx"))
    path.write_bytes(path.read_bytes()[:4])
    assert "is damaged" in problems(base)


def test_what_a_killed_writer_left_half_written_is_no_damage(base: LocalBase, folder: Path) -> None:
    base.close()
    whole = next((folder / "index-1" / "1").glob("*.idx"))
    (folder / "index-1" / "1" / f"{'b' * 32}.idx").write_bytes(whole.read_bytes()[:-9])
    assert base.verify().ok


def test_a_lost_index(base: LocalBase, folder: Path) -> None:
    base.close()
    for path in (folder / "index-1" / "1").iterdir():
        path.unlink()
    assert "context-engine kb rebuild" in problems(base)


def test_a_flipped_byte_in_the_database(base: LocalBase, folder: Path) -> None:
    base.close()
    path = folder / "base.sqlite3"
    data = path.read_bytes()
    assert data.count(b"limit 3 2") == 1
    path.write_bytes(data.replace(b"limit 3 2", b"limit 3 7"))
    assert "is not as it was written" in problems(base)


def test_a_page_of_the_database_overwritten(base: LocalBase, folder: Path) -> None:
    base.close()
    path = folder / "base.sqlite3"
    data = bytearray(path.read_bytes())
    at = data.index(b"limit 3 2") // 4096 * 4096
    data[at : at + 4096] = b"\xff" * 4096
    path.write_bytes(data)
    assert "damaged" in problems(base)


def test_a_file_that_becomes_shorter_while_it_is_read_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends before all that was there at first is read, and so does the reading."""
    footer = json.dumps({"crc": 0}).encode()
    path = tmp_path / "segment"
    path.write_bytes(
        bytes(3 << 20) + footer + len(footer).to_bytes(4, "little") + verify._FOOTER_MAGIC.to_bytes(4, "little")
    )

    def cut_off(_block: bytes, crc: int) -> int:
        os.truncate(path, 1 << 20)
        return crc

    monkeypatch.setattr(verify.zlib, "crc32", cut_off)
    assert verify._broken(path)


def test_a_row_that_the_index_holds_twice(base: LocalBase, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = verify._inside
    monkeypatch.setattr(verify, "_inside", lambda searcher, low: [*inside(searcher, low), inside(searcher, low)[0]])
    said = problems(base)
    assert said.count("is in the index more than once") == 1
    assert "the index holds 28 chunks, 29 of them have a row number" in said


def index_file(body: bytes, *, footer: bytes | None = None, length: int | None = None, magic: int = 1337) -> bytes:
    """A file as tantivy ends it: JSON with the checksum of the rest, its length and a magic number."""
    footer = json.dumps({"crc": zlib.crc32(body)}).encode() if footer is None else footer
    length = len(footer) if length is None else length
    return body + footer + length.to_bytes(4, "little") + magic.to_bytes(4, "little")


@pytest.mark.parametrize(
    ("content", "broken"),
    [
        (index_file(b"words"), False),
        (index_file(b""), False),  # all of it is footer
        (index_file(b"", length=11), True),  # longer than the file
        (index_file(b"words", length=10_000), True),
        (index_file(b"words", magic=1338), True),
        (index_file(b"words", footer=b'{"crc": 1}'), True),
        (index_file(b"words", footer=b"{}"), True),
        (index_file(b"words", footer=b"[1]"), True),
        (index_file(b"words", footer=b"no"), True),
        (index_file(b"words")[1:], True),
        (index_file(b"", footer=b""), True),  # eight bytes
        (b"1234567", True),
        (index_file(bytes(3 << 20)), False),  # three blocks
    ],
)
def test_an_index_file_is_whole_if_its_checksum_is_that_of_all_before_the_footer(
    content: bytes, broken: bool, tmp_path: Path
) -> None:
    path = tmp_path / "file.idx"
    path.write_bytes(content)
    assert verify._broken(path) is broken


@pytest.mark.parametrize(("many", "more"), [(0, None), (5, None), (6, "1 more"), (9, "4 more")])
def test_five_rows_are_named_and_the_others_counted(many: int, more: str | None) -> None:
    told = list(verify._named("is gone", iter(range(many))))
    assert told[:5] == [f"chunk row {number} is gone" for number in range(min(many, 5))]
    assert told[5:] == ([] if more is None else [f"{more} chunk rows like it"])
