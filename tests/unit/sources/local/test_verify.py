"""Verifying finds what was damaged, and says how to mend it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from context_engine.errors import StoreError
from context_engine.models import Chunk
from context_engine.sources.local import LocalBase


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
    assert told.count("is in the index but gone") == 4


def test_many_lost_rows_are_counted(base: LocalBase, alter: Callable[..., None]) -> None:
    alter("DELETE FROM chunks")
    assert "23 more chunk rows like it" in problems(base)


def test_a_row_the_index_never_saw(base: LocalBase, alter: Callable[..., None]) -> None:
    alter("INSERT INTO chunks SELECT 9999, doc_key, 'x', content, fields, digest FROM chunks WHERE chunk_id = 'c1-1'")
    assert "chunk row 9999 is not in the index: run 'context-engine kb rebuild'" in problems(base)


def test_a_chunk_of_no_document(base: LocalBase, alter: Callable[..., None]) -> None:
    alter("UPDATE chunks SET doc_key = 999 WHERE chunk_id = 'c1-1'")
    assert "belongs to nothing" in problems(base)


def test_an_index_behind(base: LocalBase, alter: Callable[..., None]) -> None:
    alter("UPDATE state SET generation = generation + 1")
    assert "the index holds commit 2 of 3" in problems(base)


@pytest.mark.parametrize("suffix", ["store", "idx", "term", "fast", "fieldnorm"])
@pytest.mark.parametrize("place", [0.0, 0.5, 0.999])
def test_a_flipped_byte_in_the_index(base: LocalBase, folder: Path, suffix: str, place: float) -> None:
    base.close()
    path = next((folder / "index-1").glob(f"*.{suffix}"))
    data = bytearray(path.read_bytes())
    data[int(place * (len(data) - 1))] ^= 0x10
    path.write_bytes(data)
    told = problems(base)
    assert path.name in told and "run 'context-engine kb rebuild'" in told
    base.rebuild()
    assert base.verify().ok


def test_a_truncated_index_file(base: LocalBase, folder: Path) -> None:
    base.close()
    path = next((folder / "index-1").glob("*.idx"))
    path.write_bytes(path.read_bytes()[:4])
    assert "is damaged" in problems(base)


def test_a_lost_index(base: LocalBase, folder: Path) -> None:
    base.close()
    for path in (folder / "index-1").iterdir():
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
