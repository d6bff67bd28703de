"""The tool `chunk_document`: a document as the chunks of a knowledge base."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import plugin_runtime
from dify_plugin import Tool
from dify_plugin.entities.tool import ToolInvokeMessage

from context_engine.apps.dify.chunk_document import chunk_document


class ChunkDocumentTool(Tool):
    """Cuts a document by its type."""

    def _invoke(self, tool_parameters: dict[str, Any]) -> Generator[ToolInvokeMessage, None, None]:
        yield from plugin_runtime.documented(self, tool_parameters, chunk_document)
