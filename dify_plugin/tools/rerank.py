"""The tool `rerank`: passages of another node, ranked by the engine's second stage."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import plugin_runtime
from dify_plugin import Tool
from dify_plugin.entities.model.rerank import RerankModelConfig
from dify_plugin.entities.tool import ToolInvokeMessage

from context_engine.apps.dify.reranking import ModelChoice


class RerankTool(Tool):
    """Ranks passages."""

    def _invoke(self, tool_parameters: dict[str, Any]) -> Generator[ToolInvokeMessage, None, None]:
        yield from plugin_runtime.answered(self, "rerank", tool_parameters, self._ask_model)

    def _ask_model(self, choice: ModelChoice, query: str, texts: Sequence[str]) -> list[tuple[int, float]]:
        """Have Dify call the rerank model that is set up there."""
        config = RerankModelConfig(provider=choice.provider, model=choice.model, score_threshold=-1e9, top_n=len(texts))
        answer = self.session.model.rerank.invoke(model_config=config, docs=list(texts), query=query)
        return [(doc.index, doc.score) for doc in answer.docs]
