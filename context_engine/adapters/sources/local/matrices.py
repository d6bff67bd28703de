"""The vectors of all partitions that a view may read, as if they were one matrix."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from context_engine.adapters.sources.local.matrix import Matrix, RowsOfScope
from context_engine.adapters.sources.local.merge import ranked
from context_engine.adapters.sources.local.options import SearchOptions

__all__ = ["Matrices"]


class Matrices:
    """The matrices of some partitions, shared with every other view of them; never changed once made.

    Args:
        matrices: of one model, at least one; no two hold the same row.
    """

    def __init__(self, matrices: Sequence[Matrix]) -> None:
        self._matrices, self.model_id = tuple(matrices), matrices[0].model_id

    def __len__(self) -> int:
        """Return the number of vectors."""
        return sum(map(len, self._matrices))

    def cosines(self, vector: Sequence[float], rids: Collection[int]) -> dict[int, float]:
        """Return the cosine of each of these rows that has a vector."""
        return {rid: cosine for one in self._matrices for rid, cosine in one.cosines(vector, rids).items()}

    def nearest(self, vector: Sequence[float], limit: int, scope: RowsOfScope, options: SearchOptions) -> list[int]:
        """Return the `limit` rows of the scope with the highest cosine, best first, of equal ones the older first.

        Partitions that hold nothing of the scope's source are not looked at.
        """
        holding = [one for one in self._matrices if scope.source_key is None or scope.source_key in one.source_keys]
        found = [one.nearest(vector, limit, scope, options) for one in holding]
        if len(found) == 1:
            return found[0]
        cosine: dict[int, float] = {}
        for one, rids in zip(holding, found, strict=True):
            cosine |= one.cosines(vector, rids)
        return ranked(cosine)[:limit]
