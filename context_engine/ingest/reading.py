"""What is done with one file before anything is written: load it, prepare its documents, cut those that changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from context_engine.core.chunking import ChunkingStrategy
from context_engine.core.context.tokens import ApproxTokenCounter
from context_engine.core.models import Chunk, IngestSettings
from context_engine.core.protocols import TokenCounter
from context_engine.ingest.assignment import Assignment
from context_engine.ingest.documents import PreparedDocument, chunks_of, prepare
from context_engine.ingest.limits import most_chars, most_chunks, over
from context_engine.ingest.loaded_document import LoadedDocument, Skipped
from context_engine.ingest.loaders import MOST_BYTES, load

BATCH = 200

Known = Mapping[str, Mapping[tuple[str, str], str]]
"""{source id: {(document id, version): content hash}} of what is held already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """How documents are cut and written.

    Attributes:
        strategies: the chunking table; the built-in one if None.
        max_chunk_tokens: no chunk is longer; None: 512 for the table, and a profile's own size.
        counter: counts tokens.
        most_bytes: files above are refused.
        batch: documents written between two commits.
        jobs: processes beside this one that load and cut; 0 takes as many as pay, four at most. What is written, and
            in which order, is the same.
        settings: how files are read, and what one may cost.
    """

    strategies: Mapping[str, ChunkingStrategy] | None = None
    max_chunk_tokens: int | None = None
    counter: TokenCounter = field(default_factory=ApproxTokenCounter)
    most_bytes: int = MOST_BYTES
    batch: int = BATCH
    jobs: int = 1
    settings: IngestSettings = field(default_factory=IngestSettings)


class FileJob(NamedTuple):
    """A file and the sources that take it; `names[0]` is what it is called in reports, as `shown_name` writes it.

    Attributes:
        documents: what the file held, where it is loaded already; else None, and it is read.
    """

    file: Path
    root: Path
    names: tuple[str, ...]
    takers: tuple[Assignment, ...]
    documents: tuple[LoadedDocument, ...] | None = None


class CutDocument(NamedTuple):
    """A document for a source; `chunks` is None where the source holds it unchanged."""

    taker: Assignment
    document: PreparedDocument
    chunks: list[Chunk] | None


Item = CutDocument | tuple[str, Skipped]
"""What one file gives: a document for a source, or (source id, why there is none)."""

Loaded = tuple[Assignment, LoadedDocument | Skipped]


def read_file(job: FileJob, options: IngestOptions, known: Known) -> Iterator[Item]:
    """Yield a file's documents for every source that takes it, and (source id, why not) for what gave none.

    What came before a limit of output is given; the document that goes over it and all behind it is not, and said.
    """
    for taker in job.takers:
        yield from _cut(_loaded(job, taker, options), job, options, known)


def load_file(job: FileJob, options: IngestOptions) -> Iterator[Loaded]:
    """Yield what `read_file` cuts."""
    for taker in job.takers:
        yield from _loaded(job, taker, options)


def cut_file(found: Iterable[Loaded], job: FileJob, options: IngestOptions, known: Known) -> Iterator[Item]:
    """Yield what `load_file` gave, cut: with it the same as `read_file`."""
    for _, of_one in groupby(found, key=lambda one: one[0].source_id):
        yield from _cut(of_one, job, options, known)


def _cut(found: Iterable[Loaded], job: FileJob, options: IngestOptions, known: Known) -> Iterator[Item]:
    """Yield what was loaded for one source, cut, up to the limit of chunks; an unchanged document counts as one."""
    most = most_chunks(job.file, options.settings)
    made = given = 0
    for taker, loaded in found:
        if isinstance(loaded, Skipped):
            yield taker.source_id, loaded
            continue
        document = prepared(taker, loaded, options)
        same = known.get(taker.source_id, {}).get((document.document_id, document.version)) == document.content_hash
        chunks = None if same else chunks_of(document, options.counter)
        made += 1 if chunks is None else len(chunks)
        if made > most:
            yield taker.source_id, Skipped(taker.path, over(given, most, "chunks"))
            return
        yield CutDocument(taker, document, chunks)
        given += 1


def _loaded(job: FileJob, taker: Assignment, options: IngestOptions) -> Iterator[Loaded]:
    most = most_chars(job.file, options.settings)
    characters = given = 0
    found: Iterable[LoadedDocument | Skipped] | None = job.documents
    if found is None:
        found = load(job.file, job.root, most_bytes=options.most_bytes, name=taker.path, settings=options.settings)
    for one in found:
        characters += 0 if isinstance(one, Skipped) else len(one.text)
        if characters > most:
            yield taker, Skipped(taker.path, over(given, most, "chars"))
            return
        yield taker, one
        given += not isinstance(one, Skipped)


def prepared(
    taker: Assignment, loaded: LoadedDocument, options: IngestOptions, document_id: str | None = None
) -> PreparedDocument:
    """Return a document as the options say; `document_id` stands in where it gives no id of its own."""
    return prepare(
        loaded,
        taker.rule,
        options.counter,
        strategies=options.strategies,
        max_chunk_tokens=options.max_chunk_tokens,
        document_id=document_id,
    )
