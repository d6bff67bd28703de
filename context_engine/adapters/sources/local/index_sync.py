"""The writer's side of the indexes: they follow the rows, catch up after a crash, and are rebuilt if needed.

A commit touches only the indexes of the partitions that it changed, so that one partition leaves no trace in the files
of another.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sqlite3
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final

import tantivy
from tantivy import Query

from context_engine.adapters.sources.local import index as indexing
from context_engine.adapters.sources.local import schema
from context_engine.adapters.sources.local.embedding import part
from context_engine.adapters.sources.local.partitions import (
    OPEN,
    Move,
    Partition,
    forget_derived,
    forget_empty,
    moves,
    partition_key,
    partitions,
    set_generation,
)
from context_engine.adapters.sources.local.queries import Dictionary
from context_engine.adapters.sources.local.schema import BaseState
from context_engine.adapters.sources.local.view import give_up
from context_engine.adapters.sources.stores.chunk_rows import Place, decode

_PENDING: Final = """
SELECT rid, documents.doc_key, source_key, indexed_at, chunk_id, content, fields
FROM documents CROSS JOIN chunks ON chunks.doc_key = documents.doc_key
WHERE partition_key = ? AND generation > ? AND removed IS NULL
AND rid NOT IN (SELECT value FROM json_each(?)) ORDER BY documents.doc_key, rid
"""


class IndexSync:
    """Keeps the index of each partition at the rows' generation. Only the holder of the writer's lock has one.

    Args:
        root: folder of the base, created if missing.
        connection: the writer's, outside a transaction.
        rebuild: rebuild the indexes in any case.
        place: where the documents of each source belong; misplaced ones are moved, and the indexes that they leave and
            enter are rebuilt. None: nothing is moved.
        approximate_from: see `SearchOptions`.

    Attributes:
        state: the last state that the indexes followed.
        given_up: number of damaged documents found by a rebuild; the next ingestion writes them again.
        moved: number of documents moved to another partition.
    """

    def __init__(
        self,
        root: Path,
        connection: sqlite3.Connection,
        *,
        rebuild: bool,
        place: Place | None = None,
        approximate_from: int = 200_000,
    ) -> None:
        self._root, self._connection, self._approximate_from = root, connection, approximate_from
        self._dictionary = Dictionary(connection)
        self._indexes: dict[int, PartitionIndex] = {}
        self.given_up = self.moved = 0
        self.state = self._opened(rebuild, place)
        self.follow(self.state)
        self._clear_old(self.state.index_number)

    def prepare(self) -> None:
        """Create an empty index for each new partition, before the commit that shows it to readers."""
        for partition in partitions(self._connection):
            if partition.key not in self._indexes:
                path = indexing.directory(self._root, self.state.index_number, partition.key)
                generation = self.state.generation
                self._indexes[partition.key] = PartitionIndex.create(path, self.state.base_id, generation)

    def follow(self, state: BaseState) -> None:
        """Update the indexes to a state whose rows are committed; after an error the next call tries again."""
        self.state = state
        behind = [
            partition
            for partition in partitions(self._connection)
            if self._indexes[partition.key].held < partition.generation
        ]
        if behind:
            self._update(behind)
        self._connection.execute("DELETE FROM documents WHERE removed <= ?", (state.generation,))

    def rebuild(self) -> None:
        """Rebuild all indexes and the numbers of field values, so that no file holds words of deleted documents."""
        self.close()
        self.state = self._rebuilt(self.state, ())
        self._clear_old(self.state.index_number)

    def close(self) -> None:
        """Wait for merging segments, and close the indexes."""
        for index in self._indexes.values():
            index.close()

    def _update(self, behind: Sequence[Partition]) -> None:
        """Update lagging indexes; the numbers of new field values are committed first.

        All are staged before the first is committed, so that no partition is long ahead of another. Those that only
        gain documents come first: a document that moves is then found twice, which `search` handles, rather than never.
        """
        gone = {part.key: self._gone(part.key) for part in behind}
        try:
            with schema.transaction(self._connection):
                for key, removed in gone.items():
                    self._indexes[key].stage(removed, self._pending(key, self._indexes[key].held))
            for partition in sorted(behind, key=lambda part: bool(gone[part.key])):
                self._indexes[partition.key].commit(partition.generation)
        except BaseException:
            self._dictionary.forget()
            self.close()
            raise

    def _gone(self, partition_key: int) -> list[int]:
        indexed = self._indexes[partition_key].held
        rows = self._connection.execute(
            "SELECT doc_key FROM documents WHERE removed > ? AND partition_key = ?", (indexed, partition_key)
        )
        return [doc_key for (doc_key,) in rows]

    def _opened(self, rebuild: bool, place: Place | None) -> BaseState:
        if not schema.exists(self._root):
            return self._created()
        schema.upgrade(self._connection)
        state = schema.state_to_write(self._connection, self._root)
        elsewhere = list(moves(self._connection, place)) if place is not None else []
        if rebuild or state.analyser != indexing.INDEX_VERSION or not self._readable(state):
            return self._rebuilt(state, elsewhere)
        return self._rearranged(state, elsewhere) if elsewhere else state

    def _readable(self, state: BaseState) -> bool:
        """Open the index of every partition; return whether all could be opened."""
        for partition in partitions(self._connection):
            path = indexing.directory(self._root, state.index_number, partition.key)
            index = PartitionIndex.open(path, state.base_id, partition.generation)
            if index is None:
                return False
            self._indexes[partition.key] = index
        return True

    def _created(self) -> BaseState:
        state = BaseState(uuid.uuid4().hex, 0, 1, indexing.INDEX_VERSION)
        self._clear_old(None)
        path = indexing.directory(self._root, state.index_number, OPEN)
        self._indexes = {OPEN: PartitionIndex.create(path, state.base_id, state.generation)}
        with schema.transaction(self._connection):
            schema.create(self._connection, state)
        return state

    def _rebuilt(self, old: BaseState, elsewhere: Iterable[Move]) -> BaseState:
        """Build new indexes next to the old ones, then point to them; readers use the old ones until then.

        Damaged rows are left out, misplaced documents are moved.
        """
        self._clear_old(old.index_number)
        state = old._replace(index_number=old.index_number + 1, analyser=indexing.INDEX_VERSION)
        with schema.transaction(self._connection):
            self._connection.execute("DELETE FROM attributes")
            changed, self.given_up = give_up(self._connection)
            self._move(elsewhere, old.generation)
            part(
                self._connection, self._approximate_from, [partition.key for partition in partitions(self._connection)]
            )
            forget_empty(self._connection)
            self._indexes = {
                partition.key: self._built(state, partition, changed) for partition in partitions(self._connection)
            }
            schema.write_state(self._connection, state)
        return state

    def _rearranged(self, old: BaseState, elsewhere: Iterable[Move]) -> BaseState:
        """Move documents; rebuild the indexes that they leave and enter, and keep all others byte for byte.

        So documents hidden by a new rule no longer count in the statistics of their old partition, and hidden documents
        do not change the answers of other callers.
        """
        self._clear_old(old.index_number)
        state = old._replace(index_number=old.index_number + 1)
        with schema.transaction(self._connection):
            changed = self._move(elsewhere, old.generation)
            part(self._connection, self._approximate_from, changed)
            forget_empty(self._connection)
            self._indexes = {
                partition.key: self._built(state, partition, ())
                if partition.key in changed
                else self._copied(old, state, partition)
                for partition in partitions(self._connection)
            }
            schema.write_state(self._connection, state)
        return state

    def _copied(self, old: BaseState, state: BaseState, partition: Partition) -> PartitionIndex:
        before, path = (
            indexing.directory(self._root, index_state.index_number, partition.key) for index_state in (old, state)
        )
        return PartitionIndex.copied(before, path, state.base_id, self._indexes[partition.key].held)

    def _move(self, elsewhere: Iterable[Move], generation: int) -> set[int]:
        """Move documents and count them; return the keys of the partitions that they leave and enter."""
        changed: set[int] = set()
        for partition in elsewhere:
            key = partition_key(self._connection, partition.holds, generation)
            self.moved += self._connection.execute(
                "UPDATE documents SET partition_key = ?"
                " WHERE source_key = ? AND partition_key = ? AND claimed = ? AND removed IS NULL",
                (key, partition.source_key, partition.partition_key, partition.claimed),
            ).rowcount
            changed |= {partition.partition_key, key}
        set_generation(self._connection, generation, changed)
        forget_derived(self._connection, changed)
        return changed

    def _built(self, state: BaseState, partition: Partition, without: Iterable[int]) -> PartitionIndex:
        path = indexing.directory(self._root, state.index_number, partition.key)
        index = PartitionIndex.create(path, state.base_id, -1)
        index.stage((), self._pending(partition.key, -1, without))
        index.commit(partition.generation)
        index.close()
        return index

    def _pending(self, partition_key: int, indexed: int, without: Iterable[int] = ()) -> Iterator[tantivy.Document]:
        rows = self._connection.execute(_PENDING, (partition_key, indexed, json.dumps(sorted(without))))
        for (doc_key, source_key), group in groupby(rows, key=itemgetter(1, 2)):
            document = []
            for rid, _, _, indexed_at, *row in group:
                chunk = decode((row[0], row[1], row[2]), indexed_at)
                document.append(indexing.IndexRow(rid, chunk, self._dictionary.numbers(chunk)))
            yield from indexing.documents(doc_key, source_key, document)

    def _clear_old(self, current: int | None) -> None:
        """Delete index directories that no state points to."""
        keep = "" if current is None else indexing.directory(self._root, current, OPEN).parent.name
        for path in self._root.glob("index-*"):
            if path.name != keep:
                shutil.rmtree(path, ignore_errors=True)


_log = logging.getLogger(__name__)
_HEAP_BYTES: Final = 100_000_000


class PartitionIndex:
    """The index of one partition; `held` is its generation. Only the holder of the writer's lock has one."""

    def __init__(self, path: Path, base_id: str, generation: int) -> None:
        self._path, self._base_id, self.held = path, base_id, generation
        self._writer: tantivy.IndexWriter | None = None
        self._staged = False

    @classmethod
    def create(cls, path: Path, base_id: str, generation: int) -> PartitionIndex:
        """Create an empty index, replacing what an interrupted writer may have left."""
        shutil.rmtree(path, ignore_errors=True)
        indexing.create(path)
        indexing.write_mark(path, base_id, generation, generation)
        return cls(path, base_id, generation)

    @classmethod
    def copied(cls, source: Path, path: Path, base_id: str, generation: int) -> PartitionIndex:
        """Create an index of the same files as another, replacing what an interrupted writer may have left."""
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(source, path, copy_function=_linked)
        return cls(path, base_id, generation)

    @classmethod
    def open(cls, path: Path, base_id: str, latest: int) -> PartitionIndex | None:
        """Return an existing index, or None if it must be rebuilt."""
        try:
            mark = indexing.read_mark(path, indexing.read_meta(path))
            indexing.opened(path).searcher()
        except (ValueError, OSError) as error:
            _log.warning("the index %s is unreadable and is rebuilt: %s", path, error)
            return None
        if mark.base_id != base_id or mark.generation > latest:
            _log.warning("the index %s belongs to another base and is rebuilt", path)
            return None
        return cls(path, base_id, mark.generation)

    def stage(self, gone: Iterable[int], documents: Iterable[tantivy.Document]) -> None:
        """Stage deletions and additions."""
        writer = self._open_writer()
        for doc_key in gone:
            writer.delete_documents_by_query(Query.term_query(indexing.SCHEMA, "doc", doc_key))
            self._staged = True
        for document in documents:
            writer.add_document(document)
            self._staged = True

    def commit(self, generation: int) -> None:
        """Make staged changes searchable; without any, only the mark is updated."""
        indexed = self.held if self._staged else generation
        indexing.write_mark(self._path, self._base_id, indexed, generation)
        if self._staged:
            self._open_writer().commit()
            indexing.share(self._path)
        self._staged, self.held = False, generation

    def close(self) -> None:
        """Wait for merging segments, and close the index; staged changes are dropped."""
        if self._writer is not None:
            writer, self._writer, self._staged = self._writer, None, False
            try:
                writer.wait_merging_threads()
                indexing.share(self._path)
            except ValueError as error:
                _log.warning("the index %s was not closed properly: %s", self._path, error)

    def _open_writer(self) -> tantivy.IndexWriter:
        """Open the writer, and delete files of an interrupted commit: the next commit would use the same names."""
        if self._writer is None:
            writer = indexing.opened(self._path).writer(_HEAP_BYTES, 1)
            writer.garbage_collect_files()
            self._writer = writer
        return self._writer


def copy_indexes(root: Path, target: Path) -> None:
    """Copy the indexes of a base while it may be written.

    The list of segments is read before the mark, as by a reader. If a file that it names was deleted meanwhile, the
    copy is unreadable, and the copy's first writer rebuilds it.
    """
    for path in root.glob("index-*/*"):
        copy = target / path.parent.name / path.name
        copy.mkdir(parents=True)
        for name in sorted((file.name for file in path.iterdir()), key=lambda name: name != indexing.META):
            with suppress(FileNotFoundError):
                _linked(str(path / name), str(copy / name))


def _linked(source: str, to: str) -> None:
    """Link a file of a segment, which never changes; copy other files, and files that cannot be linked.

    A copy is synced to disk before the state that points to it.
    """
    changes = Path(source).name in (indexing.META, indexing.MARK) or Path(source).name.startswith(".")
    if not changes:
        with suppress(OSError, NotImplementedError):
            os.link(source, to)
            return
    shutil.copy2(source, to)
    with Path(to).open("r+b") as file:
        os.fsync(file.fileno())
