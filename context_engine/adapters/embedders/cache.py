"""Cached embeddings: recent queries in memory, passages on disk by the hash of their text."""

from __future__ import annotations

import logging
import sqlite3
import threading
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final

from cachetools import LRUCache
from pydantic import Field

from context_engine.adapters.model_access import ModelContext, Options
from context_engine.core.concurrency.forking import abandon, forget_in_child
from context_engine.core.protocols import Embedder, QueryBatchEmbedder, TokenEmbedder, TokenVectors


def embedded_queries(embedder: Embedder, texts: Sequence[str]) -> Sequence[Sequence[float]]:
    """Return the vector of each query: in batches if the embedder supports them, else one by one.

    Raises:
        EmbedderError: the model cannot be loaded, or gave nothing.
    """
    if isinstance(embedder, QueryBatchEmbedder):
        return embedder.embed_queries(texts)
    return [embedder.embed_query(text) for text in texts]


logger = logging.getLogger(__name__)
QUERIES_KEPT: Final = 1024
_AT_ONCE: Final = 500  # parameters of one SQLite statement; old builds allow 999


class CacheOptions(Options):
    """Options that every embedder of this package has.

    Attributes:
        query_cache: number of query vectors kept in memory; 0 for none.
        cache: keep the vectors of passages on disk, so that indexing again embeds only what is new.
        cache_file: the path of the cache; `embeddings.sqlite` in the data folder if None.
    """

    query_cache: Annotated[int, Field(ge=0, le=1_000_000)] = QUERIES_KEPT
    cache: bool = True
    cache_file: Path | None = None


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What a cache has saved since it was opened, in texts, not calls."""

    query_hits: int = 0
    query_misses: int = 0
    document_hits: int = 0
    document_misses: int = 0


class VectorFile:
    """Vectors by key in one SQLite file, as 32-bit floats; several processes may use it.

    If the file cannot be read or written, that is logged once and the file is no longer used: a cache may fail, a
    search must not.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._open: sqlite3.Connection | None = None
        self._broken = False
        forget_in_child(self)

    def forget(self) -> None:
        """Drop the open file: a SQLite connection may be neither used nor closed in a forked child."""
        abandon(self._open)
        self._open, self._lock = None, threading.Lock()

    def get(self, keys: Sequence[bytes]) -> dict[bytes, array[float]]:
        """Return the known vectors among these keys."""
        out: dict[bytes, array[float]] = {}
        with self._lock, self._guard():
            for start in range(0, len(keys), _AT_ONCE):
                part = keys[start : start + _AT_ONCE]
                marks = ",".join("?" * len(part))
                rows = self._database().execute(f"SELECT key, vector FROM vectors WHERE key IN ({marks})", part)
                out.update((key, _floats(vector)) for key, vector in rows)
        return out

    def put(self, vectors: dict[bytes, array[float]]) -> None:
        with self._lock, self._guard():
            rows = [(key, vector.tobytes()) for key, vector in vectors.items()]
            database = self._database()
            with database:
                database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._open is not None:
                self._open.close()
                self._open = None

    def _database(self) -> sqlite3.Connection:
        if self._broken:
            raise sqlite3.OperationalError("not used any more")
        if self._open is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._open = sqlite3.connect(self._path, timeout=5.0, check_same_thread=False)
            self._open.execute("PRAGMA journal_mode=WAL")
            self._open.execute("PRAGMA synchronous=NORMAL")
            self._open.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID")
        return self._open

    def _guard(self) -> suppress:
        return _LoggedFailure(self)

    def failed(self, error: BaseException) -> None:
        if not self._broken:
            self._broken = True
            logger.warning("the embedding cache %s is not used: %s; delete it to start a new one", self._path, error)


class _LoggedFailure(suppress):
    """Suppresses errors of the vector file and reports them to it."""

    def __init__(self, file: VectorFile) -> None:
        super().__init__(sqlite3.Error, OSError, ValueError)
        self._file = file

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        suppressed = super().__exit__(kind, error, trace)  # type: ignore[arg-type]
        if suppressed and error is not None:
            self._file.failed(error)
        return bool(suppressed)


class CachedEmbedder:
    """An embedder with a cache: the last queries in memory, passages in a file.

    All vectors are rounded to 32 bits, cached or not, so that the cache changes no result.

    Args:
        queries: number of query vectors kept, least recently used dropped first; 0 for none.
        file: of passages; None for none.
    """

    def __init__(self, embedder: Embedder, *, queries: int = QUERIES_KEPT, file: VectorFile | None = None) -> None:
        self._embedder, self._most, self._file = embedder, queries, file
        self._counts = [0, 0, 0, 0]
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Empty the cache, and wait for no vector in progress: in a forked child nobody computes it."""
        self._lock = threading.Lock()
        self._queries: LRUCache[str, list[float]] = LRUCache(self._most)
        self._asked: dict[str, Future[list[float]]] = {}

    @property
    def inner(self) -> Embedder:
        """The wrapped embedder."""
        return self._embedder

    @property
    def model_id(self) -> str:
        """The embedder's."""
        return self._embedder.model_id

    @property
    def dimension(self) -> int:
        """The embedder's."""
        return self._embedder.dimension

    @property
    def stats(self) -> CacheStats:
        """Hits and misses so far."""
        with self._lock:
            return CacheStats(*self._counts)

    def embed_query(self, text: str) -> Sequence[float]:
        """Return the vector of a query; concurrent calls for the same query compute it once."""
        with self._lock:
            known, made = self._queries.get(text), self._asked.get(text)
            self._counts[0 if known is not None or made is not None else 1] += 1
            if known is not None:
                return list(known)
            mine = made is None
            if made is None:
                made = self._asked[text] = Future()
        return list(self._make(text, made) if mine else made.result())

    def _make(self, text: str, made: Future[list[float]]) -> list[float]:
        try:
            vector = array("f", self._embedder.embed_query(text)).tolist()
        except BaseException as error:
            with self._lock:
                del self._asked[text]
            made.set_exception(error)
            raise
        with self._lock:
            if self._most:
                self._queries[text] = vector
            del self._asked[text]
        made.set_result(vector)
        return vector

    def embed_queries(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector per query, cached in the file like passages, because training asks the same queries
        often.
        """
        return self._kept(texts, f"query\0{self._embedder.model_id}", partial(embedded_queries, self._embedder))[0]

    def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector per text; the same text twice is embedded once."""
        vectors, new = self._kept(texts, self._embedder.model_id, self._embedder.embed_documents)
        with self._lock:
            self._counts[2] += len(texts) - new
            self._counts[3] += new
        return vectors

    def _kept(
        self, texts: Sequence[str], apart: str, embed: Callable[[Sequence[str]], Sequence[Sequence[float]]]
    ) -> tuple[list[list[float]], int]:
        """Return one vector per text, from the file if cached, and the number of texts that were not."""
        keys = [sha256(f"{apart}\0{text}".encode("utf-8", "surrogatepass")).digest() for text in texts]
        known = self._file.get(list(dict.fromkeys(keys))) if self._file is not None else {}
        new = {key: text for key, text in zip(keys, texts) if key not in known}
        if new:
            fresh = {key: array("f", vector) for key, vector in zip(new, embed(list(new.values())), strict=True)}
            if self._file is not None:
                self._file.put(fresh)
            known |= fresh
        return [known[key].tolist() for key in keys], len(new)


class _CachedTokenEmbedder(CachedEmbedder):
    """The same for an embedder with token vectors, which are not cached: they are two hundred times larger."""

    def embed_tokens(self, texts: Sequence[str], *, query: bool = False) -> Sequence[TokenVectors]:
        inner = self.inner
        assert isinstance(inner, TokenEmbedder)
        return inner.embed_tokens(texts, query=query)


def cached(embedder: Embedder, options: CacheOptions, context: ModelContext) -> CachedEmbedder:
    """Return an embedder with the caches of its options."""
    file = VectorFile(options.cache_file or context.data_dir() / "embeddings.sqlite") if options.cache else None
    kind = _CachedTokenEmbedder if isinstance(embedder, TokenEmbedder) else CachedEmbedder
    return kind(embedder, queries=options.query_cache, file=file)


def _floats(data: bytes) -> array[float]:
    out: array[float] = array("f")
    out.frombytes(data)
    return out
