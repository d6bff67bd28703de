"""What a run of `ingest` did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from context_engine.core.models import Chunk, Notice
from context_engine.ingest.loaded_document import Skipped

__all__ = ["IngestReport", "Refused", "documents"]


def documents(count: int) -> str:
    """Return a number of documents in words.

    >>> documents(1), documents(2000)
    ('1 document', '2,000 documents')
    """
    return "1 document" if count == 1 else f"{count:,} documents"


class Refused(NamedTuple):
    """A document that the target did not take, and why; what it held of it before is still there."""

    source_id: str
    document_id: str
    version: str
    reason: str

    def __str__(self) -> str:
        version = f" version {self.version}" if self.version else ""
        return f"document {self.document_id}{version} of source {self.source_id}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestReport:
    """What a run did; in a dry run, what it would have done.

    Attributes:
        files: files looked at.
        documents: documents found, unchanged ones among them.
        chunks: chunks written.
        unchanged, replaced, removed: documents left as they were, written over, taken out; the other
            documents are new, or refused.
        refused: documents that the target did not take, and why.
        skipped: files and lines that gave no document, and why.
        notices: what was guessed or left out, each about its file, its record or its source.
        samples: of a dry run, the first chunks that would be written.
        elapsed_s: seconds.
    """

    files: int
    documents: int
    chunks: int
    unchanged: int
    replaced: int
    removed: int
    skipped: tuple[Skipped, ...]
    notices: tuple[Notice, ...]
    elapsed_s: float
    refused: tuple[Refused, ...] = ()
    samples: tuple[Chunk, ...] = ()
    dry_run: bool = False

    @property
    def warnings(self) -> tuple[str, ...]:
        """The notices as lines, each with what it is about."""
        return tuple(f"{one.subject}: {one.message}" for one in self.notices)

    @property
    def added(self) -> int:
        """Documents that were not there before."""
        return self.documents - self.unchanged - self.replaced - len(self.refused)

    @property
    def errors(self) -> tuple[Skipped, ...]:
        """What was skipped although it should have worked."""
        return tuple(one for one in self.skipped if one.error)

    def to_dict(self) -> dict[str, Any]:
        """Return the report, ready for JSON."""
        return {
            "files": self.files,
            "documents": self.documents,
            "added": self.added,
            "unchanged": self.unchanged,
            "replaced": self.replaced,
            "removed": self.removed,
            "chunks": self.chunks,
            "refused": [one._asdict() for one in self.refused],
            "skipped": [one._asdict() for one in self.skipped],
            "warnings": list(self.warnings),
            "samples": [chunk.to_dict() for chunk in self.samples],
            "elapsed_s": round(self.elapsed_s, 3),
            "dry_run": self.dry_run,
        }
