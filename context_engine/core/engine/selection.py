"""The last step of stage 2: exact matches, authority, order, cut, injection flags and the provenance tag."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import pairwise, starmap
from typing import Any, Final, NamedTuple

from context_engine.core.engine.candidate_table import CandidateTable, SelectedCandidate
from context_engine.core.engine.search_plan import SearchPlan
from context_engine.core.models import (
    MASK_CONTEXTS,
    TIERS,
    Fate,
    Member,
    Notice,
    NoticeCode,
    Outcome,
    PreparedQuery,
    ProvenanceTag,
    RankedChunk,
    ScopeThreshold,
    Settings,
    Swap,
    TermStatistics,
    link_of,
    utc_text,
)
from context_engine.core.policy.injection import INJECTION_SUSPECTED, label_kinds, split_kinds
from context_engine.core.ranking.candidates import AnalysedText, Candidate
from context_engine.core.ranking.exact import exact_first
from context_engine.core.ranking.relevance import relevance_by_scores
from context_engine.core.ranking.scope import confidence_of
from context_engine.core.ranking.select import (
    Choice,
    Contenders,
    Passed,
    choose,
    final_scores,
    newer_first,
    order,
    swaps,
)
from context_engine.core.text import content_sha256


class RankedList(NamedTuple):
    """The returned chunks, best first; the pairs that authority swapped, and their total number."""

    chunks: tuple[RankedChunk, ...]
    swaps: tuple[Swap, ...]
    swap_count: int


def select(table: CandidateTable, rows: Sequence[int], plan: SearchPlan, scope: ScopeThreshold) -> RankedList:
    """Return the best of the rows, and give every row its fate."""
    rows, settings = sorted(rows), plan.settings
    tiers = [table.tiers[row] for row in rows]
    boost = boosts(table, rows, settings)
    candidates = [table.candidates[row] for row in rows]
    relevance = exact_matches_first(
        plan.prepared,
        [table.relevance[row] for row in rows],
        (candidate.text for candidate in candidates),
        (candidate.label for candidate in candidates),
        settings,
    )
    relevance = newer_first(relevance, [table.chunks[row] for row in rows], plan.clock.as_of, settings.recency_weight)
    for row, value in zip(rows, relevance):
        table.relevance[row] = value
    finals = final_scores(relevance, boost, settings)
    contenders = Contenders([table.keys[row] for row in rows], tiers, relevance, finals)
    ranked = order(contenders)
    chosen, passed = _chosen(table, [rows[index] for index in ranked], [finals[index] for index in ranked], settings)
    swapped, count = swaps(contenders, ranked, chosen)
    flag_injections(table, [rows[ranked[place]] for place in chosen])
    chunks = []
    for rank, place in enumerate(chosen, start=1):
        index = ranked[place]
        selected = table.selected(rows[index], boost[index], finals[index])
        chunks.append(ranked_chunk(selected, rank, plan, scope, table.notices))
    _drop_passed_over(table, [rows[index] for index in ranked], set(chosen), passed, settings.stage2_top_k)
    return RankedList(tuple(chunks), tuple(swapped), count)


def _chosen(table: CandidateTable, ranked: Sequence[int], finals: Sequence[float], settings: Settings) -> Choice:
    """Choose the best within the limits on chunks of one document and on similarity, if set."""
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


def exact_matches_first(
    query: PreparedQuery | None,
    relevance: list[float],
    texts: Iterable[AnalysedText],
    labels: Iterable[AnalysedText],
    settings: Settings,
) -> list[float]:
    """Raise the relevance of exact matches, so that no tier lifts a chunk without the quoted phrase or code above them.

    Unchanged if `exact_first` is off; see `ranking.exact.exact_first`.
    """
    if query is None or not settings.exact_first:
        return relevance
    weight = settings.relevance_weight
    reach = settings.authority_weight * settings.authority_boosts.of(1)  # the most that authority can add
    margin = min(reach / weight, 1.0) if weight else 1.0
    return exact_first(query, relevance, texts, labels, margin)


_LEAST: Final = 40
"""Rows taken by relevance, and as many by final score. Measured on 265 questions with 800 candidates each from twenty
sources: 40 rows were enough to decide an answer of ten chunks for 264 questions, 60 for all."""

_PER_PLACE: Final = 4
"""Rows for each place of a longer answer."""


def shortlist(
    table: CandidateTable, rows: Sequence[int], plan: SearchPlan, statistics: Mapping[str, TermStatistics]
) -> list[int] | None:
    """Return the rows whose texts must be analysed, in order; None for all rows. Set the relevance of every row.

    Sources that share a scorer (all sources of one base do) give many more candidates than an answer has room for. The
    scores alone determine the relevance and the final score of each candidate. The best candidates by either are
    analysed, and all rows with the same text as one of them.

    The other rows are ranked by their scores: merging, thresholds and scope only remove rows. So if none of the others
    is returned, the answer has the same chunks as with an analysis of all rows; only near-duplicates beyond the best
    are not merged. All rows are analysed if a step needs every text or changes relevance: a reranker, a learnt blend,
    `mmr_lambda`, `recency_weight`, `similarity_threshold`, links, required evidence (merged copies count for it), a
    question that names something exactly, or a source without term statistics, whose terms must be counted in the
    candidates.
    """
    settings = plan.settings
    most = max(_LEAST, _PER_PLACE * settings.stage2_top_k)
    if len(rows) <= 2 * most or table.paths or not _decided_by_scores(plan):
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
    """Return the authority boost of each row: the boost of its tier, or 0 if it is not trusted."""
    of_tier = {tier: settings.authority_boosts.of(tier) for tier in TIERS}
    return [of_tier[table.tiers[row]] if table.trusted(row) else 0.0 for row in rows]


def _decided_by_scores(plan: SearchPlan) -> bool:
    """Whether nothing in the plan needs the text of every candidate."""
    settings, request, query = plan.settings, plan.request, plan.prepared
    if settings.learnt_blend is not None or settings.mmr_lambda is not None or settings.recency_weight:
        return False
    if settings.similarity_threshold is not None or request.require_tiers or request.require_sources:
        return False
    names_something = query is not None and (query.phrases or query.codes or query.references)
    return not (settings.exact_first and names_something)


def _highest(rows: Sequence[int], column: Sequence[float] | Mapping[int, float], most: int) -> list[int]:
    return sorted(rows, key=column.__getitem__, reverse=True)[:most]


def flag_injections(table: CandidateTable, rows: Sequence[int]) -> None:
    """Flag returned rows with suspected injections, with a notice for each.

    Each text is checked by itself, with its title, headings and fields, and together with its neighbours, by rank and
    in its document, because an instruction may be split over two chunks.
    """

    def kinds_of(text: str) -> tuple[str, ...]:
        return table.analyse(text).injection

    kinds = {row: [*table.candidates[row].text.injection, *label_kinds(table.chunks[row], kinds_of)] for row in rows}
    for before, after in _beside(table, rows):
        split = split_kinds(table.chunks[before].content, table.chunks[after].content)
        kinds[before] += split
        kinds[after] += split
    for row in rows:
        if kinds[row]:
            table.flag(row, INJECTION_SUSPECTED)
            table.notices.append(_notice(*table.keys[row], list(dict.fromkeys(kinds[row]))))


def _beside(table: CandidateTable, rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    yield from pairwise(rows)
    ranked = set(pairwise(rows))
    in_documents = sorted((row for row in rows if table.chunks[row].document_id), key=lambda row: _place(table, row))
    for before, after in pairwise(in_documents):
        if _place(table, before)[:3] == _place(table, after)[:3] and (before, after) not in ranked:
            yield before, after


def _place(table: CandidateTable, row: int) -> tuple[str, str, str, tuple[int, int], int]:
    """Return a chunk's document and its position there."""
    chunk = table.chunks[row]
    place = (chunk.span or (0, 0), chunk.position or 0)
    return (table.keys[row][0], str(chunk.document_id), str(chunk.document_version), *place)


def _notice(source_id: str, chunk_id: str, kinds: list[str]) -> Notice:
    words = ", ".join(kind.replace("_", " ") for kind in kinds)
    message = (
        f"chunk {chunk_id!r} of source {source_id!r} reads like more than text ({words}): it is quoted in contexts, "
        "never to be followed"
    )
    return Notice(NoticeCode.INJECTION_SUSPECTED, source_id, message, {"chunk_id": chunk_id, "kinds": kinds})


def ranked_chunk(
    selected: SelectedCandidate, rank: int, plan: SearchPlan, scope: ScopeThreshold, notices: list[Notice]
) -> RankedChunk:
    """Return a selected candidate as a ranked chunk with its tag; report a refused claim of authority in a notice."""
    candidate = selected.candidate
    authority = candidate.authority
    source_id, chunk_id = candidate.key
    if authority.claimed:
        claims = ", ".join(f"{name} {value!r}" for name, value in sorted(authority.claimed.items()))
        message = f"chunk {chunk_id!r} of source {source_id!r} claims {claims}: above its manifest, refused"
        detail = {"chunk_id": chunk_id, "claimed": dict(authority.claimed)}
        notices.append(Notice(NoticeCode.CLAIM_REFUSED, source_id, message, detail))
    also_in = tuple(starmap(_member, selected.members))
    flags = _flags(selected)
    return RankedChunk(
        rank=rank,
        source_id=source_id,
        chunk_id=chunk_id,
        domain=plan.request.domain,
        chunk=candidate.chunk,
        source_type=authority.source_type,
        authority_tier=authority.tier,
        trust_class=authority.trust,
        classification=authority.classification,
        relevance=selected.relevance,
        absolute=selected.absolute,
        boost=selected.boost,
        final=selected.final,
        confidence=confidence_of(selected.absolute, scope),
        rerank_score=selected.rerank_score,
        url=link_of(candidate.chunk, candidate.spec.url),
        recalled=selected.recalled,
        flags=flags,
        also_in=also_in,
        provenance=_tag(candidate, plan, {**_extra(selected, plan, also_in), "flags": list(flags)}),
    )


def _tag(candidate: Candidate, plan: SearchPlan, extra: dict[str, Any]) -> ProvenanceTag:
    authority, age = candidate.authority, candidate.freshness(plan.clock.now)
    return ProvenanceTag(
        source_id=candidate.key[0],
        source_type=str(authority.source_type),
        authority_tier=authority.tier,
        trust_class=str(authority.trust),
        fetched_at=utc_text(age.fetched_at),
        ttl_seconds=age.ttl_seconds,
        extra={**extra, "fetched_at_basis": str(age.basis), "freshness": age.state},
    )


def _flags(selected: SelectedCandidate) -> tuple[str, ...]:
    """Return the flags about dates, then those of the steps."""
    chunk, about_dates = selected.candidate.chunk, []
    if chunk.effective_from is None and chunk.effective_to is None:
        about_dates.append("effective_unknown")
    if chunk.superseded_by:
        about_dates.append("superseded")
    return (*about_dates, *selected.flags)


def _extra(selected: SelectedCandidate, plan: SearchPlan, also_in: tuple[Member, ...]) -> dict[str, Any]:
    chunk, authority = selected.candidate.chunk, selected.candidate.authority
    extra: dict[str, Any] = {
        "chunk_id": selected.candidate.key[1],
        "rag_score": round(selected.final, 4),
        "relevance": round(selected.relevance, 4),
        "absolute_relevance": round(selected.absolute, 4),
        "content_sha256": content_sha256(chunk.content),
        "document_id": chunk.document_id,
        "document_version": chunk.document_version,
        "dataset_id": chunk.dataset_id,
        "classification": str(authority.classification),
        "retrieved_at": utc_text(selected.candidate.retrieved_at),
        "also_in": [member._asdict() for member in also_in],
        "search_id": plan.search_id,
        "defaulted": list(_defaulted(selected)),
    }
    if selected.candidate.spec.namespace is not None:
        extra["namespace"] = selected.candidate.spec.namespace
    if plan.settings.mask_contexts:
        extra[MASK_CONTEXTS] = True
    if selected.path:
        extra["linked_from"] = [step._asdict() for step in selected.path]
    if authority.claimed:
        extra["claimed_tier"] = authority.claimed.get("authority_tier")
        extra["claimed"] = dict(authority.claimed)
    return extra


def _defaulted(selected: SelectedCandidate) -> tuple[str, ...]:
    chunk = selected.candidate.chunk
    names = list(selected.candidate.authority.defaulted)
    if not chunk.chunk_id:
        names.append("chunk_id")
    if chunk.fetched_at is None:
        names.append("fetched_at")
    if chunk.ttl_seconds is None and "ttl_seconds" not in selected.candidate.spec.model_fields_set:
        names.append("ttl_seconds")
    return tuple(names)


def _member(candidate: Candidate, relevance: float, similarity: float) -> Member:
    return Member(
        source_id=candidate.key[0],
        chunk_id=candidate.key[1],
        source_type=str(candidate.authority.source_type),
        authority_tier=candidate.tier,
        document_id=candidate.chunk.document_id,
        document_version=candidate.chunk.document_version,
        section=candidate.chunk.section,
        title=candidate.chunk.title,
        relevance=round(relevance, 4),
        similarity=round(similarity, 4),
        content_sha256=content_sha256(candidate.chunk.content),
    )
