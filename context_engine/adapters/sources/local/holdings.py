"""What a base holds: its chunks by their ids, their number, and whether they are as they were written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from context_engine.adapters.sources.local import schema
from context_engine.adapters.sources.local.partitions import PlacementCheck, SourcePlace
from context_engine.adapters.sources.local.reader import Pool, Viewer
from context_engine.adapters.sources.local.records import decode
from context_engine.adapters.sources.local.stats import BaseStats, SourceStats, read_held, read_stats
from context_engine.adapters.sources.local.verify import VerifyReport, verify
from context_engine.adapters.sources.local.view import fetched
from context_engine.core.models import AccessScope, Chunk
from context_engine.errors import StoreError

_CHUNKS_OF: Final = (
    "SELECT chunk_id, content, fields, indexed_at FROM chunks JOIN documents USING (doc_key)"
    " JOIN sources USING (source_key) WHERE source_id = ? AND removed IS NULL"
)


class Holdings:
    """The methods of a `LocalBase` that read it without a question.

    Attributes:
        path: folder of the base.
    """

    path: Path
    _pool: Pool
    _viewer: Viewer
    _placement: PlacementCheck

    if TYPE_CHECKING:

        def _snapshot(self) -> AbstractContextManager[sqlite3.Connection]: ...

    def get(self, source_id: str, chunk_id: str) -> Chunk | None:
        """Return a chunk by its id, None where the source has none of it."""
        with self._snapshot() as connection:
            row = connection.execute(f"{_CHUNKS_OF} AND chunk_id = ?", (source_id, chunk_id)).fetchone()
        return None if row is None else decode(row[:3], row[3])

    def chunks(self, source_id: str) -> Iterator[Chunk]:
        """Yield every chunk of a source, as they stood at one moment; none of a source the base does not hold.

        Raises:
            StoreError: there is no base, or it cannot be read.
        """
        with self._snapshot() as connection:
            try:
                for chunk_id, content, fields, indexed_at in connection.execute(_CHUNKS_OF, (source_id,)):
                    yield decode((chunk_id, content, fields), indexed_at)
            except sqlite3.DatabaseError as error:
                raise schema.unusable(self.path, error) from error

    def fetch(
        self,
        source_id: str,
        *,
        chunk_ids: Sequence[str] = (),
        document_ids: Sequence[str] = (),
        access: AccessScope | None = None,
        place: SourcePlace | None = None,
    ) -> list[Chunk]:
        """Return the chunks of some ids and of some documents, as they stand at one moment, each once.

        Args:
            source_id: the source; one the base does not hold has nothing.
            chunk_ids, document_ids: what is wanted.
            access: which classes of chunks may be read; None: all.
            place: where its documents belong; None: not known.

        Raises:
            RepartitionRequired: documents of the source stand where former rules put them.
            StoreError: there is no base, or it cannot be read.
        """
        with self._pool.snapshot() as connection:
            state = schema.read_state(connection, self.path)
            if place is not None:
                self._placement.require(connection, state, source_id, place)
            try:
                return fetched(connection, source_id, chunk_ids=chunk_ids, document_ids=document_ids, access=access)
            except sqlite3.DatabaseError as error:
                raise schema.unusable(self.path, error) from error

    def stats(self) -> BaseStats:
        """Return what the base holds, also where its index cannot be read.

        Raises:
            StoreError: the database cannot be read.
        """
        try:
            with self._viewer.view() as view:
                generation: int | None = view.held
        except StoreError:
            generation = None
        with self._snapshot() as connection:
            return read_stats(connection, self.path, generation)

    def held(self, access: AccessScope | None = None) -> Mapping[str, SourceStats]:
        """Return how much of each source a caller may read; empty sources are omitted.

        Args:
            access: of the caller; None: everything.

        Raises:
            StoreError: the database cannot be read.
        """
        with self._snapshot() as connection:
            return read_held(connection, access)

    def verify(self) -> VerifyReport:
        """Return whether the base holds together; reads all of it.

        Raises:
            StoreError: there is no base, or the database cannot be opened at all.
        """
        return verify(self.path, self._pool, self._viewer)
