"""Why a chunk was not among the candidates of a search, as far as its record tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Self

from context_engine.core.models import SearchResult, SourceStatus


class WhyAbsent(StrEnum):
    """What kept a chunk from being a candidate."""

    WITHHELD = "withheld"
    SOURCE_DENIED = "source_denied"
    SOURCE_NOT_SEARCHED = "source_not_searched"
    SOURCE_FAILED = "source_failed"
    MAYBE_CUT = "maybe_cut"
    MAYBE_BEYOND = "maybe_beyond"
    MAYBE_REFUSED = "maybe_refused"
    NOT_FOUND = "not_found"


class AccessTaken(NamedTuple):
    """What access control took from a search, as its record has it.

    Attributes:
        denied: (source, reason) of each source that was not searched for the caller.
        withheld: (source, chunk, classification) of each chunk that was taken out of an answer.
    """

    denied: Sequence[tuple[str, str]] = ()
    withheld: Sequence[tuple[str, str, str]] = ()

    @classmethod
    def of_entry(cls, entry: Mapping[str, Any]) -> Self:
        """Return what access control took, out of the whole entry of a search."""
        denied = [(source, reason) for source, reason in entry.get("denied", ())]
        return cls(denied, [(source, chunk, needed) for source, chunk, needed in entry.get("withheld", ())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """Why a chunk was no candidate.

    Attributes:
        why: maybe_cut: the source gave more than it was asked for, and what was cut is not recorded. maybe_beyond: it
            gave as many as it was asked for, and the chunk may have come next. maybe_refused: some of what it gave was
            no chunk, and was refused. not_found: it gave fewer than it was asked for, and this was not among them.
        detail: the classification, the reason of the rule, or what failed; "" where there is nothing to add.
        asked, chunks, cut, rejected: as in `SourceStatus`.
    """

    why: WhyAbsent
    detail: str = ""
    asked: int = 0
    chunks: int = 0
    cut: int = 0
    rejected: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {"why": str(self.why), "detail": self.detail} | {
            name: getattr(self, name) for name in ("asked", "chunks", "cut", "rejected")
        }


def absence_of(result: SearchResult, source_id: str, chunk_id: str, access: AccessTaken) -> Absence:
    """Return why a chunk of a source was not among the candidates of a search.

    Args:
        result: whose candidates do not hold it.
        source_id: the source.
        chunk_id: the chunk.
        access: what access control took.
    """
    for source, chunk, classification in access.withheld:
        if (source, chunk) == (source_id, chunk_id):
            return Absence(why=WhyAbsent.WITHHELD, detail=str(classification))
    for source, reason in access.denied:
        if source == source_id:
            return Absence(why=WhyAbsent.SOURCE_DENIED, detail=str(reason))
    status = next((one for one in result.sources if one.source_id == source_id), None)
    if status is None:
        return Absence(why=WhyAbsent.SOURCE_NOT_SEARCHED)
    return _of_answer(status, _asked(status, result))


def _of_answer(status: SourceStatus, asked: int) -> Absence:
    why, detail = WhyAbsent.NOT_FOUND, ""
    if status.state == "failed":
        why, detail = WhyAbsent.SOURCE_FAILED, str((status.error or {}).get("code", ""))
    elif status.cut:
        why = WhyAbsent.MAYBE_CUT
    elif status.chunks >= asked:
        why = WhyAbsent.MAYBE_BEYOND
    elif status.state == "partial":
        why, detail = WhyAbsent.SOURCE_FAILED, str((status.error or {}).get("code", ""))
    elif status.rejected:
        why = WhyAbsent.MAYBE_REFUSED
    return Absence(why=why, detail=detail, asked=asked, chunks=status.chunks, cut=status.cut, rejected=status.rejected)


def _asked(status: SourceStatus, result: SearchResult) -> int:
    return status.asked or result.settings.values.stage1_top_k
