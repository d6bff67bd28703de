"""Read one file: load it, prepare its documents and cut those that changed, within the limits of the settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

from context_engine.core.chunking.strategy import ChunkingStrategy
from context_engine.core.context.tokens import ApproxTokenCounter
from context_engine.core.models import Chunk, IngestSettings
from context_engine.core.protocols import TokenCounter
from context_engine.ingest.documents import PreparedDocument, chunks_of, prepare
from context_engine.ingest.files import Assignment
from context_engine.ingest.loaded_document import LoadedDocument, Skipped
from context_engine.ingest.loaders import MOST_BYTES, load
from context_engine.ingest.report import documents

_SHARE: Final = 2 << 20  # bytes; output limits grow with the file, so that a 2 GB table can be read to its end
BATCH = 200
Known = Mapping[str, Mapping[tuple[str, str], str]]
"""The documents that the sources already hold: {source id: {(document id, version): content hash}}."""
Loaded = tuple[Assignment, LoadedDocument | Skipped]


def too_long(count: int, settings: IngestSettings) -> str:
    """Return why reading a file stopped when it took too long; `count` documents were kept.

    >>> too_long(0, IngestSettings())
    'took longer than 30 s to be read: none of it is kept. Split it, or raise file_timeout_s in ingest.json'
    """
    return f"took longer than {settings.file_timeout_s:g} s to be read: {_end(count, 'file_timeout_s')}"


def too_much(count: int, settings: IngestSettings) -> str:
    """Return why reading a file stopped when it took too much memory; `count` documents were kept."""
    return f"takes more than {settings.file_memory_mb:,} MB of memory to be read: {_end(count, 'file_memory_mb')}"


def lost(count: int, settings: IngestSettings) -> str:
    """Return why reading a file stopped when its process ended; `count` documents were kept."""
    ended = "the process that read it ended, perhaps because of too little memory"
    return f"{ended} (file_memory_mb is {settings.file_memory_mb:,}): {_end(count, 'file_memory_mb')}"


def most_chars(file: Path, settings: IngestSettings) -> int:
    """Return how many characters may be read from a file: `file_max_chars` per 2 MB of its size, at least once."""
    return settings.file_max_chars * _shares(file)


def most_chunks(file: Path, settings: IngestSettings) -> int:
    """Return how many chunks a file may be cut into: `file_max_chunks` per 2 MB of its size, at least once."""
    return settings.file_max_chunks * _shares(file)


def over(count: int, most: int, unit: str) -> str:
    """Return why reading a file stopped when it gave too many "chars" or "chunks"; `count` documents were kept."""
    return f"gives more than {most:,} {unit.replace('chars', 'characters')}: {_end(count, f'file_max_{unit}')}"


def _shares(file: Path) -> int:
    try:
        return max(file.stat().st_size // _SHARE, 1)
    except OSError:
        return 1


def _end(count: int, key: str) -> str:
    kept = f"what it gave before is kept ({documents(count)})" if count else "none of it is kept"
    return f"{kept}. Split it, or raise {key} in ingest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """How documents are cut and written.

    Attributes:
        strategies: the chunking table; None: the built-in one.
        max_chunk_tokens: most tokens of a chunk; None: 512, or the profile's size.
        most_bytes: larger files are refused.
        batch: documents written between two commits.
        jobs: worker processes that load and cut; 0 picks one to four by the size of the files. The output and its
            order do not depend on it.
        settings: how files are read, and their limits.
    """

    strategies: Mapping[str, ChunkingStrategy] | None = None
    max_chunk_tokens: int | None = None
    counter: TokenCounter = field(default_factory=ApproxTokenCounter)
    most_bytes: int = MOST_BYTES
    batch: int = BATCH
    jobs: int = 1
    settings: IngestSettings = field(default_factory=IngestSettings)


class FileJob(NamedTuple):
    """A file and the sources that take it; reports call it `names[0]`.

    Attributes:
        documents: the documents of a file that is already loaded; None if it has to be read.
    """

    file: Path
    root: Path
    names: tuple[str, ...]
    takers: tuple[Assignment, ...]
    documents: tuple[LoadedDocument, ...] | None = None


class CutDocument(NamedTuple):
    """A document for a source; `chunks` is None if the source already holds it unchanged."""

    taker: Assignment
    document: PreparedDocument
    chunks: list[Chunk] | None


Item = CutDocument | tuple[str, Skipped]
"""One result of reading a file: a document for a source, or (source id, reason why there is none)."""


def read_file(job: FileJob, options: IngestOptions, known: Known) -> Iterator[Item]:
    """Yield a file's documents for every source that takes it, and (source id, reason) for each part without one.

    Documents before an output limit are kept; the one that exceeds it and all that follow are reported instead.
    """
    for taker in job.takers:
        yield from _cut(_loaded(job, taker, options), job, options, known)


def load_file(job: FileJob, options: IngestOptions) -> Iterator[Loaded]:
    """Yield the documents of a file without cutting them: the first half of `read_file`."""
    for taker in job.takers:
        yield from _loaded(job, taker, options)


def cut_file(loaded: Iterable[Loaded], job: FileJob, options: IngestOptions, known: Known) -> Iterator[Item]:
    """Cut the documents from `load_file`: the second half of `read_file`."""
    for _, of_one in groupby(loaded, key=lambda loaded_item: loaded_item[0].source_id):
        yield from _cut(of_one, job, options, known)


def _cut(loaded_items: Iterable[Loaded], job: FileJob, options: IngestOptions, known: Known) -> Iterator[Item]:
    """Cut the documents of one source, up to the limit of chunks; an unchanged document counts as one chunk."""
    most = most_chunks(job.file, options.settings)
    made = kept = 0
    for taker, loaded in loaded_items:
        if isinstance(loaded, Skipped):
            yield taker.source_id, loaded
            continue
        document = prepared(taker, loaded, options)
        same = known.get(taker.source_id, {}).get((document.document_id, document.version)) == document.content_hash
        chunks = None if same else chunks_of(document, options.counter)
        made += 1 if chunks is None else len(chunks)
        if made > most:
            yield taker.source_id, Skipped(taker.path, over(kept, most, "chunks"))
            return
        yield CutDocument(taker, document, chunks)
        kept += 1


def _loaded(job: FileJob, taker: Assignment, options: IngestOptions) -> Iterator[Loaded]:
    most = most_chars(job.file, options.settings)
    characters = kept = 0
    items: Iterable[LoadedDocument | Skipped] | None = job.documents
    if items is None:
        items = load(job.file, job.root, most_bytes=options.most_bytes, name=taker.path, settings=options.settings)
    for item in items:
        characters += 0 if isinstance(item, Skipped) else len(item.text)
        if characters > most:
            yield taker, Skipped(taker.path, over(kept, most, "chars"))
            return
        yield taker, item
        kept += not isinstance(item, Skipped)


def prepared(
    taker: Assignment,
    loaded: LoadedDocument,
    options: IngestOptions,
    document_id: str | None = None,
    *,
    stated: bool = True,
) -> PreparedDocument:
    """Prepare a document by the options; `document_id` is used if it states no id, or without `stated`."""
    return prepare(
        loaded,
        taker.rule,
        options.counter,
        strategies=options.strategies,
        max_chunk_tokens=options.max_chunk_tokens,
        document_id=document_id,
        stated=stated,
    )
