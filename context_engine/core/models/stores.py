"""Data that a store exchanges with calibration and training."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from context_engine.core.models.chunk import Chunk

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


class CalibrationPart(NamedTuple):
    """Chunks whose scope threshold is calibrated together: one access class, compared by one scorer.

    Attributes:
        chunks: the number of chunks in this part.
        passages: a sample of at least 200 of these chunks, or all; equal content gives equal samples.
        held_ids: those of the requested chunk and document ids that are in this part.
        scorer_id: the model that compares vectors, with its adapter (`scorer_name`); "" for words only.
        key: the number of the access class in the store.
        state: opaque to the caller: the store's mark of its content, passed back with the calibration.
    """

    chunks: int
    passages: Sequence[Chunk]
    held_ids: Collection[str] = frozenset()
    scorer_id: str = ""
    key: int = 0
    state: Any = None


class CalibrationPlan(NamedTuple):
    """The parts of a store to calibrate.

    Attributes:
        parts: those that changed enough since their last calibration.
        source_ids: the domain's sources that are in the store.
        by_vector: whether the store compares vectors besides words.
        state: as in `CalibrationPart`.
    """

    parts: Sequence[CalibrationPart]
    source_ids: Sequence[str]
    by_vector: bool = False
    state: Any = None


class StoredAdapter(NamedTuple):
    """An adapter that a store keeps, without its maps.

    Attributes:
        domain: the domain whose searches use it.
        adapter_id: unique in its domain.
        model_id: the model whose vectors it maps.
        learnt_from: the keys of the access classes it was trained on, ascending.
        evidence: the measurements made before it was stored.
        made_at: when it was stored, ISO 8601.
        in_force: whether searches use it, provided it is usable.
        problem: why it is unusable regardless of the switches: "damaged" or "for other vectors"; "" if usable.
    """

    domain: str
    adapter_id: str
    model_id: str
    learnt_from: tuple[int, ...]
    evidence: Mapping[str, Any]
    made_at: str
    in_force: bool
    problem: str = ""


class HeldVectors(NamedTuple):
    """The readable chunks of some sources with their vectors, at one moment.

    Attributes:
        source_ids: the source of each chunk.
        chunks: in an order that depends on the content only.
        lengths: int64 (chunks), the number of vectors of each chunk, >= 1.
        parts: float32 (vectors, dimension), unit length, chunk by chunk.
        origin: opaque to the caller: the store's mark of the chunks' state, passed back with the trained adapter.
    """

    source_ids: list[str]
    chunks: list[Chunk]
    lengths: Array
    parts: Array
    origin: Any = None

    @property
    def chunk_ids(self) -> list[str]:
        """The id of each chunk."""
        return [chunk.chunk_id for chunk in self.chunks]

    @property
    def document_ids(self) -> list[str]:
        """The document of each chunk."""
        return [chunk.document_id or "" for chunk in self.chunks]

    @property
    def contents(self) -> list[str]:
        """The text of each chunk."""
        return [chunk.content for chunk in self.chunks]
