"""A Dify dataset: its settings, how it is searched, and what its scores mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from context_engine.adapters.sources.dify.settings import DifySettings
from context_engine.core.models import Score, ScoreKind, usable_score
from context_engine.errors import SourceProtocolError, SourceUnavailable


class DatasetInfo(NamedTuple):
    """A dataset's description; None for each value Dify does not give.

    Attributes:
        technique: economy or high_quality.
        external: its knowledge lies outside Dify; the Service API never searches it.
        documents: number of searchable documents.
        embedding, reranker: "provider/model".
        reranking: the part of the saved retrieval model that ranks a hybrid search, or None.
        fields: names and types (string, number, time) of its metadata.
    """

    dataset_id: str
    name: str
    technique: str | None
    external: bool
    documents: int | None
    embedding: str | None
    reranker: str | None
    reranking: Mapping[str, Any] | None
    fields: Mapping[str, str]
    api_enabled: bool

    @property
    def weighted(self) -> bool:
        """Whether a hybrid search is ranked by weights, not by a model."""
        return self.reranking is not None and self.reranker is None


def read_info(body: Any) -> DatasetInfo:
    """Parse the answer of `GET /v1/datasets/{id}`, or one row of the list.

    Raises:
        SourceProtocolError: it does not describe a dataset.
    """
    if not isinstance(body, Mapping) or not isinstance(body.get("id"), str):
        raise SourceProtocolError("Dify's description of the dataset cannot be read")
    technique, documents = body.get("indexing_technique"), body.get("total_available_documents")
    model = _mapping(body.get("retrieval_model_dict"))
    reranker = _reranker(model)
    return DatasetInfo(
        dataset_id=body["id"],
        name=str(body.get("name", "")),
        technique=technique if technique in ("economy", "high_quality") else None,
        external=body.get("provider") == "external",
        documents=documents if isinstance(documents, int) and not isinstance(documents, bool) else None,
        embedding=_joined(body.get("embedding_model_provider"), body.get("embedding_model")),
        reranker=reranker,
        reranking=_reranking(model, reranker),
        fields=_fields(body.get("doc_metadata")),
        api_enabled=body.get("enable_api") is not False,
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _joined(provider: Any, model: Any) -> str | None:
    return f"{provider}/{model}" if provider and model else None


def _reranker(model: Mapping[str, Any]) -> str | None:
    if not model.get("reranking_enable") or (model.get("reranking_mode") or "reranking_model") != "reranking_model":
        return None
    named = _mapping(model.get("reranking_model"))
    return _joined(named.get("reranking_provider_name"), named.get("reranking_model_name"))


def _reranking(model: Mapping[str, Any], reranker: str | None) -> Mapping[str, Any] | None:
    if reranker is not None:
        named = model["reranking_model"]
        return {"reranking_enable": True, "reranking_mode": "reranking_model", "reranking_model": dict(named)}
    weights = _mapping(model.get("weights"))
    vector, keyword = _mapping(weights.get("vector_setting")), _mapping(weights.get("keyword_setting"))
    complete = vector.get("embedding_provider_name") and vector.get("embedding_model_name") and keyword
    if model.get("reranking_mode") != "weighted_score" or not complete:
        return None
    return {"reranking_enable": False, "reranking_mode": "weighted_score", "weights": dict(weights)}


def _fields(rows: Any) -> Mapping[str, str]:
    fields = rows if isinstance(rows, list) else []
    return {str(row["name"]): str(row.get("type", "")) for row in fields if isinstance(row, Mapping) and "name" in row}


MAIN: Final = "main"
LEGS: Final = ("semantic", "full_text")


class SearchMethod(NamedTuple):
    """One way to search a dataset.

    Attributes:
        name: Dify's `search_method`.
        kind: of its scores; None if they are meaningless.
        scorer: scores of one kind and one scorer are comparable; None: only within one answer.
        reranking: further keys of the retrieval model.
    """

    name: str
    kind: ScoreKind | None
    scorer: str | None
    reranking: Mapping[str, Any]

    @property
    def ordered(self) -> bool:
        """Whether the order of the records is meaningful."""
        return self.kind is not None

    def scores(self, value: Any) -> tuple[Score, ...]:
        """Return a record's scores; none if the number is meaningless or not a number."""
        if self.kind is None:
            return ()
        number = None if isinstance(value, str) else usable_score(self.kind, value)
        return () if number is None else (Score(self.kind, number, self.scorer),)

    def retrieval_model(self, top_k: int, conditions: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the request's retrieval model: the four keys Dify fails without, and no threshold.

        Thresholds are applied here, because Dify ignores them for some methods and applies them twice for others.
        """
        model = {"search_method": self.name, "reranking_enable": False, **self.reranking, "top_k": top_k}
        model["score_threshold_enabled"] = False
        return {**model, "metadata_filtering_conditions": dict(conditions)} if conditions else model


def choose(dataset_id: str, info: DatasetInfo | None, settings: DifySettings, leg: str = MAIN) -> SearchMethod | None:
    """Return how to search a dataset.

    An economy dataset is searched by keyword. A high-quality one is searched by hybrid search if it has a reranker or
    weights, else by vectors only, because Dify's hybrid search then mixes the scales of its legs.

    Args:
        info: None if Dify cannot be asked; then the manifest's `indexing_technique` decides.
        leg: "main", or one of LEGS.

    Returns:
        None for the full-text leg of an economy dataset, which has only one leg.

    Raises:
        SourceUnavailable: neither Dify nor the manifest gives the indexing technique.
    """
    technique = settings.indexing_technique if info is None else info.technique or settings.indexing_technique
    if technique is None:
        problem = "Dify does not report how the dataset is indexed: set indexing_technique in the manifest's settings"
        raise SourceUnavailable(problem, retryable=info is None)
    if technique == "economy":
        return None if leg == "full_text" else SearchMethod("keyword_search", None, None, {})
    own = f"dify:{dataset_id}"
    if leg == "full_text":
        return SearchMethod("full_text_search", ScoreKind.FULLTEXT, own, {})
    if leg == MAIN and info is not None and info.reranking is not None:
        if info.weighted:
            kind = ScoreKind.WEIGHTED if settings.cosine else ScoreKind.UNKNOWN
            return SearchMethod("hybrid_search", kind, own, info.reranking)
        return SearchMethod("hybrid_search", ScoreKind.RERANK, info.reranker, info.reranking)
    kind = ScoreKind.COSINE if settings.cosine else ScoreKind.UNKNOWN
    return SearchMethod("semantic_search", kind, (info and info.embedding) or own, {})


def possible_kinds(settings: DifySettings) -> frozenset[ScoreKind]:
    """Return the kinds of score a source may give."""
    kinds = {ScoreKind.RERANK, ScoreKind.UNKNOWN}
    if settings.cosine:
        kinds |= {ScoreKind.COSINE, ScoreKind.WEIGHTED}
    if settings.legs:
        kinds |= {ScoreKind.FULLTEXT, ScoreKind.RRF}
    return frozenset(kinds)
