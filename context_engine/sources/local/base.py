"""The embedded knowledge base: SQLite holds the truth, tantivy an index derived from it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import tantivy
from tantivy import Occur, Query

from context_engine.errors import StoreError
from context_engine.models import Chunk, Filter, Score, ScoreKind, SourceAnswer
from context_engine.policy.filters import matches, own_fields
from context_engine.sources.local import index as indexing
from context_engine.sources.local import schema
from context_engine.sources.local.pushdown import Pushdown, Standing, in_force
from context_engine.sources.local.reader import Pool, View, Viewer
from context_engine.sources.local.records import decode
from context_engine.sources.local.verify import VerifyReport, verify
from context_engine.sources.local.writer import Writer

__all__ = ["BaseStats", "LocalBase", "SourceStats"]

_MOST_HITS = 100_000
_MOST_PARAMETERS = 900


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
    """

    def __init__(self, path: Path, *, now: Callable[[], datetime] = utc_now) -> None:
        self.path = Path(path)
        self._now = now
        self._pool = Pool(self.path)
        self._viewer = Viewer(self.path, self._pool)

    @classmethod
    def open(cls, path: Path, *, create: bool = False, now: Callable[[], datetime] = utc_now) -> LocalBase:
        """Return the base in a folder, after a look at its state.

        Args:
            path: folder of the base.
            create: make an empty one where there is none.
            now: the time, aware.

        Raises:
            StoreError: there is none, or it cannot be opened.
            StoreVersionMismatch: the tables are of another version.
        """
        base = cls(path, now=now)
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
        return Writer(self.path, now=self._now)

    def rebuild(self) -> None:
        """Build the index anew from the rows; readers use the old one until it is done.

        Raises:
            StoreLocked: a writer is at work.
            StoreError: the base cannot be written.
        """
        if not self.exists():
            raise schema.missing(self.path)
        Writer(self.path, now=self._now, rebuild=True).close()

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
        return list(self.answer(query_text, source_id=source_id, top_k=top_k, filters=filters, as_of=as_of).chunks)

    def answer(
        self,
        query_text: str,
        *,
        source_id: str,
        top_k: int,
        filters: Filter | None = None,
        as_of: date | None = None,
        constants: Mapping[str, Any] | None = None,
        standing: Standing | None = None,
    ) -> SourceAnswer:
        """Return the best chunks of one source by BM25, and notes on the search.

        Args:
            query_text: any text; its terms are searched for, nothing in it is syntax.
            source_id: the source searched.
            top_k: most chunks returned, >= 1.
            filters: conditions on the chunks; those on tier, type, trust and classification need `standing`, and are
                left to the engine without it.
            as_of: only what is in force on that day.
            constants: further fields that are the same for every chunk of the source (the domain).
            standing: from what a document claims to its standing.

        Returns:
            Chunks, best first, scores comparable over all sources of this base. Notes: no_search_terms (nothing to
            search for), query_shortened (more than MOST_TERMS terms), index_lag (the latest commit is not searchable
            yet), source_unknown (the base has never held the source).

        Raises:
            StoreError: the base cannot be read.
        """
        text = indexing.text_query(query_text)
        with self._viewer.view() as view:
            notes = ["index_lag"] if view.held < view.state.generation else []
            source_key = _source_key(view, source_id)
            if source_key is None:
                return SourceAnswer(notes=(*notes, "source_unknown"))
            if text is None:
                return SourceAnswer(notes=(*notes, "no_search_terms"))
            notes += ["query_shortened"] if text.shortened else []
            known = {**(constants or {}), "source_id": source_id, "source": source_id}
            query, test = _narrowed(view, text.query, source_key, filters, as_of, known, standing)
            return SourceAnswer(chunks=_found(view, query, test, top_k), notes=tuple(notes))

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


def _source_key(view: View, source_id: str) -> int | None:
    row = view.connection.execute("SELECT source_key FROM sources WHERE source_id = ?", (source_id,)).fetchone()
    return None if row is None else int(row[0])


def _narrowed(
    view: View,
    text: Query,
    source_key: int,
    filters: Filter | None,
    as_of: date | None,
    constants: Mapping[str, Any],
    standing: Standing | None,
) -> tuple[Query, Callable[[Chunk], bool] | None]:
    """Return the whole query, and a test for what the index cannot tell."""
    clauses = [(Occur.Must, text), (Occur.Must, _unscored(Query.term_query(indexing.SCHEMA, "source", source_key)))]
    test = None
    if filters is not None:
        pushdown = Pushdown(view.connection, constants, standing)
        clauses.append((Occur.Must, _unscored(pushdown.query(filters))))
        if not pushdown.exact and standing is not None:
            stand = standing

            def test(chunk: Chunk) -> bool:
                return matches(filters, {**own_fields(chunk), **stand(chunk), **constants})

    if as_of is not None:
        clauses += in_force(as_of)
    return Query.boolean_query(clauses), test


def _unscored(query: Query) -> Query:
    return Query.const_score_query(query, 0.0)


def _found(view: View, query: Query, test: Callable[[Chunk], bool] | None, top_k: int) -> list[Chunk]:
    """Return the best top_k chunks; asks for more while rows are gone or fail the test."""
    limit, known = top_k, dict[int, Chunk | None]()
    scorer = f"local:{view.state.base_id}"
    while True:
        hits = _hits(view.searcher, query, limit)
        known |= _chunks(view.connection, [rid for rid, _ in hits if rid not in known], test)
        found = [
            chunk._replace(scores=(Score(ScoreKind.BM25, score, scorer),))
            for rid, score in hits
            if (chunk := known[rid]) is not None
        ]
        if len(found) >= top_k or len(hits) < limit or limit >= _MOST_HITS:
            return found[:top_k]
        limit = min(4 * limit, _MOST_HITS)


def _hits(searcher: tantivy.Searcher, query: Query, limit: int) -> list[tuple[int, float]]:
    """Return (rid, score), best first, of equal scores the older row first."""
    hits = searcher.search(query, limit=limit, count=False).hits
    rids = searcher.fast_field_values("rid", [address for _, address in hits])
    return sorted(zip((int(rid or 0) for rid in rids), (score for score, _ in hits)), key=lambda hit: (-hit[1], hit[0]))


def _chunks(
    connection: sqlite3.Connection, rids: list[int], test: Callable[[Chunk], bool] | None
) -> dict[int, Chunk | None]:
    """Return the chunk of each row, None where the row is gone or fails the test."""
    out: dict[int, Chunk | None] = dict.fromkeys(rids)
    for start in range(0, len(rids), _MOST_PARAMETERS):
        some = rids[start : start + _MOST_PARAMETERS]
        rows = connection.execute(
            "SELECT rid, indexed_at, chunk_id, content, fields FROM chunks JOIN documents USING (doc_key)"
            f" WHERE rid IN ({','.join('?' * len(some))})",
            some,
        )
        for rid, indexed_at, *row in rows:
            chunk = decode((row[0], row[1], row[2]), indexed_at)
            out[rid] = chunk if test is None or test(chunk) else None
    return out


def _size(root: Path) -> int:
    total = 0
    for path in root.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue
    return total
