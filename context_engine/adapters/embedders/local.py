"""An embedding model in this process: loaded on first use, fed in batches."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar, cast

from context_engine.adapters.embedders.prefixes import Prefixes
from context_engine.core.concurrency.forking import abandon, forget_in_child
from context_engine.core.protocols import TokenVectors
from context_engine.errors import ContextEngineError, EmbedderError

logger = logging.getLogger(__name__)
BATCH_SIZE: Final = 64
R = TypeVar("R")


class TextEncoder(Protocol):
    """A loaded model that gives a vector per text; `dimension` is its length."""

    dimension: int

    def encode(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one unit vector per text."""
        ...


class Encoder(TextEncoder, Protocol):
    """A loaded model that gives vectors of tokens too."""

    def encode_tokens(self, texts: Sequence[str]) -> Sequence[TokenVectors]:
        """Return the tokens of each text with a unit vector each."""
        ...


class LocalTextEmbedder:
    """Embeds texts with a model in this process. One thread at a time: the model uses the cores itself.

    Args:
        name: returns the model's name, with a mark that distinguishes its weights from others of that name.
        load: loads the model; called at the first text or request for the dimension. Foreign exceptions become an
            `EmbedderError`, and the next call tries again.
        batch_size: texts given to the model at once.
    """

    def __init__(
        self,
        name: Callable[[], str],
        load: Callable[[], TextEncoder],
        *,
        prefixes: Prefixes = Prefixes(),  # noqa: B008  a tuple
        batch_size: int = BATCH_SIZE,
    ) -> None:
        self._name, self._load, self._prefixes, self._batch_size = name, load, prefixes, batch_size
        self._lock = threading.RLock()
        self._encoder: TextEncoder | None = None
        self._model_id: str | None = None
        forget_in_child(self)

    def forget(self) -> None:
        """Drop the loaded model: after a fork, its threads exist only in the parent."""
        abandon(self._encoder)
        self._encoder, self._lock = None, threading.RLock()

    @property
    def model_id(self) -> str:
        """The model's name; with a mark if prefixes change its vectors."""
        with self._lock:
            if self._model_id is None:
                self._model_id = self._name() + self._prefixes.mark
            return self._model_id

    @property
    def dimension(self) -> int:
        """Length of a vector, read from the model."""
        with self._lock:
            return self._ready().dimension

    def embed_query(self, text: str) -> Sequence[float]:
        """Return the vector of a query."""
        return self._each([self._prefixes.query + text], lambda encoder: encoder.encode)[0]

    def embed_queries(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the vector of each query."""
        return self._each([self._prefixes.query + text for text in texts], lambda encoder: encoder.encode)

    def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector per text; texts of similar length are batched, so that there is little padding."""
        return self._each([self._prefixes.document + text for text in texts], lambda encoder: encoder.encode)

    def _each(
        self, texts: Sequence[str], pick: Callable[[TextEncoder], Callable[[Sequence[str]], Sequence[R]]]
    ) -> list[R]:
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        by_place: dict[int, R] = {}
        for start in range(0, len(order), self._batch_size):
            places = order[start : start + self._batch_size]
            with self._lock:
                encode = pick(self._ready())
                vectors = self._ours(lambda: encode([texts[place] for place in places]))  # noqa: B023  called here
            by_place.update(zip(places, vectors, strict=True))
        return [by_place[place] for place in range(len(texts))]

    def _ready(self) -> TextEncoder:
        if self._encoder is None:
            self._encoder = self._ours(self._load)
            logger.info("embedding model %s is loaded, dimension %d", self.model_id, self._encoder.dimension)
        return self._encoder

    def _ours(self, call: Callable[[], R]) -> R:
        try:
            return call()
        except ContextEngineError:
            raise
        except Exception as error:
            logger.debug("embedding model failed", exc_info=error)
            raise EmbedderError(f"the embedding model failed with {type(error).__name__}") from error


class LocalEmbedder(LocalTextEmbedder):
    """A local text embedder whose model, an `Encoder`, also gives a vector of each token."""

    def embed_tokens(self, texts: Sequence[str], *, query: bool = False) -> Sequence[TokenVectors]:
        """Return the tokens of each text with a vector each, including those of a prefix."""
        prefix = self._prefixes.query if query else self._prefixes.document
        return self._each([prefix + text for text in texts], lambda encoder: cast(Encoder, encoder).encode_tokens)
