"""One run: find the files, load, cut and write what changed."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from context_engine.chunking import ChunkingStrategy
from context_engine.context.tokens import ApproxTokenCounter
from context_engine.errors import InvalidRequest, nearest
from context_engine.ingest.documents import PreparedDocument, chunks_of, prepare
from context_engine.ingest.loaded import LoadedDocument, Skipped
from context_engine.ingest.loaders import MOST_BYTES, load
from context_engine.ingest.report import IngestReport
from context_engine.ingest.rules import Assigned, assigned
from context_engine.models import SourceSpec
from context_engine.protocols import DocumentSink, TokenCounter

__all__ = ["IngestOptions", "Progress", "ingest"]

logger = logging.getLogger(__name__)

BATCH: Final = 200

Progress = Callable[[int, int, str], None]
"""Called before each file and once at the end: files done, files in all, the path of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """How documents are cut and written.

    Attributes:
        strategies: the chunking table; the built-in one if None.
        max_chunk_tokens: no chunk is longer.
        counter: counts tokens.
        most_bytes: files above are refused.
        batch: documents written between two commits.
    """

    strategies: Mapping[str, ChunkingStrategy] | None = None
    max_chunk_tokens: int = 512
    counter: TokenCounter = field(default_factory=ApproxTokenCounter)
    most_bytes: int = MOST_BYTES
    batch: int = BATCH


def ingest(
    path: str | os.PathLike[str],
    specs: SourceSpec | Sequence[SourceSpec],
    sink: DocumentSink,
    *,
    source_id: str | None = None,
    options: IngestOptions | None = None,
    prune: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> IngestReport:
    """Bring a folder's documents into a base; what did not change is left alone, so a broken run is run again.

    A folder, file or line that cannot be read is skipped and reported, and the run goes on. A file that no rule of the
    sources includes is skipped; a file that several sources include goes to each.

    Args:
        path: a folder, or one file.
        specs: the sources; their `documents` rules say which files are theirs.
        sink: where chunks go.
        source_id: put every supported file into this one of the sources, whatever the rules say.
        options: how documents are cut and written.
        prune: remove a source's documents that the folder no longer holds. A source is left alone when one of its
            files or any folder could not be read, or when the folder holds none of its documents.
        dry_run: write nothing.
        progress: told of each file.

    Raises:
        InvalidRequest: the path does not exist, `source_id` is not among the sources, or `prune` with a single file.
        StoreError: the sink cannot write; what was committed before stays.
    """
    place = Path(path)
    wanted = (specs,) if isinstance(specs, SourceSpec) else tuple(specs)
    _check(place, wanted, source_id, prune)
    run = _Run(wanted, sink, options or IngestOptions(), dry_run)
    started = time.monotonic()
    root = place if place.is_dir() else place.resolve().parent
    files = list(_files(place, run)) if place.is_dir() else [place]
    for number, file in enumerate(files):
        names = _names(file, root, alone=not place.is_dir())
        if progress:
            progress(number, len(files), names[0])
        run.file(file, root, names, source_id)
    if prune:
        run.prune(wanted if source_id is None else [spec for spec in wanted if spec.id == source_id])
    run.commit()
    if progress:
        progress(len(files), len(files), "")
    return run.report(len(files), time.monotonic() - started)


def _check(place: Path, specs: Sequence[SourceSpec], source_id: str | None, prune: bool) -> None:
    if not place.exists():
        raise InvalidRequest(f"{place} does not exist: give a folder or a file to ingest")
    ids = [spec.id for spec in specs]
    if source_id is not None and source_id not in ids:
        raise InvalidRequest(f"source {source_id!r} is not one of the sources given.{nearest(source_id, ids)}")
    if prune and not place.is_dir():
        raise InvalidRequest("prune compares a source with a folder: give the folder, not a single file")


def _files(root: Path, run: _Run) -> Iterator[Path]:
    """Yield the files of a folder in the order of their paths; hidden ones and linked folders are left out."""
    found: list[Path] = []
    for folder, folders, names in os.walk(root, onerror=lambda error: run.unread(error, root)):
        here = Path(folder)
        links = {name for name in folders if os.path.islink(here / name)}  # noqa: PTH114 - Path's raises before 3.12
        for name in sorted(links):
            shown = (here / name).relative_to(root).as_posix()
            run.skipped[Skipped(shown, "is a link to a folder, which is not followed", error=False)] = None
        folders[:] = [name for name in folders if not name.startswith(".") and name not in links]
        found += [here / name for name in names if not name.startswith(".")]
    yield from sorted(found, key=lambda file: file.relative_to(root).as_posix())


def _names(file: Path, root: Path, *, alone: bool) -> list[str]:
    """Return the names a file may go by; for a file given alone every end of its full path, shortest first."""
    if not alone:
        return [file.relative_to(root).as_posix()]
    parts = file.absolute().parts[1:]
    return ["/".join(parts[-length:]) for length in range(1, len(parts) + 1)]


def _place(loaded: LoadedDocument) -> str:
    return f"{loaded.path}:{loaded.line}" if loaded.line else loaded.path


@dataclass(slots=True)
class _Run:
    """The counts of one run, and what of each source was there before and has been seen since."""

    specs: Sequence[SourceSpec]
    sink: DocumentSink
    options: IngestOptions
    dry_run: bool
    documents: int = 0
    chunks: int = 0
    unchanged: int = 0
    replaced: int = 0
    removed: int = 0
    uncommitted: int = 0
    skipped: dict[Skipped, None] = field(default_factory=dict)  # in order, each once
    warnings: list[str] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
    before: dict[str, Mapping[tuple[str, str], str]] = field(default_factory=dict)
    seen: dict[str, dict[tuple[str, str], str]] = field(default_factory=dict)

    def file(self, file: Path, root: Path, names: Sequence[str], source_id: str | None) -> None:
        """Load one file for every source that takes it."""
        takers = [Assigned(source_id, None, names[0])] if source_id else list(assigned(names, self.specs))
        if not takers:
            self.skipped[Skipped(names[0], "no rule of the sources given includes it", error=False)] = None
        for taker in takers:
            for loaded in load(file, root, most_bytes=self.options.most_bytes, name=taker.path):
                if isinstance(loaded, Skipped):
                    self._skip(taker.source_id, loaded)
                else:
                    self._document(taker, loaded)

    def unread(self, error: OSError, root: Path) -> None:
        """Report a folder that cannot be listed; whose documents it holds is not known, so every source is broken."""
        folder = Path(error.filename or root)
        shown = folder.relative_to(root).as_posix() if folder.is_relative_to(root) else str(folder)
        reason = f"the folder cannot be read: {error.strerror or error}"
        for spec in self.specs:
            self._skip(spec.id, Skipped(shown, reason))

    def _skip(self, source_id: str, skipped: Skipped) -> None:
        self.skipped[skipped] = None
        if skipped.error:
            self.broken.add(source_id)
            logger.warning("skipped %s", skipped)

    def _document(self, taker: Assigned, loaded: LoadedDocument) -> None:
        seen = self.seen.setdefault(taker.source_id, {})
        document = self._prepared(taker, loaded, None)
        if not document.named and (document.document_id, document.version) in seen:
            document = self._prepared(taker, loaded, _place(loaded))
        key = (document.document_id, document.version)
        if key in seen:
            name = f"{key[0]!r} version {key[1]!r}" if key[1] else repr(key[0])
            reason = f"document {name} stands already in {seen[key]}: give it another document_id or version"
            self._skip(taker.source_id, Skipped(loaded.path, reason, loaded.line))
            return
        seen[key] = _place(loaded)
        self.warnings += [f"{seen[key]}: {warning}" for warning in document.warnings]
        self.documents += 1
        self._write(taker.source_id, key, document)

    def _prepared(self, taker: Assigned, loaded: LoadedDocument, document_id: str | None) -> PreparedDocument:
        options = self.options
        return prepare(
            loaded,
            taker.rule,
            options.counter,
            strategies=options.strategies,
            max_chunk_tokens=options.max_chunk_tokens,
            document_id=document_id,
        )

    def _write(self, source_id: str, key: tuple[str, str], document: PreparedDocument) -> None:
        if source_id not in self.before:
            self.before[source_id] = dict(self.sink.documents(source_id))
        before = self.before[source_id].get(key)
        if before == document.content_hash:
            self.unchanged += 1
            return
        chunks = chunks_of(document, self.options.counter)
        self.replaced += before is not None
        self.chunks += len(chunks)
        if self.dry_run:
            return
        self.sink.put(source_id, *key, document.content_hash, chunks)
        self.uncommitted += 1
        if self.uncommitted >= self.options.batch:
            self.commit()

    def prune(self, specs: Sequence[SourceSpec]) -> None:
        """Remove what the sources hold and this run did not see."""
        for spec in specs:
            gone = sorted(set(self.sink.documents(spec.id)) - set(self.seen.get(spec.id, {})))
            if not gone:
                continue
            if spec.id in self.broken or not self.seen.get(spec.id):
                why = "some files could not be read" if spec.id in self.broken else "the folder holds none of it"
                self.warnings.append(f"source {spec.id}: {len(gone)} documents not removed, because {why}")
                continue
            self.removed += len(gone)
            for key in () if self.dry_run else gone:
                self.sink.delete(spec.id, *key)
                self.uncommitted += 1

    def commit(self) -> None:
        """Make durable what was written since the last commit."""
        if self.uncommitted:
            self.sink.commit()
            self.uncommitted = 0

    def report(self, files: int, elapsed_s: float) -> IngestReport:
        """Return the counts."""
        return IngestReport(
            files=files,
            documents=self.documents,
            chunks=self.chunks,
            unchanged=self.unchanged,
            replaced=self.replaced,
            removed=self.removed,
            skipped=tuple(self.skipped),
            warnings=tuple(self.warnings),
            elapsed_s=elapsed_s,
            dry_run=self.dry_run,
        )
