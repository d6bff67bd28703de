"""A retriever for LlamaIndex.

retriever = ContextEngineRetriever(InProcess("my-bank"), domain="HANDBOOK", top_k=5)
nodes = retriever.retrieve("Who approves a new product?")
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from context_engine.apps.integrations.knowledge import InProcess, Knowledge, Server
from context_engine.apps.integrations.passages import NoPassages, Questions, RetrievedPassage, SourcesMissing
from context_engine.errors import MissingExtra

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.callbacks import CallbackManager
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
except ImportError as error:
    raise MissingExtra("the LlamaIndex retriever", "llamaindex") from error

__all__ = ["ContextEngineRetriever", "InProcess", "NoPassages", "Server", "SourcesMissing"]


class ContextEngineRetriever(BaseRetriever):
    """Retrieves the passages of a domain as nodes, with their provenance in the metadata.

    A model sees only the metadata that it needs to cite a passage.

    Args:
        knowledge: `InProcess(...)` or `Server(...)`.
        domain, top_k, filters, request, empty_allowed, degraded_allowed, fence_untrusted: as `Questions`.
        callback_manager: of the framework.

    Raises:
        NoPassages, SourcesMissing: by a question, unless allowed.
        InvalidRequest: a field cannot be used.
    """

    def __init__(
        self,
        knowledge: Knowledge,
        *,
        domain: str | None = None,
        top_k: int | None = None,
        filters: Mapping[str, Any] | str | None = None,
        request: Mapping[str, Any] | None = None,
        empty_allowed: bool = False,
        degraded_allowed: bool = True,
        fence_untrusted: bool = True,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        super().__init__(callback_manager=callback_manager)
        self._knowledge = knowledge
        self._questions = Questions(
            domain=domain,
            top_k=top_k,
            filters=filters,
            request=request or {},
            empty_allowed=empty_allowed,
            degraded_allowed=degraded_allowed,
            fence_untrusted=fence_untrusted,
        ).checked()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        answer = self._questions.asked(self._knowledge, query_bundle.query_str)
        return [_node(passage) for passage in self._questions.passages(answer)]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        answer = await self._questions.aasked(self._knowledge, query_bundle.query_str)
        return [_node(passage) for passage in self._questions.passages(answer)]


def _node(passage: RetrievedPassage) -> NodeWithScore:
    hidden = [name for name in passage.metadata if name not in passage.told_to_models]
    node = TextNode(
        id_=passage.id,
        text=passage.text,
        metadata=passage.metadata,
        excluded_llm_metadata_keys=hidden,
        excluded_embed_metadata_keys=list(passage.metadata),
    )
    return NodeWithScore(node=node, score=passage.score)
