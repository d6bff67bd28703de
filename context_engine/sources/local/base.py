"""The embedded knowledge base: SQLite holds the truth, tantivy an index derived from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from context_engine.errors import ConfigError, StoreError
from context_engine.models import Chunk, Expansion, Filter, SourceAnswer
from context_engine.protocols import Embedder
from context_engine.sources.local import schema
from context_engine.sources.local.candidates import Question
from context_engine.sources.local.options import SearchOptions
from context_engine.sources.local.queries import text_query
from context_engine.sources.local.reader import Pool, Viewer
from context_engine.sources.local.records import decode
from context_engine.sources.local.search import Scope, answer
from context_engine.sources.local.verify import VerifyReport, verify
from context_engine.sources.local.writer import Writer

if TYPE_CHECKING:
    from context_engine.sources.local.loading import VectorCache

__all__ = ["BaseStats", "LocalBase", "SourceStats"]


class SourceStats(NamedTuple):
    """How much one source holds."""

    documents: int
    chunks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseStats:
    """What a base holds.

    Attributes:
        bytes: size on disk, database and index.
        generation: number of commits.
        index_generation: the commit the index holds; None where the index cannot be read by this version.
        lag: commits the index is behind; None where that is not known.
    """

    path: str
    base_id: str
    documents: int
    chunks: int
    bytes: int
    sources: Mapping[str, SourceStats]
    generation: int
    index_generation: int | None
    lag: int | None
    schema_version: int
    analyser_version: str


def utc_now() -> datetime:
    """Return the current moment, aware, UTC."""
    return datetime.now(UTC)


class LocalBase:
    """A knowledge base in a folder. Opened when first used, safe for many threads, readable while it is written.

    Args:
        path: folder of the base.
        now: the time, aware; stands in what is written.
        embedder: gives texts and questions their vectors; None: text search alone.
        options: how it is searched.

    Raises:
        ConfigError: an embedder without numpy.
    """

    def __init__(
        self,
        path: Path,
        *,
        now: Callable[[], datetime] = utc_now,
        embedder: Embedder | None = None,
        options: SearchOptions | None = None,
    ) -> None:
        self.path = Path(path)
        self.options = options or SearchOptions()
        self._now, self._embedder = now, embedder
        self._pool = Pool(self.path)
        self._viewer = Viewer(self.path, self._pool, None if embedder is None else _cache(embedder))

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        create: bool = False,
        now: Callable[[], datetime] = utc_now,
        embedder: Embedder | None = None,
        options: SearchOptions | None = None,
    ) -> LocalBase:
        """Return the base in a folder, after a look at its state.

        Args:
            path: folder of the base.
            create: make an empty one where there is none.
            now, embedder, options: see the class.

        Raises:
            StoreError: there is none, or it cannot be opened.
            StoreVersionMismatch: the tables are of another version.
        """
        base = cls(path, now=now, embedder=embedder, options=options)
        if create and not base.exists():
            base.writer().close()
        with base._pool.snapshot() as connection:
            schema.read_state(connection, base.path)
        return base

    def exists(self) -> bool:
        """Return whether there is a base in the folder."""
        return schema.exists(self.path)

    def writer(self) -> Writer:
        """Return the one writer, making the base where there is none.

        Raises:
            StoreLocked: another writer is at work.
            StoreError: the base cannot be written.
        """
        return Writer(self.path, now=self._now, embedder=self._embedder)

    def rebuild(self) -> int:
        """Build the index anew from the rows; readers use the old one until it is done.

        Rows that are not as they were written are left out, and the content hashes of their documents are forgotten.

        Returns:
            How many damaged documents stand to be ingested again.

        Raises:
            StoreLocked: a writer is at work.
            StoreError: the base cannot be written.
        """
        if not self.exists():
            raise schema.missing(self.path)
        writer = Writer(self.path, now=self._now, embedder=self._embedder, rebuild=True)
        writer.close()
        return writer.given_up

    def search(
        self,
        query_text: str,
        *,
        source_id: str,
        top_k: int,
        filters: Filter | None = None,
        as_of: date | None = None,
    ) -> list[Chunk]:
        """Return the chunks of `answer`."""
        scope = Scope(source_id=source_id, filters=filters, as_of=as_of)
        return list(self.answer(query_text, top_k=top_k, scope=scope).chunks)

    def answer(
        self, query_text: str, *, top_k: int, scope: Scope, expansions: Sequence[Expansion] = ()
    ) -> SourceAnswer:
        """Return the best chunks of one source, and notes on the search: by BM25, with an embedder by both legs merged.

        Args:
            query_text: any text; its terms are searched for, nothing in it is syntax.
            top_k: most chunks returned, >= 1.
            scope: where to look.
            expansions: other words for the text, searched for with their weights.

        Returns:
            Chunks, best first, scores comparable over all sources of this base. Notes: no_search_terms (nothing to
            search for), query_shortened (more than MOST_TERMS terms), index_lag (the latest commit is not searchable
            yet), no_vectors (an embedder is configured, the base was written without), source_unknown (the base has
            never held the source).

        Raises:
            EmbedderError: the model gave no vector for the query.
            StoreVersionMismatch: the base's vectors are of another model.
            StoreError: the base cannot be read.
        """
        vector = None if self._embedder is None else self._embedder.embed_query(query_text)
        question = Question(text_query(query_text, self.options, expansions), vector, self.options)
        with self._viewer.view() as view:
            return answer(view, question, top_k, scope)

    def get(self, source_id: str, chunk_id: str) -> Chunk | None:
        """Return a chunk by its id, None where the source has none of it."""
        with self._pool.snapshot() as connection:
            row = connection.execute(
                "SELECT chunk_id, content, fields, indexed_at FROM chunks JOIN documents USING (doc_key)"
                " JOIN sources USING (source_key) WHERE chunk_id = ? AND source_id = ? AND removed IS NULL",
                (chunk_id, source_id),
            ).fetchone()
        return None if row is None else decode(row[:3], row[3])

    def stats(self) -> BaseStats:
        """Return what the base holds, also where its index cannot be read.

        Raises:
            StoreError: the database cannot be read.
        """
        try:
            with self._viewer.view() as view:
                held: int | None = view.held
        except StoreError:
            held = None
        with self._pool.snapshot() as connection:
            state = schema.read_state(connection, self.path)
            rows = connection.execute(
                "SELECT source_id, count(doc_key), coalesce(sum(chunk_count), 0) FROM sources"
                " LEFT JOIN documents USING (source_key) WHERE removed IS NULL GROUP BY source_id ORDER BY source_id"
            ).fetchall()
        sources = {source: SourceStats(documents, chunks) for source, documents, chunks in rows}
        return BaseStats(
            path=str(self.path),
            base_id=state.base_id,
            documents=sum(one.documents for one in sources.values()),
            chunks=sum(one.chunks for one in sources.values()),
            bytes=_size(self.path),
            sources=sources,
            generation=state.generation,
            index_generation=held,
            lag=None if held is None else max(0, state.generation - held),
            schema_version=schema.SCHEMA_VERSION,
            analyser_version=state.analyser,
        )

    def verify(self) -> VerifyReport:
        """Return whether the base holds together; reads all of it.

        Raises:
            StoreError: there is no base, or the database cannot be opened at all.
        """
        return verify(self.path, self._pool, self._viewer)

    def close(self) -> None:
        """Let connections and files go; may be called twice, and a later call opens them again."""
        self._viewer.close()
        self._pool.close()

    def __enter__(self) -> LocalBase:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _cache(embedder: Embedder) -> VectorCache:
    try:
        from context_engine.sources.local.loading import VectorCache  # only here: it needs numpy
    except ImportError as error:
        raise ConfigError("an embedder needs numpy: pip install 'context-engine[vectors]'") from error
    return VectorCache(embedder.model_id)


def _size(root: Path) -> int:
    total = 0
    for path in root.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue
    return total
