"""Ingest a folder: find its files, load, cut and write the documents that changed."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from context_engine.core.chunking.strategy import DEFAULT_STRATEGIES
from context_engine.core.models import Chunk, Notice, NoticeCode, SourceSpec
from context_engine.core.protocols import Sink
from context_engine.errors import InvalidRequest, SourceError, nearest
from context_engine.ingest.documents import CutBy, PreparedDocument, chunks_of
from context_engine.ingest.files import Assignment, assign, files_of, names_of, shown_name
from context_engine.ingest.loaded_document import Skipped
from context_engine.ingest.prune import FolderScan, HeldDocuments
from context_engine.ingest.reading import CutDocument, FileJob, IngestOptions, prepared
from context_engine.ingest.report import IngestReport, KeptDocuments, RefusedDocument, documents
from context_engine.ingest.scan_cache import ScanCache, ScannedDocument, ScannedFile
from context_engine.ingest.workers import Item, read_all

__all__ = ["IngestOptions", "Progress", "RefusingSink", "ingest"]
logger = logging.getLogger(__name__)
MOST_SAMPLES: Final = 5
_NO_RULE: Final = (
    "no rule includes it: add one to a source's documents, or name the source (--source) or its adapter (--to)"
)
Progress = Callable[[int, int, str], None]
"""Called before each file and once at the end with files done, files in total, and the path of the file."""


class RefusingSink(Sink, Protocol):
    """A sink that may refuse single documents; it keeps its previous version of a refused document.

    Attributes:
        refusals: (source id, document id, version, reason) of each.
    """

    refusals: Sequence[tuple[str, str, str, str]]


def ingest(
    path: str | os.PathLike[str],
    specs: SourceSpec | Sequence[SourceSpec],
    sink: Sink,
    *,
    source_id: str | None = None,
    beside: Sequence[SourceSpec] = (),
    options: IngestOptions | None = None,
    prune: bool = False,
    allow_empty: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
    memory: ScanCache | None = None,
) -> IngestReport:
    """Write a folder's documents to a sink, only those that changed; an interrupted run can simply be repeated.

    A folder, file or line that cannot be read is skipped and reported, and the run goes on. A file that no rule
    includes is skipped; a file that several sources include goes to each.

    Args:
        path: a folder, or one file.
        specs: the sources; their `documents` rules select the files.
        source_id: put every supported file into this source, regardless of the rules.
        beside: other sources of the domain, which are not written to: a file that none of `specs` takes is passed over,
            and what a rule of theirs includes is not left for a rule marked `otherwise`.
        prune: remove documents that the folder no longer holds. Documents of unreadable files and folders are kept,
            and all documents of a source, if more than a few, of which the folder no longer holds any. Without `prune`
            the report lists what it would remove.
        allow_empty: with `prune`, a source may lose all of its documents if the folder holds none of them.
        memory: files that it knows as unchanged are not read.

    Raises:
        InvalidRequest: the path does not exist, `source_id` is not among the sources, `prune` is given with a single
            file, or `allow_empty` without `prune`.
        StoreError: the sink cannot write; documents committed before stay.
    """
    place = Path(path)
    wanted = (specs,) if isinstance(specs, SourceSpec) else tuple(specs)
    _check(place, wanted, source_id, prune)
    if allow_empty and not prune:
        raise InvalidRequest("allow_empty only has an effect with prune: give both (--prune --allow-empty), or neither")
    run = _IngestRun(wanted, sink, options or IngestOptions(), dry_run)
    started = time.monotonic()
    root = place if place.is_dir() else place.resolve().parent
    files = list(files_of(place, run.unlisted, run.linked)) if place.is_dir() else [place]
    jobs = [_job(file, root, (*wanted, *beside), source_id, alone=not place.is_dir()) for file in files]
    run.scan.listed.update(job.names[0] for job in jobs)
    if beside:
        jobs = _only_for(jobs, {spec.id for spec in wanted})
    _read_files(jobs, run, memory, progress or _no_progress)
    if progress:
        progress(len(files), len(files), "")
    run.commit()
    of = wanted if source_id is None else [spec for spec in wanted if spec.id == source_id]
    if prune:
        run.prune(of, allow_empty=allow_empty)
    elif place.is_dir():
        run.report_gone(of)
    run.commit()
    if memory and not dry_run:
        memory.save(root)
    return run.report(len(files), time.monotonic() - started)


def _read_files(jobs: Sequence[FileJob], run: _IngestRun, memory: ScanCache | None, progress: Progress) -> None:
    """Read the files that changed, and count the others."""
    run.read_sources(sorted({taker.source_id for job in jobs for taker in job.takers}))
    known = [memory.recall(job, run.options, run.before) if memory else None for job in jobs]
    reading = read_all([job for job, kept in zip(jobs, known, strict=True) if kept is None], run.options, run.before)
    for number, (job, kept) in enumerate(zip(jobs, known, strict=True)):
        progress(number, len(jobs), job.names[0])
        if kept is not None and run.keep(job, kept):
            continue
        made = run.file(job, next(reading)[1] if kept is None else _alone(job, run))
        if memory:
            memory.learn(job, made)
    next(reading, None)  # returns the processes for reuse


def _no_progress(done: int, total: int, path: str) -> None:
    """Do nothing."""


def _alone(job: FileJob, run: _IngestRun) -> Iterator[Item]:
    """Read a file whose remembered documents cannot be used."""
    for _, items in read_all([job], run.options, run.before):
        yield from items


def _job(file: Path, root: Path, specs: Sequence[SourceSpec], source_id: str | None, *, alone: bool) -> FileJob:
    raw = names_of(file, root, alone=alone)
    names = tuple(map(shown_name, raw))
    if source_id is None:
        return FileJob(file, root, names, tuple(assign(raw, specs)))
    return FileJob(file, root, names, (Assignment(source_id, None, names[0]),))


def _only_for(jobs: Sequence[FileJob], source_ids: Collection[str]) -> list[FileJob]:
    """Return the jobs of these sources."""
    takers = [tuple(taker for taker in job.takers if taker.source_id in source_ids) for job in jobs]
    return [job._replace(takers=own) for job, own in zip(jobs, takers, strict=True) if own]


def _check(place: Path, specs: Sequence[SourceSpec], source_id: str | None, prune: bool) -> None:
    if not place.exists():
        raise InvalidRequest(f"{shown_name(place)} does not exist: give a folder or a file to ingest")
    ids = [spec.id for spec in specs]
    if source_id is not None and source_id not in ids:
        raise InvalidRequest(f"source {source_id!r} is not one of the sources given.{nearest(source_id, ids)}")
    if prune and not place.is_dir():
        raise InvalidRequest("prune compares a source with a folder: give the folder, not a single file")


@dataclass(slots=True)
class _IngestRun:
    """The state of one run: its counts, what each source held before, and what was seen in the folder."""

    specs: Sequence[SourceSpec]
    sink: Sink
    options: IngestOptions
    dry_run: bool
    documents: int = 0
    chunks: int = 0
    unchanged: int = 0
    replaced: int = 0
    removed: int = 0
    uncommitted: int = 0
    skipped: dict[Skipped, None] = field(default_factory=dict)  # in order, each once
    notices: list[Notice] = field(default_factory=list)
    untyped: Counter[tuple[str, NoticeCode, str]] = field(
        default_factory=Counter
    )  # documents by (source id, code, reason)
    cut_by: Counter[CutBy] = field(default_factory=Counter)
    samples: list[Chunk] = field(default_factory=list)
    scan: FolderScan = field(default_factory=FolderScan)
    kept: list[KeptDocuments] = field(default_factory=list)
    before: dict[str, Mapping[tuple[str, str], str]] = field(default_factory=dict)
    seen: dict[str, dict[tuple[str, str], str]] = field(default_factory=dict)
    counts: dict[str, Counter[str]] = field(default_factory=dict)  # of each source
    given: Counter[tuple[str, str]] = field(default_factory=Counter)  # documents by (source id, path of their file)
    written: dict[tuple[str, str, str], int] = field(
        default_factory=dict
    )  # chunks of each document, if the sink may refuse some

    def read_sources(self, source_ids: Sequence[str]) -> None:
        """Read the lists of documents that the sources hold."""
        for source_id in source_ids:
            self.before[source_id] = dict(self.sink.documents(source_id))

    def keep(self, job: FileJob, file: ScannedFile) -> bool:
        """Count the documents of an unchanged file; False if another file already gave one of them."""
        documents = file.documents
        if any(
            (document.document_id, document.version) in self.seen.get(document.source_id, {}) for document in documents
        ):
            return False
        for document in documents:
            self.seen.setdefault(document.source_id, {})[document.document_id, document.version] = document.place
            self._count(document.source_id, documents=1, unchanged=1)
        for taker in job.takers:
            self.given[taker.source_id, taker.path] += sum(each.source_id == taker.source_id for each in documents)
        self.documents += len(documents)
        self.unchanged += len(documents)
        self.cut_by.update(document.cut_by for document in documents)
        self.notices += file.notices
        self.untyped.update({(source_id, code, reason): count for source_id, code, reason, count in file.untyped})
        return True

    def file(self, job: FileJob, items: Iterator[Item]) -> ScannedFile | None:
        """Take the items of one file and return its result for the cache; None if part of it was skipped."""
        if not job.takers:
            self.skipped[Skipped(job.names[0], _NO_RULE, error=False)] = None
        left, noticed, untyped = len(self.skipped), len(self.notices), self.untyped.copy()
        made: list[ScannedDocument] = []
        for item in items:
            if isinstance(item, CutDocument):
                made += self._document(item)
            else:
                self._unread(job.names[0], *item)
        if len(self.skipped) > left:
            return None
        more = [(*key, count) for key, count in (self.untyped - untyped).items()]
        return ScannedFile(made, self.notices[noticed:], more)

    def unlisted(self, error: OSError, root: Path) -> None:
        """Report a folder that cannot be listed, so its content is unknown."""
        folder = Path(error.filename or root)
        shown = shown_name(folder.relative_to(root).as_posix() if folder.is_relative_to(root) else folder)
        self.scan.closed.add(shown)
        self._skip(Skipped(shown, f"the folder cannot be read: {error.strerror or error}"))

    def linked(self, shown: str) -> None:
        """Report a folder that is a link."""
        self.scan.closed.add(shown)
        self._skip(Skipped(shown, "is a link to a folder, which is not followed", error=False))

    def _unread(self, file: str, source_id: str, skipped: Skipped) -> None:
        """Report a part of a file that gave no document to a source."""
        if skipped.error:
            self.scan.unread.setdefault(source_id, set()).add(file)
        self._skip(skipped)

    def _skip(self, skipped: Skipped) -> None:
        self.skipped[skipped] = None
        if skipped.error:
            logger.warning("skipped %s", skipped)

    def _document(self, cut: CutDocument) -> list[ScannedDocument]:
        taker, document, chunks = cut
        seen, loaded = self.seen.setdefault(taker.source_id, {}), document.loaded
        key = (document.document_id, document.version)
        if not document.named and (key in seen or self.held.is_unread(taker.source_id, key)):
            document, chunks = prepared(taker, loaded, self.options, loaded.place), None
        elif key in seen and loaded.record:
            document, chunks = prepared(taker, loaded, self.options, loaded.place, stated=False), None
            reason = f"records of {loaded.path} have ids of other records: each is identified by its place"
            self.untyped[taker.source_id, NoticeCode.ID_REPEATED, reason] += 1
        key = (document.document_id, document.version)
        if key in seen:
            name = f"{key[0]!r} version {key[1]!r}" if key[1] else repr(key[0])
            reason = f"document {name} is already in {seen[key]}: give it another document_id or version"
            self._skip(Skipped(loaded.path, reason, loaded.line))
            return []
        seen[key] = loaded.place
        self._report_document(taker, document, seen[key])
        self.documents += 1
        self._count(taker.source_id, documents=1)
        self.given[taker.source_id, loaded.path] += 1
        self._write(taker.source_id, key, document, chunks)
        self.cut_by[document.cut_by] += 1
        return [ScannedDocument(taker.source_id, *key, document.content_hash, seen[key], document.cut_by)]

    def _report_document(self, taker: Assignment, document: PreparedDocument, place: str) -> None:
        """Collect the notices about a document: its own, and those about an unknown or assumed type."""
        of_file = document.loaded.notices  # they concern the file, not its first record
        for notice in document.notices:
            self.notices.append(notice._replace(subject=document.loaded.path if notice in of_file else place))
        doc_type = document.base.doc_type or "default"
        table = DEFAULT_STRATEGIES if self.options.strategies is None else self.options.strategies
        if doc_type not in table:
            shown = document.structure if document.cut_by != "windows" else None
            how = f"as its structure shows ({shown.reason})" if shown else "as 'default'"
            problem = f"doc_type {doc_type!r} is not in the chunking table: cut {how}"
            self.notices.append(Notice(NoticeCode.DOC_TYPE_UNKNOWN, place, problem, {"doc_type": doc_type}))
        if taker.rule is None and doc_type == "default" and document.cut_by == "windows":
            reason = "no rule gives a type: cut as 'default'"
            self.untyped[taker.source_id, NoticeCode.DOC_TYPE_ASSUMED, reason] += 1
        if taker.rule is not None and taker.rule.otherwise:
            tier = document.base.authority_tier
            reason = f"no other rule includes them: taken as {doc_type!r}, tier {tier}"
            self.untyped[taker.source_id, NoticeCode.RULE_OTHERWISE, reason] += 1

    def _write(
        self, source_id: str, key: tuple[str, str], document: PreparedDocument, chunks: list[Chunk] | None
    ) -> None:
        before = self.before[source_id].get(key)
        if before == document.content_hash:
            self.unchanged += 1
            self._count(source_id, unchanged=1)
            return
        chunks = chunks_of(document, self.options.counter) if chunks is None else chunks
        self.replaced += before is not None
        self.chunks += len(chunks)
        self._count(source_id, replaced=int(before is not None), chunks=len(chunks))
        if self.dry_run:
            self.samples += chunks[: max(MOST_SAMPLES - len(self.samples), 0)][:2]
            return
        if hasattr(self.sink, "refusals"):
            self.written[source_id, *key] = len(chunks)
        self.sink.put(source_id, *key, document.content_hash, chunks)
        self.uncommitted += 1
        if self.uncommitted >= self.options.batch:
            self.commit()

    def prune(self, specs: Sequence[SourceSpec], *, allow_empty: bool) -> None:
        """Remove documents that the sources hold and the folder no longer does."""
        gave_any = any(self.seen.values())
        for spec in specs:
            plan = self.held.plan(spec.id, self.seen.get(spec.id, {}), gave_any=gave_any, allow_empty=allow_empty)
            self.kept += plan.kept
            self.removed += len(plan.removed)
            self._count(spec.id, removed=len(plan.removed))
            for key in () if self.dry_run else plan.removed:
                self.sink.delete(spec.id, *key)
                self.uncommitted += 1

    def report_gone(self, specs: Sequence[SourceSpec]) -> None:
        """Report the documents that `prune` would remove."""
        for spec in specs:
            try:
                gone = self.held.gone(spec.id, self.seen.get(spec.id, {}))
            except SourceError as error:  # this run writes nothing to that source, so it can go on
                logger.info("what source %s holds is not known: %s", spec.id, error)
                continue
            self.kept += [gone] if gone else []

    @property
    def held(self) -> HeldDocuments:
        """The documents that the sources hold, compared with the folder."""
        return HeldDocuments(self.sink, self.scan)

    def commit(self) -> None:
        """Commit the documents written since the last commit."""
        if self.uncommitted:
            self.sink.commit()
            self.uncommitted = 0

    def report(self, files: int, elapsed_s: float) -> IngestReport:
        """Return the report; documents that the sink refused count only as refused."""
        refused = tuple(RefusedDocument(*refusal) for refusal in getattr(self.sink, "refusals", ()))
        for document in refused:
            key = (document.document_id, document.version)
            chunks = self.written.get((document.source_id, *key), 0)
            replaced = key in self.before.get(document.source_id, {})
            self.chunks -= chunks
            self.replaced -= replaced
            self._count(document.source_id, refused=1, chunks=-chunks, replaced=-replaced)
        return IngestReport(
            files=files,
            documents=self.documents,
            chunks=self.chunks,
            unchanged=self.unchanged,
            replaced=self.replaced,
            removed=self.removed,
            refused=refused,
            skipped=tuple(self.skipped),
            notices=(*self.notices, *self._untyped(), *(kept.notice() for kept in self.kept)),
            kept=tuple(self.kept),
            cut_by=dict(self.cut_by),
            samples=tuple(self.samples),
            sources={source_id: dict(counts) for source_id, counts in sorted(self.counts.items())},
            shared=frozenset(path for (_, path), number in self.given.items() if number > 1),
            elapsed_s=elapsed_s,
            dry_run=self.dry_run,
        )

    def _count(self, source_id: str, **numbers: int) -> None:
        counts = self.counts.setdefault(source_id, Counter())
        for name, number in numbers.items():
            counts[name] += number

    def _untyped(self) -> Iterator[Notice]:
        for (source_id, code, reason), count in sorted(self.untyped.items(), key=lambda entry: entry[0][0]):
            message = f"{documents(count)}: {reason}"
            yield Notice(code, f"source {source_id}", message, {"count": count})
