"""The last step of stage 2: authority, order, cut. What is left gets its tag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

from context_engine.core.engine.columns import Columns
from context_engine.core.engine.exactness import with_exact_names_first
from context_engine.core.engine.survivors import StageTwo
from context_engine.core.engine.tagging import ranked_chunk
from context_engine.core.models import TIERS, Fate, Outcome, RankedChunk, Settings, Swap
from context_engine.core.ranking.authority import final_scores
from context_engine.core.ranking.diversity import Choice, Passed, choose
from context_engine.core.ranking.select import Contenders, order, swaps

__all__ = ["Selection", "select"]


class Selection(NamedTuple):
    """The chunks returned, best first; the pairs that authority turned round, and how many there are."""

    chunks: tuple[RankedChunk, ...]
    swaps: tuple[Swap, ...]
    swap_count: int


def select(columns: Columns, rows: Sequence[int], given: StageTwo) -> Selection:
    """Return the best of the rows; every row has its fate then."""
    rows, settings = sorted(rows), given.settings
    tiers = [columns.tiers[row] for row in rows]
    boosts = [settings.authority_boosts.of(tier) for tier in TIERS]
    boost = [boosts[tier - 1] for tier in tiers]
    relevance = with_exact_names_first(
        given.prepared, [columns.relevance[row] for row in rows], [columns.chunks[row] for row in rows], settings
    )
    for row, value in zip(rows, relevance):
        columns.relevance[row] = value
    finals = final_scores(relevance, boost, settings)
    contenders = Contenders([columns.keys[row] for row in rows], tiers, relevance, finals)
    ranked = order(contenders)
    chosen, passed = _chosen(columns, [rows[one] for one in ranked], [finals[one] for one in ranked], settings)
    found, count = swaps(contenders, ranked, chosen)
    chunks = []
    for place, index in enumerate(chosen, start=1):
        one = ranked[index]
        row = rows[one]
        columns.fates[row] = Fate(*columns.keys[row], Outcome.RETURNED, "select", "returned", finals[one])
        survivor = columns.survivor(row, boost[one], finals[one])
        chunks.append(ranked_chunk(survivor, place, given, columns.warnings))
    _pass_over(columns, [rows[one] for one in ranked], set(chosen), passed, settings.stage2_top_k)
    return Selection(tuple(chunks), tuple(found), count)


def _chosen(columns: Columns, ranked: Sequence[int], finals: Sequence[float], settings: Settings) -> Choice:
    """The best, under the limits on one document and on likeness where they are set."""
    chunks = [columns.chunks[row] for row in ranked]
    documents = [
        (columns.keys[row][0], chunk.document_id) if chunk.document_id else None for row, chunk in zip(ranked, chunks)
    ]
    return choose(
        finals,
        documents,
        [columns.candidates[row].text for row in ranked],
        top_k=settings.stage2_top_k,
        max_per_document=settings.max_per_document,
        mmr_lambda=settings.mmr_lambda,
    )


def _pass_over(
    columns: Columns, ranked: Sequence[int], chosen: Set[int], passed: Mapping[int, Passed], limit: int
) -> None:
    for index, row in enumerate(ranked):
        if index not in chosen:
            columns.drop(row, "select", *(passed.get(index) or ("beyond_top_k", index + 1, limit)))
