"""One partition for each access class: what a caller may not read leaves no trace in what is found, counted or said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.adapters.sources.local.index_sync import PartitionIndex
from context_engine.adapters.sources.stores.chunk_rows import SourcePlace
from context_engine.adapters.sources.stores.scope import Scope
from context_engine.core.models import (
    AccessScope,
    Chunk,
    Classification,
    Condition,
    SourceAnswer,
    SourceQuery,
)
from context_engine.errors import StoreError
from tests.unit.adapters.sources.local.conftest import INDEXED_AT

NOBODY = AccessScope()
BOARD = AccessScope(rules=frozenset({"board"}), clearance=Classification.CONFIDENTIAL)
PLACES = {
    "policies": SourcePlace(),
    "web": SourcePlace(),
    "board": SourcePlace("board", Classification.CONFIDENTIAL),
}
OPEN = {
    "p1": "A hotel costs at most 200 USD a night; the limit needs no approval.",
    "p2": "The limit of the desk is approved by its head.",
    "p3": "Travel is booked by the travel desk, hotel or not.",
}


@pytest.fixture
def base(folder: Path) -> Iterator[LocalBase]:
    """A base of two open sources and one of the board's; empty."""
    with LocalBase.open(folder, create=True, now=lambda: INDEXED_AT, place=PLACES.get) as opened:
        yield opened


def write(base: LocalBase, texts: dict[str, str], source_id: str = "policies", **claims: Any) -> None:
    """Write each text as a document of one chunk, in one commit."""
    with base.writer() as writer:
        for name, text in texts.items():
            writer.put(source_id, name, "", text, [Chunk(content=text, chunk_id=name, **claims)])


def asked(base: LocalBase, text: str, access: AccessScope | None, source_id: str = "policies") -> SourceAnswer:
    return base.answer(text, top_k=9, scope=Scope(source_id=source_id, access=access, filters=Condition("a", "ne", 1)))


def found(base: LocalBase, text: str, access: AccessScope | None, source_id: str = "policies") -> set[str]:
    return {chunk.chunk_id for chunk in asked(base, text, access, source_id).chunks}


def files(folder: Path, key: int) -> dict[str, bytes]:
    index = folder / "index-1" / str(key)
    return {path.name: path.read_bytes() for path in index.iterdir() if not path.name.endswith(".lock")}


class TestWhoReadsWhat:
    def test_a_class_is_the_rules_and_the_effective_classification(self, base: LocalBase) -> None:
        write(base, OPEN)
        write(base, {"raised": "The hotel limit is secret."}, classification=Classification.RESTRICTED)
        write(base, {"b": "The hotel limit of the board."}, "board")
        write(base, {"lower": "The public hotel of the board."}, "board", classification=Classification.PUBLIC)
        kept = {(one.rules, one.classification): (one.sources, one.chunks) for one in base.stats().partitions}
        assert kept == {
            ("", None): (("policies",), 3),
            ("", Classification.RESTRICTED): (("policies",), 1),
            ("board", Classification.CONFIDENTIAL): (("board",), 2),
        }
        assert found(base, "hotel limit", NOBODY) == {"p1", "p2", "p3"}
        assert found(base, "hotel limit", AccessScope(clearance=Classification.RESTRICTED)) == {"raised", *OPEN}
        assert found(base, "hotel limit", None) == {"raised", *OPEN}
        assert found(base, "hotel limit", BOARD, "board") == {"b", "lower"}
        assert base.verify().ok

    def test_one_chunk_raises_its_document(self, base: LocalBase) -> None:
        low = Chunk(content="A hotel.", chunk_id="low")
        high = Chunk(content="A secret hotel.", chunk_id="high", classification=Classification.RESTRICTED)
        with base.writer() as writer:
            writer.put("policies", "d", "", "h", [low, high])
        assert found(base, "hotel", NOBODY) == set()

    def test_a_document_that_raises_itself_leaves_the_open_partition(self, base: LocalBase) -> None:
        write(base, OPEN)
        write(base, {"p2": "The limit of the desk is secret."}, classification=Classification.RESTRICTED)
        assert found(base, "limit", NOBODY) == {"p1"}
        write(base, {"p2": "The limit of the desk is open."})
        assert found(base, "limit", NOBODY) == {"p1", "p2"}
        assert found(base, "limit", None) == {"p1", "p2"}

    def test_a_source_of_which_nothing_may_be_read_is_like_one_that_holds_nothing(self, base: LocalBase) -> None:
        write(base, OPEN)
        source = LocalSource(base, "board", place=PLACES["board"])
        query = SourceQuery(text="hotel limit", domain="NPA", top_k=5, access=NOBODY)
        before = source.search(query)
        write(base, {"b": "The hotel limit of the board."}, "board")
        assert source.search(query) == before == SourceAnswer()


class TestNonInterference:
    @pytest.mark.parametrize("word", ["hotel", "limit", "hotle"])
    def test_forty_hidden_documents_change_no_byte_of_an_open_answer(self, base: LocalBase, word: str) -> None:
        write(base, OPEN)
        write(base, {"w": "A hotel on the web has no limit."}, "web")
        questions = ("hotel limit", "hotle approval", "desk", "NPA 7")
        before = [asked(base, question, NOBODY) for question in questions]
        hidden = {f"h{number}": f"{word} {word} NPA 7 approval desk {number}" for number in range(40)}
        write(base, hidden, "board", metadata={"a": 2})
        write(base, {f"r{name}": text for name, text in hidden.items()}, classification=Classification.RESTRICTED)
        assert [asked(base, question, NOBODY) for question in questions] == before
        assert asked(base, "hotel limit", None) != before[0]

    def test_nor_of_one_by_a_base_that_never_held_them(self, base: LocalBase, tmp_path: Path) -> None:
        write(base, {"h": "hotel hotel limit"}, "board")
        write(base, OPEN)
        with LocalBase.open(tmp_path / "other", create=True, now=lambda: INDEXED_AT) as other:
            write(other, OPEN)
            for question in ("hotel limit", "desk approval"):
                here, there = (asked(one, question, NOBODY) for one in (base, other))
                assert [(chunk.chunk_id, chunk.scores[0].value) for chunk in here.chunks] == [
                    (chunk.chunk_id, chunk.scores[0].value) for chunk in there.chunks
                ]
                assert here.statistics and there.statistics
                assert here.statistics.document_frequency == there.statistics.document_frequency
                assert here.statistics.chunks == there.statistics.chunks == 3

    def test_a_hidden_write_leaves_the_files_of_the_open_partition(self, base: LocalBase, folder: Path) -> None:
        write(base, OPEN)
        before = files(folder, 1)
        for number in range(4):
            write(base, {f"h{number}": f"hotel {number}"}, "board")
            with base.writer() as writer:
                writer.delete("board", f"h{number - 1}", "")
        assert files(folder, 1) == before

    def test_no_suggestion_field_or_lag_of_what_is_hidden(
        self, base: LocalBase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(base, OPEN)
        before = asked(base, "falkon", NOBODY)
        write(
            base, {"h": "The secret project falcon."}, metadata={"secret": 1}, classification=Classification.RESTRICTED
        )
        assert asked(base, "falkon", NOBODY) == before
        assert asked(base, "falkon", None).unknown_words[0].suggestion == "falcon"
        assert "secret" in (asked(base, "falkon", None).filter_fields or ())
        with monkeypatch.context() as patch, pytest.raises(StoreError, match="broken"):
            patch.setattr(PartitionIndex, "stage", broken)
            write(base, {"i": "More of falcon."}, classification=Classification.RESTRICTED)
        assert asked(base, "falkon", NOBODY) == before
        assert [notice.code for notice in asked(base, "falkon", None).notices] == ["index_lag"]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalBase, LocalBase]]:
    tmp_path = tmp_path_factory.mktemp("bases")
    places = {f"s{number}": SourcePlace(f"rule {number}") for number in range(1, 5)}
    one = LocalBase.open(tmp_path / "one", create=True, now=lambda: INDEXED_AT)
    five = LocalBase.open(tmp_path / "five", create=True, now=lambda: INDEXED_AT, place=places.get)
    with one, five:
        for base in (one, five):
            for half in range(2):
                with base.writer() as writer:
                    for number in range(half, 60, 2):
                        text = f"hotel limit {'desk ' * (number % 7)} item{number % 11} approval"
                        chunks = [Chunk(content=text, chunk_id=str(number), section=str(number % 3))]
                        writer.put(f"s{number % 5}", str(number), "", "h", chunks)
        yield one, five


class TestTogether:
    """Five partitions read together are one index: to the last bit."""

    @pytest.mark.parametrize("question", ["hotel desk item3", "item5 item6", "approval", "hotle limit"])
    def test_scores_statistics_and_order(self, both: tuple[LocalBase, LocalBase], question: str) -> None:
        assert len(both[1].stats().partitions) == 5
        for source in ("s0", "s3"):
            one, five = (base.answer(question, top_k=60, scope=Scope(source_id=source)) for base in both)
            assert [(chunk.chunk_id, chunk.scores[0].value) for chunk in five.chunks] == [
                (chunk.chunk_id, chunk.scores[0].value) for chunk in one.chunks
            ]
            assert one.chunks and one.statistics and five.statistics
            assert five.statistics.chunks == one.statistics.chunks == 60
            assert five.statistics.document_frequency == one.statistics.document_frequency
            assert five.unknown_words == one.unknown_words

    def test_some_of_them(self, both: tuple[LocalBase, LocalBase]) -> None:
        access = AccessScope(rules=frozenset({"rule 1", "rule 3"}), clearance=Classification.INTERNAL)
        answer = both[1].answer("hotel item3", top_k=60, scope=Scope(source_id="s1", access=access))
        assert answer.statistics and answer.statistics.chunks == 36
        assert len(answer.chunks) == 12

    def test_many_sets_of_callers(self, both: tuple[LocalBase, LocalBase]) -> None:
        """More than are kept open; each finds its own."""
        for number in range(40):
            rules = frozenset(f"rule {bit + 1}" for bit in range(4) if number >> bit & 1)
            access = AccessScope(rules=rules, clearance=Classification.INTERNAL)
            with both[1]._viewer.view(access) as view:
                assert view.searcher.num_docs == 12 * (1 + len(rules))
                assert len(view.partitions) == 1 + len(rules)
        assert len(both[1]._viewer._opened) <= 16


class TestBetweenTwoCommits:
    """A commit that changes two partitions is two commits of indexes: in between nothing is found twice or in part."""

    @pytest.fixture
    def torn(self, base: LocalBase, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
        """Lets a writer die once it has brought so many partitions up."""

        def arrange(after: int) -> None:
            commit, left = PartitionIndex.commit, [after]

            def dying(self: PartitionIndex, generation: int) -> None:
                if not left[0]:
                    raise OSError("broken")
                left[0] -= 1
                commit(self, generation)

            monkeypatch.setattr(PartitionIndex, "commit", dying)

        return arrange

    @pytest.mark.parametrize("after", [0, 1])
    def test_a_moved_document(
        self, base: LocalBase, torn: Callable[[int], None], monkeypatch: pytest.MonkeyPatch, after: int
    ) -> None:
        write(base, OPEN)
        write(base, {"r": "A raised limit."}, classification=Classification.RESTRICTED)
        write(base, {"other": "Nothing of it."}, "web")
        with monkeypatch.context(), pytest.raises(StoreError, match="broken"), base.writer() as writer:
            torn(after)
            raised = Chunk(content="A limit that is raised.", chunk_id="p1", classification=Classification.RESTRICTED)
            writer.put("policies", "p1", "", "new", [raised])
            writer.put("policies", "r", "", "new", [Chunk(content="A limit that is open.", chunk_id="r")])
            writer.put("policies", "p4", "", "h", [Chunk(content="One more limit.", chunk_id="p4")])
        answer = asked(base, "limit", None)
        contents = sorted((chunk.chunk_id, chunk.content) for chunk in answer.chunks if "limit" in chunk.content)
        fresh = [("r", "A limit that is open."), ("p4", "One more limit.")]
        former = [("r", "A raised limit."), ("p1", OPEN["p1"])]
        assert contents == sorted([("p2", OPEN["p2"]), *(fresh if after else former)])
        assert [notice.code for notice in answer.notices] == ["index_lag"]
        assert base.stats().lag == 1
        monkeypatch.undo()
        base.writer().close()
        assert found(base, "limit", NOBODY) == {"p2", "p4", "r"}
        assert found(base, "limit", None) == {"p1", "p2", "p4", "r"}
        assert base.verify().ok and base.stats().lag == 0

    def test_a_new_partition_that_is_not_indexed_yet(
        self, base: LocalBase, torn: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(base, OPEN)
        torn(0)
        with pytest.raises(StoreError, match="broken"):
            write(base, {"b": "The limit of the board."}, "board")
        assert found(base, "limit", NOBODY) == {"p1", "p2"} and not asked(base, "limit", NOBODY).notices
        assert found(base, "limit", BOARD, "board") == set()
        assert [notice.code for notice in asked(base, "limit", BOARD).notices] == ["index_lag"]
        monkeypatch.undo()
        base.writer().close()
        assert found(base, "limit", BOARD, "board") == {"b"}

    def test_a_partition_of_a_commit_that_never_was(self, base: LocalBase, folder: Path) -> None:
        """Rolled back, or killed before its commit, it leaves a folder; its key is given again."""
        with pytest.raises(ZeroDivisionError), base.writer() as writer:
            writer.put("board", "b", "", "h", [Chunk(content="The limit of the board.", chunk_id="b")])
            writer._index.prepare()
            raise ZeroDivisionError
        assert (folder / "index-1" / "2").is_dir() and len(base.stats().partitions) == 1
        write(base, {"r": "A raised limit."}, classification=Classification.RESTRICTED)
        write(base, {"b": "The limit of the board."}, "board")
        assert found(base, "limit", BOARD, "board") == {"b"}
        assert base.verify().ok


def broken(*_: Any) -> None:
    raise OSError("broken")
