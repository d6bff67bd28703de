"""What is returned of the texts that dedup kept, under other limits, weights, boosts and reranker's scores.

A whole recomputation takes milliseconds, this a fraction of one, and the smallest change is looked for among hundreds.
It is the same functions over the same numbers, without tags and account; what it finds is computed in whole before it
is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from context_engine.audit.review.case import NO_CUT, NO_LIMIT, Case, identity_of
from context_engine.core.engine import recompute, with_settings
from context_engine.core.engine.exact_match import exact_matches_first
from context_engine.core.engine.limits import decide_limits
from context_engine.core.models import TIERS, Key, RankedChunk, ScoreKind, SearchResult, Settings, TrustClass
from context_engine.core.ranking.candidates import label_of
from context_engine.core.ranking.relevance import below_reranked, best_of, blended
from context_engine.core.ranking.scope import scope_threshold
from context_engine.core.ranking.select import Contenders, choose, final_scores, order

_ALL: Final = 10**9


class LineUp:
    """The texts that dedup kept, each with the best relevance and signal of those merged into it.

    Args:
        case: of a chunk that is among them.
    """

    def __init__(self, case: Case) -> None:
        self._case = case
        without = {**NO_LIMIT, "exact_first": False, "learnt_blend": None}
        plain = replace(with_settings(case.result, **without), rerank_scores={})
        self._rows = sorted(recompute(plain, case.analyse).chunks, key=lambda one: (one.source_id, one.chunk_id))
        settings = case.result.settings.values
        self._keys = [(one.source_id, one.chunk_id) for one in self._rows]
        self._tiers = [_ranking_tier(one, settings) for one in self._rows]
        self._texts = [case.analyse(one.chunk.content) for one in self._rows]
        self._labels = [case.analyse(label_of(one.chunk)) for one in self._rows]
        self._calibrations = [answer.calibration for answer in case.result.raw]
        self._prepared = case.result.prepared
        self._scores = [_best_score(case, one, ScoreKind(settings.similarity_kind)) for one in self._rows]
        self._wanted = [identity_of(one.source_id, one.chunk) for one in self._rows].index(case.identity)

    def shows(self, changed: SearchResult, *, uncut: bool = False) -> bool:
        """Return whether the chunk is returned.

        Args:
            changed: the search with something changed that is read after dedup.
            uncut: however many are returned.
        """
        settings = changed.settings.values
        if settings.learnt_blend is not None:  # it weighs each against all that are left: nothing less than a search
            return self._case.again_shows(with_settings(changed, **NO_CUT) if uncut else changed)
        rows = self._within_limits(settings)
        if self._wanted not in rows:
            return False
        relevance = self._reranked(rows, settings, changed.rerank_scores)
        finals, ranked = self._order(rows, relevance, settings)
        chunks = [self._rows[row] for row in ranked]
        choice = choose(
            finals,
            [(one.source_id, one.chunk.document_id) if one.chunk.document_id else None for one in chunks],
            [self._texts[row] for row in ranked],
            top_k=_ALL if uncut else settings.stage2_top_k,
            max_per_document=settings.max_per_document,
            mmr_lambda=settings.mmr_lambda,
        )
        return any(ranked[place] == self._wanted for place in choice.chosen)

    def _within_limits(self, settings: Settings) -> list[int]:
        """The rows that reach both limits, and those that `min_chunks` keeps."""
        limit, scope = settings.similarity_threshold, scope_threshold(settings, self._calibrations)
        scopes, below = {}, {}
        for row, (chunk, score) in enumerate(zip(self._rows, self._scores)):
            declared = scope.origin and chunk.chunk.score(ScoreKind.RELEVANCE) is not None
            scopes[row] = settings.min_relevance_score if declared else scope.value
            if limit is not None and score is not None and score < limit:
                below[row] = score
        absolute = [one.absolute for one in self._rows]
        limits = decide_limits(absolute, self._tiers, scopes, below, settings)
        return [
            row
            for row in scopes
            if row in limits.kept or (row not in below and absolute[row] >= limits.least_absolute[row])
        ]

    def _reranked(self, rows: Sequence[int], settings: Settings, scores: Mapping[Key, float]) -> list[float]:
        """The relevance of every row, blended with the reranker's scores."""
        relevance = [one.relevance for one in self._rows]
        best = best_of(rows, relevance, self._tiers, settings.rerank_top_n)
        seen = {row: scores[self._keys[row]] for row in best if self._keys[row] in scores}
        if not seen:
            return relevance
        before = [relevance[row] for row in best]
        for row, score in seen.items():
            relevance[row] = blended(relevance[row], score, settings.rerank_weight)
        rest = sorted(set(rows) - set(best))
        after = [relevance[row] for row in best]
        for row, value in zip(rest, below_reranked([relevance[row] for row in rest], before, after)):
            relevance[row] = value
        return relevance

    def _order(
        self, rows: Sequence[int], relevance: Sequence[float], settings: Settings
    ) -> tuple[list[float], list[int]]:
        """The final scores, descending, and the rows that have them."""
        chunks = [self._rows[row] for row in rows]
        tiers = [self._tiers[row] for row in rows]
        exact = exact_matches_first(
            self._prepared,
            [relevance[row] for row in rows],
            [self._texts[row] for row in rows],
            [self._labels[row] for row in rows],
            settings,
        )
        boosts = [settings.authority_boosts.of(tier) for tier in TIERS]
        boost = [boosts[tier - 1] if one.trust_class is TrustClass.TRUSTED else 0.0 for one, tier in zip(chunks, tiers)]
        finals = final_scores(exact, boost, settings)
        ranked = order(Contenders([self._keys[row] for row in rows], tiers, exact, finals))
        return [finals[place] for place in ranked], [rows[place] for place in ranked]


def _ranking_tier(chunk: RankedChunk, settings: Settings) -> int:
    """Return the tier that a chunk ranks by: 5 where it is not trusted, or is demoted for its age."""
    demoted = settings.expired == "demote" and "expired" in chunk.flags
    return chunk.authority_tier if chunk.trust_class is TrustClass.TRUSTED and not demoted else 5


def _best_score(case: Case, chunk: RankedChunk, kind: ScoreKind) -> float | None:
    """Return the highest score of a kind among a text and those merged into it, None where its own has none."""
    own = chunk.chunk.score(kind)
    if own is None:
        return None
    merged = (case.candidates[one.source_id, one.chunk_id].chunk.score(kind) for one in chunk.also_in)
    return max([own, *(score for score in merged if score is not None)])
