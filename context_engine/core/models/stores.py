"""What a store exchanges with calibration, training and the examination of its sources."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from context_engine.core.models.access import AccessClass, AccessScope
from context_engine.core.models.chunk import Chunk
from context_engine.core.models.learnt import ScopeCalibration
from context_engine.core.models.notice import Notice, NoticeCode
from context_engine.core.models.request import SourceQuery

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


class WholeDocument(NamedTuple):
    """A document as a store holds it, to be written to another store as it is.

    Attributes:
        document_id, version, content_hash: as in `Sink`.
        indexed_at: when it was ingested, ISO 8601; chunks without a `fetched_at` were fetched then.
        access: the class that the document is placed in.
        chunks: in order, with their ids; `fetched_at` only where the chunk states it.
        vectors: for each chunk its vectors, one for each passage of a long text, of which only the direction counts; a
            chunk that is not searched by vectors has none. Empty if no chunk has any.
        model_id: the model that made the vectors; "" without any.
    """

    document_id: str
    version: str
    content_hash: str
    indexed_at: str
    access: AccessClass
    chunks: Sequence[Chunk]
    vectors: Sequence[Sequence[Sequence[float]]]
    model_id: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The document's id and version."""
        return self.document_id, self.version


class ClassCalibration(NamedTuple):
    """A calibration of a domain, and the access class that it was measured on."""

    access: AccessClass
    calibration: ScopeCalibration


class CopiedAdapter(NamedTuple):
    """A learnt adapter as one store gives it to another.

    Attributes:
        access: the classes that the chunks it was trained on are placed in.
        evidence: the measurements made before it was stored, a JSON object.
        made_at: when it was stored, ISO 8601.
        maps: both maps, little-endian 32-bit floats.
        in_force: whether searches use it.
    """

    adapter_id: str
    model_id: str
    access: frozenset[AccessClass]
    evidence: str
    made_at: str
    maps: bytes
    in_force: bool


_NO_DETAILS: Final[Mapping[str, Any]] = MappingProxyType({})
_SAMPLE_TOP_K: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminationRequest:
    """How a source is to be examined.

    Attributes:
        domain: the domain it is examined for.
        query: a sample query; None: no query is sent.
        quick: use as few calls as possible: send the query only if no cheaper call tells whether the source can be
            searched, and report only counts that are already known.
        timeout_s: time limit of the whole examination, seconds.
        search_timeout_s: time limit of a search of this domain, seconds.
        access: the classes of chunks that the reader of the report may read; None: all.
    """

    domain: str
    query: str | None = None
    quick: bool = False
    timeout_s: float = 20.0
    search_timeout_s: float = 10.0
    access: AccessScope | None = None

    @property
    def sample(self) -> SourceQuery | None:
        """The sample query as a search for a few chunks, or None."""
        if self.query is None:
            return None
        return SourceQuery(
            text=self.query,
            domain=self.domain,
            top_k=_SAMPLE_TOP_K,
            timeout_s=self.search_timeout_s,
            access=self.access,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """The findings about a source, or about one part of it. None means unknown.

    Attributes:
        id: a part's id, such as a dataset id or the name of an index; "" for the source itself.
        name: a part's display name.
        kind: the kind of store, such as "folder of notes"; for a part, how it is indexed.
        version: the version that the source's server reports.
        documents: the number of searchable documents.
        records: the number of chunks that the sample query returned.
        search_method: how it is searched.
        problems: why the source cannot be searched, and how to fix it.
        warnings: problems and unwise settings that do not prevent searches.
        parts: parts that are searched separately, such as datasets.
        details: further facts for an operator; JSON values only.
    """

    id: str = ""
    name: str = ""
    kind: str = ""
    version: str | None = None
    documents: int | None = None
    records: int | None = None
    search_method: str | None = None
    problems: tuple[Notice, ...] = ()
    warnings: tuple[Notice, ...] = ()
    parts: tuple[Examination, ...] = ()
    details: Mapping[str, Any] = field(default_factory=lambda: _NO_DETAILS)

    @property
    def ok(self) -> bool:
        """Whether the source and all its parts can be searched."""
        return not self.problems and all(part.ok for part in self.parts)

    @property
    def problem(self) -> str | None:
        """The problems in one sentence, without those of the parts; None if there are none."""
        return "; ".join(problem.message for problem in self.problems) or None

    @property
    def state(self) -> str:
        """failed, empty (no documents) or ok, regardless of the parts."""
        if self.problems:
            return "failed"
        return "empty" if self.documents == 0 else "ok"


def notices_about(subject: str, *remarks: str | Notice) -> tuple[Notice, ...]:
    """Return remarks as notices about a source or a part of it."""
    return tuple(
        remark if isinstance(remark, Notice) else Notice(NoticeCode.SOURCE_NOTE, subject, remark) for remark in remarks
    )
