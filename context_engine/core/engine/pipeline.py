"""The one path of every search: recall, rank, refill, once more in the suggested spelling, assemble."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from context_engine.core.engine.assemble import assemble
from context_engine.core.engine.correction import Prepare, corrected_plan, with_suggestions
from context_engine.core.engine.refill import Pass, better_pass, refill_request
from context_engine.core.engine.retriever import Recalled, Retriever
from context_engine.core.engine.search_plan import SearchPlan
from context_engine.core.engine.stage2 import rank
from context_engine.core.engine.stage_two_input import RerankStep, StageTwoInput
from context_engine.core.models import SearchResult
from context_engine.core.ranking.analysed import AnalysedText
from context_engine.core.ranking.dedup import Deduplicate, deduplicate


@dataclass(frozen=True, slots=True)
class SearchPipeline:
    """Both stages. A live search, a recomputation and a ranking alone differ in its parts only.

    Attributes:
        retriever: where the answers of stage 1 come from.
        rerank: where the model reranker's scores come from; None for no reranking.
        timer: seconds for the times of the stages; the default measures nothing.
        analyse: gives a text its analysis: an engine's cache of them, or each anew.
        match: finds the near-duplicates.
        prepare: reads a query in the suggested spelling; None where it is not searched for.
    """

    retriever: Retriever
    rerank: RerankStep | None = None
    timer: Callable[[], float] = float
    analyse: Callable[[str], AnalysedText] = AnalysedText
    match: Deduplicate = deduplicate
    prepare: Prepare | None = None

    def run(self, plan: SearchPlan) -> SearchResult:
        """Carry out a plan."""
        first = self._searched(plan, self.retriever.recall(plan))
        plan = with_suggestions(plan, first.recalled.answers)
        return self._corrected(plan, first) or assemble(plan, first.recalled, first.output)

    def _searched(self, plan: SearchPlan, recalled: Recalled) -> Pass:
        return self._refilled(plan, self._ranked(plan, recalled))

    def _corrected(self, plan: SearchPlan, first: Pass) -> SearchResult | None:
        """Return the result in the suggested spelling; None where there is no reason for it, or nothing is found."""
        corrected = None if self.prepare is None else corrected_plan(plan, first, self.prepare)
        recalled = None if corrected is None else self.retriever.recall_again(corrected, first.recalled)
        if corrected is None or recalled is None:
            return None
        second = self._searched(corrected, recalled)
        found = second.output.chunks and second.output.in_scope
        return assemble(corrected, second.recalled, second.output) if found else None

    def _ranked(self, plan: SearchPlan, recalled: Recalled) -> Pass:
        inputs = StageTwoInput(plan, recalled.answers)
        return Pass(recalled, rank(inputs, self.rerank, self.timer, self.analyse, self.match))

    def _refilled(self, plan: SearchPlan, first: Pass) -> Pass:
        """Return the first pass, or where its answer was cut short a second one over more candidates."""
        refill = refill_request(first, plan.settings)
        more = None if refill is None else self.retriever.recall_more(plan, first.recalled, refill)
        return first if more is None else better_pass(first, self._ranked(plan, more))
