"""Optional protocols for the capabilities of a store beyond search.

Code that needs a capability asks for its protocol (`isinstance`), never for a certain store. A source offers the
protocols that it implements, and the protocols of its `store`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

from context_engine.core.models import (
    AccessScope,
    CalibrationPart,
    CalibrationPlan,
    ClassCalibration,
    CopiedAdapter,
    HeldVectors,
    ScopeCalibration,
    SourceAnswer,
    SourceQuery,
    StoredAdapter,
    VectorAdapter,
    WholeDocument,
)
from context_engine.core.protocols.sources import GraphStore, Listable, Sink


@runtime_checkable
class Calibratable(Protocol):
    """A store for which the scope threshold of a domain can be calibrated.

    Its sources report their calibration in their answers (`SourceAnswer.calibration`).
    """

    def calibration_plan(
        self,
        domain: str,
        source_ids: Sequence[str],
        asked_ids: Collection[str] = (),
        *,
        anew: bool = False,
        adapter_id: str | None = None,
    ) -> CalibrationPlan:
        """Return the parts to calibrate.

        Args:
            domain: the domain.
            source_ids: its sources; sources that are not in the store are skipped.
            asked_ids: chunk and document ids; each part reports which of them it contains.
            anew: return all parts; else only parts that changed enough since their calibration.
            adapter_id: an adapter that is about to be put in force; its part is calibrated too.

        Raises:
            StoreError: the store cannot be read.
        """
        ...

    def search_part(self, part: CalibrationPart, source_ids: Sequence[str], query: SourceQuery) -> SourceAnswer:
        """Return the best chunks of some sources in one part, compared by the part's scorer; safe for several threads.

        Raises:
            StoreError, EmbedderError: it could not be searched.
        """
        ...

    def keep_calibrations(
        self, domain: str, plan: CalibrationPlan, found: Sequence[tuple[CalibrationPart, ScopeCalibration]]
    ) -> None:
        """Replace earlier calibrations by the plan's; a part without a calibration becomes uncalibrated.

        Raises:
            StoreError: the calibrations cannot be stored.
        """
        ...

    def calibration(
        self, domain: str, *, by_vector: bool = True, access: AccessScope | None = None
    ) -> ScopeCalibration | None:
        """Return the calibration in force for searches of a domain, or None.

        Args:
            by_vector: the calibration for words and vectors, if the store has vectors; else for words only.
            access: of the caller; None: everything.

        Raises:
            StoreError: the store cannot be read.
        """
        ...


@runtime_checkable
class StoredVectors(Protocol):
    """A store whose vectors can be read, for training."""

    def vector_model(self) -> str:
        """Return the name of the model that made the vectors; "" if there are none. Opens no model.

        Raises:
            StoreError: the store cannot be read.
        """
        ...

    def held_vectors(self, source_ids: Sequence[str], *, access: AccessScope | None = None) -> HeldVectors:
        """Return the chunks of some sources with their vectors, from one snapshot.

        Args:
            source_ids: the sources; a source that is not in the store gives nothing.
            access: of the caller; None: everything.

        Raises:
            ConfigError, StoreError: the store has no vectors, or cannot be read.
        """
        ...


@runtime_checkable
class LearntAdapters(Protocol):
    """A store that keeps vector adapters for its domains, and searches with the adapters in force."""

    def adapters(self, domain: str | None = None, *, access: AccessScope | None = None) -> Sequence[StoredAdapter]:
        """Return the adapters of a domain, oldest first.

        Args:
            domain: None: of all domains.
            access: of the caller, who sees no adapter that was learnt from chunks it may not read; None: everything.

        Raises:
            StoreError: the store cannot be read.
        """
        ...

    def switchable_adapters(self, domain: str, adapter_id: str | None) -> Sequence[StoredAdapter]:
        """Return the adapters that `use_adapter` would switch; same arguments and errors."""
        ...

    def use_adapter(self, domain: str, adapter_id: str | None) -> None:
        """Put an adapter in force; None: switch off all adapters of the domain.

        Raises:
            StoreError: there is no such adapter, or it cannot be used.
        """
        ...

    def undo_adapter(self, domain: str) -> bool:
        """Undo the last switch of a domain, and return whether there was one; a second call restores it.

        Raises:
            StoreError: the store cannot be written.
        """
        ...


@runtime_checkable
class Trainable(StoredVectors, LearntAdapters, Protocol):
    """A store with whose vectors an adapter can be trained and tested."""

    def search_adapted(
        self,
        source_ids: Sequence[str],
        query: SourceQuery,
        *,
        vector: Sequence[float] | None = None,
        adapter: VectorAdapter | None = None,
    ) -> SourceAnswer:
        """Return the best chunks of some sources under an adapter, which need not be stored.

        Args:
            vector: the question's vector, if the caller has it; None: the store embeds the question.
            adapter: None: the model's own vectors.

        Raises:
            EmbedderError, StoreError: it could not be searched.
        """
        ...

    def keep_adapter(
        self, domain: str, adapter: VectorAdapter, evidence: Mapping[str, Any], origin: Any
    ) -> StoredAdapter:
        """Store an adapter without putting it in force.

        Args:
            evidence: the measurements; stored with the adapter.
            origin: the origin of the training vectors (`HeldVectors.origin`).

        Raises:
            StoreError: the adapter cannot be stored.
        """
        ...

    def forget_adapters(self, domain: str, adapter_ids: Collection[str]) -> None:
        """Forget adapters that were never put in force.

        Raises:
            StoreError: the store cannot be written.
        """
        ...


@runtime_checkable
class AccessProvable(Protocol):
    """A store that can be copied, to prove that its answers do not depend on chunks that a caller may not read."""

    def copy_to(self, data_dir: Path) -> None:
        """Copy a snapshot of the store into another data folder, to the place where the adapter looks for it.

        Sources and sinks that the adapter opens with that folder (`SourceContext.data_dir`) then use the copy alone.

        Raises:
            StoreError: there is nothing to copy, or the store cannot be read.
        """
        ...

    def rebuild(self) -> object:
        """Rebuild the index, as an operator's maintenance does; a store without an index does nothing."""
        ...


@runtime_checkable
class CopiesElsewhere(Protocol):
    """An `AccessProvable` store whose copies lie outside the data folder, in a server for one."""

    def drop_copy(self, data_dir: Path) -> None:
        """Remove the copy that was made for a data folder; nothing happens if there is none.

        Raises:
            SourceError, StoreError: it cannot be removed.
        """
        ...


@runtime_checkable
class Copyable(Protocol):
    """A store whose documents can be written to another store as they are."""

    def document_hashes(self, source_id: str) -> Mapping[tuple[str, str], str]:
        """Return {(document_id, version): content_hash} of every document of a source, in the order of writing.

        Raises:
            StoreError, SourceError: there is no store, or it cannot be read.
        """
        ...

    def stored_documents(self, source_id: str, keys: Sequence[tuple[str, str]]) -> Iterator[WholeDocument | None]:
        """Yield for each (document_id, version), in order, the document, or None if the source has no such document.

        Documents are read one after the other, from one snapshot.

        Raises:
            StoreError, SourceError: the store cannot be read, or a chunk is damaged.
        """
        ...

    def class_calibrations(self, domain: str) -> Sequence[ClassCalibration]:
        """Return the calibrations of a domain for each scorer and access class.

        Raises:
            StoreError, SourceError: the store cannot be read.
        """
        ...


@runtime_checkable
class CopySink(Sink, Protocol):
    """A sink that takes documents of another store; `Copyable` of its store then yields them as they were."""

    def accept_vectors(self, model_id: str, dimension: int) -> bool:
        """Prepare for vectors of a model, and return whether the store can hold vectors.

        Raises:
            StoreVersionMismatch: its vectors are of another model or dimension.
        """
        ...

    def put_stored(self, source_id: str, document: WholeDocument) -> None:
        """Write or replace a document, where the configuration places it; nothing is embedded.

        A store that does not search headings without text by vectors need not keep their vectors.

        Args:
            document: without vectors, unless they were accepted.

        Raises:
            InvalidRequest: a chunk cannot be stored, or another document of the source has its id.
        """
        ...

    def finish_copy(self, domain: str, source_ids: Sequence[str], calibrations: Sequence[ClassCalibration]) -> None:
        """Commit, bring indexes up to date, and replace the calibrations of a domain if any are given.

        Args:
            source_ids: the domain's sources in this store.
        """
        ...


@runtime_checkable
class CopyableAdapters(Protocol):
    """A store that gives its learnt adapters to another store, and keeps those of another."""

    def copied_adapters(self, domain: str) -> Sequence[CopiedAdapter]:
        """Return the usable adapters of a domain with their maps, in the order in which they were put in force.

        Raises:
            StoreError, SourceError: the store cannot be read.
        """
        ...

    def keep_copied(self, domain: str, adapters: Sequence[CopiedAdapter]) -> Collection[str]:
        """Keep adapters of another store, and put those in force that are in force there.

        Returns:
            The ids of those that are kept: they are for the store's vectors, and it has the classes they were learnt
            from.

        Raises:
            StoreError, SourceError: the store cannot be written.
        """
        ...


LEAST_RECALL: Final = 0.95
"""The watched recall below which an index is not used any more: every row is compared."""


@runtime_checkable
class Rehearsable(Protocol):
    """A store that can be copied as it is, so that a change made to the copy does what it would do to the store."""

    def copy_with_index_to(self, data_dir: Path) -> None:
        """Copy a snapshot of the store with its index, to where `AccessProvable.copy_to` copies it.

        Raises:
            StoreError: there is nothing to copy, or the store cannot be read.
        """
        ...


@runtime_checkable
class RecallWatched(Protocol):
    """A store whose approximate searches are measured against exact ones."""

    def watched_recall(self) -> float | None:
        """Return the lowest mean recall of its access classes, in [0, 1]; None if none was measured."""
        ...


CAPABILITIES: Final[Mapping[type, str]] = {
    Listable: "listing of its chunks",
    GraphStore: "following of links between its chunks",
    Calibratable: "calibration of the scope threshold",
    StoredVectors: "stored vectors",
    LearntAdapters: "learnt adapters",
    Trainable: "learning of adapters",
    AccessProvable: "the access proof",
    CopiesElsewhere: "removal of its copies",
    Rehearsable: "rehearsal of changes",
    Copyable: "copying of its documents",
    CopyableAdapters: "copying of its learnt adapters",
    RecallWatched: "watched recall",
}
"""Each capability in words, for errors."""
