"""What Dify says of a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from context_engine.errors import SourceProtocolError


class DatasetInfo(NamedTuple):
    """A dataset's description; None where Dify does not say.

    Attributes:
        technique: economy or high_quality.
        external: its knowledge lies outside Dify, where the Service API never searches.
        documents: how many documents can be found.
        embedding, reranker: "provider/model".
        reranking: the part of the saved retrieval model that ranks a hybrid search; None where there is no such part.
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
    """Read the answer of `GET /v1/datasets/{id}`, or one row of the list.

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
    given = rows if isinstance(rows, list) else []
    return {str(row["name"]): str(row.get("type", "")) for row in given if isinstance(row, Mapping) and "name" in row}
