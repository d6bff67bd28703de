"""Find the answers that used a document: every record that showed, fetched, merged or dropped it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, NamedTuple

from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.look_up import ChunkMention, MentionCriteria, RecordRow

FATES: Final = ("returned", "merged", "dropped")
"""The fates of chunks, the most visible first."""


class NamedChunk(NamedTuple):
    """A chunk of the document in one answer.

    Attributes:
        rank: 1-based rank if it was returned and the entry still states it; else None.
        fate: returned, merged or dropped.
    """

    rank: int | None
    fate: str
    source_id: str
    chunk_id: str
    document_id: str | None
    document_version: str | None
    content_sha256: str | None


@dataclass(frozen=True, slots=True)
class AffectedAnswer:
    """An answer, or a fetch by ids, that involved the document.

    Attributes:
        record: look-up row of its record.
        chunks: chunks of the document: shown, then merged, then dropped.
    """

    record: RecordRow
    chunks: tuple[NamedChunk, ...]

    @property
    def fate(self) -> str:
        """The most visible fate: returned, else merged, else dropped."""
        return min((chunk.fate for chunk in self.chunks), key=_place)

    @property
    def rank(self) -> int | None:
        """The best rank of a returned chunk; None if none was returned or it is no longer known."""
        return min((chunk.rank for chunk in self.chunks if chunk.rank is not None), default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        record = self.record
        return {
            "search_id": record.record_id,
            "index": record.index,
            "time": record.time,
            "kind": record.kind,
            "domain": record.domain,
            "caller": record.caller,
            "status": record.status,
            "decision": record.decision,
            "fate": self.fate,
            "rank": self.rank,
            "chunks": [chunk._asdict() for chunk in self.chunks],
        }


def impact(ledger: Ledger, wanted: MentionCriteria) -> Iterator[AffectedAnswer]:
    """Yield the answers that involved the given chunks, oldest first.

    Args:
        wanted: a document with or without version, a text by its SHA-256, or a chunk.

    Raises:
        AuditError: the ledger cannot be read.
    """
    return affected(ledger, ledger.mentions(wanted))


def affected(ledger: Ledger, mentions: Iterable[ChunkMention]) -> Iterator[AffectedAnswer]:
    """Yield the answer of each record in chunks that records name.

    Args:
        mentions: those of one record together.

    Raises:
        AuditError: the ledger cannot be read.
    """
    for _, group in groupby(mentions, key=lambda mention: mention.record.index):
        named = list(group)
        ranks = _ranks(ledger, named)
        chunks = (_chunk(mention, ranks.get((mention.source_id, mention.chunk_id))) for mention in named)
        ordered = sorted(
            chunks, key=lambda chunk: (_place(chunk.fate), chunk.rank or 0, chunk.source_id, chunk.chunk_id)
        )
        yield AffectedAnswer(named[0].record, tuple(ordered))


def _chunk(mention: ChunkMention, rank: int | None) -> NamedChunk:
    return NamedChunk(
        rank=rank if mention.fate == "returned" else None,
        fate=mention.fate,
        source_id=mention.source_id,
        chunk_id=mention.chunk_id,
        document_id=mention.document_id,
        document_version=mention.document_version,
        content_sha256=mention.content_sha256,
    )


def _ranks(ledger: Ledger, mentions: Sequence[ChunkMention]) -> dict[tuple[str, str], int]:
    """Return the ranks that a record's entry gives its chunks; {} for a fetch or a pruned entry."""
    if mentions[0].record.kind == "fetch" or not any(mention.fate == "returned" for mention in mentions):
        return {}
    stored = ledger.entry_at(mentions[0].record.index)
    try:
        entry = json.loads(stored.entry) if stored is not None and stored.entry is not None else {}
        return {(chunk["source"], chunk["chunk"]): rank for rank, chunk in enumerate(entry.get("chunks", ()), 1)}
    except (ValueError, KeyError, TypeError, AttributeError):  # a damaged entry is reported by `audit verify`
        return {}


def _place(fate: str) -> int:
    return FATES.index(fate) if fate in FATES else len(FATES)
