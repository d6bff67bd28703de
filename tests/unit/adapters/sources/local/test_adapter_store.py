"""Adapters are kept with the base, switched by one row, undone, and in force for who may read what they were learnt
from."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy", reason="the extra 'vectors'")

from context_engine.adapters.sources.domain_adapter import DomainAdapter  # noqa: E402
from context_engine.adapters.sources.local import LocalBase, SearchOptions, adapter_keeping  # noqa: E402
from context_engine.adapters.sources.local.partitions import (  # noqa: E402
    adapter_rows,
    forget_derived,
    forget_empty,
    partitions,
)
from context_engine.adapters.sources.local.schema import DATABASE  # noqa: E402
from context_engine.adapters.sources.local.writer import BaseWriter  # noqa: E402
from context_engine.adapters.sources.stores import adapter_keeping as keeping  # noqa: E402
from context_engine.adapters.sources.stores import adapter_rows as stored_rows  # noqa: E402
from context_engine.adapters.sources.stores.adapter_rows import AdapterRows, Origin  # noqa: E402
from context_engine.adapters.sources.stores.chunk_rows import SourcePlace  # noqa: E402
from context_engine.adapters.sources.stores.scope import Scope  # noqa: E402
from context_engine.core.models import (  # noqa: E402
    AccessScope,
    Chunk,
    Classification,
    NoticeCode,
    ScoreKind,
    SourceAnswer,
    adapter_name,
)
from context_engine.errors import ConfigError, StoreError, StoreVersionMismatch  # noqa: E402
from context_engine.testing.fakes import FakeEmbedder  # noqa: E402

OPEN, SECRET = 1, 2
NOBODY = AccessScope()
BOARD = AccessScope(rules=frozenset({"board only"}), clearance=Classification.RESTRICTED)
MODEL = FakeEmbedder(16).model_id
PLAIN, QUESTION = MODEL, "the limit of the desk"


def place(source_id: str) -> SourcePlace:
    return SourcePlace(rules="board only" if source_id == "board" else "")


class Clock:
    """A second later each time it is looked at."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 3, 2, 10, tzinfo=UTC)

    def now(self) -> datetime:
        self.moment += timedelta(seconds=1)
        return self.moment


def adapter(seed: int, *, dimension: int = 16, model_id: str = MODEL) -> DomainAdapter:
    random = np.random.default_rng(seed)
    query, passage = (np.eye(dimension) + 0.3 * random.standard_normal((dimension, dimension)) for _ in range(2))
    return DomainAdapter(model_id, query, passage)


@pytest.fixture
def house(folder: Path) -> Iterator[LocalBase]:
    """A base of two partitions: ten open documents, five of the board."""
    with BaseWriter(folder, now=Clock().now, embedder=FakeEmbedder(16), place=place) as writer:
        for number in range(10):
            writer.put("sop", f"open-{number}", "", "1", [Chunk(content=f"Rule {number}: the limit of desk {number}.")])
        for number in range(5):
            writer.put("board", f"secret-{number}", "", "1", [Chunk(content=f"Bid {number} for a rival of the desk.")])
    with LocalBase(folder, now=Clock().now, embedder=FakeEmbedder(16), place=place) as base:
        yield base


def keep(base: LocalBase, seed: int, *partitions: int, use: bool = True, domain: str = "HOUSE") -> str:
    """Keep an adapter learnt from some partitions; return its id."""
    state = base.held_vectors([]).origin.state
    evidence = {"questions": 200, "measure": "nDCG@10"}
    kept = base.keep_adapter(domain, adapter(seed), evidence, Origin(state, partitions))
    if use:
        base.use_adapter(domain, kept.adapter_id)
    return kept.adapter_id


def asked(base: LocalBase, access: AccessScope | None = None, domain: str = "HOUSE") -> SourceAnswer:
    return base.answer(QUESTION, top_k=5, scope=Scope(source_id="sop", constants={"domain": domain}, access=access))


def scorer(base: LocalBase, access: AccessScope | None = None, domain: str = "HOUSE") -> str | None:
    """Return what the cosines of a search are known by."""
    found = asked(base, access, domain)
    (name,) = {score.scorer for chunk in found.chunks for score in chunk.scores if score.kind is ScoreKind.COSINE}
    assert found.embedding is not None and found.embedding.model == name
    return name


def written(base: LocalBase, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(base.path / DATABASE)) as connection, connection:
        connection.execute(statement, values)


def forged(
    base: LocalBase, maps: bytes, *, name: str = "", learnt_from: str = f"[{OPEN}]", evidence: str = "{}"
) -> None:
    """Put an adapter in force that only looks as if it had been kept."""
    row = ("HOUSE", name or adapter_name(MODEL, maps), MODEL, learnt_from, evidence, "2026-03-02")
    statement = (
        "INSERT INTO adapters(domain, adapter_id, model_id, learnt_from, evidence, made_at, maps, digest)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    )
    written(base, statement, *row, maps, stored_rows._digest(*row, maps))
    written(
        base,
        "INSERT INTO adapter_switches(domain, learnt_from, adapter_id, switched_at) VALUES ('HOUSE', ?, ?, '2026')",
        learnt_from,
        row[1],
    )


class TestSwitching:
    def test_what_is_kept_is_not_in_force_before_it_is_switched_on(self, house: LocalBase) -> None:
        before = asked(house)
        name = keep(house, 1, OPEN, use=False)
        assert asked(house) == before and scorer(house) == PLAIN
        (kept,) = house.adapters("HOUSE")
        assert (kept.adapter_id, kept.model_id, kept.learnt_from, kept.in_force) == (name, MODEL, (OPEN,), False)
        assert kept.evidence == {"questions": 200, "measure": "nDCG@10"} and kept.problem == ""
        house.use_adapter("HOUSE", name)
        assert scorer(house) == f"{MODEL}+{name}" and house.adapters("HOUSE")[0].in_force
        assert asked(house).chunks != before.chunks

    def test_it_is_of_one_domain(self, house: LocalBase) -> None:
        keep(house, 1, OPEN)
        assert scorer(house, domain="OTHER") == PLAIN and house.adapters("OTHER") == []

    def test_the_last_switch_counts_and_is_undone_and_done_again(self, house: LocalBase) -> None:
        assert not house.undo_adapter("HOUSE")
        first, second = (f"{MODEL}+{keep(house, seed, OPEN)}" for seed in (1, 2))
        assert scorer(house) == second
        for expected in (first, second, first):
            assert house.undo_adapter("HOUSE") and scorer(house) == expected
        house.use_adapter("HOUSE", None)
        assert scorer(house) == PLAIN
        assert house.undo_adapter("HOUSE") and scorer(house) == first

    def test_a_switch_to_what_is_in_force_leaves_nothing_to_undo(self, house: LocalBase) -> None:
        first, second = (keep(house, seed, OPEN) for seed in (1, 2))
        house.use_adapter("HOUSE", second)
        assert house.undo_adapter("HOUSE") and scorer(house) == f"{MODEL}+{first}"

    def test_undoing_the_first_switch_leaves_none(self, house: LocalBase) -> None:
        keep(house, 1, OPEN)
        house.undo_adapter("HOUSE")
        assert scorer(house) == PLAIN

    def test_an_off_of_several_is_undone_together(self, house: LocalBase) -> None:
        narrow, wide = keep(house, 1, OPEN), keep(house, 2, OPEN, SECRET)
        house.use_adapter("HOUSE", None)
        assert scorer(house) == scorer(house, NOBODY) == PLAIN
        house.undo_adapter("HOUSE")
        assert (scorer(house), scorer(house, NOBODY)) == (f"{MODEL}+{wide}", f"{MODEL}+{narrow}")

    def test_the_same_maps_kept_again_have_the_later_evidence(self, house: LocalBase) -> None:
        name = keep(house, 1, OPEN)
        origin = house.held_vectors(["sop"]).origin
        house.keep_adapter("HOUSE", adapter(1), {"questions": 300}, origin)
        (kept,) = house.adapters("HOUSE")
        assert (kept.adapter_id, kept.evidence, kept.in_force) == (name, {"questions": 300}, True)

    def test_a_switch_by_another_is_seen_at_the_next_search(self, house: LocalBase) -> None:
        name = keep(house, 1, OPEN, use=False)
        assert scorer(house) == PLAIN
        with LocalBase(house.path) as other:
            other.use_adapter("HOUSE", name)
        assert scorer(house) == f"{MODEL}+{name}"

    def test_every_search_while_others_switch_is_wholly_under_one(self, house: LocalBase) -> None:
        names = [keep(house, seed, OPEN) for seed in (1, 2)]
        with LocalBase(house.path) as other, ThreadPoolExecutor(4) as threads:
            found = [threads.submit(scorer, house) for _ in range(20)]
            for turn in range(10):
                other.use_adapter("HOUSE", names[turn % 2])
            assert {one.result() for one in found} <= {f"{MODEL}+{name}" for name in names}

    def test_what_is_kept_is_told_though_another_process_forgets_it_at_once(
        self, house: LocalBase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        writing = LocalBase._writing_adapters
        with LocalBase(house.path) as other:

            @contextmanager
            def written_and_forgotten(base: LocalBase, *args: Any) -> Iterator[AdapterRows]:
                with writing(base, *args) as rows:
                    yield rows
                if base is house:
                    other.forget_adapters("HOUSE", [adapter(1).adapter_id])

            monkeypatch.setattr(LocalBase, "_writing_adapters", written_and_forgotten)
            origin, one = house.held_vectors([]).origin, adapter(1)
            found = house.keep_adapter("HOUSE", one, {"questions": 9}, origin)
        assert (found.adapter_id, found.evidence, found.learnt_from) == (one.adapter_id, {"questions": 9}, origin[1])
        assert house.adapters("HOUSE") == []

    def test_two_processes_keep_at_once(self, house: LocalBase) -> None:
        origin = house.held_vectors([]).origin
        with LocalBase(house.path) as other, ThreadPoolExecutor(4) as threads:
            found = [
                threads.submit(base.keep_adapter, "HOUSE", adapter(seed), {"turn": turn}, origin)
                for turn in range(3)
                for base in (house, other)
                for seed in (1, 2)
            ]
            assert {one.result().adapter_id for one in found} == {adapter(seed).adapter_id for seed in (1, 2)}
        assert len(house.adapters("HOUSE")) == 2

    def test_a_search_under_way_keeps_what_was_in_force_when_it_began(self, house: LocalBase) -> None:
        name = keep(house, 1, OPEN, use=False)
        with house._viewer.view() as view:
            house.use_adapter("HOUSE", name)
            found = house._adapters.chosen(adapter_rows(view.connection), "HOUSE", "auto", view.partitions)
        assert found.adapter is None and scorer(house) == f"{MODEL}+{name}"

    @pytest.mark.parametrize("name", ["0123456789ab", ""])
    def test_what_is_not_there_cannot_be_switched_on(self, house: LocalBase, name: str) -> None:
        with pytest.raises(StoreError, match="The domain has none: learn one"):
            house.use_adapter("HOUSE", name)


class TestTheSetting:
    @pytest.fixture
    def opened(self, house: LocalBase) -> Iterator[Callable[[str], LocalBase]]:
        bases: list[LocalBase] = []

        def base(choice: str) -> LocalBase:
            bases.append(LocalBase(house.path, embedder=FakeEmbedder(16), options=SearchOptions(adapter=choice)))
            return bases[-1]

        yield base
        for one in bases:
            one.close()

    def test_off_searches_without_and_an_id_with_that_one(self, house, opened) -> None:
        before = asked(house)
        kept, used = keep(house, 1, OPEN, use=False), keep(house, 2, OPEN)
        assert scorer(opened("auto")) == f"{MODEL}+{used}"
        assert asked(opened("off")) == before
        assert scorer(opened(kept)) == f"{MODEL}+{kept}"

    def test_an_id_that_the_caller_may_not_know_is_as_one_that_is_not_there(self, house, opened) -> None:
        wide = keep(house, 1, OPEN, SECRET, use=False)
        assert scorer(opened(wide), BOARD) == f"{MODEL}+{wide}"
        hidden, unknown = asked(opened(wide), NOBODY), asked(opened("0" * 12), NOBODY)
        assert hidden.chunks == unknown.chunks
        for found, name in ((hidden, wide), (unknown, "0" * 12)):
            assert [(note.code, note.detail) for note in found.notices] == [
                (NoticeCode.ADAPTER_UNUSABLE, {"adapter": name})
            ]


class TestTrial:
    def test_one_that_is_kept_nowhere_is_tried(self, house: LocalBase) -> None:
        before, used = asked(house), keep(house, 2, OPEN)
        tried = house.best_of(QUESTION, ["sop"], top_k=5, adapter=adapter(1)).chunks
        assert {score.scorer for score in tried[0].scores if score.kind is ScoreKind.COSINE} == {adapter(1).scorer_id}
        assert list(house.best_of(QUESTION, ["sop"], top_k=5, adapter=None).chunks) == list(before.chunks)
        auto = house.best_of(QUESTION, ["sop"], top_k=5, domain="HOUSE").chunks
        assert used in str(auto[0].scores) and list(auto) == list(asked(house).chunks)
        assert len(house.adapters()) == 1

    def test_one_of_another_model_is_refused(self, house: LocalBase) -> None:
        with pytest.raises(StoreVersionMismatch, match="eval tune --adapter"):
            house.best_of(QUESTION, ["sop"], top_k=5, adapter=adapter(1, model_id="other"))


class TestWhoMayRead:
    def test_it_is_in_force_for_who_may_read_all_that_it_was_learnt_from(self, house: LocalBase) -> None:
        wide = keep(house, 1, OPEN, SECRET)
        assert (scorer(house, NOBODY), scorer(house, BOARD), scorer(house)) == (PLAIN, *[f"{MODEL}+{wide}"] * 2)
        assert house.adapters("HOUSE", access=NOBODY) == []
        assert [one.adapter_id for one in house.adapters("HOUSE", access=BOARD)] == [wide]

    def test_of_several_the_one_learnt_from_most_is_used(self, house: LocalBase) -> None:
        wide = keep(house, 1, OPEN, SECRET)
        narrow = keep(house, 2, OPEN)
        assert (scorer(house, NOBODY), scorer(house, BOARD)) == (f"{MODEL}+{narrow}", f"{MODEL}+{wide}")

    def test_what_is_learnt_and_switched_where_one_may_not_read_changes_no_bit(self, house: LocalBase) -> None:
        keep(house, 1, OPEN)
        before = asked(house, NOBODY)
        keep(house, 2, OPEN, SECRET)
        keep(house, 3, SECRET)
        assert asked(house, NOBODY) == before
        house.use_adapter("HOUSE", None, access=NOBODY)
        assert scorer(house, NOBODY) == PLAIN and scorer(house, BOARD) != PLAIN, "only what may be read is switched"

    def test_what_may_not_be_read_cannot_be_switched_on(self, house: LocalBase) -> None:
        wide = keep(house, 1, OPEN, SECRET, use=False)
        with pytest.raises(StoreError, match="keeps no adapter"):
            house.use_adapter("HOUSE", wide, access=NOBODY)
        assert house.read_adapter("HOUSE", wide, access=NOBODY) is None
        assert house.read_adapter("HOUSE", wide) is not None

    def test_vectors_to_learn_from_are_those_that_may_be_read(self, house: LocalBase) -> None:
        both = house.held_vectors(["sop", "board"])
        assert (len(both.chunks), both.origin.classes, both.parts.shape) == (15, (OPEN, SECRET), (15, 16))
        assert both.source_ids == ["sop"] * 10 + ["board"] * 5
        assert (both.document_ids[0], both.contents[0]) == ("open-0", "Rule 0: the limit of desk 0.")
        assert both.lengths.tolist() == [1] * 15 and len(set(both.chunk_ids)) == 15
        expected = FakeEmbedder(16).embed_documents([both.contents[12]])[0]
        assert both.parts[12] == pytest.approx(expected, abs=1e-6)
        mine = house.held_vectors(["sop", "board", "none"], access=NOBODY)
        assert (mine.source_ids, mine.origin.classes) == (["sop"] * 10, (OPEN,))
        assert len(house.held_vectors(["none"]).parts) == 0

    def test_without_an_embedder_there_is_nothing_to_learn_from(self, house: LocalBase) -> None:
        with LocalBase(house.path) as base, pytest.raises(ConfigError, match="configure an embedder"):
            base.held_vectors(["sop"])


class TestWhatGoes:
    def test_rows_that_leave_a_partition_take_what_was_learnt_from_it_along(self, house: LocalBase) -> None:
        keep(house, 1, OPEN, SECRET)
        narrow = keep(house, 2, OPEN)
        with closing(sqlite3.connect(house.path / DATABASE)) as connection, connection:
            forget_derived(connection, [SECRET])
        assert [one.adapter_id for one in house.adapters()] == [narrow]
        assert scorer(house) == f"{MODEL}+{narrow}"
        with closing(sqlite3.connect(house.path / DATABASE)) as connection, connection:
            forget_derived(connection, [OPEN])
            assert connection.execute("SELECT count(*) FROM adapter_switches").fetchone() == (0,)
        assert house.adapters() == [] and scorer(house) == PLAIN

    def test_a_partition_that_is_forgotten_takes_what_was_learnt_from_it_along(self, house: LocalBase) -> None:
        keep(house, 1, OPEN, SECRET)
        narrow = keep(house, 2, OPEN)
        with closing(sqlite3.connect(house.path / DATABASE)) as connection, connection:
            forget_empty(connection)
            assert len(house.adapters()) == 2
            connection.execute("DELETE FROM documents WHERE partition_key = ?", (SECRET,))
            forget_empty(connection)
            assert [one.key for one in partitions(connection)] == [OPEN]
        assert [one.adapter_id for one in house.adapters()] == [narrow]

    def test_what_was_learnt_before_documents_moved_is_not_kept(self, house: LocalBase) -> None:
        origin = house.held_vectors(["sop"]).origin
        house.rebuild()
        with pytest.raises(StoreError, match="learn it again"):
            house.keep_adapter("HOUSE", adapter(1), {}, origin)
        assert house.adapters() == []

    def test_a_rebuild_keeps_adapters_and_switches(self, house: LocalBase) -> None:
        name = keep(house, 1, OPEN)
        house.rebuild()
        assert scorer(house) == f"{MODEL}+{name}"

    def test_those_of_another_model_are_listed_not_used_and_said(self, house: LocalBase) -> None:
        name = keep(house, 1, OPEN)
        with LocalBase(house.path, embedder=FakeEmbedder(8), place=place) as other:
            other.rebuild()
            (kept,) = other.adapters()
            assert (kept.problem, kept.in_force) == ("for other vectors", True)
            found = asked(other)
            assert found.embedding is not None and found.embedding.model == FakeEmbedder(8).model_id
            assert [(note.code, note.detail) for note in found.notices] == [
                (NoticeCode.ADAPTER_UNUSABLE, {"adapter": name})
            ]
            with pytest.raises(StoreError, match="for other vectors"):
                other.use_adapter("HOUSE", name)
        house.rebuild()
        assert scorer(house) == f"{MODEL}+{name}", "with the former model it is used again"

    @pytest.mark.parametrize(
        "damage",
        [
            "UPDATE adapters SET maps = zeroblob(length(maps))",
            "UPDATE adapters SET learnt_from = '[1,1]'",
            "UPDATE adapters SET evidence = '{'",
        ],
    )
    def test_a_damaged_one_is_not_used_and_said(self, house: LocalBase, damage: str) -> None:
        before = asked(house)
        name = keep(house, 1, OPEN)
        written(house, damage)
        written(house, "UPDATE adapter_switches SET learnt_from = (SELECT learnt_from FROM adapters)")
        found = asked(house)
        assert found.chunks == before.chunks
        assert [note.code for note in found.notices] == [NoticeCode.ADAPTER_UNUSABLE]
        assert [one.problem for one in house.adapters()] == ["damaged"]
        (problem,) = house.verify().problems
        assert name in problem and "eval tune --adapter" in problem
        with pytest.raises(StoreError, match="damaged"):
            house.use_adapter("HOUSE", name)

    def test_one_in_force_for_another_model_is_not_used_and_said_to_who_may_know_of_it(self, house: LocalBase) -> None:
        before = asked(house, BOARD)
        name = keep(house, 1, OPEN, SECRET)
        written(house, "UPDATE adapters SET model_id = 'another'")
        found = asked(house, BOARD)
        assert found.chunks == before.chunks
        assert [(note.code, note.detail) for note in found.notices] == [
            (NoticeCode.ADAPTER_UNUSABLE, {"adapter": name})
        ]
        assert list(asked(house, NOBODY).notices) == []
        used = keep(house, 2, OPEN)
        assert scorer(house, BOARD) == f"{MODEL}+{used}" and list(asked(house, BOARD).notices) == []

    def test_one_for_another_model_that_is_switched_off_is_not_said(self, house: LocalBase) -> None:
        keep(house, 1, OPEN)
        written(house, "UPDATE adapters SET model_id = 'another'")
        house.use_adapter("HOUSE", None)
        assert list(asked(house).notices) == []

    def test_one_whose_partitions_cannot_be_read_hides_itself_alone(self, house: LocalBase) -> None:
        first, second = keep(house, 1, OPEN), keep(house, 2, OPEN)
        written(house, "UPDATE adapters SET learnt_from = '[' WHERE adapter_id = ?", second)
        assert [one.adapter_id for one in house.adapters()] == [first]
        assert scorer(house) == PLAIN
        assert second in house.verify().problems[0]
        with closing(sqlite3.connect(house.path / DATABASE)) as connection, connection:
            forget_derived(connection, [OPEN])
        assert [one.adapter_id for one in house.adapters()] == []

    @pytest.mark.parametrize("number", [float("nan"), float("inf"), 3e38])
    def test_maps_that_make_no_cosine_are_neither_kept_nor_used(self, house: LocalBase, number: float) -> None:
        before = asked(house)
        maps = np.full((16, 16), number, np.float32)
        with pytest.raises(ValueError, match="must lie in"):
            house.keep_adapter("HOUSE", DomainAdapter(MODEL, maps, maps), {}, house.held_vectors(["sop"]).origin)
        forged(house, DomainAdapter(MODEL, maps, maps).as_bytes())
        found = asked(house)
        assert found.chunks == before.chunks
        assert [note.code for note in found.notices] == [NoticeCode.ADAPTER_UNUSABLE]

    def test_maps_under_the_name_of_others_are_damaged(self, house: LocalBase) -> None:
        forged(house, adapter(1).as_bytes(), name=adapter(2).adapter_id)
        assert [one.problem for one in house.adapters()] == ["damaged"]
        assert [note.code for note in asked(house).notices] == [NoticeCode.ADAPTER_UNUSABLE]

    @pytest.mark.parametrize("evidence", ["[]", "7", "[" * 100_000])
    @pytest.mark.usefixtures("collector_off")
    def test_evidence_that_is_no_object_is_none(self, house: LocalBase, evidence: str) -> None:
        forged(house, adapter(1).as_bytes(), evidence=evidence)
        assert [one.evidence for one in house.adapters()] == [{}]

    @pytest.mark.parametrize("learnt_from", ["1", '{"a": 1}'])
    def test_one_learnt_from_no_list_of_partitions_is_nobodys(self, house: LocalBase, learnt_from: str) -> None:
        forged(house, adapter(1).as_bytes(), learnt_from=learnt_from)
        assert house.adapters() == [] and scorer(house) == PLAIN


def test_the_base_says_what_it_keeps(house: LocalBase) -> None:
    name = keep(house, 1, OPEN, use=False)
    assert [(one.domain, one.adapter_id) for one in house.stats().adapters] == [("HOUSE", name)]
    assert house.verify().ok


def test_a_crash_between_keeping_and_switching_leaves_the_former_in_force(
    house: LocalBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = keep(house, 1, OPEN), keep(house, 2, OPEN, use=False)

    @contextmanager
    def killed(connection: sqlite3.Connection) -> Iterator[None]:
        connection.execute("BEGIN IMMEDIATE")
        yield
        raise KeyboardInterrupt

    monkeypatch.setattr(adapter_keeping.schema, "transaction", killed)
    with pytest.raises(KeyboardInterrupt):
        house.use_adapter("HOUSE", second)
    assert scorer(house) == f"{MODEL}+{first}"


def test_maps_are_read_once_and_the_last_few_are_kept(house: LocalBase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Maps of 16 by 16 numbers of 4 bytes are 1,024 bytes each, two an adapter: 4,096 bytes hold two of them."""
    names = [keep(house, seed, OPEN, use=False) for seed in (1, 2, 3)]
    monkeypatch.setattr(keeping, "_MOST_BYTES", 4 * 1024)
    reader = keeping.AdapterReader()
    with closing(sqlite3.connect(house.path / DATABASE)) as connection:

        def read(name: str) -> DomainAdapter:
            found = reader.chosen(adapter_rows(connection), "HOUSE", name, [OPEN]).adapter
            assert found is not None and found.adapter_id == name
            return found

        first, second = read(names[0]), read(names[1])
        assert read(names[0]) is first and read(names[1]) is second
        read(names[0])  # used last: the second one goes
        third = read(names[2])
        assert read(names[0]) is first and read(names[2]) is third
        assert read(names[1]) is not second
        monkeypatch.setattr(keeping, "_MOST_BYTES", 1)
        alone = read(names[0]), read(names[1])  # one is always kept
        assert read(names[1]) is alone[1]


def test_the_best_of_several_sources_by_meaning_alone(house: LocalBase) -> None:
    """No text holds the word: ten rules and five bids are ranked by their vectors."""
    for sources, count in ((["sop"], 10), (["board"], 5), (["sop", "board"], 15), (["none"], 0)):
        assert len(house.best_of("zeppelin", sources, top_k=20).chunks) == count
