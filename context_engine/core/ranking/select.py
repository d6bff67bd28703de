"""Compute final scores and the order of the answer, report the effect of the authority boost, and choose the chunks."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from math import isfinite
from typing import Any, Final, NamedTuple

from context_engine.core.models import Chunk, Key, Settings, Swap
from context_engine.core.models.chunk_dict import to_date
from context_engine.core.ranking.candidates import AnalysedText
from context_engine.errors import InvalidRequest


def final_score(relevance: float, boost: float, settings: Settings) -> float:
    """Return relevance_weight * relevance + authority_weight * boost; at most 0.6 + 0.4 * 0.4 = 0.76 by default.

    Args:
        relevance: [0, 1].
        boost: boost of the chunk's tier, [0, 1].
    """
    return final_scores([relevance], [boost], settings)[0]


def final_scores(relevance: Sequence[float], boosts: Sequence[float], settings: Settings) -> list[float]:
    """Return the final score of each row (see `final_score`)."""
    weight, authority_weight = settings.relevance_weight, settings.authority_weight
    return [weight * value + authority_weight * boost for value, boost in zip(relevance, boosts, strict=True)]


def overturnable_gap(higher_tier: int, lower_tier: int, settings: Settings) -> float:
    """Return the relevance gap that a higher tier can make up against a lower one.

    (b_high - b_low) * authority_weight / relevance_weight: 0.133 for tier 1 over tier 3 with the defaults.
    """
    boosts = settings.authority_boosts
    difference = boosts.of(higher_tier) - boosts.of(lower_tier)
    return difference * settings.authority_weight / settings.relevance_weight if settings.relevance_weight else 1.0


MAX_SWAPS: Final = 200


class Contenders(NamedTuple):
    """The values that decide the order, as columns; rows are in the order of their identity."""

    keys: Sequence[Key]
    tiers: Sequence[int]
    relevance: Sequence[float]
    finals: Sequence[float]


def order(contenders: Contenders) -> list[int]:
    """Return the rows, best first: by final score, then relevance, then tier, then identity."""
    return _falling(contenders.finals, _by_relevance(contenders))


def _by_relevance(contenders: Contenders) -> list[int]:
    rows = sorted(range(len(contenders.keys)), key=contenders.tiers.__getitem__)
    return _falling(contenders.relevance, rows)


def _falling(values: Sequence[float], rows: list[int]) -> list[int]:
    """Sort rows by a column, highest first; equal rows keep their order."""
    return sorted(rows, key=values.__getitem__, reverse=True)


def swaps(contenders: Contenders, ranked: Sequence[int], returned: Sequence[int]) -> tuple[list[Swap], int]:
    """Return the pairs with a returned chunk whose order the boost reversed, and their number.

    The counterfactual order is the same rule with the boost at 0. A pair is a swap if the winner ranks above the loser
    now and below it there. Its gap is the relevance that the boost made up for, at most
    (boost difference) * authority_weight / relevance_weight.

    Args:
        contenders: all contenders.
        ranked: their rows, best first.
        returned: 0-based places of the returned rows in `ranked`, ascending.

    Returns:
        At most 200 swaps, best-ranked winners first, and the true number.
    """
    without = _by_relevance(contenders)
    places, places_without = _places(ranked), _places(without)
    listed: list[Swap] = []
    count = 0
    for place in returned:
        winner = ranked[place]
        for loser in without[: places_without[winner]]:
            if places[loser] > place:
                count += 1
                if len(listed) < MAX_SWAPS:
                    listed.append(_swap(contenders, winner, loser, places, places_without))
    return listed, count


def _places(rows: Sequence[int]) -> list[int]:
    places = [0] * len(rows)
    for place, row in enumerate(rows):
        places[row] = place
    return places


def _swap(contenders: Contenders, winner: int, loser: int, places: Sequence[int], without: Sequence[int]) -> Swap:
    keys, tiers, relevance, _ = contenders
    return Swap(
        keys[winner],
        keys[loser],
        tiers[winner],
        tiers[loser],
        (places[winner] + 1, places[loser] + 1),
        (without[winner] + 1, without[loser] + 1),
        relevance[loser] - relevance[winner],
    )


class Passed(NamedTuple):
    """Why a chunk was not returned.

    Attributes:
        reason: "document_limit" (enough chunks of its document are returned) or "too_similar" (a lower-ranked chunk
            adds more that is new).
        value, limit: the document and its limit, or the similarity to a returned chunk and lambda.
    """

    reason: str
    value: float | str
    limit: float


class Choice(NamedTuple):
    """The returned indices, ascending, and why better-ranked ones were passed over; all others are beyond top_k."""

    chosen: list[int]
    passed: dict[int, Passed]


def choose(
    finals: Sequence[float],
    documents: Sequence[tuple[str, str] | None],
    texts: Iterable[AnalysedText],
    *,
    top_k: int,
    max_per_document: int | None = None,
    mmr_lambda: float | None = None,
) -> Choice:
    """Return which of the chunks, given best first, are returned.

    With `mmr_lambda` each place goes to the chunk with the highest

        lambda * final / best final - (1 - lambda) * (its greatest similarity to a chunk chosen before)

    where similarity is the Jaccard similarity of the sets of terms, [0, 1]. Source: Carbonell and Goldstein, SIGIR 1998
    (maximal marginal relevance). The best chunk always comes first; among equal values the better-ranked chunk wins.

    Args:
        finals: final scores, descending.
        documents: (source_id, document_id) of each; None counts as its own document.
        texts: the text of each; read only with `mmr_lambda`.
        max_per_document: maximum number of chunks of one document; the next chunk takes a freed place.
        mmr_lambda: [0, 1]; 1 keeps the ranking, None compares no texts.
    """
    if max_per_document is None and mmr_lambda is None:
        return Choice(list(range(min(top_k, len(finals)))), {})
    picking = _Picking(finals, documents, texts, max_per_document, mmr_lambda)
    while len(picking.chosen) < top_k and picking.left:
        picking.pick()
    return Choice(sorted(picking.chosen), picking.passed(top_k))


class _Picking:
    """The state of the choice: the chunks left, and the similarity of each to the chosen ones."""

    def __init__(
        self,
        finals: Sequence[float],
        documents: Sequence[tuple[str, str] | None],
        texts: Iterable[AnalysedText],
        most: int | None,
        mmr: float | None,
    ) -> None:
        self.documents, self.most, self.mmr = documents, most, mmr
        best = finals[0] if finals and finals[0] > 0.0 else 1.0
        self.worth = [final / best for final in finals]
        self.terms = [frozenset(text.reading.terms) for text in texts] if mmr is not None else []
        self.likeness = [0.0] * len(finals)
        self.of_document: Counter[tuple[str, str] | None] = Counter()
        self.chosen: list[int] = []
        self.left = list(range(len(finals)))

    def pick(self) -> None:
        """Choose one more chunk, and drop the chunks of a document that has reached its limit."""
        index = self.left[0] if self.mmr is None else max(self.left, key=self._value)
        self.chosen.append(index)
        self.of_document[self.documents[index]] += 1
        self.left = [other for other in self.left if other != index and not self._full(other)]
        if self.mmr is not None:
            for other in self.left:
                self.likeness[other] = max(self.likeness[other], _jaccard(self.terms[index], self.terms[other]))

    def passed(self, top_k: int) -> dict[int, Passed]:
        """Return why each chunk above the last chosen one was passed over."""
        last = max(self.chosen, default=-1) if len(self.chosen) >= top_k else len(self.documents)
        taken, out = set(self.chosen), dict[int, Passed]()
        for index, document in enumerate(self.documents[: last + 1]):
            if index in taken:
                continue
            if document is not None and self._full(index):
                out[index] = Passed("document_limit", document[1], self.most or 0)
            else:
                out[index] = Passed("too_similar", self.likeness[index], self.mmr or 0.0)
        return out

    def _full(self, index: int) -> bool:
        document = self.documents[index]
        return self.most is not None and document is not None and self.of_document[document] >= self.most

    def _value(self, index: int) -> float:
        share = self.mmr or 0.0
        return share * self.worth[index] - (1.0 - share) * self.likeness[index]


def _jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    union = len(first | second)
    return len(first & second) / union if union else 0.0


logger = logging.getLogger(__name__)


def filter_by_similarity(
    chunks: Sequence[Mapping[str, Any]], threshold: float = 0.0, min_chunks: int = 2
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Keep the chunks whose `score` reaches the threshold; fill up to `min_chunks` with the best of the others.

    Scores, metadata and order stay unchanged, and so do the given dicts. A chunk without a score counts as lowest; with
    a threshold of 0 or less every chunk passes.

    Args:
        chunks: chunk dicts with `score`, all of one kind.
        threshold: minimum score, of that kind.
        min_chunks: minimum number of chunks to keep, >= 0.

    Returns:
        The kept chunks (copies; those below the threshold carry `below_threshold: True`) and
        {original_count, filtered_count, fallback_triggered, scores}.

    Raises:
        InvalidRequest: chunks is not a sequence of dicts, threshold is not a finite number, or min_chunks is negative.
    """
    if isinstance(chunks, str | bytes) or not isinstance(chunks, Sequence):
        raise InvalidRequest(f"chunks must be a sequence of chunk dicts, got {type(chunks).__name__}")
    for position, chunk in enumerate(chunks):
        if not isinstance(chunk, Mapping):
            raise InvalidRequest(f"chunks[{position}] must be a chunk dict, got {type(chunk).__name__}")
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not isfinite(threshold):
        raise InvalidRequest(f"threshold must be a finite number, got {threshold!r}")
    if isinstance(min_chunks, bool) or not isinstance(min_chunks, int) or min_chunks < 0:
        raise InvalidRequest(f"min_chunks must be a whole number >= 0, got {min_chunks!r}")
    scores = [_score(chunk) for chunk in chunks]
    passed = {
        index for index, score in enumerate(scores) if threshold <= 0 or (score is not None and score >= threshold)
    }
    fallback = len(passed) < min(min_chunks, len(chunks))
    kept = set(passed)
    if fallback:
        by_score = sorted(range(len(chunks)), key=lambda index: (scores[index] is None, -(scores[index] or 0.0), index))
        kept.update([index for index in by_score if index not in passed][: min_chunks - len(passed)])
        logger.info("threshold %.3f left %d chunks, %d kept by min_chunks", threshold, len(passed), len(kept))
    out = [{**chunks[index], **({} if index in passed else {"below_threshold": True})} for index in sorted(kept)]
    report = {
        "original_count": len(chunks),
        "filtered_count": len(out),
        "fallback_triggered": fallback,
        "scores": [scores[index] for index in sorted(kept)],
    }
    return out, report


def _score(chunk: Mapping[str, Any]) -> float | None:
    value = chunk.get("score")
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    return float(value)


HALF_LIFE_DAYS: Final = 730.0
"""After two years a text has half of the newness of one that came into force today."""

_UNKNOWN: Final = 0.5


def newness(day: date | None, as_of: date) -> float:
    """Return 0.5 ** (age / HALF_LIFE_DAYS), (0, 1]; 0.5 without a date, 1 for a date after `as_of`.

    >>> newness(date(2023, 1, 1), date(2024, 12, 31))
    0.5
    """
    return _UNKNOWN if day is None else 0.5 ** (max((as_of - day).days, 0) / HALF_LIFE_DAYS)


def newer_first(relevance: Sequence[float], chunks: Sequence[Chunk], as_of: date, weight: float) -> list[float]:
    """Return the relevance less `weight` times the share of newness that each text has lost.

    So a text comes before another only if its relevance is at most `weight` lower.

    Args:
        relevance: [0, 1] each.
        chunks: dated by the day from which they are in force, else by the date of their document.
        weight: [0, 0.2]; 0 changes nothing.
    """
    if not weight:
        return list(relevance)
    lost = (1.0 - newness(_day(chunk), as_of) for chunk in chunks)
    return [max(value - weight * share, 0.0) for value, share in zip(relevance, lost, strict=True)]


def _day(chunk: Chunk) -> date | None:
    return chunk.effective_from or to_date(chunk.own_field("date"))
