"""Find the smallest change that shows a chunk, by trying all changes in order of size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from context_engine.audit.review.case import NO_CUT, NO_LIMIT, STAGES, AnswerChangeKind, Case, Change, identity_of
from context_engine.audit.review.other_changes import other_changes
from context_engine.audit.review.settings_changes import settings_changes
from context_engine.core.engine import recompute, with_settings
from context_engine.core.engine.selection import exact_matches_first
from context_engine.core.models import TIERS, Key, RankedChunk, ScoreKind, SearchResult, Settings, TrustClass
from context_engine.core.ranking.candidates import label_of
from context_engine.core.ranking.relevance import below_reranked, best_of, blended
from context_engine.core.ranking.scope import decide_limits, scope_threshold
from context_engine.core.ranking.select import Contenders, choose, final_scores, newer_first, order

_AFTER_DEDUP: Final = STAGES.index("dedup") + 1  # changes from here on keep the texts that dedup kept
_FIRST_STEPS: Final = 12  # changes tried as the first of a pair


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterfactual:
    """Changes that together show a chunk.

    Attributes:
        changes: one, or two to be made together.
        rank: of the chunk then.
        left: chunks no longer shown then, in their former order.
        came: other chunks newly shown then, in their new order.
        unscored: a model reranker took part and has no score for the chunk, which is ranked by stage 1 alone.
    """

    changes: tuple[Change, ...]
    rank: int
    left: tuple[Key, ...]
    came: tuple[Key, ...]
    unscored: bool = False

    @property
    def steps(self) -> float:
        """The total size of the changes."""
        return sum(change.steps for change in self.changes)

    @property
    def asks_otherwise(self) -> bool:
        """Whether the changes alter the queries to the sources, which could give other candidates."""
        return any(change.kind is AnswerChangeKind.REQUEST for change in self.changes)

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {
            "changes": [change.to_dict() for change in self.changes],
            "rank": self.rank,
            "left": [list(key) for key in self.left],
            "came": [list(key) for key in self.came],
            "unscored": self.unscored,
            "asks_otherwise": self.asks_otherwise,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The result of a search for the smallest change.

    Attributes:
        single: the smallest single change; None if none suffices.
        pair: if no single change suffices, the smallest pair among the pairs tried; not all pairs are tried.
        tried: number of changes tried in vain, by name.
    """

    single: Counterfactual | None = None
    pair: Counterfactual | None = None
    tried: tuple[tuple[str, int], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {
            "smallest": None if self.single is None else self.single.to_dict(),
            "pair": None if self.pair is None else self.pair.to_dict(),
            "tried": dict(self.tried),
        }


def all_changes(case: Case) -> list[Change]:
    """Return every change that may bring a dropped or merged chunk back, smallest first."""
    last = case.progress
    changes = chain(settings_changes(case), other_changes(case))
    return sorted((change for change in changes if STAGES.index(change.stage) <= last), key=lambda change: change.order)


def smallest_changes(case: Case) -> Search:
    """Return the smallest change that shows a chunk that is not shown, or else a pair of changes."""
    changes = all_changes(case)
    trials = _Trials(case)
    for change in changes:
        shown = trials.shown_by(change)
        if shown is not None:
            return Search(single=counterfactual(case, (change,), shown), tried=trials.counted)
    return Search(pair=_pair(case, trials.further), tried=trials.counted)


class _Trials:
    """Changes tried on a case.

    Attributes:
        further: changes that take the chunk to a later stage without showing it, the first of each name.
    """

    def __init__(self, case: Case) -> None:
        self._case = case
        self._line_up = LineUp(case) if case.progress >= _AFTER_DEDUP else None
        self._cut_alone = self._line_up is not None and self._line_up.shows(case.result, uncut=True)
        self._tried: Counter[str] = Counter()
        self.further: list[Change] = []

    @property
    def counted(self) -> tuple[tuple[str, int], ...]:
        """The number of changes tried in vain, by name."""
        return tuple(sorted(self._tried.items()))

    def shown_by(self, change: Change) -> SearchResult | None:
        """Return the search with a change, None if it does not show the chunk."""
        changed = change.applied(self._case.result)
        result = None
        line_up = self._line_up if STAGES.index(change.stage) >= _AFTER_DEDUP else None
        if line_up is None or line_up.shows(changed):
            result = self._case.again(changed)
            if result is not None and self._case.shown_in(result) is not None:
                return result
        self._tried[change.name] += 1
        if (
            not self._cut_alone
            and len(self.further) < _FIRST_STEPS
            and change.name not in {further.name for further in self.further}
        ):
            carries = line_up.shows(changed, uncut=True) if line_up is not None else self._carries(result)
            self.further += [change] if carries else []
        return None

    def _carries(self, result: SearchResult | None) -> bool:
        """Whether the chunk reaches a later stage in another result."""
        after = None if result is None else self._case.followed(result)
        return after is not None and after.progress > self._case.progress


def _pair(case: Case, further: Iterable[Change]) -> Counterfactual | None:
    """Return the smallest pair that begins with a change that takes the chunk further."""
    best: Counterfactual | None = None
    for first in further:
        result = case.again(first.applied(case.result))
        after = None if result is None else case.followed(result)
        if after is None or (best is not None and first.steps >= best.steps):
            continue
        trials = _Trials(after)
        for second in all_changes(after):
            if best is not None and first.steps + second.steps >= best.steps:
                break
            shown = None if second.name == first.name else trials.shown_by(second)
            if shown is not None:
                best = counterfactual(case, (first, second), shown)
                break
    return best


def counterfactual(case: Case, changes: tuple[Change, ...], after: SearchResult) -> Counterfactual:
    """Describe the effect of changes on an answer, given the recomputed search `after`, which shows the chunk."""
    shown = case.shown_in(after)
    before = {
        identity_of(chunk.source_id, chunk.chunk): (chunk.source_id, chunk.chunk_id) for chunk in case.result.chunks
    }
    now = {identity_of(chunk.source_id, chunk.chunk): (chunk.source_id, chunk.chunk_id) for chunk in after.chunks}
    scores = after.rerank_scores
    return Counterfactual(
        changes=changes,
        rank=0 if shown is None else shown.rank,
        left=tuple(key for identity, key in before.items() if identity not in now),
        came=tuple(key for identity, key in now.items() if identity not in before and identity != case.identity),
        unscored=bool(scores) and shown is not None and shown.rerank_score is None,
    )


_ALL: Final = 10**9  # no limit on the number returned


class LineUp:
    """The texts that dedup kept, each with the best relevance and signal of its duplicates.

    Decides quickly, without recomputing the search, whether a change after dedup shows the case's chunk.
    """

    def __init__(self, case: Case) -> None:
        self._case = case
        without = {**NO_LIMIT, "exact_first": False, "recency_weight": 0.0, "learnt_blend": None}
        plain = replace(with_settings(case.result, **without), rerank_scores={})
        self._rows = sorted(recompute(plain, case.analyse).chunks, key=lambda chunk: (chunk.source_id, chunk.chunk_id))
        settings = case.result.settings.values
        self._keys = [(chunk.source_id, chunk.chunk_id) for chunk in self._rows]
        self._tiers = [_ranking_tier(chunk, settings) for chunk in self._rows]
        self._texts = [case.analyse(chunk.chunk.content) for chunk in self._rows]
        self._labels = [case.analyse(label_of(chunk.chunk)) for chunk in self._rows]
        self._calibrations = [answer.calibration for answer in case.result.raw]
        self._prepared, self._as_of = case.result.prepared, case.result.as_of
        self._scores = [_best_score(case, chunk, ScoreKind(settings.similarity_kind)) for chunk in self._rows]
        self._wanted = [identity_of(chunk.source_id, chunk.chunk) for chunk in self._rows].index(case.identity)

    def shows(self, changed: SearchResult, *, uncut: bool = False) -> bool:
        """Return whether the chunk is returned.

        Args:
            changed: the search with a change that takes effect after dedup.
            uncut: return any number of chunks.
        """
        settings = changed.settings.values
        if settings.learnt_blend is not None:  # the blend compares each with all others: only a full search decides
            return self._case.again_shows(with_settings(changed, **NO_CUT) if uncut else changed)
        rows = self._within_limits(settings)
        if self._wanted not in rows:
            return False
        relevance = self._reranked(rows, settings, changed.rerank_scores)
        finals, ranked = self._order(rows, relevance, settings)
        chunks = [self._rows[row] for row in ranked]
        choice = choose(
            finals,
            [(chunk.source_id, chunk.chunk.document_id) if chunk.chunk.document_id else None for chunk in chunks],
            [self._texts[row] for row in ranked],
            top_k=_ALL if uncut else settings.stage2_top_k,
            max_per_document=settings.max_per_document,
            mmr_lambda=settings.mmr_lambda,
        )
        return any(ranked[place] == self._wanted for place in choice.chosen)

    def _within_limits(self, settings: Settings) -> list[int]:
        """Return the rows that reach both limits, and the rows that `min_chunks` keeps."""
        limit, scope = settings.similarity_threshold, scope_threshold(settings, self._calibrations)
        scopes, below = {}, {}
        for row, (chunk, score) in enumerate(zip(self._rows, self._scores)):
            declared = scope.origin and chunk.chunk.score(ScoreKind.RELEVANCE) is not None
            scopes[row] = settings.min_relevance_score if declared else scope.value
            if limit is not None and score is not None and score < limit:
                below[row] = score
        absolute = [chunk.absolute for chunk in self._rows]
        limits = decide_limits(absolute, self._tiers, scopes, below, settings)
        return [
            row
            for row in scopes
            if row in limits.kept or (row not in below and absolute[row] >= limits.least_absolute[row])
        ]

    def _reranked(self, rows: Sequence[int], settings: Settings, scores: Mapping[Key, float]) -> list[float]:
        """The relevance of every row, blended with the reranker's scores."""
        relevance = [chunk.relevance for chunk in self._rows]
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
        """The final scores, descending, and their rows."""
        chunks = [self._rows[row] for row in rows]
        tiers = [self._tiers[row] for row in rows]
        exact = exact_matches_first(
            self._prepared,
            [relevance[row] for row in rows],
            [self._texts[row] for row in rows],
            [self._labels[row] for row in rows],
            settings,
        )
        exact = newer_first(exact, [chunk.chunk for chunk in chunks], self._as_of, settings.recency_weight)
        boosts = [settings.authority_boosts.of(tier) for tier in TIERS]
        boost = [
            boosts[tier - 1] if chunk.trust_class is TrustClass.TRUSTED else 0.0 for chunk, tier in zip(chunks, tiers)
        ]
        finals = final_scores(exact, boost, settings)
        ranked = order(Contenders([self._keys[row] for row in rows], tiers, exact, finals))
        return [finals[place] for place in ranked], [rows[place] for place in ranked]


def _ranking_tier(chunk: RankedChunk, settings: Settings) -> int:
    """Return the tier that a chunk ranks by: 5 if untrusted or demoted as expired."""
    demoted = settings.expired == "demote" and "expired" in chunk.flags
    return chunk.authority_tier if chunk.trust_class is TrustClass.TRUSTED and not demoted else 5


def _best_score(case: Case, chunk: RankedChunk, kind: ScoreKind) -> float | None:
    """Return the highest score of a kind of a text and its duplicates, None if the text itself has none."""
    own = chunk.chunk.score(kind)
    if own is None:
        return None
    merged = (case.candidates[member.source_id, member.chunk_id].chunk.score(kind) for member in chunk.also_in)
    return max([own, *(score for score in merged if score is not None)])
