"""Stage 2 in reading order: from the sources' answers to a ranked, tagged, accounted-for answer.

identity -> filter re-check -> as-of, supersession, refused expiry -> relevance -> dedup -> thresholds and scope ->
rerank -> authority -> select -> tag. Every removal is a fate. Pure: the same inputs give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sized

from context_engine.core.engine.columns import Columns
from context_engine.core.engine.selection import select
from context_engine.core.engine.survivors import Ranking, RerankStep, StageTwo
from context_engine.core.models import Chunk, Fate, Outcome, Score, ScoreKind, StageTrace
from context_engine.core.policy.effective import in_force, superseded
from context_engine.core.policy.filters import chunk_fields, matches
from context_engine.core.query import variants
from context_engine.core.ranking.analysed import AnalysedText
from context_engine.core.ranking.copies import best_of_lower_copies
from context_engine.core.ranking.dedup import deduplicate
from context_engine.core.ranking.relevance import measure
from context_engine.core.ranking.rerank import below_reranked, best_of, blended
from context_engine.errors import RerankerError

__all__ = ["rank"]


def rank(
    given: StageTwo,
    rerank: RerankStep | None = None,
    tick: Callable[[], float] = float,
    analysed: Callable[[str], AnalysedText] = AnalysedText,
) -> Ranking:
    """Rank the answers of stage 1.

    Args:
        given: the inputs.
        rerank: the model reranker's scores, or a function that looks up recorded ones.
        tick: seconds for the stage times; the default measures nothing.
        analysed: gives a text its analysis; an engine's cache of them, or each anew.
    """
    return _StageTwoRun(given, rerank, tick, analysed).run()


class _StageTwoRun:
    """One pass through the steps; each takes the rows that are left and returns fewer."""

    def __init__(
        self,
        given: StageTwo,
        rerank: RerankStep | None,
        tick: Callable[[], float],
        analysed: Callable[[str], AnalysedText],
    ) -> None:
        self.given, self.settings, self.tick = given, given.settings, tick
        self.rerank_step = rerank
        self.columns = Columns(given.answers, analysed)
        self.stages: list[StageTrace] = []
        self.rerank_failed: str | None = None
        self.weighed, self.in_scope = 0, True

    def run(self) -> Ranking:
        rows = list(range(len(self.columns.keys)))
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
            started = self.tick()
            left = step(rows)
            self._note(name, rows, left, started)
            rows = left
        started = self.tick()
        selection = select(self.columns, rows, self.given)
        self._note("select", rows, selection.chunks, started)
        return Ranking(
            chunks=selection.chunks,
            fates=tuple(self.columns.fates[row] for row in range(len(self.columns.keys))),
            swaps=selection.swaps,
            swap_count=selection.swap_count,
            stages=tuple(self.stages),
            warnings=tuple(dict.fromkeys(self.columns.warnings)),
            weighed=self.weighed,
            in_scope=self.in_scope,
            rerank_scores=self.columns.rerank_scores,
            rerank_failed=self.rerank_failed,
        )

    def _note(self, name: str, rows: Sized, left: Sized, started: float) -> None:
        self.stages.append(StageTrace(name, len(rows), len(left), (self.tick() - started) * 1000.0))

    def recheck(self, rows: list[int]) -> list[int]:
        """The filters again, whatever the source did with them."""
        columns = self.columns
        if self.given.filters is None:
            return rows
        left = []
        for row in rows:
            candidate = columns.candidates[row]
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
                columns.drop(row, "filter", "filter_not_met")
        return left

    def on_the_day(self, rows: list[int]) -> list[int]:
        """In force on the day asked about, and not replaced by a newer version that is."""
        columns = self.columns
        chunks = columns.chunks
        if not any(chunk.effective_from or chunk.effective_to or chunk.superseded_by for chunk in chunks):
            return rows
        standing = []
        for row in rows:
            removal = in_force(chunks[row], self.given.as_of)
            if removal is None:
                standing.append(row)
            else:
                columns.drop(row, "as_of", *removal)
        pairs = [(columns.keys[row][0], chunks[row]) for row in standing]
        replaced = superseded(pairs, today=self.given.today)
        for index, removal in replaced.items():
            columns.drop(standing[index], "as_of", *removal)
        return [row for index, row in enumerate(standing) if index not in replaced]

    def not_refused(self, rows: list[int]) -> list[int]:
        """Expired content is flagged; under `refuse` it is dropped, under `demote` it ranks as tier 5 from here on."""
        columns = self.columns
        left = []
        for row in rows:
            if columns.chunks[row].fetched_at is not None:
                age = columns.candidates[row].freshness(self.given.now)
                if age.state == "expired":
                    if self.settings.expired == "refuse":
                        columns.drop(row, "expiry", "expired", age.fetched_at.isoformat(), age.ttl_seconds)
                        continue
                    columns.flag(row, "expired")
                    if self.settings.expired == "demote":
                        columns.tiers[row] = 5
            left.append(row)
        return left

    def measured(self, rows: list[int]) -> list[int]:
        """Relevance and absolute signal over what is left, by the wording of the question that suits each best."""
        columns, prepared = self.columns, self.given.prepared
        candidates = [columns.candidates[row] for row in rows]
        asked = prepared.words if prepared and prepared.words else self.given.query
        for wording in (asked, *(variants(prepared) if prepared else ())):
            measured = measure(wording, candidates)
            for row, relevance, absolute in zip(rows, measured.relevance, measured.absolute):
                columns.relevance[row] = max(columns.relevance[row], relevance)
                columns.absolute[row] = max(columns.absolute[row], absolute)
        return rows

    def deduplicated(self, rows: list[int]) -> list[int]:
        """Near-duplicates join the first text kept, in survivor order; a cluster has the relevance of its best.

        Where all are kept, a copy has at least the relevance of those in lower tiers.
        """
        columns = self.columns
        limit, method = self.settings.dedup_threshold, self.settings.dedup_method
        rows = sorted(sorted(rows, key=columns.relevance.__getitem__, reverse=True), key=columns.tiers.__getitem__)
        texts = [columns.candidates[row].text for row in rows]
        found = deduplicate(texts, method="exact" if method == "off" else method, threshold=limit)
        if method == "off":
            for column in (columns.relevance, columns.absolute):
                for row, value in zip(rows, best_of_lower_copies(found, [column[row] for row in rows])):
                    column[row] = value
            return rows
        best, best_absolute = columns.relevance.copy(), columns.absolute.copy()
        left = []
        for row, match in zip(rows, found):
            if match is None:
                left.append(row)
                continue
            into = rows[match.into]
            columns.members.setdefault(into, []).append((row, match.similarity))
            best[into] = max(best[into], best[row])
            best_absolute[into] = max(best_absolute[into], best_absolute[row])
            key, kept = columns.keys[row], columns.keys[into]
            columns.fates[row] = Fate(*key, Outcome.MERGED, "dedup", match.how, match.similarity, limit, kept)
        columns.relevance, columns.absolute = best, best_absolute
        return left

    def above_threshold(self, rows: list[int]) -> list[int]:
        """A threshold applies to candidates that carry its kind of score, a cluster's best; the others pass, marked."""
        columns = self.columns
        limit, kind = self.settings.similarity_threshold, ScoreKind(self.settings.similarity_kind)
        if limit is None:
            return rows
        left, unmeasured = [], 0
        for row in rows:
            value = columns.best_score(row, kind)
            if value is not None and value < limit:
                columns.drop(row, "threshold", f"below_{kind}_threshold", value, limit)
                continue
            if value is None:
                columns.flag(row, "threshold_not_applicable")
                unmeasured += 1
            left.append(row)
        if unmeasured:
            columns.warnings.append(
                f"{unmeasured} candidate(s) have no {kind} score: similarity_threshold did not apply"
            )
        return left

    def relevant(self, rows: list[int]) -> list[int]:
        """Scope first, from the best absolute signal; then min_relevance; only then may min_chunks bring some back."""
        columns, settings = self.columns, self.settings
        absolute = columns.absolute
        best = max((absolute[row] for row in rows), default=0.0)
        self.weighed, self.in_scope = len(rows), best >= settings.scope
        limit = settings.min_relevance_score if self.in_scope else max(settings.scope, settings.min_relevance_score)
        below = sorted(
            [row for row in rows if absolute[row] < limit], key=lambda row: (-absolute[row], columns.tiers[row], row)
        )
        wanted = max(settings.min_chunks - (len(rows) - len(below)), 0)
        for row in below[:wanted]:
            columns.flag(row, "below_threshold")
        why = ("relevance", "below_min_relevance") if self.in_scope else ("scope", "out_of_scope")
        for row in below[wanted:]:
            columns.drop(row, *why, absolute[row], limit)
        gone = set(below[wanted:])
        return [row for row in rows if row not in gone]

    def reranked(self, rows: list[int]) -> list[int]:
        """Blend: relevance = w * stage 1 + (1 - w) * reranker. A failure leaves stage 1's relevance, and is said.

        With `rerank_top_n` the reranker sees the best alone, and the others stay below them. Each chunk it sees carries
        stage 1's relevance as its score of that kind.
        """
        columns = self.columns
        if self.rerank_step is None or not rows:
            return rows
        asked = best_of(rows, columns.relevance, columns.tiers, self.settings.rerank_top_n)
        keys = [columns.keys[row] for row in asked]
        try:
            scores = self.rerank_step(
                self.given.query,
                [(key, _with_relevance(columns.chunks[row], columns.relevance[row])) for key, row in zip(keys, asked)],
            )
        except RerankerError as error:
            self.rerank_failed = str(error)
            columns.warnings.append(f"degraded: rerank: {error}")
            return rows
        found = {row: (key, scores[key]) for key, row in zip(keys, asked) if scores and key in scores}
        if not found:
            return rows
        before = [columns.relevance[row] for row in asked]
        for row, (key, score) in found.items():
            columns.rerank_scores[key] = score
            columns.relevance[row] = blended(columns.relevance[row], score, self.settings.rerank_weight)
        rest = sorted(set(rows) - set(asked))
        after = [columns.relevance[row] for row in asked]
        for row, value in zip(rest, below_reranked([columns.relevance[row] for row in rest], before, after)):
            columns.relevance[row] = value
        return rows


def _with_relevance(chunk: Chunk, relevance: float) -> Chunk:
    others = (score for score in chunk.scores if score.kind is not ScoreKind.RELEVANCE)
    return chunk._replace(scores=(Score(ScoreKind.RELEVANCE, relevance, "stage1"), *others))
