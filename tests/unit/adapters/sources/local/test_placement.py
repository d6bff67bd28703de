"""Documents stand where the access rules of their source say, or their source is not searched until they do."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.adapters.sources.local import index as indexing
from context_engine.adapters.sources.stores.chunk_rows import SourcePlace, claimed_by, places
from context_engine.core.models import (
    AccessScope,
    Chunk,
    Classification,
    ScoreKind,
    SourceAnswer,
    SourceQuery,
    SourceSpec,
    SourceType,
)
from context_engine.errors import RepartitionRequired, SourceUnavailable, StoreError, StoreVersionMismatch
from context_engine.testing.fakes import FakeEmbedder
from tests.unit.adapters.sources.local.conftest import INDEXED_AT

FORMER = Path(__file__).parents[4] / "data" / "base_version_2.sql"
OPEN = SourcePlace()
RULED = SourcePlace("board", Classification.CONFIDENTIAL)
Said = dict[str, SourcePlace]


class CountingEmbedder(FakeEmbedder):
    """Counts the texts it was given."""

    texts = 0

    def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        self.texts += len(texts)
        return super().embed_documents(texts)


@pytest.fixture
def said() -> Said:
    """What is said of each source; a test changes it."""
    return {"sop": OPEN, "web": OPEN}


@pytest.fixture
def base(folder: Path, said: Said) -> Iterator[LocalBase]:
    """A base of two sources, four documents; one raises itself."""
    with LocalBase.open(folder, create=True, now=lambda: INDEXED_AT, place=said.get) as opened:
        with opened.writer() as writer:
            for name, source in (("a", "sop"), ("b", "sop"), ("c", "web")):
                writer.put(source, name, "", "h", [Chunk(content=f"limit {name}", chunk_id=name)])
            raised = Chunk(content="limit r", chunk_id="r", classification=Classification.RESTRICTED)
            writer.put("sop", "r", "", "h", [raised])
        yield opened


def ask(base: LocalBase, source_id: str, place: SourcePlace | None, access: AccessScope | None = None) -> SourceAnswer:
    query = SourceQuery(text="limit hotel", domain="NPA", top_k=9, access=access)
    return LocalSource(base, source_id, place=place).search(query)


def found(base: LocalBase, source_id: str, access: AccessScope | None = None) -> set[str]:
    return {chunk.chunk_id for chunk in ask(base, source_id, None, access).chunks}


class TestRulesThatChange:
    @pytest.mark.parametrize("now", [RULED, SourcePlace("board"), SourcePlace("", Classification.RESTRICTED)])
    def test_the_source_says_repartition_until_its_documents_are_moved(
        self, base: LocalBase, said: Said, now: SourcePlace
    ) -> None:
        assert len(ask(base, "sop", OPEN).chunks) == 3
        for _ in range(2):
            with pytest.raises(RepartitionRequired, match=r"'sop'.*context-engine kb repartition") as caught:
                ask(base, "sop", now)
        assert (caught.value.code, caught.value.retryable) == ("repartition", False)
        assert len(ask(base, "web", OPEN).chunks) == 1
        said["sop"] = now
        assert base.repartition() > 0
        assert len(ask(base, "sop", now).chunks) == 3
        assert base.repartition() == 0
        assert base.verify().ok

    def test_a_classification_alone_moves_what_claims_one(self, base: LocalBase, said: Said) -> None:
        """Without rules nobody needs the source's own classification; what is declared as high is not raised."""
        said["sop"] = SourcePlace("", Classification.RESTRICTED)
        assert base.repartition() == 1
        assert found(base, "sop", AccessScope()) == {"a", "b", "r"}

    def test_rules_hide_and_their_end_shows(self, base: LocalBase, said: Said) -> None:
        board = AccessScope(rules=frozenset({"board"}), clearance=Classification.CONFIDENTIAL)
        said["sop"] = RULED
        assert base.repartition() == 3
        assert found(base, "sop", AccessScope()) == set()
        assert found(base, "sop", board) == {"a", "b"}
        said["sop"] = OPEN
        assert base.repartition() == 3
        assert found(base, "sop", AccessScope()) == {"a", "b"}
        assert [one.documents for one in base.stats().partitions] == [3, 1]

    def test_documents_that_enter_an_older_partition_are_held_once_and_by_every_reader(
        self, base: LocalBase, said: Said
    ) -> None:
        """The partition knows no commit as late as theirs until it takes them."""
        said["board"] = RULED
        for name, source in (("old", "board"), ("late", "web")):
            with base.writer() as writer:
                writer.put(source, name, "", "h", [Chunk(content=f"limit {name}", chunk_id=name)])
        said["web"] = RULED
        assert base.repartition() == 2
        with base.writer() as writer:
            writer.put("board", "new", "", "h", [Chunk(content="limit new", chunk_id="new")])
            follow = writer._index.follow
            writer._index.follow = lambda _state: None  # type: ignore[method-assign]
            writer.commit()
            assert found(base, "web") == {"c", "late"}
            writer._index.follow = follow  # type: ignore[method-assign]
        assert found(base, "web") == {"c", "late"}
        assert base.verify().problems == ()

    def test_a_writer_moves_by_itself_what_it_knows_of(self, base: LocalBase, said: Said) -> None:
        said["sop"] = RULED
        del said["web"]
        with base.writer() as writer:
            assert writer.moved == 3
            writer.put("web", "d", "", "h", [Chunk(content="limit d", chunk_id="d")])
        assert found(base, "web", AccessScope()) == {"c", "d"} and found(base, "sop", AccessScope()) == set()

    def test_who_knows_nothing_moves_nothing_and_checks_nothing(self, base: LocalBase, folder: Path) -> None:
        with LocalBase(folder) as plain:
            assert plain.repartition() == 0
            assert len(ask(plain, "sop", None).chunks) == 3

    def test_a_writer_that_knows_nothing_cannot_open_a_source_with_rules(self, base: LocalBase, said: Said) -> None:
        """What it writes is found by nobody until it is moved."""
        said["sop"] = RULED
        base.repartition()
        with LocalBase(base.path) as plain, plain.writer() as writer:
            writer.put("sop", "new", "", "h", [Chunk(content="limit new", chunk_id="new")])
        with pytest.raises(RepartitionRequired):
            ask(base, "sop", RULED)
        assert base.repartition() == 1

    def test_there_must_be_a_base(self, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match="no knowledge base"):
            LocalBase(tmp_path / "none").repartition()


def _files(base: LocalBase, partition: int) -> dict[str, bytes]:
    """The files of a partition's index, by their path."""
    return {file.name: file.read_bytes() for file in base.path.glob(f"index-*/{partition}/*") if file.is_file()}


class TestMoving:
    def test_nothing_is_embedded_again(self, tmp_path: Path) -> None:
        pytest.importorskip("numpy")
        embedder, said = CountingEmbedder(8), {"sop": OPEN}
        with LocalBase.open(tmp_path / "base", create=True, embedder=embedder, place=said.get) as base:
            with base.writer() as writer:
                for number in range(5):
                    writer.put("sop", str(number), "", "h", [Chunk(content=f"limit {number}", chunk_id=str(number))])
            before, said["sop"] = embedder.texts, RULED
            assert base.repartition() == 5
            assert embedder.texts == before == 5
            chunks = base.search("limit", source_id="sop", top_k=9)
            assert len(chunks) == 5
            assert all(chunk.score(ScoreKind.COSINE) is not None for chunk in chunks)

    def test_readers_go_on_beside_it(self, base: LocalBase, said: Said) -> None:
        with base._viewer.view() as view:
            said["sop"] = RULED
            base.repartition()
            assert view.searcher.num_docs == 4
        assert found(base, "sop") == {"a", "b", "r"}

    def test_the_index_of_another_partition_does_not_change_by_a_byte(self, base: LocalBase, said: Said) -> None:
        said["sop"] = RULED
        base.repartition()
        with base.writer() as writer:
            writer.put("web", "gone", "", "h", [Chunk(content="limit limit limit")])
        with base.writer() as writer:
            writer.delete("web", "gone", "")
        before, answer = _files(base, 1), ask(base, "web", said["web"])
        said["sop"] = SourcePlace("audit", Classification.CONFIDENTIAL)
        assert base.repartition() == 3
        assert _files(base, 1) == before
        assert ask(base, "web", said["web"]) == answer

    def test_what_fails_on_the_way_changes_nothing(
        self, base: LocalBase, said: Said, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        said["sop"] = RULED
        with monkeypatch.context() as patch, pytest.raises(StoreError, match="broken"):
            patch.setattr("context_engine.adapters.sources.local.index_sync.IndexSync._built", _broken)
            base.repartition()
        assert found(base, "sop", AccessScope()) == {"a", "b"} and base.verify().ok
        assert base.repartition() == 3


class TestAnOlderBase:
    """One that version 2 of the tables wrote: three documents, of which one raises itself, with vectors."""

    @pytest.fixture
    def older(self, folder: Path) -> Path:
        folder.mkdir()
        with sqlite3.connect(folder / "base.sqlite3") as connection:
            connection.executescript(FORMER.read_text("utf-8"))
        return folder

    @pytest.mark.parametrize(
        "read",
        [
            lambda base: base.held(),
            lambda base: base.stats(),
            lambda base: base.calibration("D"),
            lambda base: base.get("sop", "a"),
            lambda base: list(base.chunks("sop")),
        ],
    )
    def test_whoever_reads_it_is_told_what_to_do(self, older: Path, read: Callable[[LocalBase], object]) -> None:
        with LocalBase(older) as base, pytest.raises(StoreVersionMismatch, match="context-engine kb rebuild"):
            read(base)

    def test_it_is_not_searched_but_upgraded_by_a_writer(self, older: Path) -> None:
        with LocalBase(older) as base:
            with pytest.raises(SourceUnavailable, match=r"older version.*context-engine kb rebuild"):
                ask(base, "sop", None)
            base.rebuild()
            assert found(base, "sop", AccessScope()) == {"a"}
            assert found(base, "web", AccessScope()) == {"c"}
            assert found(base, "sop") == {"a", "b1", "b2"}
            assert base.verify().ok and base.stats().analyser_version == indexing.INDEX_VERSION

    def test_a_writer_that_knows_the_rules_places_it(self, older: Path) -> None:
        said = {"sop": RULED, "web": SourcePlace("", Classification.PUBLIC)}
        with LocalBase(older, place=said.get) as base:
            with base.writer() as writer:
                assert writer.moved == 3
            kept = {(one.rules, one.classification): one.sources for one in base.stats().partitions}
            assert kept == {
                ("", None): (),
                ("", Classification.INTERNAL): ("web",),
                ("board", Classification.CONFIDENTIAL): ("sop",),
                ("board", Classification.RESTRICTED): ("sop",),
            }
            assert {len(ask(base, name, place).chunks) for name, place in said.items()} == {3, 1}
            assert base.verify().ok

    def test_its_vectors_stay(self, older: Path) -> None:
        pytest.importorskip("numpy")
        embedder = CountingEmbedder(4)
        with LocalBase(older, embedder=embedder) as base:
            base.writer().close()
            chunks = base.search("limit", source_id="sop", top_k=9)
            assert embedder.texts == 0
            assert [chunk.score(ScoreKind.COSINE) is not None for chunk in chunks] == [True] * 3


def test_the_highest_claim_counts() -> None:
    claims = [None, Classification.PUBLIC, Classification.CONFIDENTIAL, Classification.INTERNAL]
    assert claimed_by(Chunk(content="a", classification=one) for one in claims) is Classification.CONFIDENTIAL
    assert claimed_by([Chunk(content="a")]) is None


def test_places_of_sources() -> None:
    spec = SourceSpec(
        id="sop", type=SourceType.BANK_SOP, tier=2, adapter="local", classification=Classification.CONFIDENTIAL
    )
    rules_of: Callable[[str], str] = {"sop": "board"}.__getitem__
    place = places([spec], rules_of)
    assert place("sop") == RULED
    assert place("other") is None


def _broken(*_: object) -> None:
    raise OSError("broken")
