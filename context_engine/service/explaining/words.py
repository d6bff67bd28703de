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


def explanation_text(told: Explanation) -> str:
    """Return an explanation as text; words of documents are escaped so that they cannot pass for the explanation's."""
    return "\n".join(_lines(told))


def _lines(told: Explanation) -> Iterator[str]:
    if told.demo:
        yield "This is a fictitious demo bank."
    yield f"Search {told.search_id} of {told.time} in domain {told.domain}: {told.decision}, {told.status}."
    yield f"Question: {_said(told.question)}" if told.question else f"Question: {told.question_missing}"
    if told.persona:
        yield f"Persona: {_said(told.persona)}"
    yield "Sources:"
    yield from (f"- {_source(told, place)}" for place in range(len(told.sources)))
    yield f"Funnel: {', '.join(f'{stage.name} {stage.entered} to {stage.left}' for stage in told.funnel)}."
    yield f"Candidates: {', '.join(f'{count} {outcome}' for outcome, count in told.outcomes.items())}."
    yield f"Shown: {len(told.shown)}"
    yield from (f"{chunk.rank}. {_name(chunk)}: {chunk.why}" for chunk in told.shown)
    if told.not_shown:
        yield "Not shown, the closest first:"
        yield from (f"- {_name(chunk)}: {_said(chunk.why)}" for chunk in told.not_shown)
    if told.swaps:
        yield f"Order turned round by authority: {told.swap_count} pairs"
        yield from (
            f"- {_said(swap.winner)} (tier {swap.winner_tier}) above {_said(swap.loser)} (tier {swap.loser_tier}), "
            f"which was {swap.gap:.3f} more relevant"
            for swap in told.swaps
        )
    if told.settings:
        yield "Settings that differ from the default:"
        yield from (
            f"- {setting.name} = {_said(setting_words(setting.name, setting.value))} ({_said(setting.origin)})"
            for setting in told.settings
        )
    yield from (f"Notice {notice.code}: {_said(notice.message or notice.subject)}" for notice in told.notices)
    yield from _compared(told)
    yield from (f"Missing: {part}" for part in told.missing)


def _source(told: Explanation, place: int) -> str:
    source = told.sources[place]
    tier = "" if source.authority_tier is None else f" (tier {source.authority_tier})"
    problem = f": {_said(source.problem)}" if source.problem else ""
    work = f"{source.state}, {source.candidates} candidates, {source.elapsed_ms:.0f} ms"
    return f"{_said(source.source_id)}{tier} {work}{problem}"


def _compared(told: Explanation) -> Iterator[str]:
    if told.comparison is None:
        return
    difference = told.comparison
    yield (
        f"Against the candidates by relevance alone: {len(difference.same)} at the same rank, "
        f"{len(difference.moved)} moved, {len(difference.entered)} entered, {len(difference.left)} left."
    )
    for word, changes in (("entered", difference.entered), ("left", difference.left), ("moved", difference.moved)):
        yield from (
            f"- {word}: {_said(f'{change.source_id}/{change.chunk_id}')}: {_said(change.reason)}" for change in changes
        )


def _name(chunk: ChunkShown | ChunkNotShown) -> str:
    title = f" {_said(chunk.title)}" if chunk.title else ""
    return f"{_said(f'{chunk.source_id}/{chunk.chunk_id}')}{title}"


def _said(value: object) -> str:
    """Return a value on one short line without Markdown marks."""
    line = " ".join(str(value).split())
    return inert_line(line if len(line) <= _LONGEST else f"{line[:_LONGEST]} …")


def _number(value: float | str) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
