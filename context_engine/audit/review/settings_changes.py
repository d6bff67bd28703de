"""Changes of a single stage-2 setting that can affect the answer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import ROUND_FLOOR, Decimal
from functools import partial
from itertools import combinations
from typing import Any, Final, NamedTuple

from context_engine.audit.review.case import SWITCH, AnswerChangeKind, Case, Change, in_steps
from context_engine.core.engine import with_settings
from context_engine.core.models import MAX_TOP_K, TIERS, AuthorityBoosts, ScoreKind, Settings
from context_engine.core.ranking.scope import AUTO

_LEAST_DEDUP: Final = 0.5
"""Lower thresholds are not tried: texts that share less than half of their words are not copies."""

_LOWEST_SCORE: Final = -1.0  # of a cosine
_METHODS: Final = ("near", "exact", "off")
_EXPIRED: Final = ("flag", "demote", "refuse")


def settings_changes(case: Case) -> Iterator[Change]:
    """Yield changes of single settings, in any order; for a threshold, one change for each set of candidates that can
    pass.

    Any other value has the same effect as one of these, or is a larger change with the same effect. Weights and boosts
    are the exception: they are tried at two decimals.
    """
    settings = case.result.settings.values
    yield from _of_thresholds(case, settings)
    yield from _of_dedup(case, settings)
    yield from _of_counts(case, settings)
    yield from _of_weights(case, settings)
    yield from _of_boosts(settings)
    for place, value in enumerate(_EXPIRED):
        if value != settings.expired:
            places = abs(place - _EXPIRED.index(settings.expired))
            yield _change("expired", settings.expired, value, SWITCH * places, "expiry")
    yield _change("exact_first", settings.exact_first, not settings.exact_first, SWITCH, "select")


def _change(name: str, was: Any, now: Any, steps: float, stage: str) -> Change:
    applied = partial(with_settings, **{name: now})
    return Change(kind=AnswerChangeKind.SETTING, name=name, was=was, now=now, steps=steps, stage=stage, applied=applied)


def _of_thresholds(case: Case, settings: Settings) -> Iterator[Change]:
    """A limit on the absolute signal takes effect at the present signals, a limit on a score at the present scores."""
    signals = {chunk.absolute for chunk in case.unlimited.chunks}
    least = settings.min_relevance_score
    for limit in other_limits(signals, least, 0.0, 1.0):
        yield _change("min_relevance_score", least, limit.value, in_steps(limit.distance), "threshold")
    yield from _of_scope(case, settings, signals)
    kind, was = ScoreKind(settings.similarity_kind), settings.similarity_threshold
    scores = (candidate.chunk.score(kind) for candidate in case.candidates.values())
    low, switch = _LOWEST_SCORE, SWITCH if was is None else 0.0
    for limit in other_limits((score for score in scores if score is not None), low if was is None else was, low, 1.0):
        steps = in_steps(limit.distance) + switch
        yield _change("similarity_threshold", was, limit.value, steps, "threshold")
    if was is not None:
        yield _change("similarity_threshold", was, None, in_steps(was - low) + SWITCH, "threshold")


def _of_scope(case: Case, settings: Settings, signals: Iterable[float]) -> Iterator[Change]:
    """Yield other scope thresholds. Only the best candidate decides the scope. `auto` may mean two limits, so the
    number that it stands for counts as a change too.
    """
    in_force = case.result.scope.value if case.result.scope is not None else settings.min_relevance_score
    best = max(signals, default=0.0)
    for limit in other_limits([best], in_force, 0.0, 1.0):
        yield _change("scope_threshold", in_force, limit.value, in_steps(limit.distance), "threshold")
    if settings.scope_threshold == AUTO:
        yield _change("scope_threshold", AUTO, in_force, SWITCH, "threshold")


def _of_dedup(case: Case, settings: Settings) -> Iterator[Change]:
    was, place = settings.dedup_threshold, _METHODS.index(settings.dedup_method)
    for other, method in enumerate(_METHODS):
        if other != place:
            yield _change("dedup_method", settings.dedup_method, method, SWITCH * abs(other - place), "dedup")
    if settings.dedup_method == "near":
        for limit in other_limits(_likenesses(case), was, min(_LEAST_DEDUP, was), 1.0):
            yield _change("dedup_threshold", was, limit.value, in_steps(limit.distance), "dedup")


def _likenesses(case: Case) -> set[float]:
    """Return the word-set Jaccard similarity of every pair of texts."""
    words = [frozenset(candidate.text.body.tokens) for candidate in case.candidates.values()]
    likenesses = set()
    for first, second in combinations([tokens for tokens in words if tokens], 2):
        both = len(first & second)
        likenesses.add(both / (len(first) + len(second) - both))
    return likenesses


def _of_counts(case: Case, settings: Settings) -> Iterator[Change]:
    """Yield larger counts only: a smaller `stage2_top_k` never shows another chunk."""
    most, top_k, least = min(len(case.candidates), MAX_TOP_K), settings.stage2_top_k, settings.min_chunks
    for count in range(top_k + 1, most + 1):
        yield _change("stage2_top_k", top_k, count, float(count - top_k), "select")
    for count in range(most + 1):
        if count != least:
            switch = SWITCH if 0 in (count, least) else 0.0
            yield _change("min_chunks", least, count, abs(count - least) + switch, "threshold")
    limit, largest = settings.max_per_document, max(_chunks_of_documents(case).values(), default=0)
    for count in range(1, largest + 1):
        if count != limit:
            steps = largest + 1 - count + SWITCH if limit is None else float(abs(count - limit))
            yield _change("max_per_document", limit, count, steps, "select")


def _chunks_of_documents(case: Case) -> Counter[tuple[str, str]]:
    documents = ((key[0], candidate.chunk.document_id) for key, candidate in case.candidates.items())
    return Counter((source, document) for source, document in documents if document)


def _of_weights(case: Case, settings: Settings) -> Iterator[Change]:
    relevance, authority = settings.relevance_weight, settings.authority_weight
    yield from _on_grid("relevance_weight", relevance, 0.0, 1.0 - authority, "select")
    yield from _on_grid("authority_weight", authority, 0.0, 1.0 - relevance, "select")
    if settings.learnt_blend is not None:
        yield _change("learnt_blend", "learnt", None, SWITCH, "rerank")
    elif case.result.rerank_scores:
        yield from _on_grid("rerank_weight", settings.rerank_weight, 0.0, 1.0, "rerank")
    if settings.mmr_lambda is not None:
        yield from _on_grid("mmr_lambda", settings.mmr_lambda, 0.0, 1.0, "select")
    else:
        for value in _grid(0.0, 1.0):
            yield _change("mmr_lambda", None, value, in_steps(1.0 - value) + SWITCH, "select")


def _on_grid(name: str, was: float, low: float, high: float, stage: str) -> Iterator[Change]:
    return (_change(name, was, value, in_steps(value - was), stage) for value in _grid(low, high) if value != was)


def _of_boosts(settings: Settings) -> Iterator[Change]:
    """A boost stays between those of its neighbours, because boosts must not rise from tier 1 to tier 5."""
    boosts = settings.authority_boosts
    for tier in TIERS:
        was, name = boosts.of(tier), f"tier_{tier}"
        high = boosts.of(tier - 1) if tier > min(TIERS) else 1.0
        low = boosts.of(tier + 1) if tier < max(TIERS) else 0.0
        for value in _grid(low, high):
            if value != was:
                yield _boost_change(boosts, name, was, value)


def _boost_change(boosts: AuthorityBoosts, name: str, was: float, now: float) -> Change:
    return Change(
        kind=AnswerChangeKind.SETTING,
        name=f"authority_boosts.{name}",
        was=was,
        now=now,
        steps=in_steps(now - was),
        stage="select",
        applied=partial(with_settings, authority_boosts=boosts.model_copy(update={name: now})),
    )


def _grid(low: float, high: float) -> list[float]:
    """Return the numbers with two decimals in [low, high], tolerating rounding errors at its ends."""
    hundredths = range(round(low * 100) - 1, round(high * 100) + 2)
    return [hundredth / 100 for hundredth in hundredths if low - 1e-9 <= hundredth / 100 <= high + 1e-9]


_FEWEST_DIGITS: Final = 2
_MOST_DIGITS: Final = 17  # enough to tell any two floats apart


class OtherLimit(NamedTuple):
    """A limit that a different set of numbers reaches than the present limit.

    Attributes:
        value: with as few decimals as suffice, at least two.
        distance: from the present limit to the nearest number with the same effect; at most that of `value`.
    """

    value: float
    distance: float


def other_limits(numbers: Iterable[float], was: float, low: float, high: float) -> Iterator[OtherLimit]:
    """Yield one limit for each set of numbers that reach a limit in [low, high], except the present set.

    A number reaches a limit if number >= limit. So between two neighbouring numbers all limits have the same effect.

    Args:
        numbers: the numbers that are tested against the limit.
        was: the present limit.
        low, high: the smallest and largest limit allowed.

    >>> [limit.value for limit in other_limits([0.1234, 0.3, 0.777], 0.2, 0.0, 1.0)]
    [0.12, 0.31, 0.78]
    """
    steps = sorted({number for number in numbers if low <= number < high})
    for below, upto in zip([None, *steps], [*steps, high]):
        if upto < was:
            yield OtherLimit(_plain_at_most(upto, low if below is None else below, below is not None), was - upto)
        elif below is not None and below >= was:
            yield OtherLimit(_plain_above(below, upto), below - was)


def _plain_at_most(upto: float, floor: float, beyond: bool) -> float:
    """Return the number with the fewest decimals <= upto and >= floor (> floor if `beyond`)."""
    for digits in range(_FEWEST_DIGITS, _MOST_DIGITS + 1):
        value = float(_cut(upto, digits))
        if value <= upto and (value > floor or (value == floor and not beyond)):
            return value
    return upto


def _plain_above(below: float, upto: float) -> float:
    """Return the number with the fewest decimals in (below, upto]."""
    for digits in range(_FEWEST_DIGITS, _MOST_DIGITS + 1):
        value = float(_cut(below, digits) + Decimal(1).scaleb(-digits))
        if below < value <= upto:
            return value
    return math.nextafter(below, math.inf)


def _cut(number: float, digits: int) -> Decimal:
    return Decimal(repr(float(number))).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_FLOOR)
