"""Whether the configured models work: `doctor` tries each of them once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from context_engine.core.concurrency.deadline import DeadlineExceeded, call_within
from context_engine.core.concurrency.executor import Busy
from context_engine.core.models import Chunk
from context_engine.errors import ContextEngineError

if TYPE_CHECKING:
    from context_engine.core.protocols import Reranker
    from context_engine.wiring import Setup
    from context_engine.wiring.models import Models


logger = logging.getLogger(__name__)

MODEL_S: Final = 120.0
"""Large models take their time to load."""

_WORD: Final = "approval"
_PASSAGES: Final = ("The committee approves a new product.", "Lunch is at noon.")


class ModelReport(NamedTuple):
    """What came of trying one model."""

    kind: str
    name: str
    problem: str | None = None

    @property
    def ok(self) -> bool:
        """Whether it can be used."""
        return self.problem is None

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {**self._asdict(), "ok": self.ok}


def model_reports(setup: Setup, models: Models) -> Iterator[ModelReport]:
    """Try the embedder and the rerankers that the settings name; nothing is yielded where they name none."""
    values = setup.resolver.base().values
    if values.embedder is not None:
        yield ModelReport("embedder", values.embedder, _tried(lambda: _embeds(models)))
    if values.reranker != "noop" and values.reranking_enabled:
        yield ModelReport("reranker", values.reranker, _tried(lambda: _reranks(models.reranker())))
    for name in values.rerankers if values.reranking_enabled else ():
        yield ModelReport("reranker", name, _tried(partial(_reranks_named, models, name)))


def _embeds(models: Models) -> str | None:
    embedder = models.embedder()
    if embedder is None:
        return None
    length = len(embedder.embed_query(_WORD))
    return None if length == embedder.dimension > 0 else f"gave {length} numbers, not {embedder.dimension}"


def _reranks_named(models: Models, name: str) -> str | None:
    return _reranks(models.rerankers()[name])


def _reranks(reranker: Reranker | None) -> str | None:
    if reranker is None:
        return None
    scores = reranker.rerank(_WORD, [Chunk(content=text) for text in _PASSAGES])
    given = _PASSAGES if scores is None else list(scores)
    return None if len(given) == len(_PASSAGES) else f"gave {len(given)} scores for {len(_PASSAGES)} passages"


def _tried(try_it: Callable[[], str | None]) -> str | None:
    """Return what is wrong, None if nothing is; a model that hangs holds up neither the next nor the end."""

    def problem() -> str | None:
        try:
            return try_it()
        except ContextEngineError as error:
            return str(error)
        except BaseException as error:  # its text may hold secrets
            logger.debug("a model raised", exc_info=error)
            return f"failed with {type(error).__name__} (its text is in the debug log)"

    try:
        return call_within(MODEL_S, problem, name="doctor-model")
    except DeadlineExceeded:
        return f"no answer within {MODEL_S:g} s"
    except Busy as busy:
        return str(busy)
