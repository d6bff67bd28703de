"""The report of a run of `ingest`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from context_engine.core.models import Chunk, Notice, NoticeCode
from context_engine.ingest.documents import CutBy
from context_engine.ingest.loaded_document import Skipped

DocumentKey = tuple[str, str]
"""Document id, version."""
_MOST_NAMED: Final = 3


def documents(count: int) -> str:
    """Return a number of documents in words.

    >>> documents(1), documents(2000)
    ('1 document', '2,000 documents')
    """
    return "1 document" if count == 1 else f"{count:,} documents"


class RefusedDocument(NamedTuple):
    """A document that the target refused, with the reason; the target keeps its previous version."""

    source_id: str
    document_id: str
    version: str
    reason: str

    def __str__(self) -> str:
        version = f" version {self.version}" if self.version else ""
        return f"document {self.document_id}{version} of source {self.source_id}: {self.reason}"


class KeptDocuments(NamedTuple):
    """Documents of a source that the base still holds although the folder does not.

    Attributes:
        reason: NOT_PRUNED, DOCUMENTS_GONE or SOURCE_EMPTIED.
        cause: the reason and the remedy in words.
        documents: (document id, version) of each.
    """

    source_id: str
    reason: NoticeCode
    cause: str
    documents: tuple[DocumentKey, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "source_id": self.source_id,
            "reason": str(self.reason),
            "cause": self.cause,
            "documents": [{"document_id": document_id, "version": version} for document_id, version in self.documents],
        }

    def notice(self) -> Notice:
        """Return the notice for the report."""
        names = [
            f"{document_id} version {version}" if version else document_id
            for document_id, version in self.documents[:_MOST_NAMED]
        ]
        more = ", …" if len(self.documents) > _MOST_NAMED else ""
        message = f"{documents(len(self.documents))} ({', '.join(names)}{more}) {self.cause}"
        return Notice(self.reason, f"source {self.source_id}", message, {"count": len(self.documents)})


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestReport:
    """The results of a run; in a dry run, the expected results.

    Attributes:
        files: files looked at.
        documents: documents found, including unchanged ones.
        chunks: chunks written.
        unchanged, replaced, removed: documents left alone, overwritten and deleted; all others are new or refused.
        refused: documents that the target refused.
        skipped: files and lines that gave no document.
        kept: documents that the folder does not hold and that were not removed.
        notices: guesses and omissions, each about a file, a record or a source.
        cut_by: number of documents by the decision on their cut: "declared" (a type or a profile), or the structure
            found in them: "sections", "fields" or "windows".
        samples: in a dry run, the first chunks that would be written.
        sources: the counts of each source: documents, unchanged, replaced, removed, refused, chunks.
        shared: paths of files that gave several documents.
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
    refused: tuple[RefusedDocument, ...] = ()
    kept: tuple[KeptDocuments, ...] = ()
    cut_by: Mapping[CutBy, int] = field(default_factory=dict)
    samples: tuple[Chunk, ...] = ()
    sources: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    shared: frozenset[str] = frozenset()
    dry_run: bool = False

    @property
    def warnings(self) -> tuple[str, ...]:
        """The notices as lines, each with its subject."""
        return tuple(f"{notice.subject}: {notice.message}" for notice in self.notices)

    @property
    def added(self) -> int:
        """The number of new documents."""
        return self.documents - self.unchanged - self.replaced - len(self.refused)

    @property
    def emptied(self) -> tuple[KeptDocuments, ...]:
        """Documents that were not pruned because the folder holds nothing of their source any more."""
        return tuple(documents for documents in self.kept if documents.reason is NoticeCode.SOURCE_EMPTIED)

    @property
    def errors(self) -> tuple[Skipped, ...]:
        """The skipped files and lines that should have worked."""
        return tuple(skipped for skipped in self.skipped if skipped.error)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {
            "files": self.files,
            "documents": self.documents,
            "added": self.added,
            "unchanged": self.unchanged,
            "replaced": self.replaced,
            "removed": self.removed,
            "chunks": self.chunks,
            "cut_by": {kind: self.cut_by.get(kind, 0) for kind in ("declared", "sections", "fields", "windows")},
            "refused": [refused._asdict() for refused in self.refused],
            "kept": [kept.to_dict() for kept in self.kept],
            "skipped": [skipped._asdict() for skipped in self.skipped],
            "warnings": list(self.warnings),
            "samples": [chunk.to_dict() for chunk in self.samples],
            "elapsed_s": round(self.elapsed_s, 3),
            "dry_run": self.dry_run,
        }
