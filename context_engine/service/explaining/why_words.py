"""Why a chunk was shown or not, in words, and the smallest change that would have shown it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from context_engine.core.models import Key, Outcome, SearchResult, Settings
from context_engine.service.explaining.words import reason_words

if TYPE_CHECKING:
    from context_engine.audit.review.case import Change
    from context_engine.audit.review.smallest import Counterfactual, Search
    from context_engine.audit.review.why import Absence, Standing, Why
    from context_engine.core.models import Fate


_MOST_NAMED: Final = 5

NOT_SAME: Final = (
    "Stage 2 computed again does not give the recorded answer: the following describes the new result. "
    "'audit replay' shows where they differ."
)
"""What to say first if `Why.same` is false."""

_UNSCORED: Final = "The reranker has no score for it: this rank rests on the relevance of stage 1 alone."

_ASKED_OTHERWISE: Final = (
    "With another filter or day the sources might return other candidates: this used the recorded ones."
)


class _Names:
    """Names of the chunks of a search, for people."""

    def __init__(self, names: Mapping[Key, str]) -> None:
        self._names = names

    def of(self, key: Key) -> str:
        """Return the name of a chunk with its source."""
        return f"{self._names.get(key, key[1])} ({key[0]})"

    def of_all(self, keys: Sequence[Key]) -> str:
        """Return the names of the first chunks, and how many more there are."""
        more = f" and {len(keys) - _MOST_NAMED} more" if len(keys) > _MOST_NAMED else ""
        return ", ".join(self.of(key) for key in keys[:_MOST_NAMED]) + more


def why_lines(why: Why, result: SearchResult, chunk_names: Mapping[Key, str]) -> Iterator[str]:
    """Yield the lines of an answer to "why"; further lines about one fact are indented.

    Args:
        chunk_names: for people, by source and chunk.
    """
    names = _Names(chunk_names)
    chunk = names.of((why.source_id, why.chunk_id))
    if why.absence is not None:
        yield f"{chunk} was no candidate: {_absence(why.absence)}."
        return
    if why.fate is not None:
        yield f"{chunk} {_fate(why.fate, why.rank, names)}."
    yield f"  left after each stage: {' → '.join(f'{stage.name} {stage.left}' for stage in why.funnel)}"
    if why.standing is not None:
        yield from _standing(why.standing, result.settings.values)
    yield from _shown(why, names)
    if why.changes is not None:
        yield from _changes(why.changes, names)


def _absence(absence: Absence) -> str:
    asked = f"the source was asked for {absence.asked} and gave {absence.chunks}"
    detail = f" ({absence.detail})" if absence.detail else ""
    return {
        "withheld": f"the source gave it, and the caller was not cleared for it{detail}",
        "source_denied": f"its source was not searched for the caller{detail}",
        "source_not_searched": "this search asked no source of that name",
        "source_failed": f"its source did not answer, or not in full{detail}",
        "maybe_cut": f"{asked}, {absence.cut} more were cut, and which is not recorded",
        "maybe_beyond": f"{asked}; it may have come next, and stage1_top_k would have to be larger",
        "maybe_refused": f"{asked}, {absence.rejected} more were unusable, and which is not recorded",
        "not_found": f"{asked}, and this was not among them",
    }[absence.why]


def _fate(fate: Fate, rank: int | None, names: _Names) -> str:
    if fate.outcome is Outcome.RETURNED:
        return f"was shown at rank {rank}"
    tested = "" if fate.value is None else f", {_rounded(fate.value)}"
    limit = "" if fate.limit is None else f" (limit {_number(fate.limit)})"
    if fate.outcome is Outcome.MERGED and fate.into is not None:
        return f"was merged into {names.of(fate.into)}: {reason_words(fate.reason)}{tested}{limit}"
    place = f", place {fate.value}" if fate.reason == "beyond_top_k" else tested
    return f"was dropped at {fate.stage}: {reason_words(fate.reason)}{place}{limit}"


def _standing(standing: Standing, settings: Settings) -> Iterator[str]:
    parts = [f"tier {standing.tier}", f"relevance {standing.relevance:.4f}"]
    if standing.absolute is not None:
        parts.append(f"absolute {standing.absolute:.4f}")
    if standing.rerank_score is not None:
        parts.append(f"reranker {standing.rerank_score:.4f}")
    yield f"  {', '.join(parts)}"
    if standing.final is not None and standing.boost is not None:
        supposed = ", had no limit stood in its way" if standing.supposed else ""
        yield (
            f"  {settings.relevance_weight:g} × {standing.relevance:.4f} + {settings.authority_weight:g} × "
            f"{standing.boost:.2f} = {standing.final:.4f}{supposed}"
        )
    if standing.place is not None:
        gap = standing.gap or 0.0
        below = f", {gap:.4f} below the last that was shown" if gap > 0.0 else ""
        yield f"  place {standing.place} of {standing.ranked}{below}"


def _shown(why: Why, names: _Names) -> Iterator[str]:
    """Yield the reasons for the rank of a shown chunk."""
    if why.also_in:
        yield f"  merged into it: {names.of_all([(member.source_id, member.chunk_id) for member in why.also_in])}"
    own = (why.source_id, why.chunk_id)
    passed = [swap.loser for swap in why.swaps if swap.winner == own]
    lost = [swap.winner for swap in why.swaps if swap.loser == own]
    if passed:
        yield f"  by its tier it passed {names.of_all(passed)}"
    if lost:
        yield f"  by their tiers it was passed by {names.of_all(lost)}"


def _changes(search: Search, names: _Names) -> Iterator[str]:
    if search.single is not None:
        yield _sentence(search.single, names)
        yield from _beside(search.single, names)
        return
    yield "No single change would have shown it."
    if search.pair is not None:
        yield f"Two together would: {_sentence(search.pair, names)}"
        yield from _beside(search.pair, names)
    yield f"  tried in vain: {', '.join(f'{name} ({count})' for name, count in search.tried)}"


def _sentence(counterfactual: Counterfactual, names: _Names) -> str:
    changes = " and ".join(_change(change, names) for change in counterfactual.changes)
    return f"{changes[:1].upper()}{changes[1:]} it would have been shown at rank {counterfactual.rank}."


def _change(change: Change, names: _Names) -> str:
    was, now = _number(change.was), _number(change.now)
    if change.kind == "text":
        source, _, chunk = change.name.partition("/")
        return f"without the text {names.of((source, chunk))}"
    if change.kind == "source":
        source, _, field = change.name.rpartition(".")
        return f"with the {field} of source {source} {now} instead of {was}"
    if change.name == "as_of":
        return f"asked about {now} instead of {was}"
    if change.name == "filters":
        return "without the filter" if change.now is None else f"with no more of the filter than {now}"
    return f"with {change.name} {now} instead of {was}"


def _beside(counterfactual: Counterfactual, names: _Names) -> Iterator[str]:
    """Yield the further effects of a change, and its uncertainties."""
    if counterfactual.left:
        yield f"  no longer shown then: {names.of_all(counterfactual.left)}"
    if counterfactual.came:
        yield f"  shown then as well: {names.of_all(counterfactual.came)}"
    if counterfactual.unscored:
        yield f"  {_UNSCORED}"
    if counterfactual.asks_otherwise:
        yield f"  {_ASKED_OTHERWISE}"


def _rounded(value: float | str) -> str:
    return _number(round(value, 4) if isinstance(value, float) else value)


def _number(value: Any) -> str:
    """Return a value for people; a limit has all its digits, because the user has to set it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:.4f}".rstrip("0").rstrip(".") if value == round(value, 4) else repr(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
