"""What of a store to calibrate: the access classes that have changed enough since they were calibrated.

Each access class is calibrated by itself. It is due again once a fifth of it, or of the domain's sources in it, was
added or removed. Rows are never reused: higher numbers were added since, missing lower ones were removed. A replaced
document counts once, as the greater of the two.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from context_engine.core.models import CalibrationPart, CalibrationPlan, Chunk, ScopeCalibration
from context_engine.core.ranking.scope import SIGNAL_VERSION

_MOST_CHANGE: Final = 0.2
MOST_PASSAGES: Final = 200


class CalibratedExtent(NamedTuple):
    """The size of a class: its chunks of some sources, all its chunks, and its highest row number."""

    own: int
    all: int
    last: int


class KeptCalibration(NamedTuple):
    """A calibration of an access class, and how large the class was then."""

    calibration: ScopeCalibration
    extent: CalibratedExtent


class ClassTexts(Protocol):
    """The chunks of each access class at one moment."""

    def holding(self, source_ids: Sequence[str]) -> Collection[tuple[str, int]]:
        """Return (source, key of a class) for each class that holds documents of some sources."""
        ...

    def extent(self, key: int, source_ids: Sequence[str], up_to: int | None = None) -> CalibratedExtent:
        """Return the size of a class, counting rows up to a number only."""
        ...

    def passages(self, key: int, source_ids: Sequence[str]) -> Sequence[Chunk]:
        """Return the MOST_PASSAGES chunks of the lowest digests, which do not depend on the order of writing."""
        ...

    def held_ids(self, key: int, source_ids: Sequence[str], asked_ids: Collection[str]) -> frozenset[str]:
        """Return those of some ids that chunks and documents of a class have."""
        ...


def plan_of(
    texts: ClassTexts, kept: Mapping[tuple[str, int], KeptCalibration], source_ids: Sequence[str],
    asked_ids: Collection[str], scorers: Sequence[str], *, anew: bool,
) -> CalibrationPlan:  # fmt: skip
    """Return what to calibrate: everything if `anew`, else what has changed enough; see `Calibratable`.

    Args:
        kept: the calibrations of the domain, by scorer and class.
    """
    partitions = texts.holding(source_ids)
    names = [name for name in source_ids if name in {name for name, _ in partitions}]
    keys = sorted({key for _, key in partitions})
    due = [
        (scorer, key)
        for scorer in scorers
        for key in keys
        if anew or _is_outdated(texts, names, key, kept.get((scorer, key)))
    ]
    read = {key: _part(texts, key, names, asked_ids) for key in {key for _, key in due}}
    parts = [read[key]._replace(scorer_id=scorer) for scorer, key in due]
    return CalibrationPlan(parts, names, len(scorers) > 1, [*due, *(name for name in kept if name[1] not in keys)])


def _is_outdated(texts: ClassTexts, names: Sequence[str], key: int, kept: KeptCalibration | None) -> bool:
    if kept is None or kept.calibration.signal != SIGNAL_VERSION or kept.calibration.near_miss is None:
        return True
    before, now = kept.extent, texts.extent(key, names)
    left = texts.extent(key, names, up_to=before.last)
    changes = ((before.own, now.own, left.own), (before.all, now.all, left.all))
    return any(max(after - same, was - same) >= _MOST_CHANGE * was for was, after, same in changes if after)


def _part(texts: ClassTexts, key: int, names: Sequence[str], asked_ids: Collection[str]) -> CalibrationPart:
    extent = texts.extent(key, names)
    held_ids = texts.held_ids(key, names, asked_ids)
    return CalibrationPart(extent.own, texts.passages(key, names), held_ids, "", key, extent)
