"""An adapter of an embedding model's vectors, as searches and rerankers see it, and what scores made under it are
known by."""

from __future__ import annotations

from typing import Any, Protocol


class VectorAdapter(Protocol):
    """Two linear maps over the vectors of one model; what they give is compared instead, once it is of unit length.

    Attributes:
        model_id: the model.
        adapter_id: names the maps; equal ids map alike.
        query: float32 (dimension, dimension), applied to a question's vectors from the right.
        passage: the same for a passage's.
    """

    @property
    def model_id(self) -> str: ...

    @property
    def adapter_id(self) -> str: ...

    @property
    def query(self) -> Any: ...

    @property
    def passage(self) -> Any: ...


def scorer_name(scorer: str, adapter_id: str | None) -> str:
    """Return what scores are known by that a model or a reranker gives under an adapter; None: by itself.

    >>> scorer_name("max_sim", "0f3a"), scorer_name("max_sim", None)
    ('max_sim+0f3a', 'max_sim')
    """
    return scorer if adapter_id is None else f"{scorer}+{adapter_id}"
