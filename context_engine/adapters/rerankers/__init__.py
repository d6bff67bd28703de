"""Adapters to models that read query and text together.

Which one to choose (`reranker` and `reranker_options` in rag-pipeline.json):

- `cross_encoder` with `cross-encoder/ms-marco-MiniLM-L-6-v2` (80 MB) for English on a CPU; `-L-12-v2` has twice the
  layers and is half as fast. With `"runtime": "onnx"` and a folder it needs no torch.
- `tei`, `jina` or `cohere` for a model on a server, for example a multilingual one (`BAAI/bge-reranker-v2-m3`).
- `max_sim` if there is an embedder and no other model may be added.
- `llm` last: slow, expensive, and open to instructions in passages.
- `ensemble` takes the weighted mean of several; `adaptive` calls another only if it may change something.

Scores are in [0, 1] and enter as relevance = rerank_weight * stage 1 + (1 - rerank_weight) * score. If a reranker fails
or exceeds the search's deadline, the first stage's order stands and the result is degraded.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from context_engine.core.concurrency.awaiting import awaited
from context_engine.core.models import Chunk
from context_engine.core.protocols import Reranker
from context_engine.errors import InvalidRequest, RerankerError

Score = Callable[[str, Sequence[str]], Sequence[float] | None]


class NoOpReranker:
    """Gives no scores: stage 1's relevance stands."""

    name = "noop"

    def rerank(self, query: str, chunks: Sequence[Chunk]) -> Sequence[float] | None:
        """Return None."""
        return None


class CallableReranker:
    """Calls a function (query, texts) for one score in [0, 1] per text, or None for no scores."""

    def __init__(self, function: Score, name: str = "callable") -> None:
        self.name = name
        self._function = function

    def rerank(self, query: str, chunks: Sequence[Chunk]) -> Sequence[float] | None:
        """Return the function's scores; its exceptions become a `RerankerError` in the engine."""
        return self._function(query, [chunk.content for chunk in chunks])


Rank = Callable[[str, list[dict[str, Any]]], Any]
_PLACE: Final = "place"


class DictReranker:
    """Calls a plain or async function of (query, chunk dicts).

    The function returns one score in [0, 1] per chunk, None for "no opinion", or the chunk dicts in its own order. Each
    of these may have a `rerank_score`; if none has, the order counts: the n-th of all gets 1 - (n - 1) / all. A chunk
    that is not returned gets 0.
    """

    def __init__(self, rank: Rank, name: str) -> None:
        self.name, self._rank = name, rank

    def rerank(self, query: str, chunks: Sequence[Chunk]) -> Sequence[float] | None:
        """Return one score per chunk, or None.

        Raises:
            RerankerError: the function returned something else.
        """
        ranked = awaited(self._rank(query, [{**chunk.to_dict(), _PLACE: place} for place, chunk in enumerate(chunks)]))
        if ranked is None:
            return None
        if not isinstance(ranked, Iterable) or isinstance(ranked, str | Mapping):
            raise RerankerError(f"{self.name} returned {type(ranked).__name__} instead of a list of scores or chunks")
        returned = list(ranked)
        if not all(isinstance(item, Mapping) for item in returned):
            return returned
        return self._scores_of(returned, len(chunks))

    def _scores_of(self, returned: Sequence[Mapping[str, Any]], count: int) -> Sequence[float] | None:
        places = [chunk.get(_PLACE) for chunk in returned]
        if len(set(places)) < len(places) or not set(places) <= set(range(count)):
            raise RerankerError(
                f"{self.name} returned chunks other than those it was given: return the same dicts, each once, with "
                f"their {_PLACE!r}"
            )
        scores: list[Any] = [chunk.get("rerank_score") for chunk in returned]
        if all(score is None for score in scores):
            if places == list(range(count)):
                return None
            scores = [1.0 - rank / count for rank in range(count)]
        by_place = dict(zip(places, scores))
        return [by_place.get(place, 0.0) for place in range(count)]


def reranker_of(given: Any) -> Reranker:
    """Return a reranker of any accepted form as a `Reranker`.

    Args:
        given: a `Reranker`; an object without `name` whose `rerank(query, chunks)` takes chunk dicts, or its class, if
            that takes no arguments; or such a function. Each may be async.

    Raises:
        InvalidRequest: it is none of these, or an async generator.
    """
    made = given() if isinstance(given, type) else given
    rank = getattr(made, "rerank", made)
    if not callable(rank):
        raise InvalidRequest(
            f"reranker must be a function (query, chunks), or an object with such a method 'rerank', got "
            f"{type(made).__name__}"
        )
    name = getattr(made, "name", None)
    if isinstance(name, str) and rank is not made:
        return made  # type: ignore[no-any-return]
    shown = getattr(made, "__name__", type(made).__name__)
    if inspect.isasyncgenfunction(rank):
        raise InvalidRequest(f"reranker {shown} yields as an async generator: return a list of scores or chunks")
    return DictReranker(rank, shown)
