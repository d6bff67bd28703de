"""A rerank model that is set up in Dify, as a reranker of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

from context_engine.apps.dify.plain import plain_text
from context_engine.core.models import Chunk
from context_engine.core.ranking.relevance import unit_scores
from context_engine.errors import InvalidRequest, RerankerError


class ModelChoice(NamedTuple):
    """What a model selector gives: "langgenius/cohere/cohere" and "rerank-v3"."""

    provider: str
    model: str


Ask = Callable[[ModelChoice, str, Sequence[str]], Iterable[tuple[int, float]]]
"""(model, query, texts) -> (index of the text, score) in any order."""


def read_model(value: Any) -> ModelChoice | None:
    """Return the chosen model, None where none is.

    Raises:
        InvalidRequest: not what a model selector gives.
    """
    if not value:
        return None
    given = value if isinstance(value, Mapping) else {}
    provider, model = given.get("provider"), given.get("model")
    if not isinstance(provider, str) or not isinstance(model, str) or not (provider and model):
        raise InvalidRequest("rerank_model must name a provider and a model: choose one of Dify's rerank models")
    if plain_text(provider + model) != provider + model:
        raise InvalidRequest("rerank_model holds binary data (lone surrogates): send UTF-8 text")
    return ModelChoice(provider, model)


class ModelReranker:
    """Asks a model once for all candidates.

    Scores outside [0, 1] are taken for logits and go through the logistic function, all of them.

    Args:
        model: which.
        ask: calls it.
    """

    def __init__(self, model: ModelChoice, ask: Ask) -> None:
        self.name = model.model
        self._model, self._ask = model, ask

    def rerank(self, query: str, chunks: Sequence[Chunk]) -> Sequence[float]:
        """Return one score in [0, 1] per chunk.

        Raises:
            RerankerError: the model cannot be asked, or does not score every chunk.
        """
        problem = ""
        found: dict[int, float] = {}
        try:
            found = {int(index): float(score) for index, score in self._ask(self._model, query, _texts(chunks))}
        except Exception as error:  # noqa: BLE001  whatever the model's plugin raises, the search goes on
            problem = f"{self.name} could not be asked ({type(error).__name__}): check the model in Dify's settings"
        if not problem and (sorted(found) != list(range(len(chunks))) or not all(map(isfinite, found.values()))):
            problem = f"{self.name} scored {len(found)} of {len(chunks)} passages"
        if problem:
            raise RerankerError(problem)
        return unit_scores(self.name, [found[index] for index in range(len(chunks))])


def _texts(chunks: Sequence[Chunk]) -> list[str]:
    return [chunk.content for chunk in chunks]
