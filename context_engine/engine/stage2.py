"""Stage 2 in reading order: from the sources' answers to a ranked, tagged, accounted-for answer.

identity -> filter re-check -> as-of, supersession, refused expiry -> relevance -> dedup -> thresholds and scope ->
rerank -> authority -> select -> tag. Every removal is a fate. Pure: the same inputs give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from context_engine.engine.survivors import Ranking, RerankStep, StageTwo, Survivor
from context_engine.engine.tagging import ranked_chunk
from context_engine.errors import RerankerError
from context_engine.models import TIERS, Fate, Key, Outcome, RankedChunk, ScoreKind, StageTrace
from context_engine.policy.effective import in_force, superseded
from context_engine.policy.filters import chunk_fields, matches
from context_engine.ranking.authority import final_score
from context_engine.ranking.candidates import pool
from context_engine.ranking.dedup import deduplicate
from context_engine.ranking.diversity import Choice, choose
from context_engine.ranking.relevance import measure
from context_engine.ranking.select import Contender, order, swaps

__all__ = ["rank"]


def rank(given: StageTwo, rerank: RerankStep | None = None, tick: Callable[[], float] = float) -> Ranking:
    """Rank the answers of stage 1.

    Args:
        given: the inputs.
        rerank: the model reranker's scores, or a function that looks up recorded ones.
        tick: seconds for the stage times; the default measures nothing.
    """
    return _StageTwoRun(given, rerank, tick).run()


class _StageTwoRun:
    """One pass through the steps; each takes the survivors and returns fewer."""

    def __init__(self, given: StageTwo, rerank: RerankStep | None, tick: Callable[[], float]) -> None:
        self.given, self.settings, self.tick = given, given.settings, tick
        self.rerank_step = rerank
        self.boosts = [given.settings.authority_boosts.of(tier) for tier in TIERS]
        self.fates: dict[Key, Fate] = {}
        self.warnings: list[str] = []
        self.stages: list[StageTrace] = []
        self.rerank_scores: dict[Key, float] = {}
        self.rerank_failed: str | None = None
        self.weighed, self.in_scope = 0, True

    def run(self) -> Ranking:
        candidates, warnings = pool(self.given.answers)
        self.warnings += warnings
        alive = list(map(Survivor, candidates))
        steps = (
            ("filter", self.recheck),
            ("as_of", self.on_the_day),
            ("expiry", self.not_refused),
            ("relevance", self.measured),
            ("dedup", self.deduplicated),
            ("threshold", self.above_threshold),
            ("scope", self.relevant),
            ("rerank", self.reranked),
        )
        for name, step in steps:
            alive = self._timed(name, step, alive)
        chunks = self._timed_select(alive)
        return Ranking(
            chunks=chunks,
            fates=tuple(self.fates[candidate.key] for candidate in candidates),
            swaps=self.found_swaps,
            swap_count=self.swap_count,
            stages=tuple(self.stages),
            warnings=tuple(dict.fromkeys(self.warnings)),
            weighed=self.weighed,
            in_scope=self.in_scope,
            rerank_scores=self.rerank_scores,
            rerank_failed=self.rerank_failed,
        )

    def _timed(
        self, name: str, step: Callable[[list[Survivor]], list[Survivor]], alive: list[Survivor]
    ) -> list[Survivor]:
        started = self.tick()
        left = step(alive)
        self.stages.append(StageTrace(name, len(alive), len(left), (self.tick() - started) * 1000.0))
        return left

    def _drop(
        self, one: Survivor, stage: str, reason: str, value: float | str | None = None, limit: float | str | None = None
    ) -> None:
        key = one.candidate.key
        self.fates[key] = Fate(*key, Outcome.DROPPED, stage, reason, value, limit)

    def recheck(self, alive: list[Survivor]) -> list[Survivor]:
        """The filters again, whatever the source did with them."""
        if self.given.filters is None:
            return alive
        left = []
        for one in alive:
            candidate = one.candidate
            fields = chunk_fields(
                candidate.chunk,
                source_id=candidate.key[0],
                source_type=candidate.standing.source_type,
                tier=candidate.tier,
                classification=candidate.standing.classification,
                domain=self.given.domain,
            )
            if matches(self.given.filters, fields):
                left.append(one)
            else:
                self._drop(one, "filter", "filter_not_met")
        return left

    def on_the_day(self, alive: list[Survivor]) -> list[Survivor]:
        """In force on the day asked about, and not replaced by a newer version that is."""
        standing = []
        for one in alive:
            removal = in_force(one.candidate.chunk, self.given.as_of)
            if removal is None:
                standing.append(one)
            else:
                self._drop(one, "as_of", *removal)
        pairs = [(one.candidate.key[0], one.candidate.chunk) for one in standing]
        replaced = superseded(pairs, today=self.given.today)
        for index, removal in replaced.items():
            self._drop(standing[index], "as_of", *removal)
        return [one for index, one in enumerate(standing) if index not in replaced] if replaced else standing

    def not_refused(self, alive: list[Survivor]) -> list[Survivor]:
        """Expired content is flagged; under `refuse` it is dropped."""
        left = []
        for one in alive:
            if one.candidate.chunk.fetched_at is not None:
                age = one.candidate.freshness(self.given.now)
                if age.state == "expired":
                    if self.settings.expired == "refuse":
                        self._drop(one, "expiry", "expired", age.fetched_at.isoformat(), age.ttl_seconds)
                        continue
                    one.flags += ("expired",)
            left.append(one)
        return left

    def measured(self, alive: list[Survivor]) -> list[Survivor]:
        """Relevance and absolute signal over what is left."""
        measured = measure(self.given.query, [one.candidate for one in alive])
        for one, relevance, absolute in zip(alive, measured.relevance, measured.absolute):
            one.relevance, one.absolute = relevance, absolute
        return alive

    def deduplicated(self, alive: list[Survivor]) -> list[Survivor]:
        """Near-duplicates join the first text kept, in survivor order; a cluster has the relevance of its best."""
        if self.settings.dedup_method == "off":
            return alive
        alive = sorted(alive, key=lambda one: (one.candidate.tier, -one.relevance, one.candidate.key))
        texts = [one.candidate.chunk.content for one in alive]
        found = deduplicate(texts, method=self.settings.dedup_method, threshold=self.settings.dedup_threshold)
        left = []
        for one, match in zip(alive, found):
            if match is None:
                left.append(one)
                continue
            survivor = alive[match.into]
            survivor.members += ((one, match.similarity),)
            survivor.relevance = max(survivor.relevance, one.relevance)
            survivor.absolute = max(survivor.absolute, one.absolute)
            key, into = one.candidate.key, survivor.candidate.key
            limit = self.settings.dedup_threshold
            self.fates[key] = Fate(*key, Outcome.MERGED, "dedup", match.how, match.similarity, limit, into)
        return left

    def above_threshold(self, alive: list[Survivor]) -> list[Survivor]:
        """A threshold applies to candidates that carry its kind of score, a cluster's best; the others pass, marked."""
        limit, kind = self.settings.similarity_threshold, ScoreKind(self.settings.similarity_kind)
        if limit is None:
            return alive
        left, unmeasured = [], 0
        for one in alive:
            value = one.best(kind)
            if value is not None and value < limit:
                self._drop(one, "threshold", f"below_{kind}_threshold", value, limit)
                continue
            if value is None:
                one.flags += ("threshold_not_applicable",)
                unmeasured += 1
            left.append(one)
        if unmeasured:
            self.warnings.append(f"{unmeasured} candidate(s) have no {kind} score: similarity_threshold did not apply")
        return left

    def relevant(self, alive: list[Survivor]) -> list[Survivor]:
        """Scope first, from the best absolute signal; then min_relevance; only then may min_chunks bring some back."""
        settings = self.settings
        best = max((one.absolute for one in alive), default=0.0)
        self.weighed, self.in_scope = len(alive), best >= settings.scope
        limit = settings.min_relevance_score if self.in_scope else max(settings.scope, settings.min_relevance_score)
        below = [one for one in alive if one.absolute < limit]
        wanted = settings.min_chunks - (len(alive) - len(below))
        by_signal = sorted(below, key=lambda one: (-one.absolute, one.candidate.tier, one.candidate.key))
        for one in by_signal[: max(wanted, 0)]:
            one.flags += ("below_threshold",)
        for one in by_signal[max(wanted, 0) :]:
            if self.in_scope:
                self._drop(one, "relevance", "below_min_relevance", one.absolute, limit)
            else:
                self._drop(one, "scope", "out_of_scope", one.absolute, limit)
        kept_below = set(map(id, by_signal[: max(wanted, 0)]))
        return [one for one in alive if one.absolute >= limit or id(one) in kept_below]

    def reranked(self, alive: list[Survivor]) -> list[Survivor]:
        """Blend: relevance = w * stage 1 + (1 - w) * reranker. A failure leaves stage 1's relevance, and is said."""
        if self.rerank_step is None or not alive:
            return alive
        alive = sorted(alive, key=lambda one: one.candidate.key)
        try:
            scores = self.rerank_step(self.given.query, [(one.candidate.key, one.candidate.chunk) for one in alive])
        except RerankerError as error:
            self.rerank_failed = str(error)
            self.warnings.append(f"degraded: rerank: {error}")
            return alive
        weight = self.settings.rerank_weight
        for one in alive:
            score = None if scores is None else scores.get(one.candidate.key)
            if score is not None:
                self.rerank_scores[one.candidate.key] = one.rerank_score = score
                one.relevance = weight * one.relevance + (1.0 - weight) * score
        return alive

    def _timed_select(self, alive: list[Survivor]) -> tuple[RankedChunk, ...]:
        """Authority, order, cut; what is left gets its tag. Demoted content ranks as tier 5."""
        started = self.tick()
        survivors = {one.candidate.key: one for one in alive}
        ranked = order([self._contender(one) for one in alive])
        chosen, passed = self._chosen(ranked, survivors)
        found, self.swap_count = swaps(ranked, chosen, self.settings)
        self.found_swaps = tuple(found)
        chunks = []
        for place, index in enumerate(chosen, start=1):
            contender = ranked[index]
            key = contender.key
            self.fates[key] = Fate(*key, Outcome.RETURNED, "select", "returned", contender.final)
            chunks.append(ranked_chunk(survivors[key], contender, place, self.given, self.warnings))
        for index, why in passed.items():
            key = ranked[index].key
            self.fates[key] = Fate(*key, Outcome.DROPPED, "select", why.reason, why.value, why.limit)
        self.stages.append(StageTrace("select", len(alive), len(chunks), (self.tick() - started) * 1000.0))
        return tuple(chunks)

    def _chosen(self, ranked: Sequence[Contender], survivors: Mapping[Key, Survivor]) -> Choice:
        """The best, under the limits on one document and on likeness where they are set."""
        chunks = [survivors[one.key].candidate.chunk for one in ranked]
        return choose(
            [one.final for one in ranked],
            [(one.key[0], chunk.document_id) if chunk.document_id else None for one, chunk in zip(ranked, chunks)],
            [chunk.content for chunk in chunks],
            top_k=self.settings.stage2_top_k,
            max_per_document=self.settings.max_per_document,
            mmr_lambda=self.settings.mmr_lambda,
        )

    def _contender(self, one: Survivor) -> Contender:
        candidate = one.candidate
        tier = candidate.standing.tier
        if one.flags and self.settings.expired == "demote" and "expired" in one.flags:
            tier = 5
        boost = self.boosts[tier - 1]
        return Contender(candidate.key, tier, one.relevance, boost, final_score(one.relevance, boost, self.settings))
