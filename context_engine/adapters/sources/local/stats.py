"""Statistics of a base."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from context_engine.adapters.sources.local import schema
from context_engine.adapters.sources.local.partitions import Partition, adapter_rows, partitions, read_all, readable
from context_engine.core.models import AccessScope, Classification, ScopeCalibration, StoredAdapter


class BaseContents(NamedTuple):
    """The size of a base and the versions that wrote it.

    Attributes:
        schema_version: of its tables.
        generation: number of commits.
    """

    schema_version: int
    base_id: str
    generation: int
    documents: int
    chunks: int


class SourceStats(NamedTuple):
    """The size of one source."""

    documents: int
    chunks: int


class PartCalibration(NamedTuple):
    """The scope threshold of a domain in one partition."""

    domain: str
    partition: int
    calibration: ScopeCalibration


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStats:
    """The documents that the same callers may read.

    Attributes:
        rules: access rules of its sources, as canonical text; "" if they have none.
        classification: the clearance needed, or None.
        sources: those with documents in it.
    """

    key: int
    rules: str
    classification: Classification | None
    sources: tuple[str, ...]
    documents: int
    chunks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseStats:
    """The statistics of a base.

    Attributes:
        bytes: size on disk, database and index.
        generation: number of commits.
        index_generation: the indexed commit; None if this version cannot read the index.
        lag: commits the index is behind, or None if unknown.
        schema_version: of the tables; below this program's, the base is older and is only read.
        model_id: of the embedder that made the vectors, or None.
        dimension: length of a vector; 0 without vectors.
        vector_form: float32 or int8; None without vectors.
        embedded: chunks that have vectors.
        calibrations: by domain, embedder and partition.
        adapters: by domain, oldest first.
        partitions: the one open to all callers first.
        cells: number of cells for approximate search; 0: all searches are exact.
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
    model_id: str | None
    dimension: int
    vector_form: str | None
    embedded: int
    cells: int
    calibrations: tuple[PartCalibration, ...] = ()
    adapters: tuple[StoredAdapter, ...] = ()
    partitions: tuple[PartitionStats, ...] = ()


def read_contents(connection: sqlite3.Connection) -> BaseContents:
    """Return the size of a base of any version."""
    version = schema.version_of(connection)
    base_id, generation = connection.execute("SELECT base_id, generation FROM state").fetchone()
    documents, chunks = connection.execute(
        "SELECT count(*), coalesce(sum(chunk_count), 0) FROM documents WHERE removed IS NULL"
    ).fetchone()
    return BaseContents(version, base_id, generation, documents, chunks)


def read_stats(connection: sqlite3.Connection, root: Path, generation: int | None) -> BaseStats:
    """Return the statistics of a base.

    Args:
        generation: the indexed generation, or None if the index is unreadable.
    """
    state, model = schema.read_state(connection, root), schema.model_of(connection)
    parts = partitions(connection)
    rows = connection.execute(
        "SELECT source_id, count(doc_key), coalesce(sum(chunk_count), 0) FROM sources"
        " LEFT JOIN documents USING (source_key) WHERE removed IS NULL GROUP BY source_id ORDER BY source_id"
    ).fetchall()
    embedded, cells = connection.execute(
        "SELECT (SELECT count(*) FROM vectors JOIN chunks USING (rid) JOIN documents USING (doc_key)"
        " WHERE removed IS NULL), coalesce((SELECT sum(length(matrix)) FROM centroids), 0)"
    ).fetchone()
    sources = {source: SourceStats(documents, chunks) for source, documents, chunks in rows}
    return BaseStats(
        path=str(root),
        base_id=state.base_id,
        documents=sum(source.documents for source in sources.values()),
        chunks=sum(source.chunks for source in sources.values()),
        bytes=_size(root),
        sources=sources,
        generation=state.generation,
        index_generation=generation,
        lag=None if generation is None else max(0, state.generation - generation),
        schema_version=schema.version_of(connection),
        analyser_version=state.analyser,
        model_id=model.model_id if model else None,
        dimension=model.dimension if model else 0,
        vector_form=model.form if model else None,
        embedded=embedded,
        cells=cells // (4 * model.dimension) if model else 0,
        calibrations=tuple(PartCalibration(*calibration[:3]) for calibration in read_all(connection)),
        adapters=tuple(adapter_rows(connection).stored([part.key for part in parts])),
        partitions=tuple(_partition(connection, part) for part in parts),
    )


def read_held(connection: sqlite3.Connection, access: AccessScope | None) -> Mapping[str, SourceStats]:
    """Return the readable size of each source; empty sources are omitted. `access` None admits everything."""
    return _held(connection, [part.key for part in readable(connection, access)])


def _partition(connection: sqlite3.Connection, partition: Partition) -> PartitionStats:
    sources = _held(connection, [partition.key])
    return PartitionStats(
        key=partition.key,
        rules=partition.holds.rules,
        classification=partition.holds.classification,
        sources=tuple(sources),
        documents=sum(source.documents for source in sources.values()),
        chunks=sum(source.chunks for source in sources.values()),
    )


def _held(connection: sqlite3.Connection, partitions: Sequence[int]) -> dict[str, SourceStats]:
    rows = connection.execute(
        "SELECT source_id, count(*), sum(chunk_count) FROM documents JOIN sources USING (source_key)"
        f" WHERE removed IS NULL AND partition_key IN ({', '.join('?' * len(partitions))})"
        " GROUP BY source_id ORDER BY source_id",
        partitions,
    )
    return {source: SourceStats(documents, chunks) for source, documents, chunks in rows}


def _size(root: Path) -> int:
    total = 0
    for path in root.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue
    return total
