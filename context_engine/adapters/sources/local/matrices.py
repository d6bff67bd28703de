"""The vectors of all partitions that a view may read, as if they were one matrix."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from context_engine.adapters.sources.local.domain_adapter import DomainAdapter
from context_engine.adapters.sources.local.matrix import Matrix, RowsOfScope
from context_engine.adapters.sources.local.merge import ranked
from context_engine.adapters.sources.local.options import SearchOptions
from context_engine.adapters.sources.local.vector_parts import Array
from context_engine.errors import StoreVersionMismatch


class Matrices:
    """The matrices of some partitions, shared with every other view of them; never changed once made.

    Args:
        matrices: of one model, at least one; no two hold the same row.
        adapter: what maps questions and vectors before they are compared; None: they are compared as they are.

    Attributes:
        model_id: the model that made the vectors.
        scorer_id: what the cosines are known by: the model, or the model and the adapter.
        adapter: as given.
    """

    def __init__(self, matrices: Sequence[Matrix], adapter: DomainAdapter | None = None) -> None:
        self._own, self.adapter, self.model_id = tuple(matrices), adapter, matrices[0].model_id
        self.scorer_id = self.model_id if adapter is None else adapter.scorer_id
        self._matrices = self._own if adapter is None else tuple(one.adapted(adapter) for one in matrices)

    def adapted(self, adapter: DomainAdapter) -> Matrices:
        """Return the same vectors under an adapter, in place of the one they have.

        Raises:
            StoreVersionMismatch: it was learnt for the vectors of another model, or of another length.
        """
        if adapter.model_id != self.model_id or adapter.dimension != self.dimension:
            raise StoreVersionMismatch(
                f"the adapter {adapter.adapter_id} is for {adapter.dimension} numbers of {adapter.model_id!r}, the "
                f"vectors are {self.dimension} of {self.model_id!r}: learn one for them with 'context-engine eval tune "
                "--adapter'"
            )
        return Matrices(self._own, adapter)

    def for_one_question(self) -> Matrices:
        """Return the same vectors, to be asked one question for several sources by one thread."""
        found = copy.copy(self)
        found._matrices = tuple(one.for_one_question() for one in self._matrices)
        return found

    @property
    def dimension(self) -> int:
        """The length of the vectors."""
        return int(self._own[0].parts.as_floats(slice(0, 1)).shape[1])

    def each(self) -> Iterator[Matrix]:
        """Yield the matrix of each partition that has vectors, as they are stored."""
        return iter(self._own)

    def __len__(self) -> int:
        """Return the number of vectors."""
        return sum(map(len, self._matrices))

    def cosines(self, vector: Sequence[float], rids: Collection[int]) -> dict[int, float]:
        """Return the cosine of each of these rows that has a vector."""
        asked = self._asked(vector)
        return {rid: cosine for one in self._matrices for rid, cosine in one.cosines(asked, rids).items()}

    def nearest(self, vector: Sequence[float], limit: int, scope: RowsOfScope, options: SearchOptions) -> list[int]:
        """Return the `limit` rows of the scope with the highest cosine, best first, of equal ones the older first.

        Partitions that hold nothing of the scope's source are not looked at.
        """
        holding = [one for one in self._matrices if scope.source_key is None or scope.source_key in one.source_keys]
        asked = self._asked(vector)
        found = [one.nearest(asked, limit, scope, options) for one in holding]
        if len(found) == 1:
            return found[0]
        cosine: dict[int, float] = {}
        for one, rids in zip(holding, found, strict=True):
            cosine |= one.cosines(asked, rids)
        return ranked(cosine)[:limit]

    def _asked(self, vector: Sequence[float]) -> Array:
        query = np.asarray(vector, np.float32)
        return query if self.adapter is None else self.adapter.asked(query)
