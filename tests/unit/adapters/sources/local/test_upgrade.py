"""A base of the tables before adapters: a writer adds what is new, and everything else stays."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from context_engine.adapters.sources.local import LocalBase
from context_engine.adapters.sources.local.adapter_keeping import writing
from context_engine.adapters.sources.local.schema import DATABASE, SCHEMA_VERSION
from context_engine.adapters.sources.stores.scope import Scope
from context_engine.core.models import AccessScope, NoticeCode
from context_engine.errors import StoreVersionMismatch
from context_engine.testing.fakes import FakeEmbedder

FORMER = Path(__file__).parents[4] / "data" / "base_version_3.sql"
KEPT = ("sources", "documents", "chunks", "vectors", "partitions", "calibrations")


class Silent(FakeEmbedder):
    """Must embed no document."""

    def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        raise AssertionError(f"embedded again: {texts}")


@pytest.fixture
def older(folder: Path) -> Path:
    """Three documents in two partitions, with vectors and calibrations, as version 3 of the tables wrote them."""
    folder.mkdir()
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        connection.executescript(FORMER.read_text("utf-8"))
    return folder


def rows(folder: Path) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        return {table: sorted(connection.execute(f"SELECT * FROM {table}"), key=repr) for table in KEPT}


def test_a_reader_says_what_to_do(older: Path) -> None:
    with LocalBase(older) as base, pytest.raises(StoreVersionMismatch, match="context-engine kb rebuild"):
        base.stats()


def test_a_writer_upgrades_it_and_keeps_all_that_was_there(older: Path) -> None:
    pytest.importorskip("numpy", reason="the extra 'vectors'")
    before = rows(older)
    with LocalBase(older, embedder=Silent(4)) as base:
        base.writer().close()
        calibrations = [(*row, None) for row in before["calibrations"]]  # without the evidence of near misses
        assert rows(older) == {**before, "calibrations": calibrations}
        found = base.stats()
        assert (found.schema_version, found.embedded, found.adapters) == (SCHEMA_VERSION, 4, ())
        assert base.verify().ok
        assert [chunk.chunk_id for chunk in base.search("hotel", source_id="sop", top_k=1)] == ["b1"]
        assert base.calibration("HOUSE", access=AccessScope()) == found.calibrations[2].calibration
        assert found.calibrations[2].calibration.threshold == 0.25
        assert base.held_vectors(["sop", "board"]).origin.classes == (1, 2)


@pytest.fixture
def version_4(older: Path) -> Path:
    """The same base as version 4 of the tables left it, with the index of today."""
    with LocalBase(older) as base:
        base.writer().close()
    with closing(sqlite3.connect(older / DATABASE)) as connection:
        connection.execute("ALTER TABLE calibrations DROP COLUMN near_miss")
        connection.execute("PRAGMA user_version = 4")
        connection.commit()
    return older


def test_the_version_before_is_read_as_it_is_and_says_so(version_4: Path) -> None:
    before = rows(version_4)
    with LocalBase(version_4) as base:
        answer = base.answer("hotel", top_k=1, scope=Scope(source_id="sop"))
        assert [chunk.chunk_id for chunk in answer.chunks] == ["b1"]
        assert [notice.code for notice in answer.notices] == [NoticeCode.BASE_OUTDATED]
        assert base.stats().schema_version == base.contents().schema_version == 4
        assert base.verify().ok
        calibration = base.calibration("HOUSE", access=AccessScope())
        assert calibration is not None and calibration.near_miss is None
    assert rows(version_4) == before


def test_the_version_before_is_not_written_until_it_is_upgraded(version_4: Path) -> None:
    with pytest.raises(StoreVersionMismatch, match="context-engine kb rebuild"), writing(version_4):
        pass
    with LocalBase(version_4) as base:
        base.rebuild()
        assert base.stats().schema_version == SCHEMA_VERSION
        assert base.answer("hotel", top_k=1, scope=Scope(source_id="sop")).notices == ()


def test_a_later_version_is_refused_and_says_how_to_go_back(version_4: Path) -> None:
    with closing(sqlite3.connect(version_4 / DATABASE)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    with LocalBase(version_4) as base:
        with pytest.raises(StoreVersionMismatch, match="context-engine restore"):
            base.stats()
        with pytest.raises(StoreVersionMismatch, match="context-engine restore"):
            base.writer()
        assert base.contents().schema_version == SCHEMA_VERSION + 1
