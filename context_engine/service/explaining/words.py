"""Words for an explanation: why each candidate is in the answer or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from context_engine.core.context.fence import inert_line
from context_engine.core.models import BlendFeature, Fate, Outcome, RankedChunk, Settings, canonical_json
from context_engine.core.text import content_sha256
from context_engine.service.contract.chunks import ChunkShown
from context_engine.service.contract.explanation import ChunkNotShown, Explanation

_REASONS: Final = {
    "below_min_relevance": "below the relevance limit",
    "beyond_top_k": "beyond the number asked for",
    "document_limit": "its document has as many as are allowed",
    "too_similar": "too like a chunk that is returned",
    "filter_not_met": "does not keep the filter",
    "not_yet_effective": "not yet in force",
    "no_longer_effective": "no longer in force",
    "out_of_scope": "out of scope",
}
_LONGEST: Final = 200


def reason_words(reason: str) -> str:
    """Return in words why a candidate is not in the answer."""
    return _REASONS.get(reason, reason.replace("_", " "))


def blend_words(terms: Mapping[BlendFeature, float]) -> str:
    """Return the contribution of each term of a learnt blend, largest first.

    >>> blend_words({"stage1": 0.8, "cosine": -1.25})
    'cosine -1.25, stage1 +0.80'
    """
    return ", ".join(f"{name} {value:+.2f}" for name, value in sorted(terms.items(), key=lambda term: -abs(term[1])))


def setting_words(name: str, value: Any) -> Any:
    """Return a setting's value for people; a learnt blend is shown by its digest instead of its weights.

    >>> setting_words("learnt_blend", {"measured_by": "bm25", "terms": {"stage1": {"weight": 1.0}}})
    'blend 546b58f78832, 1 term'
    """
    if name != "learnt_blend" or not isinstance(value, Mapping):
        return value
    terms = len(value.get("terms", ()))
    return f"blend {content_sha256(canonical_json(value))[:12]}, {terms} term{'' if terms == 1 else 's'}"


def why_shown(
    chunk: RankedChunk,
    settings: Settings,
    terms: Mapping[BlendFeature, float] | None = None,
    adapter: str | None = None,
) -> str:
    """Return the formula that ranked a chunk, with numbers.

    Args:
        terms: the terms of the learnt blend that gave its relevance.
    """
    formula = (
        f"{settings.relevance_weight:g} × relevance {chunk.relevance:.4f} + {settings.authority_weight:g} × boost "
        f"{chunk.boost:.2f} of tier {chunk.authority_tier} = {chunk.final:.4f}"
    )
    formula += f"; relevance learnt from {blend_words(terms)}" if terms else ""
    if chunk.rerank_score is None:
        return formula
    under = "" if adapter is None else f" under the adapter {adapter}"
    return f"{formula}; reranker {chunk.rerank_score:.2f}{under}"


def why_not_shown(fate: Fate) -> str:
    """Return the fate of a candidate that is not in the answer."""
    words = reason_words(fate.reason)
    if fate.outcome is Outcome.MERGED and fate.into is not None:
        return f"merged into {'/'.join(fate.into)}: {words}"
    place = "place " if fate.reason == "beyond_top_k" else ""
    value = "" if fate.value is None else f" ({place}{_number(fate.value)}"
    limit = "" if fate.limit is None else f", limit {_number(fate.limit)}"
    return f"dropped at {fate.stage}: {words}{value}{limit}{')' if value else ''}"


def explanation_text(search: Explanation) -> str:
    """Return an search as text; words of documents are escaped so that they cannot pass for the search's."""
    return "\n".join(_lines(search))


def _lines(search: Explanation) -> Iterator[str]:
    if search.demo:
        yield "This is a fictitious demo bank."
    yield f"Search {search.search_id} of {search.time} in domain {search.domain}: {search.decision}, {search.status}."
    yield f"Question: {_one_line(search.question)}" if search.question else f"Question: {search.question_missing}"
    if search.persona:
        yield f"Persona: {_one_line(search.persona)}"
    yield "Sources:"
    yield from (f"- {_source(search, place)}" for place in range(len(search.sources)))
    yield f"Funnel: {', '.join(f'{stage.name} {stage.entered} to {stage.left}' for stage in search.funnel)}."
    yield f"Candidates: {', '.join(f'{count} {outcome}' for outcome, count in search.outcomes.items())}."
    yield f"Shown: {len(search.shown)}"
    yield from (f"{chunk.rank}. {_name(chunk)}: {chunk.why}" for chunk in search.shown)
    if search.not_shown:
        yield "Not shown, the closest first:"
        yield from (f"- {_name(chunk)}: {_one_line(chunk.why)}" for chunk in search.not_shown)
    if search.swaps:
        yield f"Order turned round by authority: {search.swap_count} pairs"
        yield from (
            f"- {_one_line(swap.winner)} (tier {swap.winner_tier}) above {_one_line(swap.loser)} "
            f"(tier {swap.loser_tier}), which was {swap.gap:.3f} more relevant"
            for swap in search.swaps
        )
    if search.settings:
        yield "Settings that differ from the default:"
        yield from (
            f"- {setting.name} = {_one_line(setting_words(setting.name, setting.value))} ({_one_line(setting.origin)})"
            for setting in search.settings
        )
    yield from (f"Notice {notice.code}: {_one_line(notice.message or notice.subject)}" for notice in search.notices)
    yield from _compared(search)
    yield from (f"Missing: {part}" for part in search.missing)


def _source(search: Explanation, place: int) -> str:
    source = search.sources[place]
    tier = "" if source.authority_tier is None else f" (tier {source.authority_tier})"
    problem = f": {_one_line(source.problem)}" if source.problem else ""
    work = f"{source.state}, {source.candidates} candidates, {source.elapsed_ms:.0f} ms"
    return f"{_one_line(source.source_id)}{tier} {work}{problem}"


def _compared(search: Explanation) -> Iterator[str]:
    if search.comparison is None:
        return
    difference = search.comparison
    yield (
        f"Against the candidates by relevance alone: {len(difference.same)} at the same rank, "
        f"{len(difference.moved)} moved, {len(difference.entered)} entered, {len(difference.left)} left."
    )
    for word, changes in (("entered", difference.entered), ("left", difference.left), ("moved", difference.moved)):
        yield from (
            f"- {word}: {_one_line(f'{change.source_id}/{change.chunk_id}')}: {_one_line(change.reason)}"
            for change in changes
        )


def _name(chunk: ChunkShown | ChunkNotShown) -> str:
    title = f" {_one_line(chunk.title)}" if chunk.title else ""
    return f"{_one_line(f'{chunk.source_id}/{chunk.chunk_id}')}{title}"


def _one_line(value: object) -> str:
    """Return a value on one short line without Markdown marks."""
    line = " ".join(str(value).split())
    return inert_line(line if len(line) <= _LONGEST else f"{line[:_LONGEST]} …")


def _number(value: float | str) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
