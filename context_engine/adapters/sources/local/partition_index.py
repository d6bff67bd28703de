"""The index of one partition, as the writer has it."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import tantivy
from tantivy import Query

from context_engine.adapters.sources.local import index as indexing

_log = logging.getLogger(__name__)
_HEAP_BYTES: Final = 100_000_000


class PartitionIndex:
    """Follows the rows of one partition. Only the holder of the writer's lock has one.

    Args:
        path: its directory.
        base_id: names the base.
        held: the generation it was brought up to.
    """

    def __init__(self, path: Path, base_id: str, held: int) -> None:
        self._path, self._base_id, self.held = path, base_id, held
        self._writer: tantivy.IndexWriter | None = None
        self._staged = False

    @classmethod
    def create(cls, path: Path, base_id: str, held: int) -> PartitionIndex:
        """Make an empty index, in place of what an interrupted writer may have left there."""
        shutil.rmtree(path, ignore_errors=True)
        indexing.create(path)
        indexing.write_mark(path, base_id, held, held)
        return cls(path, base_id, held)

    @classmethod
    def copied(cls, source: Path, path: Path, base_id: str, held: int) -> PartitionIndex:
        """Make an index of the same files as another, in place of what an interrupted writer may have left there."""
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(source, path, copy_function=_linked)
        return cls(path, base_id, held)

    @classmethod
    def open(cls, path: Path, base_id: str, latest: int) -> PartitionIndex | None:
        """Return an index that is there, None where it has to be built anew.

        Args:
            path, base_id: see the class.
            latest: the generation of its rows.
        """
        try:
            mark = indexing.read_mark(path, indexing.read_meta(path))
            indexing.opened(path).searcher()
        except (ValueError, OSError) as error:
            _log.warning("the index %s cannot be read and is rebuilt: %s", path, error)
            return None
        if mark.base_id != base_id or mark.generation > latest:
            _log.warning("the index %s is not of this base and is rebuilt", path)
            return None
        return cls(path, base_id, mark.generation)

    def stage(self, gone: Iterable[int], documents: Iterable[tantivy.Document]) -> None:
        """Hand over what has changed.

        Args:
            gone: `doc_key` of each document that is there no more.
            documents: new ones.
        """
        writer = self._open_writer()
        for doc_key in gone:
            writer.delete_documents_by_query(Query.term_query(indexing.SCHEMA, "doc", doc_key))
            self._staged = True
        for document in documents:
            writer.add_document(document)
            self._staged = True

    def commit(self, generation: int) -> None:
        """Make what was staged searchable: all up to a generation. Where nothing was, the index knows no new commit."""
        held = self.held if self._staged else generation
        indexing.write_mark(self._path, self._base_id, held, generation)
        if self._staged:
            self._open_writer().commit()
            indexing.share(self._path)
        self._staged, self.held = False, generation

    def close(self) -> None:
        """Wait until the index has tidied up, and let it go; what was staged only is forgotten."""
        if self._writer is not None:
            writer, self._writer, self._staged = self._writer, None, False
            try:
                writer.wait_merging_threads()
                indexing.share(self._path)
            except ValueError as error:
                _log.warning("the index %s was not closed in order: %s", self._path, error)

    def _open_writer(self) -> tantivy.IndexWriter:
        """Open the writer, and clear away what a commit cut short has left: the next gives its files the same names."""
        if self._writer is None:
            writer = indexing.opened(self._path).writer(_HEAP_BYTES, 1)
            writer.garbage_collect_files()
            self._writer = writer
        return self._writer


def _linked(source: str, to: str) -> None:
    """Link a file of a segment, which never changes; copy what does, and what cannot be linked.

    A copy is on the disk before the state that points to it is.
    """
    changes = Path(source).name in (indexing.META, indexing.MARK) or Path(source).name.startswith(".")
    if not changes:
        with suppress(OSError, NotImplementedError):
            os.link(source, to)
            return
    shutil.copy2(source, to)
    with Path(to).open("r+b") as file:
        os.fsync(file.fileno())
