"""Stage 2 in reading order: from the sources' answers to a ranked, tagged, accounted-for answer.

identity -> filter re-check -> as-of, supersession, refused expiry -> measure -> dedup -> threshold -> scope ->
relevance -> rerank -> authority -> select -> tag. Every removed candidate gets a fate with the name of its stage in
the trace. Pure: the same inputs give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from math import inf

from context_engine.core.engine.candidate_table import CandidateTable, RerankStep, StageTwoInput, StageTwoOutput
from context_engine.core.engine.reranking import blend_pool, blend_relevance
from context_engine.core.engine.selection import select, shortlist
from context_engine.core.models import Chunk, Notice, NoticeCode, Outcome, Score, ScoreKind, StageTrace, distinct
from context_engine.core.policy.filters import chunk_fields, matches
from context_engine.core.policy.trust import in_force, is_expired, superseded
from context_engine.core.query import variants
from context_engine.core.ranking.candidates import AnalysedText
from context_engine.core.ranking.dedup import Deduplicate, best_of_lower_copies, deduplicate
from context_engine.core.ranking.learnt_blend import BlendPool
from context_engine.core.ranking.relevance import best_of, measure
from context_engine.core.ranking.scope import Limits, decide_limits, how_to_get, near_miss_limit, scope_threshold
from context_engine.core.tracing import NO_SPAN, Span
from context_engine.errors import InvalidRequest, RerankerError

Watch = Callable[[str], AbstractContextManager[Span]]
"""Opens the span of a step by its name."""


def unwatched(_step: str) -> AbstractContextManager[Span]:
    """Show nothing: a `Watch` outside of a trace."""
    return nullcontext(NO_SPAN)


def rank(
    inputs: StageTwoInput,
    rerank: RerankStep | None = None,
    timer: Callable[[], float] = float,
    analyse: Callable[[str], AnalysedText] = AnalysedText,
    match: Deduplicate = deduplicate,
    watch: Watch = unwatched,
) -> StageTwoOutput:
    """Rank the answers of stage 1.

    Args:
        rerank: gives the scores of the model reranker, or recorded ones; None for no reranking.
        timer: seconds for the stage times; the default measures nothing.
        analyse: analyses a text; an engine passes its cache.
        watch: shows the work of each step in a trace.
    """
    if rerank is not None:
        output = _StageTwo(inputs, rerank, timer, analyse, match, watch).run()
        if output.rerank_scores or output.rerank_failed is not None:
            return output  # otherwise it had no opinion: rank as without it
    stage_two = _StageTwo(inputs, None, timer, analyse, match, watch, shortlisting=True)
    output = stage_two.run()
    return output if stage_two.is_decided else _StageTwo(inputs, None, timer, analyse, match, watch).run()


def pool_of(inputs: StageTwoInput, rerank: RerankStep | None = None) -> BlendPool:
    """Return the features that a learnt blend reads or is trained on, of the candidates left at that step.

    Args: as `rank`.
    """
    stage_two = _StageTwo(inputs, rerank, float, AnalysedText, deduplicate)
    rows = stage_two.measured_rows()
    best = [row for row in rows if stage_two.table.keys[row] in stage_two.table.rerank_scores] or rows
    return blend_pool(stage_two.table, best, stage_two.settings)


class _StageTwo:
    """One run of the steps: each takes the remaining rows, records the fate of those it drops and returns the rest.

    Args:
        shortlisting: set rows aside that are unlikely to be in the answer (`shortlist`); if the answer could
            depend on them after all (not `is_decided`), a second run must analyse all rows.
    """

    def __init__(
        self,
        inputs: StageTwoInput,
        rerank: RerankStep | None,
        timer: Callable[[], float],
        analyse: Callable[[str], AnalysedText],
        match: Deduplicate,
        watch: Watch = unwatched,
        *,
        shortlisting: bool = False,
    ) -> None:
        self.plan, self.settings = inputs.plan, inputs.plan.settings
        self.rerank, self.timer, self.match, self.watch = rerank, timer, match, watch
        answers = inputs.by_source()
        self.table = CandidateTable(answers, analyse)
        self.statistics = {spec.id: answer.statistics for spec, answer in answers if answer.statistics is not None}
        self.stages: list[StageTrace] = []
        self.rerank_failed: str | None = None
        self.scope = scope_threshold(self.settings, [answer.calibration for answer in inputs.answers])
        self.near_miss_limit = near_miss_limit(inputs.answers)
        self.scope_tested, self.limits = 0, Limits()
        self.is_near_miss = False
        self.shortlisting, self.aside = shortlisting, list[int]()

    @property
    def is_decided(self) -> bool:
        """Whether the answer does not depend on the rows set aside.

        None of them is returned, and the analysed rows were in scope, not kept only for `min_chunks`, and no near miss.
        """
        returned = any(self.table.fates[row].outcome is Outcome.RETURNED for row in self.aside)
        return not self.aside or (
            self.limits.in_scope and not self.is_near_miss and not self.limits.kept and not returned
        )

    def run(self) -> StageTwoOutput:
        """Run all steps; the rows set aside are ranked with the others by their scores."""
        rows = [*self.measured_rows(), *self.aside]
        started = self.timer()
        scope = self.scope._replace(weak_below=inf) if self.is_near_miss else self.scope
        with self.watch("select") as opened:
            selection = select(self.table, rows, self.plan, scope)
            opened.tell(self._trace("select", len(rows), len(selection.chunks), started))
        return StageTwoOutput(
            chunks=selection.chunks,
            fates=tuple(self.table.fates[row] for row in range(len(self.table.keys))),
            swaps=selection.swaps,
            swap_count=selection.swap_count,
            stages=tuple(self.stages),
            notices=distinct(self.table.notices),
            scope_tested=self.scope_tested,
            in_scope=self.limits.in_scope,
            scope=self.scope,
            rerank_scores=self.table.rerank_scores,
            rerank_adapter=self.table.rerank_adapter,
            rerank_failed=self.rerank_failed,
        )

    def measured_rows(self) -> list[int]:
        """Run the steps up to the final relevance; return the remaining rows without those set aside."""
        rows = list(range(len(self.table.keys)))
        before = len(rows)
        steps = (
            ("filter", self.matching_filters),
            ("as_of", self.in_force),
            ("expiry", self.not_expired),
            ("measure", self.with_relevance),
            ("dedup", self.deduplicated),
            ("threshold", self.above_threshold),
            ("scope", self.within_scope),
            ("relevance", self.relevant_enough),
            ("rerank", self.reranked),
        )
        for name, step in steps:
            started = self.timer()
            with self.watch(name) as opened:
                left = step(rows)
                opened.tell(self._trace(name, before, before := len(left) + len(self.aside), started))
            rows = left
        return rows

    def _trace(self, name: str, before: int, left: int, started: float) -> StageTrace:
        self.stages.append(StageTrace(name, before, left, round((self.timer() - started) * 1000.0, 3)))
        return self.stages[-1]

    def matching_filters(self, rows: list[int]) -> list[int]:
        """Apply the filters again: a source may have ignored them."""
        table = self.table
        if self.plan.request.filters is None:
            return rows
        left = []
        for row in rows:
            candidate = table.candidates[row]
            fields = chunk_fields(
                candidate.chunk,
                source_id=candidate.key[0],
                source_type=candidate.authority.source_type,
                tier=candidate.tier,
                classification=candidate.authority.classification,
                domain=self.plan.request.domain,
            )
            if matches(self.plan.request.filters, fields):
                left.append(row)
            else:
                table.drop(row, "filter", "filter_not_met")
        return left

    def in_force(self, rows: list[int]) -> list[int]:
        """Keep chunks that are in force on the requested day and not superseded by a newer version in force."""
        table = self.table
        chunks = table.chunks
        if not any(chunk.effective_from or chunk.effective_to or chunk.superseded_by for chunk in chunks):
            return rows
        current = []
        for row in rows:
            removal = in_force(chunks[row], self.plan.clock.as_of)
            if removal is None:
                current.append(row)
            else:
                table.drop(row, "as_of", *removal)
        pairs = [(table.keys[row][0], chunks[row]) for row in current]
        outdated = superseded(pairs, today=self.plan.clock.today)
        for index, removal in outdated.items():
            table.drop(current[index], "as_of", *removal)
        return [row for index, row in enumerate(current) if index not in outdated]

    def not_expired(self, rows: list[int]) -> list[int]:
        """Flag expired content; drop it under `refuse`, rank it as tier 5 under `demote`."""
        table = self.table
        now = self.plan.clock.now
        expired = {row for row in rows if is_expired(table.chunks[row], table.candidates[row].spec, now=now)}
        for row in sorted(expired):
            if self.settings.expired == "refuse":
                age = table.candidates[row].freshness(now)
                table.drop(row, "expiry", "expired", age.fetched_at.isoformat(), age.ttl_seconds)
                continue
            table.flag(row, "expired")
            if self.settings.expired == "demote":
                table.tiers[row] = 5
        return [row for row in rows if row not in expired] if self.settings.expired == "refuse" else rows

    def with_relevance(self, rows: list[int]) -> list[int]:
        """Set the relevance and the absolute signal of the remaining rows, each by its best wording of the question."""
        table, prepared = self.table, self.plan.prepared
        known = None
        if self.shortlisting and (best := shortlist(table, rows, self.plan, self.statistics)) is not None:
            self.aside = sorted(set(rows) - set(best))
            rows, known = best, [table.relevance[row] for row in best]
        candidates = [table.candidates[row] for row in rows]
        query = prepared.words if prepared and prepared.words else self.plan.query
        for wording in (query, *((*variants(prepared), *prepared.translations) if prepared else ())):
            measured = measure(wording, candidates, self.statistics, known, table.added)
            table.take_words(rows, measured)
            columns = zip(rows, measured.relevance, measured.absolute, measured.evidence)
            for row, relevance, absolute, evidence in columns:
                table.relevance[row] = max(table.relevance[row], relevance)
                table.absolute[row] = max(table.absolute[row], absolute)
                table.evidence[row] = max(table.evidence[row], evidence)
        table.inherit(self.settings.graph_weight)
        return rows

    def deduplicated(self, rows: list[int]) -> list[int]:
        """Merge near-duplicates into the first kept text, by tier and then relevance; a cluster has its best relevance.

        With `dedup_method` off all are kept, and a copy has at least the relevance of its copies in lower tiers.
        """
        table = self.table
        limit, method = self.settings.dedup_threshold, self.settings.dedup_method
        rows = sorted(sorted(rows, key=table.relevance.__getitem__, reverse=True), key=table.tiers.__getitem__)
        texts = [table.candidates[row].text for row in rows]
        clusters = self.match(texts, method="exact" if method == "off" else method, threshold=limit)
        if method == "off":
            for column in (table.relevance, table.absolute):
                for row, value in zip(rows, best_of_lower_copies(clusters, [column[row] for row in rows])):
                    column[row] = value
            return rows
        return table.merge(rows, clusters, limit)

    def above_threshold(self, rows: list[int]) -> list[int]:
        """Apply the threshold to the best score of its kind in each cluster; candidates without one pass, flagged.

        The limits of the next steps are decided here too, because `min_chunks` keeps candidates below any of them.
        """
        table, limit, kind = self.table, self.settings.similarity_threshold, ScoreKind(self.settings.similarity_kind)
        scores = {} if limit is None else {row: table.best_score(row, kind) for row in rows}
        below = {row: score for row, score in scores.items() if score is not None and score < (limit or 0.0)}
        self.scope_tested = len(rows)
        scopes = {row: self._scope_of(row) for row in rows}
        self.limits = decide_limits(table.absolute, table.tiers, scopes, below, self.settings)
        for row in self.limits.kept:
            table.flag(row, "below_threshold")
        for row in below.keys() - self.limits.kept:
            table.drop(row, "threshold", f"below_{kind}_threshold", below[row], limit)
        self._note_unmeasured([row for row, score in scores.items() if score is None], kind, len(rows))
        return [row for row in rows if row not in below or row in self.limits.kept]

    def _note_unmeasured(self, rows: list[int], kind: ScoreKind, tested: int) -> None:
        if self.settings.strict_thresholds and self.settings.similarity_threshold is not None:
            self._refuse_sources_without(kind)
        for row in rows:
            self.table.flag(row, "threshold_not_applicable")
        if rows:
            origin = self.plan.effective.origins.get("similarity_threshold", "default")
            threshold = f"similarity_threshold {self.settings.similarity_threshold:g} of {origin}"
            message = f"{len(rows)} candidate(s) have no {kind} score: {threshold} did not apply to them"
            if len(rows) == tested:
                message += f", and min_relevance_score alone did: {how_to_get(kind, self.settings)}"
            detail = {"count": len(rows), "tested": tested, "kind": str(kind), "origin": origin}
            notice = Notice(NoticeCode.THRESHOLD_NOT_APPLICABLE, "similarity_threshold", message, detail)
            self.table.notices.append(notice)

    def _refuse_sources_without(self, kind: ScoreKind) -> None:
        """Refuse the search if no chunk of some source has a score of the threshold's kind."""
        scored = {key[0]: False for key in self.table.keys}
        for key, chunk in zip(self.table.keys, self.table.chunks):
            scored[key[0]] = scored[key[0]] or chunk.score(kind) is not None
        without = [source_id for source_id, has_score in scored.items() if not has_score]
        if without:
            raise InvalidRequest(
                f"similarity_threshold is a {kind} threshold, strict_thresholds is set, and no chunk of source(s) "
                f"{', '.join(without)} has a {kind} score: {how_to_get(kind, self.settings)}"
            )

    def within_scope(self, rows: list[int]) -> list[int]:
        """Keep all rows if the best absolute signal reaches the scope threshold, else only the rows for
        `min_chunks`.
        """
        return rows if self.limits.in_scope else self._reaching(rows, "scope", "out_of_scope")

    def relevant_enough(self, rows: list[int]) -> list[int]:
        """Keep rows that reach min_relevance_score, and those for `min_chunks`."""
        if not self.limits.in_scope:
            return rows
        left = self._reaching(rows, "relevance", "below_min_relevance")
        if left:
            self._note_near_miss()
        return left

    def _note_near_miss(self) -> None:
        """Add a notice if the best evidence among all measured candidates is below that of answered questions."""
        limit, best = self.near_miss_limit, round(max(self.table.evidence), 3)
        self.is_near_miss = limit is not None and best < limit
        if self.is_near_miss:
            message = (
                "the passages may not tell what is asked: for questions that the knowledge base answers, some passage "
                f"reaches an evidence of {limit:g}, here the best has {best:g}"
            )
            detail = {"evidence": best, "threshold": limit}
            self.table.notices.append(Notice(NoticeCode.NEAR_MISS, "", message, detail))

    def _reaching(self, rows: list[int], stage: str, reason: str) -> list[int]:
        """Keep rows that reach the least absolute signal, and those for `min_chunks`."""
        absolute, least = self.table.absolute, self.limits.least_absolute
        dropped = {row for row in rows if absolute[row] < least[row]} - self.limits.kept
        for row in dropped:
            self.table.drop(row, stage, reason, absolute[row], least[row])
        return [row for row in rows if row not in dropped]

    def _scope_of(self, row: int) -> float:
        """Return the scope threshold of a row. Calibrations are for the engine's own signal: for declared relevance,
        `auto` means min_relevance_score."""
        declared = self.scope.origin and self.table.chunks[row].score(ScoreKind.RELEVANCE) is not None
        return self.settings.min_relevance_score if declared else self.scope.value

    def reranked(self, rows: list[int]) -> list[int]:
        """Blend the relevance of stage 1 with the reranker's scores; without them, and with a notice, if it fails.

        With `rerank_top_n` the reranker reads only the best rows, and the others stay below them. Each chunk it reads
        has the relevance of stage 1 as its relevance score.
        """
        self.table.recalled = self.table.relevance.copy()
        best = rows
        if self.rerank is not None and rows:
            best = best_of(rows, self.table.relevance, self.table.tiers, self.settings.rerank_top_n)
            self._score(best, self.rerank)
        blend_relevance(self.table, rows, best, self.settings)
        return rows

    def _score(self, best: list[int], rerank: RerankStep) -> None:
        """Call the reranker and keep its scores."""
        table = self.table
        candidates = [(table.keys[row], _with_relevance(table.chunks[row], table.relevance[row])) for row in best]
        try:
            scores = rerank(self.plan.query, candidates)
        except RerankerError as error:
            self.rerank_failed = str(error)
            message, detail = f"degraded: rerank: {error}", {"problem": str(error)}
            table.notices.append(Notice(NoticeCode.RERANK_FAILED, "rerank", message, detail))
            return
        if scores is not None and scores.scores:
            table.rerank_adapter = scores.adapter
            table.rerank_scores.update({key: scores.scores[key] for key, _ in candidates if key in scores.scores})


def _with_relevance(chunk: Chunk, relevance: float) -> Chunk:
    others = (score for score in chunk.scores if score.kind is not ScoreKind.RELEVANCE)
    return chunk._replace(scores=(Score(ScoreKind.RELEVANCE, relevance, "stage1"), *others))
