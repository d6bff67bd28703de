"""What is done with one file before anything is written: load it, prepare its documents, cut those that changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from context_engine.chunking import ChunkingStrategy
from context_engine.context.tokens import ApproxTokenCounter
from context_engine.ingest.documents import PreparedDocument, chunks_of, prepare
from context_engine.ingest.loaded import LoadedDocument, Skipped
from context_engine.ingest.loaders import MOST_BYTES, load
from context_engine.ingest.rules import Assigned
from context_engine.models import Chunk, IngestSettings
from context_engine.protocols import TokenCounter

__all__ = ["CutDocument", "FileJob", "IngestOptions", "Known", "prepared", "read_file"]

BATCH = 200

Known = Mapping[str, Mapping[tuple[str, str], str]]
"""{source id: {(document id, version): content hash}} of what is held already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """How documents are cut and written.

    Attributes:
        strategies: the chunking table; the built-in one if None.
        max_chunk_tokens: no chunk is longer.
        counter: counts tokens.
        most_bytes: files above are refused.
        batch: documents written between two commits.
        jobs: processes that load and cut; 1 does it in this one, 0 takes as many as pay, four at most. What is written,
            and in which order, is the same.
        settings: how files are read, and what one may cost.
    """

    strategies: Mapping[str, ChunkingStrategy] | None = None
    max_chunk_tokens: int = 512
    counter: TokenCounter = field(default_factory=ApproxTokenCounter)
    most_bytes: int = MOST_BYTES
    batch: int = BATCH
    jobs: int = 1
    settings: IngestSettings = field(default_factory=IngestSettings)


class FileJob(NamedTuple):
    """A file and the sources that take it; `names[0]` is what it is called in reports, as `shown_name` writes it."""

    file: Path
    root: Path
    names: tuple[str, ...]
    takers: tuple[Assigned, ...]


class CutDocument(NamedTuple):
    """A document for a source; `chunks` is None where the source holds it unchanged."""

    taker: Assigned
    document: PreparedDocument
    chunks: list[Chunk] | None


def read_file(job: FileJob, options: IngestOptions, known: Known) -> Iterator[CutDocument | tuple[str, Skipped]]:
    """Yield a file's documents for every source that takes it, and (source id, why not) for what gave none."""
    for taker in job.takers:
        held = known.get(taker.source_id, {})
        found = load(job.file, job.root, most_bytes=options.most_bytes, name=taker.path, settings=options.settings)
        for loaded in found:
            if isinstance(loaded, Skipped):
                yield taker.source_id, loaded
                continue
            document = prepared(taker, loaded, options)
            same = held.get((document.document_id, document.version)) == document.content_hash
            yield CutDocument(taker, document, None if same else chunks_of(document, options.counter))


def prepared(
    taker: Assigned, loaded: LoadedDocument, options: IngestOptions, document_id: str | None = None
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
