"""Token max-sim: for each token of the question the passage's most similar token, by the embedder's own token vectors.

    s = (sum over the question's tokens t of idf(t) * (max over the passage's tokens d of cos(t, d)) ** p
         / sum of idf(t)) ** (1 / p)

with p = 1, the mean, unless `power` says otherwise; a cosine below 0 counts as 0 in other powers. The score is s
normalised over the pool by `normalise_pool`, as stage 1's relevance is, because s alone differs by only a quarter
between the best and the worst of forty candidates. A single passage keeps s.

This is the late interaction of ColBERT (Khattab and Zaharia 2020) with a model that was not trained for it, weighted by
idf(t) = ln(1 + N / max(df(t), 1)) over the N passages at hand. It should be added to the first stage, never replace it:
`rerank_weight` is the share of the first stage. Measured with all-MiniLM-L6-v2 on 2 788 questions to financial
regulation, forty candidates of a hybrid first stage, weight .5: MAP@10 .685 -> .700 (paired 95 % interval of the gain
.011 to .021), R@10 .813 -> .817 (-.001 to .009). Forty cached passages cost 20 ms of one core, forty new ones seconds,
all of it their embedding: make `cache_mib` large enough for the whole base, or give the embedder a GPU. Needs the extra
`vectors` and an embedder with token vectors.

If the candidates were found under an adapter of the embedder's vectors (`core.models.VectorAdapter`), tokens are
compared under it too: tokens of a question are mapped by the question map, tokens of a passage by the passage map, and
all are normalised again.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from math import log
from typing import Annotated, Any, Final, cast

from cachetools import LRUCache
from pydantic import Field

from context_engine.adapters.model_access import ModelContext, Options, read_options
from context_engine.core.concurrency.forking import forget_in_child
from context_engine.core.models import Chunk, VectorAdapter, scorer_name
from context_engine.core.protocols import Embedder, Reranker, TokenEmbedder
from context_engine.core.ranking.relevance import normalise_pool
from context_engine.errors import ConfigError, EmbedderError, MissingExtra, RerankerError

CACHE_MIB: Final = 256
MEAN: Final = 1.0


class MaxSimOptions(Options):
    """Options of the reranker `max_sim`.

    Attributes:
        cache_mib: memory for the token vectors of known passages, MiB; a passage of 150 tokens takes 0.1 MiB at 384
            dimensions. 0 for none.
        power: p of the power mean over the question's tokens. The higher, the more the best-matching tokens count. A
            power of 4 improves retrieval in regulation and abstracts, and worsens it in an FAQ whose questions use
            other words than its answers: measure it on your own questions.
    """

    cache_mib: Annotated[int, Field(ge=0, le=1_000_000)] = CACHE_MIB
    power: Annotated[float, Field(ge=1.0, le=32.0)] = MEAN


class MaxSimReranker:
    """Scores passages by the max-sim of their tokens. Thread-safe; the arguments are those of `MaxSimOptions`.

    Raises:
        MissingExtra: numpy is not installed.
    """

    def __init__(self, embedder: TokenEmbedder, *, cache_mib: int = CACHE_MIB, power: float = MEAN) -> None:
        try:
            import numpy as np
        except ImportError as error:
            raise MissingExtra("reranker 'max_sim'", "vectors") from error
        self._numpy: Any = np
        self.name = "max_sim"
        self._embedder, self._power = embedder, power
        self._most = cache_mib * 1024 * 1024
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Drop the cache: at a fork another thread may have been changing it."""
        self._lock = threading.Lock()
        self._kept: LRUCache[bytes, tuple[frozenset[str], Any]] = LRUCache(
            self._most, lambda passage: passage[1].nbytes
        )

    def rerank(self, query: str, chunks: Sequence[Chunk]) -> Sequence[float] | None:
        """Return one score in [0, 1] per chunk; None for a question without tokens."""
        return self.rerank_under(None, query, chunks)

    def under(self, adapter: VectorAdapter) -> Reranker | None:
        """Return the reranker under an adapter of its embedder's vectors, None under another model's.

        The cache is shared: cached vectors are mapped when they are compared.
        """
        own = getattr(self._embedder, "model_id", None)
        return _UnderAdapter(self, adapter) if own == adapter.model_id else None

    def rerank_under(
        self, adapter: VectorAdapter | None, query: str, chunks: Sequence[Chunk]
    ) -> Sequence[float] | None:
        """Return the scores of `rerank`, with vectors mapped by an adapter; None: unmapped."""
        try:
            asked = self._embedder.embed_tokens([query], query=True)[0]
            passages = self._passages([chunk.content for chunk in chunks])
        except EmbedderError as error:
            raise RerankerError(str(error)) from error
        if not len(asked.tokens):
            return None
        np = self._numpy
        weights = np.array(_idf(asked.tokens, [tokens for tokens, _ in passages]), np.float32)
        question = self._mapped(np.asarray(asked.vectors, np.float32), adapter and adapter.query)
        scores = [self._score(question, weights, vectors, adapter and adapter.passage) for _, vectors in passages]
        return normalise_pool(scores) if len(scores) > 1 else scores

    def _score(self, question: Any, weights: Any, passage: Any, by: Any) -> float:
        if not len(passage):
            return 0.0
        best = (question @ self._mapped(passage.astype(self._numpy.float32), by).T).max(axis=1)
        if self._power != MEAN:
            best = best.clip(0.0) ** self._power
        mean = min(max(float(weights @ best / weights.sum()), 0.0), 1.0)
        return float(mean ** (1.0 / self._power))

    def _mapped(self, vectors: Any, by: Any) -> Any:
        """Multiply row vectors by a map and normalise them; None: return them as they are."""
        if by is None:
            return vectors
        mapped = vectors @ by
        lengths = self._numpy.linalg.norm(mapped, axis=1, keepdims=True)
        return mapped / self._numpy.where(lengths > 0.0, lengths, 1.0)

    def _passages(self, texts: Sequence[str]) -> list[tuple[frozenset[str], Any]]:
        """Return the distinct tokens and the vectors of each text, as 16-bit floats, cached or not."""
        keys = [sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
        with self._lock:
            known = {key: self._kept[key] for key in keys if key in self._kept}
        for key, text in {key: text for key, text in zip(keys, texts) if key not in known}.items():
            # One at a time: the last bits of a vector depend on the other texts of its batch, and other callers, who
            # may not read those texts, get the cached vectors. On a CPU a batch of one is also faster.
            ((tokens, vectors),) = self._embedder.embed_tokens([text])
            known[key] = (frozenset(tokens), self._numpy.asarray(vectors, self._numpy.float16))
            if known[key][1].nbytes <= self._most:
                with self._lock:
                    self._kept[key] = known[key]
        return [known[key] for key in keys]


class _UnderAdapter:
    def __init__(self, reranker: MaxSimReranker, adapter: VectorAdapter) -> None:
        self.name = scorer_name(reranker.name, adapter.adapter_id)
        self._reranker, self._adapter = reranker, adapter

    def rerank(self, query: str, chunks: Sequence[Chunk]) -> Sequence[float] | None:
        return self._reranker.rerank_under(self._adapter, query, chunks)


def _idf(tokens: Sequence[str], passages: Sequence[frozenset[str]]) -> list[float]:
    holders = Counter(token for passage in passages for token in passage)
    return [log(1.0 + len(passages) / max(holders[token], 1)) for token in tokens]


def open_max_sim(options: Mapping[str, Any], context: ModelContext) -> Reranker:
    """Return a max-sim reranker over the engine's embedder; nothing is loaded yet.

    Raises:
        ConfigError: no embedder is configured, or it gives no token vectors.
    """
    chosen = read_options(MaxSimOptions, options)
    embedder: Embedder = context.embedder()
    if not isinstance(embedder, TokenEmbedder):
        raise ConfigError(
            "reranker 'max_sim' needs token vectors, which this embedder does not give: use 'sentence_transformers' or "
            "'onnx' as embedder, or another reranker"
        )
    return MaxSimReranker(cast(TokenEmbedder, embedder), cache_mib=chosen.cache_mib, power=chosen.power)
