"""The contents of a base: chunks by id, statistics, version, verification."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from context_engine.adapters.sources.local import schema, whole_documents
from context_engine.adapters.sources.local.partitions import adapter_rows, is_placed, readable
from context_engine.adapters.sources.local.reader import Pool, Viewer
from context_engine.adapters.sources.local.schema import BaseState, model_of
from context_engine.adapters.sources.local.view import fetched
from context_engine.adapters.sources.stores.chunk_rows import SourcePlace, decode
from context_engine.adapters.sources.stores.scope import PlacementCheck
from context_engine.core.models import AccessScope, Chunk, ClassCalibration, WholeDocument
from context_engine.errors import StoreError

_CALIBRATIONS: Final = (
    "SELECT * FROM calibrations WHERE partition_key IN (SELECT value FROM json_each(:partitions))"
    " ORDER BY domain, model_id, partition_key"
)


def version_of(connection: sqlite3.Connection, state: BaseState, access: AccessScope | None) -> str:
    """Return the version of a base in a snapshot as one caller sees it, 64 hex digits.

    It changes with every write that may change an answer, and no other. A write where the caller may not read leaves it
    unchanged: otherwise a caller could tell from the age of answers in the cache that somebody wrote there.

    Args:
        state: read in the same snapshot; its generation is left out, since every write raises it.
        access: of the caller; None admits everything.
    """
    parts = readable(connection, access)
    keys = [part.key for part in parts]
    calibrations = connection.execute(_CALIBRATIONS, {"partitions": json.dumps(keys)}).fetchall()
    learnt = (calibrations, adapter_rows(connection).version(keys))
    seen = (state.base_id, state.index_number, state.analyser, model_of(connection), parts, learnt)
    return hashlib.sha256(repr(seen).encode()).hexdigest()


if TYPE_CHECKING:  # a search needs none of these
    from context_engine.adapters.sources.local.stats import BaseContents, BaseStats, SourceStats
    from context_engine.adapters.sources.local.verify import VerifyReport

_CHUNKS_OF: Final = (
    "SELECT chunk_id, content, fields, indexed_at FROM chunks JOIN documents USING (doc_key)"
    " JOIN sources USING (source_key) WHERE source_id = ? AND removed IS NULL"
)


class Holdings:
    """The methods of a `LocalBase` that read it without a question."""

    path: Path
    _pool: Pool
    _viewer: Viewer
    _placement: PlacementCheck

    if TYPE_CHECKING:

        def _snapshot(self) -> AbstractContextManager[sqlite3.Connection]: ...

    def get(self, source_id: str, chunk_id: str) -> Chunk | None:
        """Return a chunk by its id, or None."""
        with self._snapshot() as connection:
            row = connection.execute(f"{_CHUNKS_OF} AND chunk_id = ?", (source_id, chunk_id)).fetchone()
        return None if row is None else decode(row[:3], row[3])

    def chunks(self, source_id: str) -> Iterator[Chunk]:
        """Yield every chunk of a source in one snapshot; none if the source is unknown.

        Raises:
            StoreError: the base is missing or unreadable.
        """
        with self._snapshot() as connection:
            try:
                for chunk_id, content, fields, indexed_at in connection.execute(_CHUNKS_OF, (source_id,)):
                    yield decode((chunk_id, content, fields), indexed_at)
            except sqlite3.DatabaseError as error:
                raise schema.unusable(self.path, error) from error

    def document_hashes(self, source_id: str) -> Mapping[tuple[str, str], str]:
        """Return the hash of each document of a source, in the order of writing (`Copyable`)."""
        with self._snapshot() as connection:
            return whole_documents.document_hashes(connection, source_id)

    def stored_documents(self, source_id: str, keys: Sequence[tuple[str, str]]) -> Iterator[WholeDocument | None]:
        """Yield documents as they are stored (`Copyable`)."""
        with self._snapshot() as connection:
            yield from whole_documents.stored_documents(connection, source_id, keys)

    def class_calibrations(self, domain: str) -> list[ClassCalibration]:
        """Return the calibrations of a domain for each scorer and partition (`Copyable`)."""
        with self._snapshot() as connection:
            return whole_documents.class_calibrations(connection, domain)

    def fetch(
        self,
        source_id: str,
        *,
        chunk_ids: Sequence[str] = (),
        document_ids: Sequence[str] = (),
        access: AccessScope | None = None,
        place: SourcePlace | None = None,
    ) -> list[Chunk]:
        """Return the chunks with some ids and of some documents in one snapshot, each once.

        Args:
            access: of the caller; None admits everything.
            place: where the source's documents belong; None if unknown.

        Raises:
            RepartitionRequired: documents of the source are where former rules put them.
            StoreError: the base is missing or unreadable.
        """
        with self._pool.snapshot() as connection:
            state = schema.read_state(connection, self.path)
            self._placement.require(source_id, place, state, partial(is_placed, connection, source_id))
            try:
                return fetched(connection, source_id, chunk_ids=chunk_ids, document_ids=document_ids, access=access)
            except sqlite3.DatabaseError as error:
                raise schema.unusable(self.path, error) from error

    def version(self, access: AccessScope | None, timeout_s: float) -> str:
        """Return the version of what a caller may read (`Versioned`).

        Args:
            timeout_s: not needed: a few rows of a local file are read.

        Raises:
            StoreError: the base is missing or unreadable.
        """
        with self._pool.snapshot() as connection:
            state = schema.read_state(connection, self.path)
            try:
                return version_of(connection, state, access)
            except sqlite3.DatabaseError as error:
                raise schema.unusable(self.path, error) from error

    def stats(self) -> BaseStats:
        """Return the statistics of the base, also if its index is unreadable.

        Raises:
            StoreError: the database is unreadable.
        """
        from context_engine.adapters.sources.local.stats import read_stats

        try:
            with self._viewer.view() as view:
                generation: int | None = view.held
        except StoreError:
            generation = None
        with self._snapshot() as connection:
            return read_stats(connection, self.path, generation)

    def held(self, access: AccessScope | None = None) -> Mapping[str, SourceStats]:
        """Return the readable size of each source; empty sources are omitted. `access` None admits everything.

        Raises:
            StoreError: the database is unreadable.
        """
        from context_engine.adapters.sources.local.stats import read_held

        with self._snapshot() as connection:
            return read_held(connection, access)

    def copy_to(self, data_dir: Path) -> None:
        """Copy the rows as they stand at one moment; the first writer builds the copy's index (`AccessProvable`).

        Args:
            data_dir: the copy is made in the folder below it that is named like the base's.

        Raises:
            StoreError: there is no base, or it cannot be read.
        """
        self._copy_rows(data_dir / self.path.name)

    def copy_with_index_to(self, data_dir: Path) -> None:
        """Copy the rows with the index that they have, so that a change counts in the copy as it would here.

        The index comes first: it may lag behind the rows, and the copy's first writer catches up (`Rehearsable`).

        Args:
            data_dir: as of `copy_to`.

        Raises:
            StoreError: there is no base, or it cannot be read.
        """
        from context_engine.adapters.sources.local.index_sync import copy_indexes

        target = data_dir / self.path.name
        copy_indexes(self.path, target)
        self._copy_rows(target)

    def _copy_rows(self, target: Path) -> None:
        from context_engine.settings.sqlite_copy import copy_database

        if not schema.exists(self.path):
            raise schema.missing(self.path)
        target.mkdir(parents=True, exist_ok=True)
        try:
            copy_database(self.path / schema.DATABASE, target / schema.DATABASE)
        except sqlite3.DatabaseError as error:
            raise schema.unusable(self.path, error) from error

    def contents(self) -> BaseContents:
        """Return the size and the versions of the base, of any version of its tables.

        Raises:
            StoreError: the base is missing or unreadable.
        """
        from context_engine.adapters.sources.local.stats import read_contents

        with self._pool.snapshot() as connection:
            try:
                return read_contents(connection)
            except sqlite3.DatabaseError as error:
                raise schema.unusable(self.path, error) from error

    def verify(self) -> VerifyReport:
        """Check the consistency of the base; reads all of it.

        Raises:
            StoreError: the base is missing, or the database cannot be opened.
        """
        from context_engine.adapters.sources.local.verify import verify

        return verify(self.path, self._pool, self._viewer)
