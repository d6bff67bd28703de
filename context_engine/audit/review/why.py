"""Explain why a chunk was shown or not, and find the smallest change that would have shown it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self

from context_engine.audit.review.case import Case, candidates_of
from context_engine.audit.review.smallest import Search, smallest_changes
from context_engine.core.engine import recompute, stage_two_bytes
from context_engine.core.engine.candidate_table import TextCache
from context_engine.core.models import (
    Fate,
    Key,
    Member,
    Outcome,
    RankedChunk,
    SearchResult,
    SourceStatus,
    StageTrace,
    Swap,
)
from context_engine.errors import InvalidRequest, nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The numbers of a candidate that was measured.

    Attributes:
        relevance, absolute, boost, final, rerank_score: as in `RankedChunk`; of a merged candidate only its own
            relevance is known.
        place: 1-based place among all ranked candidates; None if dropped before.
        ranked: number of ranked candidates.
        last: final score of the last chunk shown; None if no chunk was shown.
        supposed: the chunk was dropped before ranking; relevance, boost and final are computed as if there were no
            limits.
    """

    tier: int
    relevance: float
    absolute: float | None = None
    boost: float | None = None
    final: float | None = None
    rerank_score: float | None = None
    place: int | None = None
    ranked: int = 0
    last: float | None = None
    supposed: bool = False

    @property
    def gap(self) -> float | None:
        """The final score of the last chunk shown minus its own; negative if other rules passed it over."""
        return None if self.final is None or self.last is None else self.last - self.final

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {**asdict(self), "gap": self.gap}


def standing_of(case: Case) -> Standing | None:
    """Return where a candidate stood; None if it was dropped before it was measured."""
    if case.fate.outcome is Outcome.MERGED:
        return _of_merged(case, case.fate.into)
    chunk, supposed = case.shown_in(case.uncut), False
    if chunk is None and case.fate.stage in ("threshold", "scope", "relevance"):
        chunk, supposed = case.shown_in(case.unlimited), True
    return None if chunk is None else _of_ranked(case, chunk, supposed)


def _of_ranked(case: Case, chunk: RankedChunk, supposed: bool) -> Standing:
    shown = case.result.chunks
    return Standing(
        tier=chunk.authority_tier,
        relevance=chunk.relevance,
        absolute=chunk.absolute,
        boost=chunk.boost,
        final=chunk.final,
        rerank_score=chunk.rerank_score,
        place=None if supposed else chunk.rank,
        ranked=len(case.uncut.chunks),
        last=shown[-1].final if shown else None,
        supposed=supposed,
    )


def _of_merged(case: Case, into: Key | None) -> Standing | None:
    """Return the relevance that a text had before it was merged, from the list of the chunk it was merged into."""
    for chunk in case.unlimited.chunks:
        if (chunk.source_id, chunk.chunk_id) == into:
            for member in chunk.also_in:
                if (member.source_id, member.chunk_id) == case.key:
                    return Standing(tier=member.authority_tier, relevance=member.relevance)
    return None


_MOST_NAMED: Final = 5  # chunks named in an error


def _named_key(keys: Sequence[Key], sources: Collection[str], chunk: str, source: str | None) -> Key:
    """Return the chunk that is meant: a candidate, a withheld chunk, or else the exact one named."""
    of_source = [key for key in keys if source in (None, key[0])]
    matches = [key for key in of_source if key[1] == chunk] or [key for key in of_source if key[1].startswith(chunk)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        named = ", ".join(f"{key[0]}/{key[1]}" for key in sorted(matches)[:_MOST_NAMED])
        more = " and more" if len(matches) > _MOST_NAMED else ""
        raise InvalidRequest(f"{chunk!r} matches several chunks: {named}{more}. Give one of these ids in full")
    if source is not None:
        return source, chunk
    named, slash, rest = chunk.partition("/")  # a chunk's id may hold a slash, a source's never does
    if slash and named in sources:
        return _named_key(keys, sources, rest, named)
    hint = nearest(chunk, (key[1] for key in keys[:1000]))
    raise InvalidRequest(
        f"no candidate of this search has an id that begins with {chunk!r}: write SOURCE/CHUNK to learn why that "
        f"source did not give it.{hint if 'mean' in hint else ''}"
    )


class WhyAbsent(StrEnum):
    """Why a chunk was not a candidate."""

    WITHHELD = "withheld"
    SOURCE_DENIED = "source_denied"
    SOURCE_NOT_SEARCHED = "source_not_searched"
    SOURCE_FAILED = "source_failed"
    MAYBE_CUT = "maybe_cut"
    MAYBE_BEYOND = "maybe_beyond"
    MAYBE_REFUSED = "maybe_refused"
    NOT_FOUND = "not_found"


class AccessTaken(NamedTuple):
    """What access control removed from a search, as recorded.

    Attributes:
        denied: (source, reason) of each source not searched for the caller.
        withheld: (source, chunk, classification) of each chunk removed from an answer.
    """

    denied: Sequence[tuple[str, str]] = ()
    withheld: Sequence[tuple[str, str, str]] = ()

    @classmethod
    def of_entry(cls, entry: Mapping[str, Any]) -> Self:
        """Return what access control removed, from the complete entry of a search."""
        denied = [(source, reason) for source, reason in entry.get("denied", ())]
        return cls(denied, [(source, chunk, needed) for source, chunk, needed in entry.get("withheld", ())])


NOTHING_TAKEN: Final = AccessTaken()


def why(result: SearchResult, chunk: str, source: str | None = None, access: AccessTaken = NOTHING_TAKEN) -> Why:
    """Return why a chunk was shown or not.

    Args:
        result: the search, with its request and answers.
        chunk: the chunk's id, or an unambiguous beginning of it; SOURCE/CHUNK also names its source.
        source: the source's id; needed if several have such a chunk, and for a chunk that was not a candidate.

    Raises:
        InvalidRequest: no chunk or several match, or the result does not contain its request.
    """
    analyse = TextCache().analysed
    again = recompute(result, analyse)
    same = stage_two_bytes(again) == stage_two_bytes(result)
    keys = list(
        dict.fromkeys(
            [*candidates_of(again, analyse), *((source_id, other) for source_id, other, _ in access.withheld)]
        )
    )
    sources = (
        {spec.id for spec in result.specs}
        | {source_id for source_id, _ in access.denied}
        | {source_id for source_id, _ in keys}
    )
    key = _named_key(keys, sources, chunk, source)
    if (
        fate := next(
            (
                candidate_fate
                for candidate_fate in again.fates
                if (candidate_fate.source_id, candidate_fate.chunk_id) == key
            ),
            None,
        )
    ) is None:
        absence = absence_of(result, *key, access)
        return Why(search_id=result.search_id, source_id=key[0], chunk_id=key[1], same=same, absence=absence)
    case = Case(again, key, analyse)
    shown = case.shown_in(again)
    return Why(
        search_id=result.search_id,
        source_id=key[0],
        chunk_id=key[1],
        same=same,
        fate=fate,
        standing=standing_of(case),
        funnel=again.stages[: [stage.name for stage in again.stages].index(fate.stage) + 1],
        rank=None if shown is None else shown.rank,
        also_in=() if shown is None else shown.also_in,
        swaps=() if shown is None else tuple(swap for swap in again.swaps if key in (swap.winner, swap.loser)),
        changes=smallest_changes(case) if fate.outcome is not Outcome.RETURNED else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """Why a chunk was not a candidate.

    Attributes:
        why: maybe_cut: the source gave more than asked, and what was cut is not recorded. maybe_beyond: it gave as many
            as asked, and the chunk may have come next. maybe_refused: some of what it gave was refused as invalid.
            not_found: it gave fewer than asked, and this was not among them.
        detail: the classification, the reason of the rule, or the failure; "" for none.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """What became of a chunk in a search.

    Attributes:
        same: recomputing stage 2 gives the recorded bytes; if not, everything below describes the recomputed search.
        absence: why it was not a candidate; None if it was. If set, everything else except `same` is empty.
        fate: its fate.
        standing: its numbers; None if it was dropped before it was measured.
        funnel: the stages that the chunk went through; it ended at the last of them.
        rank: its rank if shown.
        also_in: texts merged into it, if shown.
        swaps: pairs with another chunk whose order the tier reversed, if shown.
        changes: what would have shown it; None if shown.
    """

    search_id: str
    source_id: str
    chunk_id: str
    same: bool
    absence: Absence | None = None
    fate: Fate | None = None
    standing: Standing | None = None
    funnel: tuple[StageTrace, ...] = ()
    rank: int | None = None
    also_in: tuple[Member, ...] = ()
    swaps: tuple[Swap, ...] = ()
    changes: Search | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {
            "search_id": self.search_id,
            "source_id": self.source_id,
            "chunk_id": self.chunk_id,
            "same": self.same,
            "absence": None if self.absence is None else self.absence.to_dict(),
            "fate": None if self.fate is None else self.fate.to_dict(),
            "standing": None if self.standing is None else self.standing.to_dict(),
            "funnel": [{"name": stage.name, "entered": stage.entered, "left": stage.left} for stage in self.funnel],
            "rank": self.rank,
            "also_in": [member._asdict() for member in self.also_in],
            "swaps": [swap.to_dict() for swap in self.swaps],
            "changes": None if self.changes is None else self.changes.to_dict(),
        }


def absence_of(result: SearchResult, source_id: str, chunk_id: str, access: AccessTaken) -> Absence:
    """Return why a chunk of a source was not among the candidates of a search."""
    for source, chunk, classification in access.withheld:
        if (source, chunk) == (source_id, chunk_id):
            return Absence(why=WhyAbsent.WITHHELD, detail=str(classification))
    for source, reason in access.denied:
        if source == source_id:
            return Absence(why=WhyAbsent.SOURCE_DENIED, detail=str(reason))
    status = next((status for status in result.sources if status.source_id == source_id), None)
    if status is None:
        return Absence(why=WhyAbsent.SOURCE_NOT_SEARCHED)
    return _of_answer(status, status.asked or result.settings.values.stage1_top_k)


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
