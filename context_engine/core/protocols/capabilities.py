"""What a store may offer beyond search, each an optional protocol.

Code that needs a capability asks for its protocol (`isinstance`), never for a certain store. A source offers the
protocols that it implements, and those of the object behind its `store`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

from context_engine.core.models import (
    AccessScope,
    CalibrationPart,
    CalibrationPlan,
    HeldVectors,
    ScopeCalibration,
    SourceAnswer,
    SourceQuery,
    StoredAdapter,
    VectorAdapter,
)
from context_engine.core.protocols.sources import Listable


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
            source_ids: its sources; those that the store does not hold are passed over.
            asked_ids: chunk and document ids, of which each part says which it holds.
            anew: all parts; else those that changed enough since their calibration.
            adapter_id: an adapter that is about to be put in force: calibrate under it too.

        Raises:
            StoreError: the store cannot be read.
        """
        ...

    def search_part(self, part: CalibrationPart, source_ids: Sequence[str], query: SourceQuery) -> SourceAnswer:
        """Return the best chunks of some sources in one part, compared in its way; safe for several threads.

        Raises:
            StoreError, EmbedderError: it could not be searched.
        """
        ...

    def keep_calibrations(
        self, domain: str, plan: CalibrationPlan, found: Sequence[tuple[CalibrationPart, ScopeCalibration]]
    ) -> None:
        """Replace earlier calibrations by those of a plan; a part without one becomes uncalibrated.

        Raises:
            StoreError: they cannot be kept.
        """
        ...

    def calibration(
        self, domain: str, *, by_vector: bool = True, access: AccessScope | None = None
    ) -> ScopeCalibration | None:
        """Return the calibration in force for searches of a domain, or None.

        Args:
            by_vector: by vectors too, if the store has any; else by words alone.
            access: of the caller; None: everything.

        Raises:
            StoreError: the store cannot be read.
        """
        ...


@runtime_checkable
class StoredVectors(Protocol):
    """A store that gives out the vectors it holds, to learn from."""

    def vector_model(self) -> str:
        """Return the model of its vectors, "" if it holds none; opens no model.

        Raises:
            StoreError: the store cannot be read.
        """
        ...

    def held_vectors(self, source_ids: Sequence[str], *, access: AccessScope | None = None) -> HeldVectors:
        """Return the chunks of some sources with their vectors, as they stand at one moment.

        Args:
            source_ids: the sources; of one that the store does not hold there is nothing.
            access: of the caller; None: everything.

        Raises:
            ConfigError, StoreError: it has no vectors to give, or cannot be read.
        """
        ...


@runtime_checkable
class LearntAdapters(Protocol):
    """A store that keeps vector adapters for its domains and searches with those in force."""

    def adapters(self, domain: str | None = None, *, access: AccessScope | None = None) -> Sequence[StoredAdapter]:
        """Return the adapters of a domain, oldest first.

        Args:
            domain: None: of all domains.
            access: of the caller, who sees none that was learnt from what it may not read; None: everything.

        Raises:
            StoreError: the store cannot be read.
        """
        ...

    def switchable_adapters(self, domain: str, adapter_id: str | None) -> Sequence[StoredAdapter]:
        """Return the adapters that `use_adapter` would switch; same arguments and errors."""
        ...

    def use_adapter(self, domain: str, adapter_id: str | None) -> None:
        """Put an adapter in force; None: put all of the domain out of force.

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
    """A store for whose vectors an adapter can be learnt and tried out."""

    def search_adapted(
        self,
        source_ids: Sequence[str],
        query: SourceQuery,
        *,
        vector: Sequence[float] | None = None,
        adapter: VectorAdapter | None = None,
    ) -> SourceAnswer:
        """Return the best chunks of some sources under an adapter that need not be kept.

        Args:
            vector: of the question, if the caller has it; None: the store embeds the question.
            adapter: None: the model's own vectors.

        Raises:
            EmbedderError, StoreError: it could not be searched.
        """
        ...

    def keep_adapter(
        self, domain: str, adapter: VectorAdapter, evidence: Mapping[str, Any], origin: Any
    ) -> StoredAdapter:
        """Keep an adapter; which one is in force stays as it is.

        Args:
            evidence: what was measured; kept beside it.
            origin: of the vectors that it was learnt from (`HeldVectors.origin`).

        Raises:
            StoreError: it cannot be kept.
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
    """A store that can be copied for a trial: its answers must not depend on what a caller may not read."""

    def copy_to(self, data_dir: Path) -> None:
        """Copy all it holds at one moment to where its adapter looks with another data folder.

        Sources and sinks that the adapter opens with that folder (`SourceContext.data_dir`) then use the copy alone.

        Raises:
            StoreError: there is nothing to copy, or it cannot be read.
        """
        ...

    def rebuild(self) -> object:
        """Put its index in order, as an operator's maintenance does; a store without one does nothing."""
        ...


CAPABILITIES: Final[Mapping[type, str]] = {
    Listable: "listing of its chunks",
    Calibratable: "calibration of the scope threshold",
    StoredVectors: "stored vectors",
    LearntAdapters: "learnt adapters",
    Trainable: "learning of adapters",
    AccessProvable: "the access proof",
}
"""Each capability in words, for errors."""
