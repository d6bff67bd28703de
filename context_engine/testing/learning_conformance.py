"""Conformance tests for stores that offer stored vectors, learnt adapters or their training.

Use the classes like those of `testing.capability_conformance`; open the store with an embedder.
"""

from __future__ import annotations

from typing import Any, Final
from unittest import SkipTest

from context_engine.core.models import AccessClass, AccessScope, StoredAdapter, scorer_name
from context_engine.core.protocols import Calibratable, CopyableAdapters, LearntAdapters, StoredVectors, Trainable
from context_engine.errors import StoreError
from context_engine.testing.capability_conformance import CLOSED_SOURCE, OPEN_SOURCE, OPEN_TEXTS, StoreContract

_NOBODY: Final = AccessScope()
_LENGTH: Final = 1e-3


class StoredVectorsContract(StoreContract):
    """Tests of a store with `StoredVectors`."""

    def test_offers_vectors(self) -> None:
        with self.store() as store:
            assert isinstance(store, StoredVectors)
            assert store.vector_model()

    def test_vectors_belong_to_their_chunks(self) -> None:
        import numpy as np

        with self.store() as store:
            vectors = store.held_vectors([OPEN_SOURCE])
            assert set(vectors.source_ids) == {OPEN_SOURCE} and len(vectors.source_ids) == len(vectors.chunks)
            assert dict(zip(vectors.chunk_ids, vectors.contents, strict=True)) == OPEN_TEXTS
            assert vectors.lengths.dtype == np.int64 and len(vectors.lengths) == len(vectors.chunks)
            assert (vectors.lengths >= 1).all() and len(vectors.parts) == vectors.lengths.sum()
            assert vectors.parts.dtype == np.float32
            assert np.allclose(np.linalg.norm(vectors.parts, axis=1), 1.0, atol=_LENGTH)

    def test_equal_content_has_equal_order(self) -> None:
        with self.store() as store:
            first, second = store.held_vectors([OPEN_SOURCE]), store.held_vectors([OPEN_SOURCE])
            assert first.chunk_ids == second.chunk_ids
            assert (first.parts == second.parts).all()

    def test_an_unknown_source_has_no_vectors(self) -> None:
        with self.store() as store:
            vectors = store.held_vectors([OPEN_SOURCE, "no_such_source"])
            assert set(vectors.source_ids) == {OPEN_SOURCE}

    def test_vectors_of_unreadable_chunks_are_not_given(self) -> None:
        with self.store() as store:
            both = [OPEN_SOURCE, CLOSED_SOURCE]
            assert set(store.held_vectors(both).source_ids) == set(both)
            assert set(store.held_vectors(both, access=_NOBODY).source_ids) == {OPEN_SOURCE}


class LearntAdaptersContract(StoreContract):
    """Tests of a store with `LearntAdapters`.

    `keep_one` puts an adapter into the store; a `Trainable` store need not override it.
    """

    def keep_one(self, store: Any, scale: float, source_id: str = OPEN_SOURCE) -> StoredAdapter:
        """Keep an adapter that is not in force; each scale makes a different one, learnt from a source's vectors."""
        import numpy as np

        from context_engine.adapters.sources.domain_adapter import DomainAdapter

        vectors = store.held_vectors([source_id])
        maps = np.eye(vectors.parts.shape[1], dtype=np.float32) * scale
        kept: StoredAdapter = store.keep_adapter(
            self.domain, DomainAdapter(store.vector_model(), maps, maps), {"questions": 60}, vectors.origin
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

    def test_an_adapter_learnt_from_unreadable_chunks_is_not_listed(self) -> None:
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
                raise AssertionError("an unknown adapter must raise StoreError")

    def _skip_unless_copied(self, store: object) -> None:
        if not isinstance(store, CopyableAdapters):
            raise SkipTest("does not copy adapters")

    def _in_force(self, store: LearntAdapters) -> list[str]:
        return [adapter.adapter_id for adapter in store.adapters(self.domain) if adapter.in_force]


class TrainableContract(StoredVectorsContract, LearntAdaptersContract):
    """Tests of a `Trainable` store."""

    def test_offers_training(self) -> None:
        with self.store() as store:
            assert isinstance(store, Trainable)

    def test_an_adapter_is_tried_out_without_being_kept(self) -> None:
        import numpy as np

        from context_engine.adapters.sources.domain_adapter import DomainAdapter

        with self.store() as store:
            vectors = store.held_vectors([OPEN_SOURCE])
            same = np.eye(vectors.parts.shape[1], dtype=np.float32)
            adapter = DomainAdapter(store.vector_model(), same, same)
            query = self.query(OPEN_TEXTS["escrow-2"])
            for answer in (
                store.search_adapted([OPEN_SOURCE], query),
                store.search_adapted([OPEN_SOURCE], query, adapter=adapter),
            ):
                assert answer.chunks[0].chunk_id == "escrow-2" and len(answer.chunks) <= query.top_k
            assert not store.adapters(self.domain)

    def test_a_trial_uses_the_given_vector_and_adapter(self) -> None:
        import numpy as np

        from context_engine.adapters.sources.domain_adapter import DomainAdapter

        with self.store() as store:
            vectors, query = store.held_vectors([OPEN_SOURCE]), self.query("zzz")
            same = np.eye(vectors.parts.shape[1], dtype=np.float32)
            opposite = DomainAdapter(store.vector_model(), -same, same)
            starts = np.concatenate([[0], vectors.lengths.cumsum()[:-1]])
            for name in ("custody-1", "escrow-2", "factoring-3"):
                vector = vectors.parts[starts[vectors.chunk_ids.index(name)]].tolist()
                assert store.search_adapted([OPEN_SOURCE], query, vector=vector).chunks[0].chunk_id == name
                turned = store.search_adapted([OPEN_SOURCE], query, vector=vector, adapter=opposite)
                assert name not in {chunk.chunk_id for chunk in turned.chunks}, "the adapter reverses the vector"

    def test_an_adapter_is_calibrated_before_it_is_in_force(self) -> None:
        with self.store() as store:
            if not isinstance(store, Calibratable):
                raise SkipTest("cannot be calibrated")
            kept = self.keep_one(store, 1.0)
            plan = store.calibration_plan(self.domain, [OPEN_SOURCE], anew=True, adapter_id=kept.adapter_id)
            assert scorer_name(kept.model_id, kept.adapter_id) in {part.scorer_id for part in plan.parts}

    def test_another_store_keeps_the_adapters(self) -> None:
        with self.folder() as data_dir, self.folder() as other:
            with self.opened(data_dir) as store:
                self._skip_unless_copied(store)
                on, hidden = self.keep_one(store, 1.0).adapter_id, self.keep_one(store, 2.0, CLOSED_SOURCE).adapter_id
                store.use_adapter(self.domain, on)
                copied, evidence = store.copied_adapters(self.domain), store.adapters(self.domain)[0].evidence
            with self.opened(other) as store:
                for _ in range(2):  # the second time changes nothing
                    assert {*store.keep_copied(self.domain, copied)} == {on, hidden}
                assert self._in_force(store) == [on]
                assert [kept.adapter_id for kept in store.adapters(self.domain, access=_NOBODY)] == [on]
                assert store.adapters(self.domain)[0].evidence == evidence
                assert store.undo_adapter(self.domain) and self._in_force(store) == []
                unknown = copied[0]._replace(access=frozenset({AccessClass("nobody has these rules")}))
                others = copied[0]._replace(model_id="another-model")
                assert not store.keep_copied(self.domain, [unknown, others])

    def test_a_trial_finds_no_unreadable_chunk(self) -> None:
        with self.store() as store:
            query = self.query("project Falcon", access=_NOBODY, top_k=50)
            answer = store.search_adapted([OPEN_SOURCE, CLOSED_SOURCE], query)
            assert {chunk.chunk_id for chunk in answer.chunks} <= OPEN_TEXTS.keys()

    def test_an_adapter_that_was_never_in_force_is_forgotten(self) -> None:
        with self.store() as store:
            first, second = self.keep_one(store, 1.0), self.keep_one(store, 2.0)
            store.forget_adapters(self.domain, [first.adapter_id])
            assert [adapter.adapter_id for adapter in store.adapters(self.domain)] == [second.adapter_id]
