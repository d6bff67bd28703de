"""The part of a server's store that is calibrated and learns adapters; it does not depend on the server."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, Self, TypeVar

from context_engine.adapters.sources.stores.adapter_keeping import (
    OFF,
    AdapterKeeping,
    AdapterReader,
    ChosenAdapter,
    scorer_of,
)
from context_engine.adapters.sources.stores.adapter_rows import AdapterRows
from context_engine.adapters.sources.stores.calibrating import ClassTexts, KeptCalibration, plan_of
from context_engine.adapters.sources.stores.options import SearchOptions
from context_engine.adapters.sources.stores.served_store import ServedStoreBase
from context_engine.core.models import (
    AccessScope,
    CalibrationPart,
    CalibrationPlan,
    HeldVectors,
    Notice,
    NoticeCode,
    QueryEmbedding,
    ScopeCalibration,
    SourceAnswer,
    SourceQuery,
    VectorAdapter,
    scorer_name,
)
from context_engine.core.protocols import Clock, Embedder
from context_engine.core.ranking.scope import SIGNAL_VERSION, mean_calibration
from context_engine.errors import ConfigError

if TYPE_CHECKING:
    from context_engine.adapters.sources.domain_adapter import DomainAdapter

READ_S: Final = 600.0
T = TypeVar("T")


class CommittedState(Protocol):
    """The state of a store after a commit.

    Attributes:
        base_id: names the store.
        generation: the number of the commit.
        words_version: the analysis of its texts.
        model_id, dimension: of the vectors; None and any number without vectors.
    """

    @property
    def base_id(self) -> str: ...

    @property
    def generation(self) -> int: ...

    @property
    def words_version(self) -> str: ...

    @property
    def model_id(self) -> str | None: ...

    @property
    def dimension(self) -> int: ...


class ClassView(Protocol):
    """What a caller may read of a store at one moment."""

    @property
    def keys(self) -> list[int]:
        """The keys of the readable access classes."""

    @property
    def state(self) -> CommittedState: ...

    def only(self, key: int) -> Self:
        """Return the view of one of its classes."""
        ...


V = TypeVar("V", bound=ClassView)


class TrainableStore(ServedStoreBase, AdapterKeeping, Generic[V]):
    """A store in a server that is `Calibratable` and `Trainable`; the arguments are those of `ServedStoreBase`."""

    def __init__(self, ingest: str, options: SearchOptions, embedder: Embedder | None, clock: Clock) -> None:
        super().__init__(ingest, options, embedder, clock)
        self._now, self._adapters = clock.now, AdapterReader()

    if TYPE_CHECKING:

        def _in_view(self, access: AccessScope | None, timeout_s: float, read: Callable[[V], T]) -> T:
            """Return what `read` gives for the view of a caller; None: everything."""

        def _rows(self, view: V) -> AdapterRows:
            """Return the adapters as a view shows them."""

        def _texts(self, view: V) -> ClassTexts: ...

        def _kept_calibrations(self, view: V, domain: str) -> Mapping[tuple[str, int], KeptCalibration]:
            """Return the calibrations of a domain, by scorer and class."""

        def _best_of(
            self,
            view: V,
            query: SourceQuery,
            source_ids: Sequence[str],
            vector: Sequence[float] | None,
            adapter: DomainAdapter | None,
        ) -> SourceAnswer:
            """Return the best chunks of some sources in a view."""

        def _held_vectors(self, view: V, source_ids: Sequence[str]) -> HeldVectors: ...

    def calibration_plan(
        self,
        domain: str,
        source_ids: Sequence[str],
        asked_ids: Collection[str] = (),
        *,
        anew: bool = False,
        adapter_id: str | None = None,
    ) -> CalibrationPlan:
        """Return the classes and scorers to calibrate (`Calibratable`)."""

        def read(view: V) -> CalibrationPlan:
            scorers, kept = self._scorers(view, domain, adapter_id), self._kept_calibrations(view, domain)
            return plan_of(self._texts(view), kept, source_ids, asked_ids, scorers, anew=anew)

        return self._in_view(None, READ_S, read)

    def search_part(self, part: CalibrationPart, source_ids: Sequence[str], query: SourceQuery) -> SourceAnswer:
        """Return the best chunks of some sources in one class (`Calibratable`)."""
        vector = self._asked(query) if part.scorer_id else None

        def read(view: V) -> SourceAnswer:
            name = part.scorer_id.removeprefix(view.state.model_id or "").removeprefix("+")
            adapter = self._chosen(view, query.domain, name or OFF).adapter
            return self._best_of(view.only(part.key), query, source_ids, vector, adapter)

        return self._in_view(None, query.timeout_s, read)

    def calibration(
        self, domain: str, *, by_vector: bool = True, access: AccessScope | None = None
    ) -> ScopeCalibration | None:
        """Return the calibration in force for searches of a domain (`Calibratable`)."""

        def read(view: V) -> ScopeCalibration | None:
            by_words = not by_vector or self._embedder is None
            scorer = "" if by_words else scorer_of(self._rows(view), domain, self.options.adapter, view.keys)
            return self._calibration(view, domain, scorer)

        return self._in_view(access, READ_S, read)

    def held_vectors(self, source_ids: Sequence[str], *, access: AccessScope | None = None) -> HeldVectors:
        """Return the vectors of some sources with their chunks, from one snapshot.

        They have the precision of the stored type, and unit length.

        Args:
            access: of the caller; None: everything.

        Raises:
            ConfigError: no embedder is configured.
            SourceError: the server failed.
        """
        if self._embedder is None:
            raise ConfigError("an adapter is learnt from vectors: configure an embedder and ingest with it")
        return self._in_view(access, READ_S, lambda view: self._held_vectors(view, source_ids))

    def search_adapted(
        self,
        source_ids: Sequence[str],
        query: SourceQuery,
        *,
        vector: Sequence[float] | None = None,
        adapter: VectorAdapter | None = None,
    ) -> SourceAnswer:
        """Return the best chunks of some sources under an adapter, kept or not; see `Trainable`."""
        from context_engine.adapters.sources.domain_adapter import DomainAdapter  # only here: it needs numpy

        asked = self._asked(query) if vector is None else vector
        mapped = None if adapter is None else DomainAdapter.of(adapter)
        return self._in_view(
            query.access, query.timeout_s, lambda view: self._best_of(view, query, source_ids, asked, mapped)
        )

    def _asked(self, query: SourceQuery) -> Sequence[float] | None:
        return None if self._vectors is None else self._vectors.ask(query.text, READ_S)

    def _calibration(self, view: V, domain: str, scorer: str) -> ScopeCalibration | None:
        """Return the mean calibration of a scorer for the classes of a view; None without one of the current signal."""
        kept = self._kept_calibrations(view, domain)
        each = [kept[scorer, key].calibration for key in sorted(view.keys) if (scorer, key) in kept]
        return mean_calibration([calibration for calibration in each if calibration.signal == SIGNAL_VERSION])

    def _chosen(self, view: V, domain: str, choice: str | None = None) -> ChosenAdapter:
        """Return the adapter for a search; None: as the options say."""
        return self._adapters.chosen(self._rows(view), domain, choice or self.options.adapter, view.keys)

    def _scorers(self, view: V, domain: str, adapter_id: str | None) -> list[str]:
        """Return the scorers to calibrate: text only, vectors, and vectors under each adapter that is or will be in
        force.
        """
        model = view.state.model_id
        if self._embedder is None or model is None:
            return [""]
        usable = (stored for stored in self._rows(view).stored(view.keys, domain) if not stored.problem)
        wanted = (stored.adapter_id for stored in usable if stored.in_force or stored.adapter_id == adapter_id)
        return ["", model, *(scorer_name(model, name) for name in wanted)]


def embedding_under(
    embedding: QueryEmbedding | None, scorer_id: str, adapter: DomainAdapter | None
) -> QueryEmbedding | None:
    """Return the embedding of a question as an answer reports it; None for a search by text only."""
    return None if embedding is None or not scorer_id else embedding._replace(model=scorer_id, adapter=adapter)


def unusable(adapter_id: str, source_id: str) -> tuple[Notice, ...]:
    """Return the notice of an adapter that cannot be used; none for ""."""
    detail: dict[str, Any] = {"adapter": adapter_id}
    return (Notice(NoticeCode.ADAPTER_UNUSABLE, source_id, adapter_id, detail),) if adapter_id else ()
