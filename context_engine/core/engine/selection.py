"""The last step of stage 2: authority, order, cut. What is left gets its tag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

from context_engine.core.engine.candidate_table import CandidateTable
from context_engine.core.engine.exact_match import exact_matches_first
from context_engine.core.engine.search_plan import SearchPlan
from context_engine.core.engine.shortlist import boosts
from context_engine.core.engine.suspicion import flag_injections
from context_engine.core.engine.tagging import ranked_chunk
from context_engine.core.models import Fate, Outcome, RankedChunk, ScopeThreshold, Settings, Swap
from context_engine.core.ranking.select import Choice, Contenders, Passed, choose, final_scores, order, swaps


class RankedList(NamedTuple):
    """The chunks returned, best first; the pairs that authority turned round, and how many there are."""

    chunks: tuple[RankedChunk, ...]
    swaps: tuple[Swap, ...]
    swap_count: int


def select(table: CandidateTable, rows: Sequence[int], plan: SearchPlan, scope: ScopeThreshold) -> RankedList:
    """Return the best of the rows; every row has its fate then."""
    rows, settings = sorted(rows), plan.settings
    tiers = [table.tiers[row] for row in rows]
    boost = boosts(table, rows, settings)
    candidates = [table.candidates[row] for row in rows]
    relevance = exact_matches_first(
        plan.prepared,
        [table.relevance[row] for row in rows],
        (one.text for one in candidates),
        (one.label for one in candidates),
        settings,
    )
    for row, value in zip(rows, relevance):
        table.relevance[row] = value
    finals = final_scores(relevance, boost, settings)
    contenders = Contenders([table.keys[row] for row in rows], tiers, relevance, finals)
    ranked = order(contenders)
    chosen, passed = _chosen(table, [rows[index] for index in ranked], [finals[index] for index in ranked], settings)
    turned, count = swaps(contenders, ranked, chosen)
    flag_injections(table, [rows[ranked[place]] for place in chosen])
    chunks = []
    for rank, place in enumerate(chosen, start=1):
        index = ranked[place]
        selected = table.selected(rows[index], boost[index], finals[index])
        chunks.append(ranked_chunk(selected, rank, plan, scope, table.notices))
    _drop_passed_over(table, [rows[index] for index in ranked], set(chosen), passed, settings.stage2_top_k)
    return RankedList(tuple(chunks), tuple(turned), count)


def _chosen(table: CandidateTable, ranked: Sequence[int], finals: Sequence[float], settings: Settings) -> Choice:
    """The best, under the limits on one document and on similarity where they are set."""
    chunks = [table.chunks[row] for row in ranked]
    documents = [
        (table.keys[row][0], chunk.document_id) if chunk.document_id else None for row, chunk in zip(ranked, chunks)
    ]
    return choose(
        finals,
        documents,
        (table.candidates[row].text for row in ranked),
        top_k=settings.stage2_top_k,
        max_per_document=settings.max_per_document,
        mmr_lambda=settings.mmr_lambda,
    )


def _drop_passed_over(
    table: CandidateTable, ranked: Sequence[int], chosen: Set[int], passed: Mapping[int, Passed], limit: int
) -> None:
    dropped, keys, fates = Outcome.DROPPED, table.keys, table.fates
    for place, row in enumerate(ranked):
        if place in passed:
            table.drop(row, "select", *passed[place])
        elif place not in chosen:
            fates[row] = Fate(*keys[row], dropped, "select", "beyond_top_k", place + 1, limit)
