"""Data that a store exchanges with calibration and learning."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from context_engine.core.models.chunk import Chunk

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


class CalibrationPart(NamedTuple):
    """Chunks whose scope threshold is calibrated together: those of one access class, compared in one way.

    Attributes:
        chunks: how many the domain's sources have in it.
        passages: some of these chunks, at least 200 if there are so many; equal content gives equal passages.
        held_ids: which of the chunk and document ids that were asked for it holds.
        scorer_id: the model that compares vectors, with its adapter (`scorer_name`); "" for words alone.
        key: names the access class in its store.
        state: opaque to the caller: the store's mark of its present content, which is passed back to it.
    """

    chunks: int
    passages: Sequence[Chunk]
    held_ids: Collection[str] = frozenset()
    scorer_id: str = ""
    key: int = 0
    state: Any = None


class CalibrationPlan(NamedTuple):
    """What a store wants calibrated.

    Attributes:
        parts: the parts that changed enough since their calibration; () if none did.
        source_ids: the domain's sources that the store holds.
        by_vector: whether it compares vectors besides words.
        state: as of `CalibrationPart`.
    """

    parts: Sequence[CalibrationPart]
    source_ids: Sequence[str]
    by_vector: bool = False
    state: Any = None


class StoredAdapter(NamedTuple):
    """An adapter that a store keeps, without its maps.

    Attributes:
        domain: it is for searches of this domain.
        adapter_id: names it in its domain.
        model_id: the model whose vectors it maps; it is not used with vectors of another.
        learnt_from: the keys of the access classes that were read for its training, ascending.
        evidence: the measurements made before it was kept.
        made_at: when it was kept, ISO 8601.
        in_force: whether searches use it, if it can be used.
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
        chunks: in an order that equal content gives again.
        lengths: int64 (chunks), how many vectors each has, >= 1.
        parts: float32 (vectors, dimension), unit length, chunk by chunk.
        origin: opaque to the caller: the store's mark of the chunks' state, passed back with what was learnt from them.
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
