"""An embedder behind the OpenAI embeddings API (POST /v1/embeddings), and the use of an embedder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite, sqrt
from typing import Annotated, Any, Final

from pydantic import Field

from context_engine.adapters.embedders.cache import CachedEmbedder, CacheOptions, cached
from context_engine.adapters.embedders.prefixes import chosen_prefixes
from context_engine.adapters.model_access import ModelContext, read_options
from context_engine.adapters.model_access.server import ModelServer, model_api, open_server
from context_engine.core.concurrency.forking import Lock
from context_engine.core.protocols import Embedder
from context_engine.errors import EmbedderError

BATCH_SIZE: Final = 100
EMBEDDINGS_API: Final = model_api("v1", max_bytes=64 * 1024 * 1024)
"""2048 texts of 1536 numbers, each of some 20 characters, are 60 MiB of JSON."""
_DIMENSIONS: Final = {"text-embedding-3-large": 3072, "text-embedding-3-small": 1536, "text-embedding-ada-002": 1536}


class OpenAIOptions(CacheOptions):
    """Options of the embedder `openai`.

    Attributes:
        connection: name of the connection; its base URL is a host, or ends where `/embeddings` follows.
        model: the server's name for the model.
        dimensions: request shorter vectors, if the model can give them.
        batch_size: texts in one call.
        attempts: calls for one batch before it counts as failed.
        price_per_million_tokens: price of a million tokens, for `usage`.
        query_prefix, document_prefix: override the known prefixes.
    """

    connection: Annotated[str, Field(min_length=1)]
    model: Annotated[str, Field(min_length=1)] = "text-embedding-3-large"
    dimensions: Annotated[int, Field(ge=1, le=65_536)] | None = None
    batch_size: Annotated[int, Field(ge=1, le=2048)] = BATCH_SIZE
    attempts: Annotated[int, Field(ge=1, le=20)] = 5
    price_per_million_tokens: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    query_prefix: str | None = None
    document_prefix: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """The requests to the server since it was opened; tokens by its own count, `cost` None without a price."""

    calls: int
    tokens: int
    cost: float | None


class OpenAIEmbedder:
    """Embeds through a server. Thread-safe."""

    def __init__(self, server: ModelServer, options: OpenAIOptions) -> None:
        self._server, self._options = server, options
        self._prefixes = chosen_prefixes(options.model, options.query_prefix, options.document_prefix)
        self._lock = Lock()
        self._dimension = options.dimensions or _DIMENSIONS.get(options.model)
        self._calls = self._tokens = 0

    @property
    def model_id(self) -> str:
        """The model's name, with requested dimensions, and a mark if prefixes change its vectors."""
        asked = f"/{self._options.dimensions}" if self._options.dimensions else ""
        return f"{self._options.model}{asked}{self._prefixes.mark}"

    @property
    def dimension(self) -> int:
        """Length of a vector; of an unknown model, measured with a call to the server."""
        if self._dimension is None:
            self._embed(["dimension"])
        assert self._dimension is not None
        return self._dimension

    @property
    def usage(self) -> Usage:
        """Calls, tokens and cost so far."""
        with self._lock:
            price = self._options.price_per_million_tokens
            cost = None if price is None else self._tokens * price / 1_000_000
            return Usage(self._calls, self._tokens, cost)

    def embed_query(self, text: str) -> Sequence[float]:
        """Return the vector of a query."""
        return self._all([text], self._prefixes.query)[0]

    def embed_queries(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the vector of each query, requested in batches."""
        return self._all(texts, self._prefixes.query)

    def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector per text, requested in batches."""
        return self._all(texts, self._prefixes.document)

    def _all(self, texts: Sequence[str], prefix: str) -> list[list[float]]:
        """Return one vector per text; an empty text, which the API refuses, gets a zero vector."""
        places = [place for place, text in enumerate(texts) if text.strip()]
        by_place: dict[int, list[float]] = {}
        for start in range(0, len(places), self._options.batch_size):
            part = places[start : start + self._options.batch_size]
            by_place.update(zip(part, self._embed([prefix + texts[place] for place in part])))
        empty = [0.0] * self.dimension if len(by_place) < len(texts) else []
        return [by_place.get(place, empty) for place in range(len(texts))]

    def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        body: dict[str, Any] = {"model": self._options.model, "input": list(texts), "encoding_format": "float"}
        if self._options.dimensions:
            body["dimensions"] = self._options.dimensions
        answer = self._server.post("embeddings", body)
        try:
            vectors = _vectors(answer, len(texts))
            tokens = int((answer.get("usage") or {}).get("total_tokens") or 0)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            raise EmbedderError("the embedding server gave an answer of another form than the embeddings API") from None
        with self._lock:
            self._calls, self._tokens = self._calls + 1, self._tokens + tokens
            if any(len(vector) != (self._dimension or len(vectors[0])) for vector in vectors):
                raise EmbedderError(f"the embedding server gave vectors of other than {self._dimension} dimensions")
            self._dimension = len(vectors[0])
        return vectors


def _vectors(answer: Any, count: int) -> list[list[float]]:
    """Return the unit vectors in the order of the texts; every text must be answered once."""
    rows = {int(row["index"]): [float(value) for value in row["embedding"]] for row in answer["data"]}
    if len(answer["data"]) != count or sorted(rows) != list(range(count)):
        raise ValueError
    return [_unit(rows[place]) for place in range(count)]


def _unit(vector: list[float]) -> list[float]:
    length = sqrt(sum(value * value for value in vector))
    if not vector or not isfinite(length):
        raise ValueError
    return [value / length for value in vector] if length else vector


def open_openai(options: Mapping[str, Any], context: ModelContext) -> Embedder:
    """Return an embedder behind the OpenAI embeddings API; nothing is sent yet."""
    chosen = read_options(OpenAIOptions, options)
    server = open_server(EMBEDDINGS_API, context, chosen.connection, _failed, attempts=chosen.attempts)
    return cached(OpenAIEmbedder(server, chosen), chosen, context)


def _failed(problem: str, later: bool) -> EmbedderError:
    return EmbedderError(f"embedding server: {problem}", retryable=later)


_LEAST_COST: Final = 0.0001


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderUse:
    """The use of an embedder since it was opened; None if unknown.

    Attributes:
        embedded: texts the model embedded, questions and passages.
        from_cache: texts found in the cache.
        tokens: as the server counted them.
        cost: in the currency of `price_per_million_tokens`.
    """

    embedded: int | None = None
    from_cache: int | None = None
    tokens: int | None = None
    cost: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return asdict(self)

    def __str__(self) -> str:
        parts = []
        if self.embedded is not None:
            parts.append(f"{self.embedded:,} {'text' if self.embedded == 1 else 'texts'} embedded")
        if self.from_cache is not None:
            parts.append(f"{self.from_cache:,} from the cache")
        if self.tokens is not None:
            parts.append(f"{self.tokens:,} {'token' if self.tokens == 1 else 'tokens'}")
        if self.cost is not None:
            tiny = 0.0 < self.cost < _LEAST_COST
            parts.append(f"cost below {_LEAST_COST}" if tiny else f"cost {self.cost:,.4f}")
        return "embedder: " + (", ".join(parts) or "it does not say what it did")


def embedder_use(embedder: Embedder) -> EmbedderUse:
    """Return the use of an embedder, cached or not, since it was opened.

    A text that appears twice in one call counts once as cached.
    """
    stats = embedder.stats if isinstance(embedder, CachedEmbedder) else None
    model = embedder.inner if isinstance(embedder, CachedEmbedder) else embedder
    usage = model.usage if isinstance(model, OpenAIEmbedder) else None
    return EmbedderUse(
        embedded=None if stats is None else stats.query_misses + stats.document_misses,
        from_cache=None if stats is None else stats.query_hits + stats.document_hits,
        tokens=None if usage is None else usage.tokens,
        cost=None if usage is None else usage.cost,
    )
