"""Conformance tests for stores that offer more than search: a class for each protocol of `core.protocols.capabilities`.

Subclass the classes in your test file and run pytest:

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

from context_engine.adapters.sources.stores.copying import difference_of
from context_engine.core.models import (
    AccessScope,
    CalibrationPart,
    CalibrationPlan,
    Chunk,
    ScopeCalibration,
    SourceQuery,
)
from context_engine.core.protocols import AccessProvable, Calibratable, Copyable, CopySink, Listable, Sink, Source
from context_engine.core.ranking.scope import SIGNAL_VERSION
from context_engine.errors import StoreError, StoreVersionMismatch

OPEN_SOURCE: Final = "open_rules"
CLOSED_SOURCE: Final = "board_papers"
CLOSED_RULES: Final = "board"
"""The access rules of the closed source, as a sink's `rules_of` gives them."""

_SUBJECTS: Final = ("collateral", "custody", "dividends", "escrow", "factoring", "guarantees")
_DUTIES: Final = ("is valued daily", "is reported to the committee", "needs approval", "is reviewed each quarter")
OPEN_TEXTS: Final = {
    f"{subject}-{number}": f"The {subject} {duty} by desk {number}."
    for subject in _SUBJECTS
    for number, duty in enumerate(_DUTIES)
}
CLOSED_TEXTS: Final = {
    f"board-{number}": f"The board keeps project Falcon number {number} to itself." for number in range(3)
}
_NOBODY: Final = AccessScope()
_WRITTEN: Final = Chunk(chunk_id="added", document_id="added", content="A note that was added later.")


def fill(sink: Sink) -> None:
    """Write the documents that the contracts expect: one chunk each, with equal chunk id and document id."""
    for source_id, texts in ((OPEN_SOURCE, OPEN_TEXTS), (CLOSED_SOURCE, CLOSED_TEXTS)):
        for name, text in texts.items():
            sink.put(source_id, name, "", "1", [Chunk(chunk_id=name, document_id=name, content=text)])
    sink.commit()


class StoreContract:
    """Base of the contracts: a store in a folder, filled by `fill`.

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
        """Yield the store of a data folder; close it afterwards if it has `close`."""
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

    def answered(self, data_dir: Path) -> list[tuple[str, float]]:
        """Return the id and the score of each chunk that answers a question to the open source."""
        source = self.open_source(OPEN_SOURCE, data_dir)
        answer = source.search(self.query("Who reviews the custody each quarter?"))
        source.close()
        return [(chunk.chunk_id, chunk.scores[0].value) for chunk in answer.chunks]


class CalibratableContract(StoreContract):
    """Tests of a `Calibratable` store."""

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

    def test_a_kept_calibration_is_in_force_for_its_domain(self) -> None:
        with self.store() as store:
            self._keep(store)
            kept = store.calibration(self.domain, by_vector=False)
            assert kept is not None, "the calibration for search by words was not kept"
            assert (kept.threshold, kept.strong, kept.chunks) == (0.25, 0.75, len(OPEN_TEXTS))
            assert store.calibration("NO_SUCH_DOMAIN", by_vector=False) is None

    def test_search_by_vectors_has_a_separate_calibration(self) -> None:
        with self.store() as store:
            plan = self._keep(store)
            scorers = {part.scorer_id for part in plan.parts if part.scorer_id}
            assert bool(scorers) == plan.by_vector
            kept = store.calibration(self.domain, by_vector=True)
            assert kept.model_id in (scorers or {""}) and store.calibration(self.domain, by_vector=False).model_id == ""

    def test_a_kept_calibration_outlives_the_open_store(self) -> None:
        with self.folder() as data_dir:
            with self.opened(data_dir) as store:
                self._keep(store)
            with self.opened(data_dir) as store:
                assert store.calibration(self.domain, by_vector=False) is not None

    def test_a_search_of_a_part_gives_only_its_chunks(self) -> None:
        with self.store() as store:
            plan = store.calibration_plan(self.domain, [OPEN_SOURCE, CLOSED_SOURCE], anew=True)
            for part in plan.parts:
                own = {chunk.chunk_id for chunk in part.passages}
                answer = store.search_part(part, plan.source_ids, self.query("board project Falcon", top_k=50))
                assert {chunk.chunk_id for chunk in answer.chunks} <= own, "chunks of another access class"

    def test_unchanged_content_is_not_calibrated_again(self) -> None:
        with self.store() as store:
            self._keep(store)
            assert not store.calibration_plan(self.domain, [OPEN_SOURCE]).parts
            assert store.calibration_plan(self.domain, [OPEN_SOURCE], anew=True).parts

    def test_a_part_without_a_calibration_becomes_uncalibrated(self) -> None:
        with self.store() as store:
            self._keep(store)
            store.keep_calibrations(self.domain, store.calibration_plan(self.domain, [OPEN_SOURCE], anew=True), [])
            assert store.calibration(self.domain, by_vector=False) is None

    def test_a_calibration_of_unreadable_content_is_not_used(self) -> None:
        with self.store() as store:
            plan = store.calibration_plan(self.domain, [CLOSED_SOURCE], anew=True)
            store.keep_calibrations(self.domain, plan, [(part, _calibration(part)) for part in plan.parts])
            assert store.calibration(self.domain, by_vector=False) is not None
            assert store.calibration(self.domain, by_vector=False, access=_NOBODY) is None

    def _keep(self, store: Calibratable) -> CalibrationPlan:
        plan = store.calibration_plan(self.domain, [OPEN_SOURCE], anew=True)
        store.keep_calibrations(self.domain, plan, [(part, _calibration(part)) for part in plan.parts])
        return plan


class AccessProvableContract(StoreContract):
    """Tests of an `AccessProvable` store."""

    def test_offers_the_proof(self) -> None:
        with self.store() as store:
            assert isinstance(store, AccessProvable)

    def test_a_copy_holds_the_same(self) -> None:
        with self.folder() as data_dir, TemporaryDirectory() as copy:
            self._copy(data_dir, Path(copy))
            for source_id in (OPEN_SOURCE, CLOSED_SOURCE):
                assert self._listed(source_id, Path(copy)) == self._listed(source_id, data_dir) != {}

    def test_writing_to_a_copy_leaves_the_original_unchanged(self) -> None:
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

    def test_a_missing_store_is_not_copied(self) -> None:
        with TemporaryDirectory() as empty, TemporaryDirectory() as copy, self.opened(Path(empty)) as store:
            try:
                store.copy_to(Path(copy))
            except StoreError:
                return
            raise AssertionError("copying a missing store must raise StoreError")

    def test_rebuilding_the_index_changes_no_answer(self) -> None:
        with self.folder() as data_dir:
            before = self.answered(data_dir)
            with self.opened(data_dir) as store:
                store.rebuild()
            assert self.answered(data_dir) == before != []

    def _copy(self, data_dir: Path, copy: Path) -> None:
        with self.opened(data_dir) as store:
            store.copy_to(copy)
        with self.opened(copy) as copied:
            copied.rebuild()

    def _listed(self, source_id: str, data_dir: Path) -> dict[str, str]:
        source = self.open_source(source_id, data_dir)
        assert isinstance(source, Listable), "the access proof needs a source that lists its chunks"
        texts = {chunk.chunk_id: chunk.content for chunk in source.list_chunks()}
        source.close()
        return texts


class CopyableContract(StoreContract):
    """Tests of a `Copyable` store whose sink is a `CopySink`."""

    def test_offers_copying(self) -> None:
        with self.folder() as data_dir, self.opened(data_dir) as store, self.open_sink(data_dir) as sink:
            assert isinstance(store, Copyable) and isinstance(sink, CopySink)

    def test_documents_are_listed_in_the_order_of_writing(self) -> None:
        with self.store() as store:
            assert list(store.document_hashes(OPEN_SOURCE)) == [(name, "") for name in OPEN_TEXTS]
            assert set(store.document_hashes(OPEN_SOURCE).values()) == {"1"}
            assert not store.document_hashes("no_such_source")

    def test_documents_come_in_the_order_asked_for(self) -> None:
        with self.store() as store:
            keys = [("escrow-2", ""), ("no-such-document", ""), ("custody-1", "")]
            first, missing, last = store.stored_documents(OPEN_SOURCE, keys)
            assert (first.document_id, missing, last.document_id) == ("escrow-2", None, "custody-1")
            assert [chunk.content for chunk in last.chunks] == [OPEN_TEXTS["custody-1"]]
            assert not list(store.stored_documents(OPEN_SOURCE, []))

    def test_a_copy_is_the_same(self) -> None:
        with self.folder() as data_dir, TemporaryDirectory() as copy:
            self._write_copy(data_dir, Path(copy))
            with self.opened(data_dir) as store, self.opened(Path(copy)) as copied:
                for source_id in (OPEN_SOURCE, CLOSED_SOURCE):
                    keys = list(store.document_hashes(source_id))
                    assert list(copied.document_hashes(source_id)) == keys != []
                    pairs = zip(store.stored_documents(source_id, keys), copied.stored_documents(source_id, keys))
                    assert [difference_of(*pair) for pair in pairs] == [""] * len(keys)

    def test_a_copy_gives_the_same_answers(self) -> None:
        with self.folder() as data_dir, TemporaryDirectory() as copy:
            self._write_copy(data_dir, Path(copy))
            assert self.answered(Path(copy)) == self.answered(data_dir) != []

    def test_a_document_is_replaced(self) -> None:
        with self.folder() as data_dir, self.opened(data_dir) as store:
            (document,) = store.stored_documents(OPEN_SOURCE, [("custody-1", "")])
            chunks = [chunk._replace(content="The custody is reviewed by the board.") for chunk in document.chunks]
            with self.open_sink(data_dir) as sink:
                assert isinstance(sink, CopySink)
                sink.put_stored(OPEN_SOURCE, document._replace(content_hash="2", chunks=chunks, vectors=()))
                sink.commit()
            assert self._content_of(data_dir, "custody-1") == ("2", ["The custody is reviewed by the board."])

    def test_vectors_of_another_model_or_dimension_are_refused(self) -> None:
        with self.folder() as data_dir, self.opened(data_dir) as store, self.open_sink(data_dir) as sink:
            assert isinstance(sink, CopySink)
            (document,) = store.stored_documents(OPEN_SOURCE, [("custody-1", "")])
            if not any(document.vectors):
                raise SkipTest("stores no vectors")
            dimension = len(document.vectors[0][0])
            assert sink.accept_vectors(document.model_id, dimension)
            for model in (("another-model", dimension), (document.model_id, dimension + 1)):
                try:
                    sink.accept_vectors(*model)
                except StoreVersionMismatch as error:
                    assert repr(model[0]) in str(error) and str(model[1]) in str(error)
                    continue
                raise AssertionError(f"vectors of {model} do not compare with those of the store")

    def test_calibrations_are_kept(self) -> None:
        with self.folder() as data_dir, TemporaryDirectory() as copy:
            with self.opened(data_dir) as store:
                plan = store.calibration_plan(self.domain, [OPEN_SOURCE, CLOSED_SOURCE], anew=True)
                store.keep_calibrations(self.domain, plan, [(part, _calibration(part)) for part in plan.parts])
            self._write_copy(data_dir, Path(copy))
            with self.opened(data_dir) as store, self.opened(Path(copy)) as copied:
                assert {*copied.class_calibrations(self.domain)} == {*store.class_calibrations(self.domain)} != set()
                for access in (None, _NOBODY):
                    kept, own = (each.calibration(self.domain, access=access) for each in (copied, store))
                    assert kept == own is not None
                assert not copied.calibration_plan(self.domain, [OPEN_SOURCE, CLOSED_SOURCE]).parts, "nothing is due"

    def _write_copy(self, data_dir: Path, copy: Path) -> None:
        sources = [OPEN_SOURCE, CLOSED_SOURCE]
        with self.opened(data_dir) as store, self.open_sink(copy) as sink:
            assert isinstance(sink, CopySink)
            for source_id in sources:
                for document in store.stored_documents(source_id, list(store.document_hashes(source_id))):
                    first = next((vector for vectors in document.vectors for vector in vectors), None)
                    if first is not None:
                        assert sink.accept_vectors(document.model_id, len(first)), "it holds such vectors itself"
                    sink.put_stored(source_id, document)
            sink.finish_copy(self.domain, sources, store.class_calibrations(self.domain))

    def _content_of(self, data_dir: Path, document_id: str) -> tuple[str, list[str]]:
        with self.opened(data_dir) as store:
            (document,) = store.stored_documents(OPEN_SOURCE, [(document_id, "")])
            return document.content_hash, [chunk.content for chunk in document.chunks]


def _calibration(part: CalibrationPart) -> ScopeCalibration:
    return ScopeCalibration(
        threshold=0.25,
        strong=0.75,
        signal=SIGNAL_VERSION,
        model_id=part.scorer_id,
        own=9,
        outside=9,
        chunks=part.chunks,
        near_miss=0.4,
    )
