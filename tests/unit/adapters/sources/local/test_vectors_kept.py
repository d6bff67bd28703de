"""How a base keeps vectors: in bytes, or their first numbers alone; a rebuild makes them of what is kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="the extra 'vectors'")

from context_engine.adapters.sources.local import LocalBase, SearchOptions
from context_engine.adapters.sources.local.schema import DATABASE
from context_engine.core.models import Chunk, ScoreKind
from context_engine.errors import StoreVersionMismatch
from context_engine.testing.fakes import FakeEmbedder

TEXTS = [f"limit of desk{n % 10} and book{n} in the haircut table{n % 7}" for n in range(90)]
QUESTIONS = ("limit of book42", "haircut table3", "desk7")
FLOATS = SearchOptions(approximate_from=60, probe=0.3)
BYTES = FLOATS.model_copy(update={"vector_form": "int8"})
SHORT = FLOATS.model_copy(update={"vector_dimensions": 48})
SHORT_BYTES = FLOATS.model_copy(update={"vector_form": "int8", "vector_dimensions": 24})


class Counting(FakeEmbedder):
    """Counts the passages it embeds."""

    texts = 0

    def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        self.texts += len(texts)
        return super().embed_documents(texts)


def opened(folder: Path, options: SearchOptions, embedder: FakeEmbedder | None = None) -> LocalBase:
    return LocalBase(folder, embedder=embedder or Counting(64), options=options)


def written(folder: Path, options: SearchOptions) -> Path:
    with opened(folder, options) as base, base.writer() as writer:
        for n, text in enumerate(TEXTS):
            writer.put("sop", f"d{n}", "", "h", [Chunk(content=text, chunk_id=str(n))])
    return folder


def kept(folder: Path) -> list[tuple[bytes, bytes]]:
    with sqlite3.connect(folder / DATABASE) as connection:
        return connection.execute("SELECT vector, digest FROM vectors ORDER BY rid").fetchall()


def cosines(base: LocalBase) -> dict[tuple[str, str], float | None]:
    found = {ask: base.search(ask, source_id="sop", top_k=90) for ask in QUESTIONS}
    return {(ask, one.chunk_id): one.score(ScoreKind.COSINE) for ask, some in found.items() for one in some}


@pytest.mark.parametrize("options", [BYTES, SHORT_BYTES])
def test_a_base_in_bytes_takes_a_byte_a_number_and_finds_what_floats_find(folder: Path, options: SearchOptions) -> None:
    dimension = options.vector_dimensions or 64
    in_floats = written(folder / "f", FLOATS.model_copy(update={"vector_dimensions": options.vector_dimensions}))
    with (
        opened(written(folder / "b", options), options) as base,
        opened(in_floats, options.model_copy(update={"vector_form": "float32"})) as plain,
    ):
        stats = base.stats()
        assert (stats.vector_form, stats.dimension, stats.embedded) == ("int8", dimension, 90)
        assert stats.cells > 0 and base.verify().ok
        assert {len(blob) for blob, _ in kept(base.path)} == {dimension}
        assert cosines(base) == pytest.approx(cosines(plain), abs=0.01)


def test_a_reader_goes_by_what_the_base_says_of_itself(folder: Path) -> None:
    with opened(written(folder, BYTES), BYTES) as base, opened(folder, FLOATS) as other:
        assert cosines(other) == cosines(base)


def test_a_writer_of_another_form_is_refused(folder: Path) -> None:
    with opened(written(folder, BYTES), FLOATS) as base:
        with pytest.raises(StoreVersionMismatch, match=r"kept as int8, vector_form is float32: run .*kb rebuild'"):
            base.writer()
        base.options = BYTES
        base.writer().close()


@pytest.mark.parametrize(("held", "given"), [(FLOATS, SHORT), (SHORT, FLOATS), (SHORT, SHORT_BYTES)])
def test_vectors_of_more_numbers_and_of_fewer_are_not_mixed(
    folder: Path, held: SearchOptions, given: SearchOptions
) -> None:
    with opened(written(folder, held), given) as base:
        for use in (base.writer, lambda: base.search("limit", source_id="sop", top_k=1)):
            with pytest.raises(StoreVersionMismatch, match=r"'fake-64(\[:\d+\])?'.*'fake-64(\[:\d+\])?'.*kb rebuild"):
                use()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("held", "given", "embedded"),
    [
        (FLOATS, BYTES, 0),
        (FLOATS, SHORT, 0),
        (FLOATS, SHORT_BYTES, 0),
        (BYTES, FLOATS, 90),
        (SHORT, FLOATS, 90),
        (BYTES, SHORT_BYTES, 90),
    ],
)
def test_a_rebuild_embeds_only_what_cannot_be_made_of_floats(
    folder: Path, held: SearchOptions, given: SearchOptions, embedded: int
) -> None:
    """Afterwards the base is the one that would have been written so."""
    embedder = Counting(64)
    fresh = written(folder / "fresh", given)
    with opened(written(folder / "old", held), given, embedder) as base, opened(fresh, given) as wanted:
        base.rebuild()
        assert embedder.texts == embedded
        assert kept(base.path) == kept(fresh)
        assert cosines(base) == cosines(wanted) and base.verify().ok
        assert base.stats().cells == wanted.stats().cells


def test_a_rebuild_gives_the_disk_back_what_vectors_no_longer_take(folder: Path) -> None:
    """90 vectors of 64 numbers: 17 kB less."""
    file = written(folder, FLOATS) / DATABASE
    before = file.stat().st_size
    with opened(folder, BYTES) as base:
        base.rebuild()
    assert before - file.stat().st_size >= 90 * 3 * 64 - 4096


def test_a_reader_follows_a_rebuild(folder: Path) -> None:
    with opened(written(folder, FLOATS), FLOATS) as reader:
        before = cosines(reader)
        with opened(folder, BYTES) as base:
            base.rebuild()
        after = cosines(reader)
        assert after == pytest.approx(before, abs=0.01) and after != before


def test_damaged_bytes_are_found_and_embedded_anew(folder: Path) -> None:
    embedder = Counting(64)
    with opened(written(folder, BYTES), BYTES, embedder) as base:
        with sqlite3.connect(folder / DATABASE) as connection:
            connection.execute("UPDATE vectors SET vector = zeroblob(64) WHERE rid = 2")
        assert base.verify().problems == ("chunk row 2 has damaged vectors: run 'context-engine kb rebuild'",)
        base.rebuild()
        assert embedder.texts == 1 and base.verify().ok


def test_a_base_of_the_version_before_keeps_floats(folder: Path) -> None:
    written(folder, FLOATS)
    with sqlite3.connect(folder / DATABASE) as connection:
        for statement in (
            "ALTER TABLE embedding DROP COLUMN form",
            "DROP TABLE adapters",
            "DROP TABLE adapter_switches",
            "ALTER TABLE calibrations DROP COLUMN near_miss",
            "PRAGMA user_version = 3",
        ):
            connection.execute(statement)
    with opened(folder, FLOATS) as base:
        with base.writer():
            pass
        assert base.stats().vector_form == "float32" and base.verify().ok
        assert base.search("limit of book42", source_id="sop", top_k=1)[0].chunk_id == "42"


def test_a_rebuild_reports_how_many_rows_it_has_embedded(folder: Path) -> None:
    written(folder, FLOATS)
    reports: list[tuple[int, int]] = []
    with opened(folder, FLOATS) as base:
        base.rebuild(lambda done, total: reports.append((done, total)))
        assert reports == [], "every row has its vector"
    with opened(folder, FLOATS, Counting(32)) as base:  # another model
        base.rebuild(lambda done, total: reports.append((done, total)))
    assert reports == [(90, 90)]
