"""The candidates whose texts are read: the others cannot come into the answer, whatever their texts say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from context_engine.core.engine.candidate_table import CandidateTable
from context_engine.core.engine.search_plan import SearchPlan
from context_engine.core.models import TIERS, Settings, TermStatistics
from context_engine.core.ranking.relevance import relevance_by_scores
from context_engine.core.ranking.select import final_scores

_LEAST: Final = 40
"""Rows by relevance, and as many by final score. Of 265 questions to twenty sources, 800 candidates each, the answer of
ten was decided among 40 for 264, among 60 for all."""
_PER_PLACE: Final = 4
"""The same for each place of a longer answer."""


def shortlist(
    table: CandidateTable, rows: Sequence[int], plan: SearchPlan, statistics: Mapping[str, TermStatistics]
) -> list[int] | None:
    """Return the rows worth a closer look, in order; None for all of them, where their texts must be read to tell.

    Sources that share a scorer, as those of one base do, give many more candidates than an answer has room for, and
    their scores alone say what relevance and what final score each of them has. The best by either are looked at, and
    what has the same text as one of them. The relevance of every row is set then.

    The others can be ranked by what is known of them: merging, thresholds and scope only take rows away. So if none of
    them comes into the answer, it has the chunks that a look at all rows gives; but a near-duplicate that is not of the
    best is not merged, and counts as another text. All rows are looked at where a step needs every text or changes
    relevance: a reranker, a learnt blend, `mmr_lambda`, `similarity_threshold`, required evidence, which merged copies
    count for, a question that names something exactly, and a source that does not say how common its terms are, so that
    the candidates must be counted.

    Args:
        table: takes the relevance.
        rows: the candidates that are left.
        plan: of the search.
        statistics: by the id of the source.
    """
    settings = plan.settings
    most = max(_LEAST, _PER_PLACE * settings.stage2_top_k)
    if len(rows) <= 2 * most or not _told_by_scores(plan):
        return None
    candidates = [table.candidates[row] for row in rows]
    counted = statistics.keys() >= {candidate.spec.id for candidate in candidates}
    relevance = relevance_by_scores(candidates) if counted else None
    if relevance is None:
        return None
    for row, value in zip(rows, relevance, strict=True):
        table.relevance[row] = value
    finals = dict(zip(rows, final_scores(relevance, boosts(table, rows, settings), settings), strict=True))
    best = {*_highest(rows, table.relevance, most), *_highest(rows, finals, most)}
    texts = {table.chunks[row].content for row in best}
    return [row for row in rows if row in best or table.chunks[row].content in texts]


def boosts(table: CandidateTable, rows: Sequence[int], settings: Settings) -> list[float]:
    """Return what its authority gives each row: its tier's boost, none where it is not trusted."""
    of_tier = {tier: settings.authority_boosts.of(tier) for tier in TIERS}
    return [of_tier[table.tiers[row]] if table.trusted(row) else 0.0 for row in rows]


def _told_by_scores(plan: SearchPlan) -> bool:
    """Whether nothing in the plan needs the text of every candidate."""
    settings, request, asked = plan.settings, plan.request, plan.prepared
    if settings.learnt_blend is not None or settings.mmr_lambda is not None:
        return False
    if settings.similarity_threshold is not None or request.require_tiers or request.require_sources:
        return False
    names_something = asked is not None and (asked.phrases or asked.codes or asked.references)
    return not (settings.exact_first and names_something)


def _highest(rows: Sequence[int], column: Sequence[float] | Mapping[int, float], most: int) -> list[int]:
    return sorted(rows, key=column.__getitem__, reverse=True)[:most]
