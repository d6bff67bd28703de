"""What a store must keep that offers more than search: a class for each protocol of `core.protocols.capabilities`.

Subclass in a test file of your own and run pytest:

class TestMyStore(CalibratableContract, TrainableContract, AccessProvableContract):
    def make_store(self, data_dir):
        return MyStore(data_dir)

    def open_source(self, source_id, data_dir):
        return MySource(MyStore(data_dir), source_id)

    def open_sink(self, data_dir):
        return MySink(MyStore(data_dir))
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final
from unittest import SkipTest

from context_engine.core.models import (
    AccessScope,
    CalibrationPart,
    CalibrationPlan,
    Chunk,
    ScopeCalibration,
    SourceQuery,
    StoredAdapter,
    scorer_name,
)
from context_engine.core.protocols import (
    AccessProvable,
    Calibratable,
    LearntAdapters,
    Listable,
    Sink,
    Source,
    StoredVectors,
    Trainable,
)
from context_engine.core.ranking.scope import SIGNAL_VERSION
from context_engine.errors import StoreError

OPEN_SOURCE: Final = "open_rules"
CLOSED_SOURCE: Final = "board_papers"
CLOSED_RULES: Final = "board"
"""The access rules of the closed source, as a sink's `rules_of` gives them."""

_SUBJECTS: Final = ("collateral", "custody", "dividends", "escrow", "factoring", "guarantees")
_DUTIES: Final = ("is valued daily", "is reported to the committee", "needs approval", "is reviewed each quarter")
OPEN_TEXTS: Final = {
    f"{what}-{number}": f"The {what} {duty} by desk {number}."
    for what in _SUBJECTS
    for number, duty in enumerate(_DUTIES)
}
CLOSED_TEXTS: Final = {
    f"board-{number}": f"The board keeps project Falcon number {number} to itself." for number in range(3)
}
_NOBODY: Final = AccessScope()
_LENGTH: Final = 1e-3
_WRITTEN: Final = Chunk(chunk_id="added", document_id="added", content="A note that was added later.")


def fill(sink: Sink) -> None:
    """Write the documents that the contracts expect: one chunk each, id and document id alike."""
    for source_id, texts in ((OPEN_SOURCE, OPEN_TEXTS), (CLOSED_SOURCE, CLOSED_TEXTS)):
        for name, text in texts.items():
            sink.put(source_id, name, "", "1", [Chunk(chunk_id=name, document_id=name, content=text)])
    sink.commit()


class StoreContract:
    """What the contracts have in common: a store in a folder, filled by `fill`.

    The open source has no access rule; the closed one has `CLOSED_RULES`.
    """

    domain: ClassVar[str] = "NPA"

    def make_store(self, data_dir: Path) -> Any:
        """Return the store of a data folder, which may be empty."""
        raise TypeError(f"{type(self).__name__} must define make_store()")

    def open_sink(self, data_dir: Path) -> AbstractContextManager[Sink]:
        """Return the sink of both sources of the store in a data folder, which may be empty."""
        raise TypeError(f"{type(self).__name__} must define open_sink()")

    def open_source(self, source_id: str, data_dir: Path) -> Source:
        """Return a source over the store in a data folder."""
        raise TypeError(f"{type(self).__name__} must define open_source()")

    @contextmanager
    def store(self) -> Iterator[Any]:
        """Yield a filled store in a temporary folder."""
        with self.folder() as data_dir, self.opened(data_dir) as store:
            yield store

    @contextmanager
    def opened(self, data_dir: Path) -> Iterator[Any]:
        """Yield the store of a data folder; close it at the end if it can be closed."""
        store = self.make_store(data_dir)
        yield store
        if hasattr(store, "close"):
            store.close()

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Yield a temporary data folder with a filled store."""
        with TemporaryDirectory() as name:
            with self.open_sink(Path(name)) as sink:
                fill(sink)
            yield Path(name)

    def query(self, text: str, *, access: AccessScope | None = None, top_k: int = 5) -> SourceQuery:
        """Return a query as the engine sends it."""
        return SourceQuery(text=text, domain=self.domain, top_k=top_k, access=access)


class CalibratableContract(StoreContract):
    """The tests of a `Calibratable` store."""

    def test_offers_calibration(self) -> None:
        with self.store() as store:
            assert isinstance(store, Calibratable)

    def test_a_plan_covers_the_chunks_of_the_sources_it_holds(self) -> None:
        with self.store() as store:
            plan = store.calibration_plan(self.domain, [OPEN_SOURCE, "no_such_source"], anew=True)
            assert list(plan.source_ids) == [OPEN_SOURCE]
            words = [part for part in plan.parts if not part.scorer_id]
            assert sum(part.chunks for part in words) == len(OPEN_TEXTS)
            passages = {chunk.chunk_id for part in words for chunk in part.passages}
            assert passages == OPEN_TEXTS.keys(), "a part gives all of its chunks if it has 200 or fewer"

    def test_a_part_names_the_ids_that_it_holds(self) -> None:
        with self.store() as store:
            asked = {"custody-1", "no-such-chunk"}
            plan = store.calibration_plan(self.domain, [OPEN_SOURCE], asked, anew=True)
            assert {name for part in plan.parts for name in part.held_ids} == {"custody-1"}

    def test_a_part_is_searched(self) -> None:
        with self.store() as store:
            plan = store.calibration_plan(self.domain, [OPEN_SOURCE], anew=True)
            for part in plan.parts:
                answer = store.search_part(part, plan.source_ids, self.query(OPEN_TEXTS["custody-1"]))
                assert "custody-1" in {chunk.chunk_id for chunk in answer.chunks}

    def test_nothing_is_calibrated_at_first(self) -> None:
        with self.store() as store:
            assert store.calibration(self.domain, by_vector=False) is None

    def test_what_is_kept_is_in_force_for_its_domain(self) -> None:
        with self.store() as store:
            self._keep(store)
            kept = store.calibration(self.domain, by_vector=False)
            assert kept is not None, "the calibration of the words alone was kept"
            assert (kept.threshold, kept.strong, kept.chunks) == (0.25, 0.75, len(OPEN_TEXTS))
            assert store.calibration("NO_SUCH_DOMAIN", by_vector=False) is None

    def test_a_search_by_vectors_has_a_calibration_of_its_own(self) -> None:
        with self.store() as store:
            plan = self._keep(store)
            scorers = {part.scorer_id for part in plan.parts if part.scorer_id}
            assert bool(scorers) == plan.by_vector
            kept = store.calibration(self.domain, by_vector=True)
            assert kept.model_id in (scorers or {""}) and store.calibration(self.domain, by_vector=False).model_id == ""

    def test_what_is_kept_outlives_the_open_store(self) -> None:
        with self.folder() as data_dir:
            with self.opened(data_dir) as store:
                self._keep(store)
            with self.opened(data_dir) as store:
                assert store.calibration(self.domain, by_vector=False) is not None

    def test_a_part_is_searched_by_itself(self) -> None:
        with self.store() as store:
            plan = store.calibration_plan(self.domain, [OPEN_SOURCE, CLOSED_SOURCE], anew=True)
            for part in plan.parts:
                own = {chunk.chunk_id for chunk in part.passages}
                answer = store.search_part(part, plan.source_ids, self.query("board project Falcon", top_k=50))
                assert {chunk.chunk_id for chunk in answer.chunks} <= own, "chunks of another access class"

    def test_what_has_not_changed_is_not_calibrated_again(self) -> None:
        with self.store() as store:
            self._keep(store)
            assert not store.calibration_plan(self.domain, [OPEN_SOURCE]).parts
            assert store.calibration_plan(self.domain, [OPEN_SOURCE], anew=True).parts

    def test_a_part_without_a_calibration_becomes_uncalibrated(self) -> None:
        with self.store() as store:
            self._keep(store)
            store.keep_calibrations(self.domain, store.calibration_plan(self.domain, [OPEN_SOURCE], anew=True), [])
            assert store.calibration(self.domain, by_vector=False) is None

    def test_a_calibration_of_what_may_not_be_read_is_not_used(self) -> None:
        with self.store() as store:
            plan = store.calibration_plan(self.domain, [CLOSED_SOURCE], anew=True)
            store.keep_calibrations(self.domain, plan, [(part, _calibration(part)) for part in plan.parts])
            assert store.calibration(self.domain, by_vector=False) is not None
            assert store.calibration(self.domain, by_vector=False, access=_NOBODY) is None

    def _keep(self, store: Calibratable) -> CalibrationPlan:
        plan = store.calibration_plan(self.domain, [OPEN_SOURCE], anew=True)
        store.keep_calibrations(self.domain, plan, [(part, _calibration(part)) for part in plan.parts])
        return plan


class StoredVectorsContract(StoreContract):
    """The tests of a store with `StoredVectors`; it is opened with an embedder."""

    def test_offers_vectors(self) -> None:
        with self.store() as store:
            assert isinstance(store, StoredVectors)
            assert store.vector_model()

    def test_vectors_stand_beside_their_chunks(self) -> None:
        import numpy as np

        with self.store() as store:
            held = store.held_vectors([OPEN_SOURCE])
            assert set(held.source_ids) == {OPEN_SOURCE} and len(held.source_ids) == len(held.chunks)
            assert dict(zip(held.chunk_ids, held.contents, strict=True)) == OPEN_TEXTS
            assert held.lengths.dtype == np.int64 and len(held.lengths) == len(held.chunks)
            assert (held.lengths >= 1).all() and len(held.parts) == held.lengths.sum()
            assert held.parts.dtype == np.float32
            assert np.allclose(np.linalg.norm(held.parts, axis=1), 1.0, atol=_LENGTH)

    def test_equal_content_has_equal_order(self) -> None:
        with self.store() as store:
            first, second = store.held_vectors([OPEN_SOURCE]), store.held_vectors([OPEN_SOURCE])
            assert first.chunk_ids == second.chunk_ids
            assert (first.parts == second.parts).all()

    def test_an_unknown_source_has_no_vectors(self) -> None:
        with self.store() as store:
            held = store.held_vectors([OPEN_SOURCE, "no_such_source"])
            assert set(held.source_ids) == {OPEN_SOURCE}

    def test_vectors_of_what_may_not_be_read_are_not_given(self) -> None:
        with self.store() as store:
            both = [OPEN_SOURCE, CLOSED_SOURCE]
            assert set(store.held_vectors(both).source_ids) == set(both)
            assert set(store.held_vectors(both, access=_NOBODY).source_ids) == {OPEN_SOURCE}


class LearntAdaptersContract(StoreContract):
    """The tests of a store with `LearntAdapters`; it is opened with an embedder.

    How an adapter comes into the store is `keep_one`, which a `Trainable` store need not define.
    """

    def keep_one(self, store: Any, scale: float, source_id: str = OPEN_SOURCE) -> StoredAdapter:
        """Keep an adapter that nothing uses yet; another scale makes another adapter.

        Args:
            source_id: the source whose vectors it counts as learnt from.
        """
        import numpy as np

        from context_engine.adapters.sources.domain_adapter import DomainAdapter

        held = store.held_vectors([source_id])
        maps = np.eye(held.parts.shape[1], dtype=np.float32) * scale
        kept: StoredAdapter = store.keep_adapter(
            self.domain, DomainAdapter(store.vector_model(), maps, maps), {"questions": 60}, held.origin
        )
        return kept

    def test_offers_adapters(self) -> None:
        with self.store() as store:
            assert isinstance(store, LearntAdapters)
            assert not store.adapters()

    def test_a_kept_adapter_is_listed_and_not_in_force(self) -> None:
        with self.store() as store:
            first, second = self.keep_one(store, 1.0), self.keep_one(store, 2.0)
            listed = store.adapters(self.domain)
            assert {adapter.adapter_id for adapter in listed} == {first.adapter_id, second.adapter_id}
            assert listed[0].made_at <= listed[1].made_at, "oldest first"
            assert not any(adapter.in_force for adapter in listed)
            assert listed[0].evidence == {"questions": 60}
            assert not store.adapters("NO_SUCH_DOMAIN")

    def test_an_adapter_is_put_in_force_and_out_of_force(self) -> None:
        with self.store() as store:
            name = self.keep_one(store, 1.0).adapter_id
            assert [adapter.adapter_id for adapter in store.switchable_adapters(self.domain, name)] == [name]
            store.use_adapter(self.domain, name)
            assert self._in_force(store) == [name]
            store.use_adapter(self.domain, None)
            assert self._in_force(store) == []

    def test_a_switch_is_undone_and_restored(self) -> None:
        with self.store() as store:
            assert store.undo_adapter(self.domain) is False, "there was no switch"
            name = self.keep_one(store, 1.0).adapter_id
            store.use_adapter(self.domain, name)
            assert store.undo_adapter(self.domain) is True
            assert self._in_force(store) == []
            assert store.undo_adapter(self.domain) is True
            assert self._in_force(store) == [name]

    def test_a_switch_outlives_the_open_store(self) -> None:
        with self.folder() as data_dir:
            with self.opened(data_dir) as store:
                name = self.keep_one(store, 1.0).adapter_id
                store.use_adapter(self.domain, name)
            with self.opened(data_dir) as store:
                assert self._in_force(store) == [name]

    def test_an_adapter_learnt_from_what_may_not_be_read_is_not_listed(self) -> None:
        with self.store() as store:
            self.keep_one(store, 1.0, CLOSED_SOURCE)
            assert len(store.adapters(self.domain)) == 1
            assert not store.adapters(self.domain, access=_NOBODY)

    def test_an_unknown_adapter_is_refused(self) -> None:
        with self.store() as store:
            for act in (store.use_adapter, store.switchable_adapters):
                try:
                    act(self.domain, "no-such-adapter")
                except StoreError:
                    continue
                raise AssertionError("an unknown adapter raises StoreError")

    def _in_force(self, store: LearntAdapters) -> list[str]:
        return [adapter.adapter_id for adapter in store.adapters(self.domain) if adapter.in_force]


class TrainableContract(StoredVectorsContract, LearntAdaptersContract):
    """The tests of a `Trainable` store; it is opened with an embedder."""

    def test_offers_training(self) -> None:
        with self.store() as store:
            assert isinstance(store, Trainable)

    def test_an_adapter_is_tried_out_without_being_kept(self) -> None:
        import numpy as np

        from context_engine.adapters.sources.domain_adapter import DomainAdapter

        with self.store() as store:
            held = store.held_vectors([OPEN_SOURCE])
            same = np.eye(held.parts.shape[1], dtype=np.float32)
            adapter = DomainAdapter(store.vector_model(), same, same)
            query = self.query(OPEN_TEXTS["escrow-2"])
            for answer in (
                store.search_adapted([OPEN_SOURCE], query),
                store.search_adapted([OPEN_SOURCE], query, adapter=adapter),
            ):
                assert answer.chunks[0].chunk_id == "escrow-2" and len(answer.chunks) <= query.top_k
            assert not store.adapters(self.domain)

    def test_a_trial_uses_the_vector_and_the_adapter_that_it_is_given(self) -> None:
        import numpy as np

        from context_engine.adapters.sources.domain_adapter import DomainAdapter

        with self.store() as store:
            held, query = store.held_vectors([OPEN_SOURCE]), self.query("zzz")
            same = np.eye(held.parts.shape[1], dtype=np.float32)
            opposite = DomainAdapter(store.vector_model(), -same, same)
            starts = np.concatenate([[0], held.lengths.cumsum()[:-1]])
            for name in ("custody-1", "escrow-2", "factoring-3"):
                vector = held.parts[starts[held.chunk_ids.index(name)]].tolist()
                assert store.search_adapted([OPEN_SOURCE], query, vector=vector).chunks[0].chunk_id == name
                turned = store.search_adapted([OPEN_SOURCE], query, vector=vector, adapter=opposite)
                assert name not in {chunk.chunk_id for chunk in turned.chunks}, "the adapter turns the question round"

    def test_an_adapter_is_calibrated_before_it_is_in_force(self) -> None:
        with self.store() as store:
            if not isinstance(store, Calibratable):
                raise SkipTest("cannot be calibrated")
            kept = self.keep_one(store, 1.0)
            plan = store.calibration_plan(self.domain, [OPEN_SOURCE], anew=True, adapter_id=kept.adapter_id)
            assert scorer_name(kept.model_id, kept.adapter_id) in {part.scorer_id for part in plan.parts}

    def test_a_trial_finds_nothing_that_may_not_be_read(self) -> None:
        with self.store() as store:
            query = self.query("project Falcon", access=_NOBODY, top_k=50)
            answer = store.search_adapted([OPEN_SOURCE, CLOSED_SOURCE], query)
            assert {chunk.chunk_id for chunk in answer.chunks} <= OPEN_TEXTS.keys()

    def test_an_adapter_that_was_never_in_force_is_forgotten(self) -> None:
        with self.store() as store:
            first, second = self.keep_one(store, 1.0), self.keep_one(store, 2.0)
            store.forget_adapters(self.domain, [first.adapter_id])
            assert [adapter.adapter_id for adapter in store.adapters(self.domain)] == [second.adapter_id]


class AccessProvableContract(StoreContract):
    """The tests of an `AccessProvable` store."""

    def test_offers_the_proof(self) -> None:
        with self.store() as store:
            assert isinstance(store, AccessProvable)

    def test_a_copy_holds_the_same(self) -> None:
        with self.folder() as data_dir, TemporaryDirectory() as copy:
            self._copy(data_dir, Path(copy))
            for source_id in (OPEN_SOURCE, CLOSED_SOURCE):
                assert self._listed(source_id, Path(copy)) == self._listed(source_id, data_dir) != {}

    def test_what_is_written_to_a_copy_stays_there(self) -> None:
        with self.folder() as data_dir, TemporaryDirectory() as copy:
            self._copy(data_dir, Path(copy))
            with self.open_sink(Path(copy)) as sink:
                sink.put(OPEN_SOURCE, "added", "", "1", [_WRITTEN])
                sink.commit()
            assert self._listed(OPEN_SOURCE, data_dir) == OPEN_TEXTS
            assert self._listed(OPEN_SOURCE, Path(copy)) == {**OPEN_TEXTS, "added": _WRITTEN.content}

    def test_a_copy_has_the_calibrations(self) -> None:
        with self.folder() as data_dir, TemporaryDirectory() as copy:
            with self.opened(data_dir) as store:
                if not isinstance(store, Calibratable):
                    raise SkipTest("cannot be calibrated")
                plan = store.calibration_plan(self.domain, [OPEN_SOURCE], anew=True)
                store.keep_calibrations(self.domain, plan, [(part, _calibration(part)) for part in plan.parts])
            self._copy(data_dir, Path(copy))
            with self.opened(Path(copy)) as copied:
                assert copied.calibration(self.domain, by_vector=False) is not None

    def test_a_store_that_is_not_there_is_not_copied(self) -> None:
        with TemporaryDirectory() as empty, TemporaryDirectory() as copy, self.opened(Path(empty)) as store:
            try:
                store.copy_to(Path(copy))
            except StoreError:
                return
            raise AssertionError("copying a store that is not there raises StoreError")

    def test_putting_the_index_in_order_changes_no_answer(self) -> None:
        with self.folder() as data_dir:
            before = self._found(data_dir)
            with self.opened(data_dir) as store:
                store.rebuild()
            assert self._found(data_dir) == before != []

    def _copy(self, data_dir: Path, copy: Path) -> None:
        with self.opened(data_dir) as store:
            store.copy_to(copy)
        with self.opened(copy) as copied:
            copied.rebuild()

    def _listed(self, source_id: str, data_dir: Path) -> dict[str, str]:
        source = self.open_source(source_id, data_dir)
        assert isinstance(source, Listable), "the proof lists what the store holds"
        texts = {chunk.chunk_id: chunk.content for chunk in source.list_chunks()}
        source.close()
        return texts

    def _found(self, data_dir: Path) -> list[tuple[str, float]]:
        source = self.open_source(OPEN_SOURCE, data_dir)
        answer = source.search(self.query("Who reviews the custody each quarter?"))
        source.close()
        return [(chunk.chunk_id, chunk.scores[0].value) for chunk in answer.chunks]


def _calibration(part: CalibrationPart) -> ScopeCalibration:
    return ScopeCalibration(
        threshold=0.25,
        strong=0.75,
        signal=SIGNAL_VERSION,
        model_id=part.scorer_id,
        own=9,
        outside=9,
        chunks=part.chunks,
    )
