"""Stage 2 in reading order: from the sources' answers to a ranked, tagged, accounted-for answer.

identity -> filter re-check -> as-of, supersession, refused expiry -> relevance -> dedup -> thresholds and scope ->
rerank -> authority -> select -> tag. Every removal is a fate. Pure: the same inputs give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

from context_engine.engine.exactness import with_exact_names_first
from context_engine.engine.survivors import Ranking, RerankStep, StageTwo, Survivor
from context_engine.engine.tagging import ranked_chunk
from context_engine.errors import RerankerError
from context_engine.models import TIERS, Fate, Key, Outcome, RankedChunk, ScoreKind, StageTrace
from context_engine.policy.effective import in_force, superseded
from context_engine.policy.filters import chunk_fields, matches
from context_engine.query import variants
from context_engine.ranking.authority import final_scores
from context_engine.ranking.candidates import pool
from context_engine.ranking.copies import best_of_lower_copies
from context_engine.ranking.dedup import deduplicate
from context_engine.ranking.diversity import Choice, Passed, choose
from context_engine.ranking.relevance import measure
from context_engine.ranking.rerank import below_reranked, best_of, blended
from context_engine.ranking.select import Contenders, order, swaps

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
    """One pass through the steps; each takes the rows that are left and returns fewer.

    A row is a candidate's place in the order of identity; what is known of it stands in columns.
    """

    def __init__(self, given: StageTwo, rerank: RerankStep | None, tick: Callable[[], float]) -> None:
        self.given, self.settings, self.tick = given, given.settings, tick
        self.rerank_step = rerank
        self.candidates, self.warnings = pool(given.answers)
        self.chunks = [candidate.chunk for candidate in self.candidates]
        self.tiers = [candidate.standing.tier for candidate in self.candidates]
        self.relevance = [0.0] * len(self.candidates)
        self.absolute = self.relevance.copy()
        self.flags: dict[int, tuple[str, ...]] = {}
        self.members: dict[int, list[tuple[int, float]]] = {}
        self.rerank_scores: dict[Key, float] = {}
        self.fates: dict[int, Fate] = {}
        self.stages: list[StageTrace] = []
        self.rerank_failed: str | None = None
        self.weighed, self.in_scope = 0, True

    def run(self) -> Ranking:
        rows = list(range(len(self.candidates)))
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
            rows = self._timed(name, step, rows)
        chunks = self._timed_select(rows)
        return Ranking(
            chunks=chunks,
            fates=tuple(self.fates[row] for row in range(len(self.candidates))),
            swaps=self.found_swaps,
            swap_count=self.swap_count,
            stages=tuple(self.stages),
            warnings=tuple(dict.fromkeys(self.warnings)),
            weighed=self.weighed,
            in_scope=self.in_scope,
            rerank_scores=self.rerank_scores,
            rerank_failed=self.rerank_failed,
        )

    def _timed(self, name: str, step: Callable[[list[int]], list[int]], rows: list[int]) -> list[int]:
        started = self.tick()
        left = step(rows)
        self.stages.append(StageTrace(name, len(rows), len(left), (self.tick() - started) * 1000.0))
        return left

    def _drop(
        self, row: int, stage: str, reason: str, value: float | str | None = None, limit: float | str | None = None
    ) -> None:
        self.fates[row] = Fate(*self.candidates[row].key, Outcome.DROPPED, stage, reason, value, limit)

    def _flag(self, row: int, flag: str) -> None:
        self.flags[row] = (*self.flags.get(row, ()), flag)

    def recheck(self, rows: list[int]) -> list[int]:
        """The filters again, whatever the source did with them."""
        if self.given.filters is None:
            return rows
        left = []
        for row in rows:
            candidate = self.candidates[row]
            fields = chunk_fields(
                candidate.chunk,
                source_id=candidate.key[0],
                source_type=candidate.standing.source_type,
                tier=candidate.tier,
                classification=candidate.standing.classification,
                domain=self.given.domain,
            )
            if matches(self.given.filters, fields):
                left.append(row)
            else:
                self._drop(row, "filter", "filter_not_met")
        return left

    def on_the_day(self, rows: list[int]) -> list[int]:
        """In force on the day asked about, and not replaced by a newer version that is."""
        chunks = self.chunks
        if not any(chunk.effective_from or chunk.effective_to or chunk.superseded_by for chunk in chunks):
            return rows
        standing = []
        for row in rows:
            removal = in_force(chunks[row], self.given.as_of)
            if removal is None:
                standing.append(row)
            else:
                self._drop(row, "as_of", *removal)
        pairs = [(self.candidates[row].key[0], chunks[row]) for row in standing]
        replaced = superseded(pairs, today=self.given.today)
        for index, removal in replaced.items():
            self._drop(standing[index], "as_of", *removal)
        return [row for index, row in enumerate(standing) if index not in replaced]

    def not_refused(self, rows: list[int]) -> list[int]:
        """Expired content is flagged; under `refuse` it is dropped."""
        left = []
        for row in rows:
            if self.chunks[row].fetched_at is not None:
                age = self.candidates[row].freshness(self.given.now)
                if age.state == "expired":
                    if self.settings.expired == "refuse":
                        self._drop(row, "expiry", "expired", age.fetched_at.isoformat(), age.ttl_seconds)
                        continue
                    self._flag(row, "expired")
            left.append(row)
        return left

    def measured(self, rows: list[int]) -> list[int]:
        """Relevance and absolute signal over what is left, by the wording of the question that suits each best."""
        candidates, prepared = [self.candidates[row] for row in rows], self.given.prepared
        asked = prepared.words if prepared and prepared.words else self.given.query
        for wording in (asked, *(variants(prepared) if prepared else ())):
            measured = measure(wording, candidates)
            for row, relevance, absolute in zip(rows, measured.relevance, measured.absolute):
                self.relevance[row] = max(self.relevance[row], relevance)
                self.absolute[row] = max(self.absolute[row], absolute)
        return rows

    def deduplicated(self, rows: list[int]) -> list[int]:
        """Near-duplicates join the first text kept, in survivor order; a cluster has the relevance of its best.

        Where all are kept, a copy has at least the relevance of those in lower tiers.
        """
        limit, method = self.settings.dedup_threshold, self.settings.dedup_method
        rows = sorted(sorted(rows, key=self.relevance.__getitem__, reverse=True), key=self.tiers.__getitem__)
        texts = [self.chunks[row].content for row in rows]
        found = deduplicate(texts, method="exact" if method == "off" else method, threshold=limit)
        if method == "off":
            for column in (self.relevance, self.absolute):
                for row, value in zip(rows, best_of_lower_copies(found, [column[row] for row in rows])):
                    column[row] = value
            return rows
        best, best_absolute = self.relevance.copy(), self.absolute.copy()
        left = []
        for row, match in zip(rows, found):
            if match is None:
                left.append(row)
                continue
            into = rows[match.into]
            self.members.setdefault(into, []).append((row, match.similarity))
            best[into] = max(best[into], best[row])
            best_absolute[into] = max(best_absolute[into], best_absolute[row])
            key, kept = self.candidates[row].key, self.candidates[into].key
            self.fates[row] = Fate(*key, Outcome.MERGED, "dedup", match.how, match.similarity, limit, kept)
        self.relevance, self.absolute = best, best_absolute
        return left

    def above_threshold(self, rows: list[int]) -> list[int]:
        """A threshold applies to candidates that carry its kind of score, a cluster's best; the others pass, marked."""
        limit, kind = self.settings.similarity_threshold, ScoreKind(self.settings.similarity_kind)
        if limit is None:
            return rows
        left, unmeasured = [], 0
        for row in rows:
            value = self._best(row, kind)
            if value is not None and value < limit:
                self._drop(row, "threshold", f"below_{kind}_threshold", value, limit)
                continue
            if value is None:
                self._flag(row, "threshold_not_applicable")
                unmeasured += 1
            left.append(row)
        if unmeasured:
            self.warnings.append(f"{unmeasured} candidate(s) have no {kind} score: similarity_threshold did not apply")
        return left

    def _best(self, row: int, kind: ScoreKind) -> float | None:
        """Return the highest score of a kind among the texts merged here, None where the survivor's own has none."""
        value = self.chunks[row].score(kind)
        if value is None:
            return None
        merged = (self.chunks[member].score(kind) for member, _ in self.members.get(row, ()))
        return max([value, *(score for score in merged if score is not None)])

    def relevant(self, rows: list[int]) -> list[int]:
        """Scope first, from the best absolute signal; then min_relevance; only then may min_chunks bring some back."""
        settings, absolute = self.settings, self.absolute
        best = max((absolute[row] for row in rows), default=0.0)
        self.weighed, self.in_scope = len(rows), best >= settings.scope
        limit = settings.min_relevance_score if self.in_scope else max(settings.scope, settings.min_relevance_score)
        below = sorted(
            [row for row in rows if absolute[row] < limit], key=lambda row: (-absolute[row], self.tiers[row], row)
        )
        wanted = max(settings.min_chunks - (len(rows) - len(below)), 0)
        for row in below[:wanted]:
            self._flag(row, "below_threshold")
        why = ("relevance", "below_min_relevance") if self.in_scope else ("scope", "out_of_scope")
        for row in below[wanted:]:
            self._drop(row, *why, absolute[row], limit)
        gone = set(below[wanted:])
        return [row for row in rows if row not in gone]

    def reranked(self, rows: list[int]) -> list[int]:
        """Blend: relevance = w * stage 1 + (1 - w) * reranker. A failure leaves stage 1's relevance, and is said.

        With `rerank_top_n` the reranker sees the best alone, and the others stay below them.
        """
        if self.rerank_step is None or not rows:
            return rows
        asked = best_of(rows, self.relevance, self.tiers, self.settings.rerank_top_n)
        keys = [self.candidates[row].key for row in asked]
        try:
            scores = self.rerank_step(self.given.query, [(key, self.chunks[row]) for key, row in zip(keys, asked)])
        except RerankerError as error:
            self.rerank_failed = str(error)
            self.warnings.append(f"degraded: rerank: {error}")
            return rows
        found = {row: (key, scores[key]) for key, row in zip(keys, asked) if scores and key in scores}
        if not found:
            return rows
        before = [self.relevance[row] for row in asked]
        for row, (key, score) in found.items():
            self.rerank_scores[key] = score
            self.relevance[row] = blended(self.relevance[row], score, self.settings.rerank_weight)
        rest = sorted(set(rows) - set(asked))
        after = [self.relevance[row] for row in asked]
        for row, value in zip(rest, below_reranked([self.relevance[row] for row in rest], before, after)):
            self.relevance[row] = value
        return rows

    def _timed_select(self, rows: list[int]) -> tuple[RankedChunk, ...]:
        """Authority, order, cut; what is left gets its tag."""
        started = self.tick()
        rows = sorted(rows)
        tiers = self._ranking_tiers(rows)
        boosts = [self.settings.authority_boosts.of(tier) for tier in TIERS]
        boost = [boosts[tier - 1] for tier in tiers]
        relevance = with_exact_names_first(
            self.given.prepared,
            [self.relevance[row] for row in rows],
            [self.chunks[row] for row in rows],
            self.settings,
        )
        for row, value in zip(rows, relevance):
            self.relevance[row] = value
        finals = final_scores(relevance, boost, self.settings)
        contenders = Contenders([self.candidates[row].key for row in rows], tiers, relevance, finals)
        ranked = order(contenders)
        chosen, passed = self._chosen([rows[one] for one in ranked], [finals[one] for one in ranked])
        found, self.swap_count = swaps(contenders, ranked, chosen)
        self.found_swaps = tuple(found)
        chunks = []
        for place, index in enumerate(chosen, start=1):
            one = ranked[index]
            row = rows[one]
            self.fates[row] = Fate(*contenders.keys[one], Outcome.RETURNED, "select", "returned", finals[one])
            chunks.append(ranked_chunk(self._survivor(row, boost[one], finals[one]), place, self.given, self.warnings))
        self._passed_over([rows[one] for one in ranked], set(chosen), passed)
        self.stages.append(StageTrace("select", len(rows), len(chunks), (self.tick() - started) * 1000.0))
        return tuple(chunks)

    def _passed_over(self, ranked: Sequence[int], chosen: Set[int], passed: Mapping[int, Passed]) -> None:
        limit = self.settings.stage2_top_k
        for index, row in enumerate(ranked):
            if index not in chosen:
                source_id, chunk_id = self.candidates[row].key
                why = passed.get(index) or ("beyond_top_k", index + 1, limit)
                self.fates[row] = Fate(source_id, chunk_id, Outcome.DROPPED, "select", *why)

    def _ranking_tiers(self, rows: Sequence[int]) -> list[int]:
        """The tier each row ranks by; demoted content ranks as tier 5."""
        if self.settings.expired != "demote":
            return [self.tiers[row] for row in rows]
        return [5 if "expired" in self.flags.get(row, ()) else self.tiers[row] for row in rows]

    def _chosen(self, ranked: Sequence[int], finals: Sequence[float]) -> Choice:
        """The best, under the limits on one document and on likeness where they are set."""
        chunks = [self.chunks[row] for row in ranked]
        return choose(
            finals,
            [
                (self.candidates[row].key[0], document) if (document := self.chunks[row].document_id) else None
                for row in ranked
            ],
            [chunk.content for chunk in chunks],
            top_k=self.settings.stage2_top_k,
            max_per_document=self.settings.max_per_document,
            mmr_lambda=self.settings.mmr_lambda,
        )

    def _survivor(self, row: int, boost: float, final: float) -> Survivor:
        candidate = self.candidates[row]
        return Survivor(
            candidate=candidate,
            relevance=self.relevance[row],
            absolute=self.absolute[row],
            boost=boost,
            final=final,
            rerank_score=self.rerank_scores.get(candidate.key),
            flags=self.flags.get(row, ()),
            members=tuple(
                (self.candidates[member], self.relevance[member], similarity)
                for member, similarity in self.members.get(row, ())
            ),
        )
