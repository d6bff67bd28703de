"""A retriever for LangChain.

retriever = ContextEngineRetriever(knowledge=InProcess("my-bank"), domain="HANDBOOK", top_k=5)
documents = retriever.invoke("Who approves a new product?")
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict, Field

from context_engine.apps.integrations.knowledge import InProcess, Knowledge, Server
from context_engine.apps.integrations.passages import NoPassages, Questions, SourcesMissing
from context_engine.errors import MissingExtra
from context_engine.service.contract.rag import RAGPipelineResponse

try:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
except ImportError as error:
    raise MissingExtra("the LangChain retriever", "langchain") from error

__all__ = ["ContextEngineRetriever", "InProcess", "NoPassages", "Server", "SourcesMissing"]


class ContextEngineRetriever(BaseRetriever):
    """Retrieves the passages of a domain as documents, with their provenance in the metadata.

    Args:
        knowledge: `InProcess(...)` or `Server(...)`.
        domain, top_k, filters, request, empty_allowed, degraded_allowed, fence_untrusted: as `Questions`.

    Raises:
        NoPassages, SourcesMissing: by a question, unless allowed; `with_fallbacks` can handle them.
        InvalidRequest: a field cannot be used.
    """

    model_config = ConfigDict(extra="forbid")

    knowledge: Any
    domain: str | None = None
    top_k: int | None = None
    filters: dict[str, Any] | str | None = None
    request: Mapping[str, Any] = Field(default_factory=dict)
    empty_allowed: bool = False
    degraded_allowed: bool = True
    fence_untrusted: bool = True

    def model_post_init(self, context: Any, /) -> None:
        """Check the fields."""
        super().model_post_init(context)
        self._questions().checked()

    def _questions(self) -> Questions:
        return Questions(
            domain=self.domain,
            top_k=self.top_k,
            filters=self.filters,
            request=self.request,
            empty_allowed=self.empty_allowed,
            degraded_allowed=self.degraded_allowed,
            fence_untrusted=self.fence_untrusted,
        )

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **changed: Any
    ) -> list[Document]:
        """Return the passages; `top_k` and other fields of a request may be given for one call."""
        questions, knowledge = self._questions(), self._knowledge()
        return _documents(questions, questions.asked(knowledge, query, **changed))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **changed: Any
    ) -> list[Document]:
        questions, knowledge = self._questions(), self._knowledge()
        return _documents(questions, await questions.aasked(knowledge, query, **changed))

    def _knowledge(self) -> Knowledge:
        knowledge: Knowledge = self.knowledge
        return knowledge


def _documents(questions: Questions, answer: RAGPipelineResponse) -> list[Document]:
    return [
        Document(id=passage.id, page_content=passage.text, metadata=passage.metadata)
        for passage in questions.passages(answer)
    ]
