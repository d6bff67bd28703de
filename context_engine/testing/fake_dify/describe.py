"""Dify's descriptions of datasets: a single one, a page of them, and their metadata fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID, uuid5

from context_engine.testing.fake_dify.refusals import RefusedField, validation_error
from context_engine.testing.fake_dify.stored import OWNER, StoredDataset

PAGE_LIMIT: Final = 100
DEFAULT_LIMIT: Final = 20
BUILT_IN_FIELDS: Final[Mapping[str, str]] = {
    "document_name": "string",
    "uploader": "string",
    "upload_date": "time",
    "last_update_date": "time",
    "source": "string",
}
_NEVER_SAVED: Final[Mapping[str, Any]] = {
    "search_method": "semantic_search",
    "reranking_enable": False,
    "reranking_model": {"reranking_provider_name": "", "reranking_model_name": ""},
    "top_k": 2,
    "score_threshold_enabled": False,
}


def describe(stored: StoredDataset, *, alone: bool, new: bool = False) -> dict[str, Any]:
    """Return the description of one dataset.

    Args:
        alone: whether it was requested by id; in a list, Dify shows economy datasets with another search method.
        new: whether it was just created; Dify has not checked its embedding model yet.
    """
    dataset = stored.dataset
    external, provider_model = dataset.provider == "external", _embedding(stored)
    available = sum(document.searchable for document in stored.documents)
    return {
        "id": stored.id,
        "name": dataset.name,
        "description": dataset.description,
        "provider": dataset.provider,
        "permission": dataset.permission,
        "data_source_type": "upload_file" if stored.documents else None,
        "indexing_technique": None if external else dataset.indexing_technique,
        "app_count": 0,
        "document_count": len(stored.documents),
        "word_count": sum(len(segment.segment.content) for segment in stored.segments),
        "created_by": OWNER,
        "author_name": "admin",
        "created_at": stored.created_at,
        "updated_by": OWNER,
        "updated_at": stored.created_at,
        "embedding_model": provider_model[1],
        "embedding_model_provider": provider_model[0],
        "embedding_available": None if new else True,
        "retrieval_model_dict": _retrieval_model(stored, alone),
        "summary_index_setting": dict.fromkeys(("enable", "model_name", "model_provider_name", "summary_prompt")),
        "tags": [],
        "doc_form": dataset.doc_form if stored.documents else None,
        "external_knowledge_info": _external_info(external),
        "external_retrieval_model": _external_model(stored),
        "doc_metadata": _fields(stored),
        "built_in_field_enabled": dataset.built_in_fields,
        "pipeline_id": None,
        "runtime_mode": "general",
        "chunk_structure": None,
        "icon_info": dict.fromkeys(("icon_type", "icon", "icon_background", "icon_url")),
        "is_published": False,
        "total_documents": len(stored.documents),
        "total_available_documents": available,
        "enable_api": dataset.enable_api,
        "is_multimodal": False,
    }


def _embedding(stored: StoredDataset) -> tuple[str | None, str | None]:
    return stored.dataset.embedding_model if stored.dataset.indexing_technique == "high_quality" else (None, None)


def _external_info(external: bool) -> dict[str, Any]:
    names = ("id", "api_id", "api_name", "api_endpoint")
    values = ("fake-knowledge", OWNER, "fake", "https://knowledge.example/api") if external else (None,) * 4
    return {f"external_knowledge_{name}": value for name, value in zip(names, values)}


def _external_model(stored: StoredDataset) -> dict[str, Any]:
    saved = stored.dataset.saved_model
    if saved is None:
        return {"top_k": 2, "score_threshold": 0.0, "score_threshold_enabled": None}
    return {name: saved.get(name) for name in ("top_k", "score_threshold", "score_threshold_enabled")}


def _retrieval_model(stored: StoredDataset, alone: bool) -> dict[str, Any]:
    saved = stored.dataset.saved_model or _NEVER_SAVED
    names = ("reranking_provider_name", "reranking_model_name")
    reranker = saved.get("reranking_model") or {}
    forced = alone and stored.dataset.indexing_technique != "high_quality"
    return {
        "search_method": "keyword_search" if forced else saved.get("search_method"),
        "reranking_enable": saved.get("reranking_enable"),
        "reranking_mode": saved.get("reranking_mode"),
        "reranking_model": {name: reranker.get(name) for name in names},
        "weights": saved.get("weights"),
        "top_k": saved.get("top_k"),
        "score_threshold_enabled": saved.get("score_threshold_enabled"),
        "score_threshold": saved.get("score_threshold"),
    }


def _own_fields(stored: StoredDataset) -> dict[str, str]:
    """Return the types of the metadata fields that are declared or used in a document."""
    out: dict[str, str] = dict(stored.dataset.fields)
    for document in stored.documents:
        for name, value in (document.document.metadata or {}).items():
            out.setdefault(name, "number" if isinstance(value, int | float) else "string")
    return out


def field_ids(stored: StoredDataset) -> dict[str, dict[str, str]]:
    """Return {name: {"id", "name", "type"}} of the dataset's own metadata fields."""
    return {
        name: {"id": str(uuid5(UUID(stored.id), f"field:{name}")), "name": name, "type": kind}
        for name, kind in _own_fields(stored).items()
    }


def _fields(stored: StoredDataset) -> list[dict[str, Any]]:
    own = list(field_ids(stored).values())
    built_in = BUILT_IN_FIELDS.items() if stored.dataset.built_in_fields else ()
    return own + [{"id": "built-in", "name": name, "type": kind} for name, kind in built_in]


def metadata_fields(stored: StoredDataset) -> dict[str, Any]:
    """Return the metadata fields of a dataset with the number of documents that have them."""
    metadata = [document.document.metadata or {} for document in stored.documents]
    own = [
        {**field, "count": sum(field["name"] in each for each in metadata)}
        for field in _fields(stored)
        if field["id"] != "built-in"
    ]
    return {"doc_metadata": own, "built_in_field_enabled": stored.dataset.built_in_fields}


def dataset_page(
    datasets: Sequence[StoredDataset], query: Mapping[str, Sequence[str]], *, exact: bool
) -> dict[str, Any]:
    """Return a page of datasets, newest first.

    A page has at most 100 datasets, although a larger requested limit is echoed. `has_more` compares the page with the
    requested limit, so it is false for limit=1000 and true for a full last page.

    Args:
        exact: whether limit and has_more are correct, as in newer versions.

    Raises:
        DifyRefusal: an invalid number, or a single tag_ids.
    """
    page, asked = _whole(query, "page", 1), _whole(query, "limit", DEFAULT_LIMIT)
    if len(query.get("tag_ids", ())) == 1 and not exact:
        value = query["tag_ids"][0]
        problem = RefusedField("tag_ids", "Input should be a valid list", "list_type", value)
        raise validation_error("DatasetListQuery", [problem])
    keyword = (query.get("keyword") or [""])[0].casefold()
    tagged = bool(query.get("tag_ids")) and exact  # no dataset has a tag here
    matching = [] if tagged else [stored for stored in reversed(datasets) if keyword in stored.dataset.name.casefold()]
    size = min(asked, PAGE_LIMIT) if asked > 0 else DEFAULT_LIMIT
    start = (max(page, 1) - 1) * size
    data = [describe(stored, alone=False) for stored in matching[start : start + size]]
    more = page * size < len(matching) if exact else len(data) == asked
    return {"data": data, "has_more": more, "limit": size if exact else asked, "total": len(matching), "page": page}


def _whole(query: Mapping[str, Sequence[str]], name: str, default: int) -> int:
    text = (query.get(name) or [str(default)])[0]
    try:
        return int(text)
    except ValueError:
        wording = "Input should be a valid integer, unable to parse string as an integer"
        raise validation_error("DatasetListQuery", [RefusedField(name, wording, "int_parsing", text)]) from None
