"""Vectors of a base with partitions: each partition has a matrix and cells of its own, made of its rows alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="the extra 'vectors'")

from context_engine.adapters.sources.local import LocalBase, SearchOptions
from context_engine.adapters.sources.local.partitions import OPEN
from context_engine.adapters.sources.local.writer import BaseWriter
from context_engine.adapters.sources.stores.chunk_rows import Place, SourcePlace
from context_engine.adapters.sources.stores.scope import Scope
from context_engine.core.models import AccessScope, Chunk, Classification, NoticeCode, Score, SourceAnswer
from context_engine.testing.fakes import FakeEmbedder

RULES = {"board": "board only", "audit": "audit only"}
NOBODY = AccessScope()
BOARD = AccessScope(rules=frozenset({"board only"}), clearance=Classification.INTERNAL)
BY_CELLS = SearchOptions(approximate_from=12, probe=0.3)
QUESTIONS = ("limit of the desk", "who approves a product", "haircut of a bond", "desk desk desk")

Write = Callable[..., None]


def _now() -> datetime:
    return datetime(2026, 3, 2, tzinfo=UTC)


def place(source_id: str) -> SourcePlace:
    return SourcePlace(rules=RULES.get(source_id, ""))


@pytest.fixture
def hybrid(folder: Path) -> Iterator[LocalBase]:
    with LocalBase(folder, embedder=FakeEmbedder(16), options=BY_CELLS) as base:
        yield base


@pytest.fixture
def write(folder: Path) -> Write:
    """Writes {chunk_id: text}, each as a document of its own, in one commit; an empty text deletes it."""

    def put(source_id: str, texts: dict[str, str], *, embedded: bool = True) -> None:
        embedder = FakeEmbedder(16) if embedded else None
        with BaseWriter(folder, now=_now, embedder=embedder, approximate_from=12, place=place) as writer:
            for name, text in texts.items():
                if text:
                    writer.put(source_id, f"doc-{name}", "", text, [Chunk(content=text, chunk_id=name)])
                else:
                    writer.delete(source_id, f"doc-{name}", "")

    return put


def texts(of: str, count: int) -> dict[str, str]:
    words = ("limit", "desk", "product", "approval", "haircut", "bond", "committee")
    return {f"{of}{n}": f"{of} {words[n % 7]} {words[n * 3 % 7]} of the {words[n // 7 % 7]} {n}" for n in range(count)}


def ask(base: LocalBase, source_id: str = "sop", access: AccessScope | None = NOBODY) -> list[SourceAnswer]:
    scope = Scope(source_id=source_id, access=access)
    return [base.answer(question, top_k=8, scope=scope) for question in QUESTIONS]


def test_hidden_rows_change_no_bit_of_an_open_answer(hybrid: LocalBase, write: Write):
    write("sop", texts("open", 40))
    before = repr(ask(hybrid))
    write("board", texts("secret", 30))
    assert repr(ask(hybrid)) == before
    write("board", {**dict.fromkeys(list(texts("secret", 30))[::2], ""), "new": "limit of the desk"})
    assert repr(ask(hybrid)) == before
    with LocalBase(hybrid.path, embedder=FakeEmbedder(16), options=BY_CELLS) as another:
        assert repr(ask(another)) == before


def test_cells_are_those_that_a_base_without_the_hidden_rows_has(hybrid: LocalBase, write: Write, tmp_path: Path):
    write("board", texts("secret", 20))
    write("sop", texts("open", 40))
    with LocalBase(tmp_path / "alone", embedder=FakeEmbedder(16), options=BY_CELLS) as alone:
        with alone.writer() as writer:
            for name, text in texts("open", 40).items():
                writer.put("sop", f"doc-{name}", "", text, [Chunk(content=text, chunk_id=name)])
        assert cells(hybrid.path, OPEN) == cells(alone.path, OPEN)
    assert cells(hybrid.path, 2) not in ((), cells(hybrid.path, OPEN))


def test_a_partition_has_cells_from_its_own_size_on(hybrid: LocalBase, write: Write):
    write("sop", texts("open", 40))
    write("board", texts("secret", 11))
    assert [key for key in (1, 2) if cells(hybrid.path, key)] == [1]
    write("board", texts("secret", 12))
    assert [key for key in (1, 2) if cells(hybrid.path, key)] == [1, 2]
    assert hybrid.stats().cells == 4 * 6 + 4 * 3  # four times the root of 40 and of 12, rounded down


def test_what_changes_elsewhere_gives_a_partition_no_cells_and_takes_none(hybrid: LocalBase, write: Write):
    """A setting that was changed since shows with the partition's own next commit."""
    with BaseWriter(hybrid.path, now=_now, embedder=FakeEmbedder(16), approximate_from=1000) as writer:
        for name, text in texts("open", 40).items():
            writer.put("sop", f"doc-{name}", "", text, [Chunk(content=text, chunk_id=name)])
    before = repr(ask(hybrid))
    write("audit", texts("audited", 20))
    assert not cells(hybrid.path, OPEN) and repr(ask(hybrid)) == before
    write("sop", {"one": "more"})
    parted = cells(hybrid.path, OPEN)
    assert len(parted) == 1 + 41
    moving = {"audit": SourcePlace(rules="others"), "sop": SourcePlace()}
    with LocalBase(hybrid.path, options=BY_CELLS, place=moving.get) as base:
        assert base.repartition() == 20
    assert cells(hybrid.path, OPEN) == parted


def test_callers_share_the_matrices(hybrid: LocalBase, write: Write):
    write("sop", texts("open", 20))
    write("board", texts("secret", 5))
    with hybrid._viewer.view(NOBODY) as view:
        assert view.vectors is not None and len(view.vectors) == 20
        (only,) = view.vectors._matrices
    with hybrid._viewer.view(BOARD) as view:
        assert view.vectors is not None and len(view.vectors) == 25
        assert view.vectors._matrices[0] is only
    write("board", {"more": "another secret"})
    with hybrid._viewer.view(None) as view:
        assert view.vectors is not None and len(view.vectors) == 26
        assert view.vectors._matrices[0] is only


def test_who_may_read_all_gets_the_nearest_of_all(folder: Path, write: Write):
    for number, source_id in enumerate(("sop", "board", "audit")):
        write(source_id, texts(f"{number}", 9))
    with LocalBase(folder, embedder=FakeEmbedder(16)) as base:
        for source_id, number in (("board", "1"), ("audit", "2")):
            answer = base.answer("desk limit", top_k=30, scope=Scope(source_id=source_id))
            assert {chunk.chunk_id for chunk in answer.chunks} == set(texts(number, 9))
        seen = base.best_of("limit of the desk", ["sop", "board", "audit"], top_k=5).chunks
        best = {chunk.chunk_id: max(one.value for one in chunk.scores) for chunk in seen}
        assert list(best.values()) == sorted(best.values(), reverse=True) and len(best) == 5


def test_rows_that_were_embedded_later_are_seen(folder: Path, write: Write):
    write("sop", {"a": "limit of the desk"})
    write("board", {"s": "secret limit"})
    with LocalBase(folder, embedder=FakeEmbedder(16)) as base:
        ask(base)
        write("sop", {"b": "approval of a product"}, embedded=False)
        assert len(ask(base)[0].chunks) == 1
        write("board", {"t": "another secret"})
        with base._viewer.view(NOBODY) as view:
            assert view.vectors is not None and len(view.vectors) == 2


def test_without_a_readable_vector_it_is_said_whatever_is_hidden(folder: Path, write: Write):
    write("sop", {"a": "limit of the desk"}, embedded=False)
    with LocalBase(folder, embedder=FakeEmbedder(16)) as base:
        before = ask(base)
        assert [note.code for note in before[0].notes] == [NoticeCode.NO_VECTORS]
        with sqlite3.connect(folder / "base.sqlite3") as connection:  # what a hidden partition alone would bring
            connection.execute("INSERT INTO embedding(one, model_id, dimension) VALUES (1, ?, 16)", (base.model_id,))
        assert repr(ask(base)) == repr(before)


def test_moved_rows_are_not_embedded_again_and_cells_are_those_of_a_base_without_them(folder: Path, tmp_path: Path):
    sop, audit = texts("open", 40), texts("audited", 20)
    fill(folder, {"sop": sop, "audit": audit}, place=None)
    fill(tmp_path / "alone", {"sop": sop}, place=None)
    embedder = Silent(16)
    with LocalBase(folder, embedder=embedder, options=BY_CELLS, place=place) as base:
        assert base.repartition() == 20
        assert cells(folder, OPEN) == cells(tmp_path / "alone", OPEN)
        assert len(cells(folder, 2)) == 1 + 20
        with LocalBase(tmp_path / "alone", embedder=embedder, options=BY_CELLS) as alone:
            assert [one.chunks for one in ask(base)] == [one.chunks for one in same_scorer(ask(alone), base)]


def test_damaged_vectors_cost_no_other_partition_its_cells(folder: Path, write: Write):
    write("sop", texts("open", 40))
    write("board", texts("secret", 20))
    before = [cells(folder, key) for key in (1, 2)]
    with closing(sqlite3.connect(folder / "base.sqlite3")) as connection, connection:
        connection.execute("UPDATE vectors SET vector = zeroblob(64) WHERE rid = 41")
    with LocalBase(folder, embedder=FakeEmbedder(16), options=BY_CELLS) as base:
        base.rebuild()
    assert [cells(folder, key) for key in (1, 2)] == before


def test_documents_that_enter_an_older_partition_bring_their_vectors(folder: Path, write: Write):
    write("board", texts("secret", 3))
    write("sop", texts("open", 3))
    moving = {"board": place("board"), "sop": place("board")}
    with LocalBase(folder, embedder=FakeEmbedder(16), place=moving.get) as base:
        assert base.repartition() == 3
        with base._viewer.view(BOARD) as view:
            assert view.vectors is not None and len(view.vectors) == 6


class Silent(FakeEmbedder):
    """Has vectors for questions only."""

    def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        raise AssertionError(f"{len(texts)} texts were embedded again")


def fill(folder: Path, sources: dict[str, dict[str, str]], place: Place | None) -> None:
    with BaseWriter(
        folder, now=_now, embedder=FakeEmbedder(16), approximate_from=BY_CELLS.approximate_from, place=place
    ) as writer:
        for source_id, held in sources.items():
            for name, text in held.items():
                writer.put(source_id, f"doc-{name}", "", text, [Chunk(content=text, chunk_id=name)])


def same_scorer(answers: list[SourceAnswer], base: LocalBase) -> list[SourceAnswer]:
    """Return answers of another base under the name of this one."""
    own = f"local:{base.stats().base_id}"

    def named(score: Score) -> Score:
        return score._replace(scorer=own + (score.scorer or "")[len(own) :]) if score.kind != "cosine" else score

    return [
        replace(one, chunks=[chunk._replace(scores=tuple(map(named, chunk.scores))) for chunk in one.chunks])
        for one in answers
    ]


def cells(folder: Path, partition: int) -> Sequence[bytes]:
    """Return the centroids of a partition and the cell of each of its rows, in their order."""
    with closing(sqlite3.connect(folder / "base.sqlite3")) as connection:
        centroids = connection.execute("SELECT matrix FROM centroids WHERE partition_key = ?", (partition,))
        rows = connection.execute(
            "SELECT cells FROM documents JOIN chunks USING (doc_key) JOIN cells USING (rid) WHERE partition_key = ?"
            " ORDER BY rid",
            (partition,),
        )
        return tuple(blob for (blob,) in (*centroids, *rows))


def test_cells_are_made_again_once_a_partition_has_four_times_as_many_rows(hybrid: LocalBase, write: Write) -> None:
    """12 rows have 4 * 3 cells, 47 keep them, and 48 have 4 * 6."""
    write("sop", texts("open", 12))
    first = cells(hybrid.path, OPEN)[0]
    write("sop", texts("open", 47))
    assert cells(hybrid.path, OPEN)[0] == first
    assert (len(cells(hybrid.path, OPEN)), hybrid.stats().cells) == (1 + 47, 12)
    write("sop", texts("open", 48))
    assert cells(hybrid.path, OPEN)[0] != first
    assert (len(cells(hybrid.path, OPEN)), hybrid.stats().cells) == (1 + 48, 24)


def test_rows_have_their_cells_however_many_are_read_at_once(
    hybrid: LocalBase, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("sop", texts("open", 40))
    monkeypatch.setattr("context_engine.adapters.sources.local.cells._AT_ONCE", 7)
    with LocalBase(tmp_path / "alone", embedder=FakeEmbedder(16), options=BY_CELLS) as alone:
        with alone.writer() as writer:
            for name, text in texts("open", 40).items():
                writer.put("sop", f"doc-{name}", "", text, [Chunk(content=text, chunk_id=name)])
        assert cells(hybrid.path, OPEN) == cells(alone.path, OPEN)


def test_rows_are_embedded_once_they_fill_a_batch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Counting(FakeEmbedder):
        counts: list[int] = []

        def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
            self.counts.append(len(texts))
            return super().embed_documents(texts)

    monkeypatch.setattr("context_engine.adapters.sources.local.embedding._AT_ONCE", 3)
    with BaseWriter(folder, now=_now, embedder=Counting(16), place=place) as writer:
        for number in range(7):
            writer.put("sop", f"doc-{number}", "", "1", [Chunk(content=f"limit {number}", chunk_id=str(number))])
            assert Counting.counts == [3] * ((number + 1) // 3)
    assert Counting.counts == [3, 3, 1]
