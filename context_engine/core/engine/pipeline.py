"""The one path of every search: recall, rank, refill, assemble."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from context_engine.core.engine.assemble import assemble
from context_engine.core.engine.refill import Pass, better_pass, refill_request
from context_engine.core.engine.retriever import Recalled, Retriever
from context_engine.core.engine.search_plan import SearchPlan
from context_engine.core.engine.stage2 import rank
from context_engine.core.engine.stage_two_input import RerankStep, StageTwoInput
from context_engine.core.models import SearchResult
from context_engine.core.ranking.analysed import AnalysedText

__all__ = ["SearchPipeline"]


@dataclass(frozen=True, slots=True)
class SearchPipeline:
    """Both stages. A live search, a recomputation and a ranking alone differ in its parts only.

    Attributes:
        retriever: where the answers of stage 1 come from.
        rerank: where the model reranker's scores come from; None for no reranking.
        timer: seconds for the times of the stages; the default measures nothing.
        analyse: gives a text its analysis: an engine's cache of them, or each anew.
    """

    retriever: Retriever
    rerank: RerankStep | None = None
    timer: Callable[[], float] = float
    analyse: Callable[[str], AnalysedText] = AnalysedText

    def run(self, plan: SearchPlan) -> SearchResult:
        """Carry out a plan."""
        first = self._ranked(plan, self.retriever.recall(plan))
        final = self._refilled(plan, first)
        return assemble(plan, final.recalled, final.output)

    def _ranked(self, plan: SearchPlan, recalled: Recalled) -> Pass:
        return Pass(recalled, rank(StageTwoInput(plan, recalled.answers), self.rerank, self.timer, self.analyse))

    def _refilled(self, plan: SearchPlan, first: Pass) -> Pass:
        """Return the first pass, or where its answer was cut short a second one over more candidates."""
        refill = refill_request(first, plan.settings)
        more = None if refill is None else self.retriever.recall_more(plan, first.recalled, refill)
        return first if more is None else better_pass(first, self._ranked(plan, more))
