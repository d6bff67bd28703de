"""Declarations of the content of a FakeDify."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias
from uuid import NAMESPACE_URL, uuid5

Metadata: TypeAlias = Mapping[str, str | int | float | None]
Model: TypeAlias = tuple[str, str]
"""A provider's name and a model's name, as Dify writes them."""

FAKE_EMBEDDING: Final[Model] = ("langgenius/fake/fake", "fake-embedding")
COMPLETED_AT: Final = 1_767_225_600  # 2026-01-01T00:00:00Z


@dataclass(frozen=True)
class FakeSegment:
    """One chunk of a document.

    Attributes:
        content: the text; the question in a QA dataset, the parent's text in a parent-child dataset.
        answer: the answer in a QA dataset.
        keywords: the search keywords in an economy dataset; None: the ten commonest words of the text.
        children: the child chunks of a parent-child dataset.
        position: position in the document, from 1; None: the order of declaration.
        summary: a second searchable text, as in a dataset with a summary index; answers then contain it.
        files: names of its pictures in a multimodal dataset.
    """

    content: str
    answer: str | None = None
    keywords: Sequence[str] | None = None
    children: Sequence[str] = ()
    enabled: bool = True
    id: str | None = None
    position: int | None = None
    summary: str | None = None
    files: Sequence[str] = ()


@dataclass(frozen=True)
class FakeDocument:
    """One document.

    Attributes:
        segments: its chunks; a string is a chunk without further fields.
        metadata: flat names and values; None if the document has none, as in Dify. Times are unix seconds.
        completed_at: end of indexing, unix seconds.
        indexing_status: waiting, parsing, cleaning, splitting, indexing, completed or error; found only if completed.
        error: why indexing failed.
        batch: id under which the indexing status is requested; None: generated.
        place: position among the dataset's documents, from 1; None: the order of declaration.
    """

    name: str
    segments: Sequence[str | FakeSegment] = ()
    metadata: Metadata | None = None
    enabled: bool = True
    archived: bool = False
    completed_at: int = COMPLETED_AT
    id: str | None = None
    indexing_status: str = "completed"
    error: str | None = None
    batch: str | None = None
    place: int | None = None


@dataclass(frozen=True)
class FakeDataset:
    """One knowledge base.

    Attributes:
        indexing_technique: None for a knowledge base that was never filled.
        id: a UUID; None: derived from the name, so that it is the same in every run.
        doc_form: "hierarchical_model" for parent-child, "qa_model" for question and answer.
        embedding_model: provider and model of a high-quality dataset.
        reranker: provider and model; the saved retrieval model is then hybrid search with this reranker.
        retrieval_model: the saved retrieval model in Dify's form; None if none was saved.
        enable_api: False answers 403.
        built_in_fields: whether Dify adds document_name, uploader and dates to the metadata.
        fields: declared metadata fields by type; fields of the documents are added.
        permission: visibility in Dify; the API ignores it.
        foreign: whether it belongs to another workspace than the key.
    """

    name: str
    indexing_technique: Literal["high_quality", "economy"] | None = "high_quality"
    documents: Sequence[FakeDocument] = ()
    id: str | None = None
    provider: Literal["vendor", "external"] = "vendor"
    doc_form: Literal["text_model", "hierarchical_model", "qa_model"] = "text_model"
    description: str = ""
    embedding_model: Model = FAKE_EMBEDDING
    reranker: Model | None = None
    retrieval_model: Mapping[str, Any] | None = None
    enable_api: bool = True
    built_in_fields: bool = False
    fields: Mapping[str, Literal["string", "number", "time"]] = field(default_factory=dict)
    permission: Literal["only_me", "all_team_members", "partial_members"] = "all_team_members"
    foreign: bool = False

    @cached_property
    def dataset_id(self) -> str:
        """The UUID, in lower case."""
        return self.id.lower() if self.id else str(uuid5(NAMESPACE_URL, f"fake-dify:{self.name}"))

    @property
    def saved_model(self) -> Mapping[str, Any] | None:
        """The retrieval model for requests without one."""
        if self.retrieval_model is not None or self.reranker is None:
            return self.retrieval_model
        provider, model = self.reranker
        return {
            "search_method": "hybrid_search",
            "reranking_enable": True,
            "reranking_mode": "reranking_model",
            "reranking_model": {"reranking_provider_name": provider, "reranking_model_name": model},
            "top_k": 4,
            "score_threshold_enabled": False,
        }
