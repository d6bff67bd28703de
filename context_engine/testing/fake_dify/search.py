"""The search methods of a dataset: semantic, full-text, hybrid and keyword."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from hashlib import blake2b
from math import log, sqrt
from typing import Any, Final, NamedTuple

from context_engine.core.text import terms
from context_engine.testing.fake_dify.data import Model
from context_engine.testing.fake_dify.refusals import DifyRefusal, RetrievePlan, invalid_param, no_vector_table
from context_engine.testing.fake_dify.stored import StoredDataset, StoredSegment, Unit, keywords_of, vector_of


def keyword_search(stored: StoredDataset, query: str, top_k: Any, seed: int) -> list[StoredSegment]:
    """Return the chunks that share the most keywords with the query.

    Among chunks with equally many keywords the seed decides which are cut, like the hash seed of Dify's process.

    Args:
        top_k: as in the request. It is a slice bound, as in Dify: -1 leaves one out, null takes all.
    """
    wanted = set(keywords_of(query))
    counts = [(len(wanted.intersection(segment.keywords or ())), segment) for segment in stored.segments]
    ranked = sorted((pair for pair in counts if pair[0]), key=lambda pair: (-pair[0], _shuffled(seed, "cut", pair[1])))
    try:
        kept = ranked[:top_k]
    except TypeError as error:
        raise invalid_param(str(error)) from None
    segments = [segment for _, segment in kept if segment.searchable]
    return sorted(segments, key=lambda segment: _shuffled(seed, "order", segment))


def _shuffled(seed: int, use: str, segment: StoredSegment) -> bytes:
    return blake2b(f"{seed}:{use}:{segment.id}".encode(), digest_size=8).digest()


_EF_SEARCH: Final = 40
"""Most hits of a search in the vector store's HNSW index, even for a larger top_k."""

_SCANNED_FROM: Final = 1000
"""From this top_k on the whole table is read: observed with 44 chunks at 1000, not at 100."""

_RANK_OF_ONE: Final = 0.0607927  # the database's rank of a text that holds one query word once


class UnitHit(NamedTuple):
    """A matching chunk or child chunk."""

    unit: Unit
    score: float


class WorkspaceModels(NamedTuple):
    """The models of the workspace."""

    rerankers: Collection[Model]
    embeddings: Collection[Model]


class _NoSuchModel(Exception):
    """The reranker or the weights are unusable."""


def vector_search(
    stored: StoredDataset, asked: RetrievePlan, documents: set[str] | None, models: WorkspaceModels
) -> list[UnitHit]:
    """Return the hits of a semantic, full-text or hybrid search, best first.

    Hybrid search with a broken reranker finds nothing, as in Dify, where the error is lost in a thread.

    Args:
        documents: ids that pass the filter; None: no filter.

    Raises:
        DifyRefusal: 400 with the message of the vector store or the model provider.
    """
    semantic, full_text = asked.method != "full_text_search", asked.method != "semantic_search"
    if not stored.units:
        raise _refused(
            [no_vector_table(stored.id, full_text=True)] * full_text + [no_vector_table(stored.id)] * semantic
        )
    threshold = _threshold(asked.threshold)
    if not isinstance(asked.top_k, int) or asked.top_k <= 0:
        raise _refused([invalid_param("top_k must be a positive integer")] * (semantic + full_text))
    units = [unit for unit in stored.units if unit.segment.searchable and _allowed(unit, documents)]
    hits: list[UnitHit] = []
    if semantic:
        hits += [hit for hit in _semantic(units, asked.query, asked.top_k) if hit.score >= threshold]
    if full_text:
        hits += _full_text(units, asked.query, asked.top_k)
    if semantic and full_text:
        return _hybrid(hits, asked, threshold, models)
    return _single(hits, asked, threshold, models)


def _refused(refusals: Sequence[DifyRefusal]) -> DifyRefusal:
    return invalid_param(";\n".join(refusal.message for refusal in refusals))


def _threshold(value: Any) -> float:
    try:
        return float(value or 0.0)
    except (TypeError, ValueError) as error:
        raise invalid_param(str(error)) from None


def _allowed(unit: Unit, documents: set[str] | None) -> bool:
    return documents is None or unit.segment.document.id in documents


def _semantic(units: Sequence[Unit], query: str, top_k: int) -> list[UnitHit]:
    """Return the top_k nearest units at any distance; the index limits their number."""
    vector = vector_of(query)
    hits = [UnitHit(unit, sum(value * unit.vector.get(at, 0.0) for at, value in vector.items())) for unit in units]
    return _sorted(hits)[: top_k if top_k >= _SCANNED_FROM else min(top_k, _EF_SEARCH)]


def _full_text(units: Sequence[Unit], query: str, top_k: int) -> list[UnitHit]:
    """Return the texts that contain all terms of the query, with small scores."""
    wanted = set(terms(query))
    hits: list[UnitHit] = []
    for unit in units:
        counts = Counter(unit.terms)
        if wanted and all(counts[term] for term in wanted):
            hits.append(UnitHit(unit, _RANK_OF_ONE * sum(1 + log(counts[term]) for term in wanted) / sqrt(len(wanted))))
    return _sorted(hits)[:top_k]


def _single(hits: list[UnitHit], asked: RetrievePlan, threshold: float, models: WorkspaceModels) -> list[UnitHit]:
    reranker = _named(asked.reranking_model)
    if reranker is None or not hits:
        return hits
    try:
        return _reranked(hits, asked.query, reranker, models, threshold)
    except _NoSuchModel as error:
        raise invalid_param(str(error)) from None


def _hybrid(hits: list[UnitHit], asked: RetrievePlan, threshold: float, models: WorkspaceModels) -> list[UnitHit]:
    """Return the union of both legs; without a reranker it is neither cut at top_k nor rescaled."""
    best: dict[tuple[str, int | None], UnitHit] = {}
    for hit in _sorted(hits):
        best.setdefault((hit.unit.segment.id, hit.unit.child), hit)
    union = list(best.values())
    reranker = _named(asked.reranking_model)
    try:
        if asked.reranking_mode == "weighted_score" and asked.weights:
            return _weighted(union, asked, threshold, models)[: asked.top_k]
        if asked.reranking_mode == "reranking_model" and reranker is not None:
            return _reranked(union, asked.query, reranker, models, threshold)[: asked.top_k]
    except _NoSuchModel:
        return []
    return union


def _named(model: Any) -> Model | None:
    """Return the requested reranker; None if a name is missing, which turns reranking off."""
    fields = model if isinstance(model, dict) else {}
    provider, name = fields.get("reranking_provider_name"), fields.get("reranking_model_name")
    return (str(provider), str(name)) if provider and name else None


def _reranked(
    hits: Sequence[UnitHit], query: str, reranker: Model, models: WorkspaceModels, threshold: float
) -> list[UnitHit]:
    """Score each text by the share of the query's terms it contains."""
    if reranker not in models.rerankers:
        raise _NoSuchModel(f"Provider {reranker[0]} does not exist.")
    wanted = set(terms(query))
    scored = [UnitHit(hit.unit, len(wanted.intersection(hit.unit.terms)) / max(len(wanted), 1)) for hit in hits]
    return _sorted([hit for hit in scored if hit.score >= threshold])


def _weighted(hits: Sequence[UnitHit], asked: RetrievePlan, threshold: float, models: WorkspaceModels) -> list[UnitHit]:
    """Combine a hit's score, from either leg, with the overlap of its words with the query's."""
    try:
        vector, keyword = asked.weights["vector_setting"], asked.weights["keyword_setting"]
        by_vector, by_keyword = float(vector["vector_weight"]), float(keyword["keyword_weight"])
        embedding = (vector["embedding_provider_name"], vector["embedding_model_name"])
    except (KeyError, TypeError, ValueError) as error:
        raise _NoSuchModel(str(error)) from None
    if embedding not in models.embeddings:
        raise _NoSuchModel(f"Provider {embedding[0]} does not exist.")
    wanted = set(terms(asked.query))
    scored = [
        UnitHit(hit.unit, by_vector * hit.score + by_keyword * _overlap(wanted, set(hit.unit.terms))) for hit in hits
    ]
    return _sorted([hit for hit in scored if hit.score >= threshold])


def _overlap(words: set[str], other: set[str]) -> float:
    return len(words & other) / sqrt(len(words) * len(other)) if words and other else 0.0


def _sorted(hits: Sequence[UnitHit]) -> list[UnitHit]:
    return sorted(hits, key=lambda hit: -hit.score)
