"""What a store may offer beyond search, each an optional protocol.

Code that needs a capability asks for its protocol (`isinstance`), never for a certain store. A source offers the
protocols that it implements, and those of the object behind its `store`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, runtime_checkable

from context_engine.core.models import (
    AccessScope,
    CalibrationPart,
    CalibrationPlan,
    ScopeCalibration,
    SourceAnswer,
    SourceQuery,
)


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
