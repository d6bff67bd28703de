"""Why a chunk was shown or not, and the smallest change that would have shown it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from context_engine.audit.review.absence import Absence, AccessTaken, absence_of
from context_engine.audit.review.case import Case, candidates_of
from context_engine.audit.review.smallest import Search, smallest_changes
from context_engine.audit.review.standing import Standing, standing_of
from context_engine.core.engine import recompute, stage_two_bytes
from context_engine.core.engine.text_cache import TextCache
from context_engine.core.models import Fate, Key, Member, Outcome, SearchResult, StageTrace, Swap
from context_engine.errors import InvalidRequest, nearest

NOTHING_TAKEN: Final = AccessTaken()
_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """What became of a chunk in a search.

    Attributes:
        search_id: of the search.
        source_id, chunk_id: of the chunk.
        same: stage 2 computed again gives the bytes that were recorded. Where not, all that follows is of what it
            gives now.
        absence: why it was no candidate; None where it was one, and all else but `same` is empty where it was not.
        fate: what became of it.
        standing: its numbers; None where it was dropped before it was measured.
        funnel: the stages it went through, the last the one that it ended at.
        rank: where it is shown; None where it is not.
        also_in: the texts that were merged into it, where it is shown.
        swaps: pairs of it and another that the tier turned round, where it is shown.
        changes: what would have shown it; None where it is shown.
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
            "funnel": [{"name": one.name, "entered": one.entered, "left": one.left} for one in self.funnel],
            "rank": self.rank,
            "also_in": [member._asdict() for member in self.also_in],
            "swaps": [swap.to_dict() for swap in self.swaps],
            "changes": None if self.changes is None else self.changes.to_dict(),
        }


def why(result: SearchResult, chunk: str, source: str | None = None, access: AccessTaken = NOTHING_TAKEN) -> Why:
    """Return why a chunk was shown or not.

    Args:
        result: of the search, with its request and answers.
        chunk: the chunk's id, or the beginning of it that no other candidate has; SOURCE/CHUNK names its source too.
        source: the source's id; needed where several have such a chunk, and for a chunk that was no candidate.
        access: what access control took from the search.

    Raises:
        InvalidRequest: no chunk or several are meant, or the result does not hold its request.
    """
    analyse = TextCache().analysed
    again = recompute(result, analyse)
    same = stage_two_bytes(again) == stage_two_bytes(result)
    keys = list(dict.fromkeys([*candidates_of(again, analyse), *((one, other) for one, other, _ in access.withheld)]))
    sources = {spec.id for spec in result.specs} | {one for one, _ in access.denied} | {one for one, _ in keys}
    key = _meant(keys, sources, chunk, source)
    if (fate := next((one for one in again.fates if (one.source_id, one.chunk_id) == key), None)) is None:
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
        funnel=_funnel(again, fate),
        rank=None if shown is None else shown.rank,
        also_in=() if shown is None else shown.also_in,
        swaps=() if shown is None else tuple(one for one in again.swaps if key in (one.winner, one.loser)),
        changes=smallest_changes(case) if fate.outcome is not Outcome.RETURNED else None,
    )


def _funnel(result: SearchResult, fate: Fate) -> tuple[StageTrace, ...]:
    names = [stage.name for stage in result.stages]
    return result.stages[: names.index(fate.stage) + 1]


def _meant(keys: Sequence[Key], sources: Collection[str], chunk: str, source: str | None) -> Key:
    """Return the chunk that is meant: a candidate, one that was withheld, or else the very one that is named."""
    of_source = [key for key in keys if source in (None, key[0])]
    found = [key for key in of_source if key[1] == chunk] or [key for key in of_source if key[1].startswith(chunk)]
    if len(found) == 1:
        return found[0]
    if found:
        named = ", ".join(f"{key[0]}/{key[1]}" for key in sorted(found)[:_MOST_NAMED])
        more = " and more" if len(found) > _MOST_NAMED else ""
        raise InvalidRequest(f"{chunk!r} may be one of several chunks: {named}{more}. Give one of them whole")
    if source is not None:
        return source, chunk
    named, slash, rest = chunk.partition("/")  # a chunk's id may hold a slash, a source's never does
    if slash and named in sources:
        return _meant(keys, sources, rest, named)
    hint = nearest(chunk, (key[1] for key in keys[:1000]))
    raise InvalidRequest(
        f"no candidate of this search has an id that begins with {chunk!r}: name its source as SOURCE/CHUNK to learn "
        f"why it did not give it.{hint if 'mean' in hint else ''}"
    )
