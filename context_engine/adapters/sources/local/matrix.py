"""The vectors of a partition in memory: exact search, or for very many vectors a search of the nearest cells.

A chunk has one vector or several (a long text is embedded in windows); its cosine is the highest of theirs. Vectors are
of unit length, so a cosine is a dot product. Needs numpy: imported only if an embedder is configured.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np

from context_engine.adapters.sources.domain_adapter import DomainAdapter
from context_engine.adapters.sources.local.vector_parts import (
    AdaptedParts,
    Array,
    OneProduct,
    VectorParts,
    mapped_lengths,
)
from context_engine.adapters.sources.stores.options import SearchOptions, ranked
from context_engine.core.concurrency.forking import Lock
from context_engine.errors import StoreVersionMismatch

_FEW: Final = 20_000  # rows of a scope that are compared exactly
_SPARE: Final = 20
_LEAST_PROBED: Final = 20  # vectors read for each wanted row, at least
_MOST_ADAPTED: Final = 16
"""Adapters whose vector lengths are cached with a matrix, 8 bytes a vector each: one per domain is in force, more while
some are tested."""


class RowsOfScope(Protocol):
    """The rows that a search may find, as known to the index.

    Attributes:
        source_key: of their source; None if they may be of any source.
        selective: whether they may be few rows of the source.
    """

    source_key: int | None
    selective: bool

    def count(self) -> int:
        """Return their number."""
        ...

    def all(self, count: int) -> list[int]:
        """Return all `count` rows."""
        ...

    def among(self, rids: Collection[int]) -> Container[int]:
        """Return a container of at least those of `rids` that are in the scope; each row is asked for once."""
        ...


class Cells(NamedTuple):
    """A partition of the vectors by the nearest of some centroids.

    Attributes:
        centroids: float32 (cells, dimension), unit length.
        of_part: int32 (vectors), the cell of each.
    """

    centroids: Array
    of_part: Array


class Matrix:
    """The vectors of all rows of a partition in one generation of its index; immutable.

    There is one matrix per partition because the last bit of a row's product can depend on the number of other rows,
    and cells are computed from all rows: answers must not depend on rows of another partition.

    Args:
        rids: int64 (rows), ascending.
        sources: int64 (rows), the source key of each.
        lengths: int64 (rows), the number of vectors of each, >= 1.
        parts: the vectors, row by row.
        cells: None if the partition is too small for them.
    """

    def __init__(
        self,
        model_id: str,
        rids: Array,
        sources: Array,
        lengths: Array,
        parts: VectorParts,
        cells: Cells | None = None,
    ) -> None:
        self.model_id, self.rids, self.sources, self.lengths, self.cells = model_id, rids, sources, lengths, cells
        self._starts = np.concatenate(([0], np.cumsum(lengths)))
        owner = np.repeat(np.arange(len(rids)), lengths)
        # Vectors of one cell are adjacent, so that a cell is read as one block.
        order = None if cells is None else np.argsort(cells.of_part, kind="stable")
        self.parts = parts if order is None else parts.take(order)
        self._owner = owner if order is None else owner[order]
        self._place = None if order is None else np.argsort(order, kind="stable")
        self._held: dict[int | None, Array] = {}
        self._adapted: dict[str, Matrix] = {}
        self._lock = Lock()
        self.source_keys = frozenset(np.unique(sources).tolist())
        if cells is not None:
            self._bounds = np.concatenate(([0], np.cumsum(np.bincount(cells.of_part, minlength=len(cells.centroids)))))

    def __len__(self) -> int:
        """Return the number of vectors."""
        return len(self.parts)

    def in_rows(self) -> VectorParts:
        """Return the vectors row by row."""
        return self.parts if self._place is None else self.parts.take(self._place)

    def adapted(self, adapter: DomainAdapter) -> Matrix:
        """Return the same rows under an adapter of their model; queries are mapped by `DomainAdapter.asked`.

        The required vector lengths are computed once and cached.
        """
        with self._lock:
            mapped = self._adapted.pop(adapter.adapter_id, None)
            if mapped is None:
                mapped = self._mapped(adapter)
            self._adapted[adapter.adapter_id] = mapped  # dicts keep insertion order: the most recently used last
            while len(self._adapted) > _MOST_ADAPTED:
                del self._adapted[next(iter(self._adapted))]
            return mapped

    def _mapped(self, adapter: DomainAdapter) -> Matrix:
        mapped = copy.copy(self)
        mapped.parts = AdaptedParts(self.parts, mapped_lengths(adapter, self.parts))
        if self.cells is not None:
            centroids = self.cells.centroids
            lengths = np.maximum(adapter.lengths(centroids), np.finfo(np.float32).tiny)
            mapped.cells = self.cells._replace(centroids=centroids / lengths[:, None])
        return mapped

    def for_one_question(self) -> Matrix:
        """Return the same rows for one question about several sources, in one thread; products are shared."""
        copied = copy.copy(self)
        copied.parts = OneProduct(self.parts)
        return copied

    def cosines(self, vector: Sequence[float] | Array, rids: Iterable[int]) -> dict[int, float]:
        """Return the cosine of each row that has a vector."""
        wanted = np.unique(np.fromiter(rids, np.int64))
        rows = self._rows(wanted)
        return dict(zip(self.rids[rows].tolist(), self._of_rows(np.asarray(vector, np.float32), rows).tolist()))

    def nearest(
        self, vector: Sequence[float] | Array, limit: int, scope: RowsOfScope, options: SearchOptions
    ) -> list[int]:
        """Return the `limit` rows of the scope with the highest cosine, best first.

        If a filter leaves few rows, these are compared exactly. Otherwise rows are ranked without the filter and tested
        in batches, sized by the filter's share, until enough are found: no neighbour is lost to a filter.
        """
        query = np.asarray(vector, np.float32)
        share = 1.0
        if scope.selective:
            count = scope.count()
            if count <= _FEW:
                return _first(self._exactly(query, scope.all(count), limit), scope, limit)
            share = min(count / len(self.rids), 1.0)
        exact = self.cells is None or len(self.parts) < options.approximate_from
        wanted, probe = int(1.5 * limit / share) + _SPARE, options.probe
        while True:
            ranking, complete = self._ranking(query, scope.source_key, wanted, None if exact else probe)
            rids = _first(ranking, scope, limit)
            if len(rids) >= limit or complete:
                return rids
            wanted, probe = 8 * wanted, min(8 * probe, 1.0)

    def _rows(self, wanted: Array) -> Array:
        """Return the places of ascending rows, omitting those without vectors."""
        rows = np.searchsorted(self.rids, wanted)
        known = rows < len(self.rids)
        known[known] = self.rids[rows[known]] == wanted[known]
        return rows[known]

    def _of_rows(self, query: Array, rows: Array) -> Array:
        if not len(rows):
            return np.empty(0, np.float32)
        lengths = self.lengths[rows]
        first = np.concatenate(([0], np.cumsum(lengths)[:-1]))
        places = np.repeat(self._starts[rows] - first, lengths) + np.arange(int(lengths.sum()))
        dots = self.parts.dots(query, places if self._place is None else self._place[places])
        return np.maximum.reduceat(dots, first)

    def _exactly(self, query: Array, rids: list[int], limit: int) -> list[int]:
        wanted = np.sort(np.fromiter(rids, np.int64))
        rows = self._rows(wanted)
        return _listed(self.rids[_best(self._of_rows(query, rows), rows, limit)])

    def _ranking(
        self, query: Array, source_key: int | None, wanted: int, probe: float | None
    ) -> tuple[list[int], bool]:
        """Return the best `wanted` rows of a source, and whether these are all of its rows.

        Args:
            query: float32, unit length.
            source_key: None for all sources.
            wanted: >= 1.
            probe: share of the source's vectors to read, from the nearest cells; None for all.
        """
        if probe is None or probe >= 1.0:
            dots, owner, everything = self.parts.dots(query), self._owner, True
        else:
            dots, owner, everything = *self._probed(query, source_key, wanted, probe), False
        if source_key is not None and self.source_keys != {source_key}:
            of_source = self.sources[owner] == source_key
            dots, owner = dots[of_source], owner[of_source]
        if len(self.parts) > len(self.rids) and len(owner):
            order = np.lexsort((-dots, owner))
            dots, owner = dots[order], owner[order]
            first = np.concatenate(([True], owner[1:] != owner[:-1]))
            dots, owner = dots[first], owner[first]
        return _listed(self.rids[_best(dots, owner, wanted)]), everything and len(owner) <= wanted

    def _probed(self, query: Array, source_key: int | None, wanted: int, probe: float) -> tuple[Array, Array]:
        assert self.cells is not None
        order = np.argsort(-(self.cells.centroids @ query), kind="stable")
        counts = self._held_by_cells(self.cells, source_key)
        enough = np.cumsum(counts[order]) >= max(probe * counts.sum(), min(_LEAST_PROBED * wanted, counts.sum()))
        near = order[: int(np.argmax(enough)) + 1]
        blocks = [slice(int(self._bounds[cell]), int(self._bounds[cell + 1])) for cell in np.sort(near)]
        dots = np.concatenate([self.parts.dots(query, block) for block in blocks])
        return dots, np.concatenate([self._owner[block] for block in blocks])

    def _held_by_cells(self, cells: Cells, source_key: int | None) -> Array:
        """Return the number of vectors of a source in each cell; counted once."""
        counts = self._held.get(source_key)
        if counts is None:
            rows = np.full(len(self.rids), True) if source_key is None else self.sources == source_key
            of_source = np.repeat(rows, self.lengths)
            counts = np.bincount(cells.of_part, weights=of_source, minlength=len(cells.centroids))
            self._held[source_key] = counts
        return counts


def _listed(rids: Array) -> list[int]:
    return [int(rid) for rid in rids]


def _best(dots: Array, rows: Array, limit: int) -> Array:
    """Return the rows of the highest values, best first; the older row first among equals."""
    if len(dots) > limit:
        kept = np.flatnonzero(dots >= np.partition(dots, len(dots) - limit)[len(dots) - limit])
        dots, rows = dots[kept], rows[kept]
    return rows[np.lexsort((rows, -dots))][:limit]


def _first(ranking: list[int], scope: RowsOfScope, limit: int) -> list[int]:
    """Return the first `limit` of a ranking that are in the scope."""
    first: list[int] = []
    start, size = 0, limit + _SPARE
    while len(first) < limit and start < len(ranking):
        batch = ranking[start : start + size]
        inside = scope.among(batch)
        first += [rid for rid in batch if rid in inside]
        start, size = start + size, 4 * size
    return first[:limit]


class Matrices:
    """The matrices of some partitions, shared by all views; immutable.

    Args:
        matrices: of one model, at least one, with disjoint rows.
        adapter: maps questions and vectors before they are compared; None for no mapping.

    Attributes:
        scorer_id: identifies the cosines: the model, or the model and the adapter.
    """

    def __init__(self, matrices: Sequence[Matrix], adapter: DomainAdapter | None = None) -> None:
        self._own, self.adapter, self.model_id = tuple(matrices), adapter, matrices[0].model_id
        self.scorer_id = self.model_id if adapter is None else adapter.scorer_id
        self._matrices = self._own if adapter is None else tuple(matrix.adapted(adapter) for matrix in matrices)

    def adapted(self, adapter: DomainAdapter) -> Matrices:
        """Return the same vectors under another adapter.

        Raises:
            StoreVersionMismatch: the adapter was learnt for another model or dimension.
        """
        if adapter.model_id != self.model_id or adapter.dimension != self.dimension:
            raise StoreVersionMismatch(
                f"the adapter {adapter.adapter_id} is for {adapter.dimension} numbers of {adapter.model_id!r}, the "
                f"vectors are {self.dimension} of {self.model_id!r}: learn one for them with 'context-engine eval tune "
                "--adapter'"
            )
        return Matrices(self._own, adapter)

    def for_one_question(self) -> Matrices:
        """Return the same vectors for one question about several sources, in one thread; products are shared."""
        copied = copy.copy(self)
        copied._matrices = tuple(matrix.for_one_question() for matrix in self._matrices)
        return copied

    @property
    def dimension(self) -> int:
        """The length of the vectors."""
        return int(self._own[0].parts.as_floats(slice(0, 1)).shape[1])

    def each(self) -> Iterator[Matrix]:
        """Yield the matrix of each partition that has vectors, without the adapter."""
        return iter(self._own)

    def __len__(self) -> int:
        """Return the number of vectors."""
        return sum(map(len, self._matrices))

    def cosines(self, vector: Sequence[float], rids: Collection[int]) -> dict[int, float]:
        """Return the cosine of each row that has a vector."""
        asked = self._asked(vector)
        return {rid: cosine for matrix in self._matrices for rid, cosine in matrix.cosines(asked, rids).items()}

    def nearest(self, vector: Sequence[float], limit: int, scope: RowsOfScope, options: SearchOptions) -> list[int]:
        """Return the `limit` rows of the scope with the highest cosine, best first; the older row first among equals.

        Partitions without rows of the scope's source are skipped.
        """
        holding = [
            matrix for matrix in self._matrices if scope.source_key is None or scope.source_key in matrix.source_keys
        ]
        asked = self._asked(vector)
        nearest = [matrix.nearest(asked, limit, scope, options) for matrix in holding]
        if len(nearest) == 1:
            return nearest[0]
        cosine: dict[int, float] = {}
        for matrix, rids in zip(holding, nearest, strict=True):
            cosine |= matrix.cosines(asked, rids)
        return ranked(cosine)[:limit]

    def _asked(self, vector: Sequence[float]) -> Array:
        query = np.asarray(vector, np.float32)
        return query if self.adapter is None else self.adapter.asked(query)
