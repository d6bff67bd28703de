"""The tool `read_document`: a file as Markdown."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import plugin_runtime
from dify_plugin import Tool
from dify_plugin.entities.tool import ToolInvokeMessage

from context_engine.apps.dify.read_document import read_document


class ReadDocumentTool(Tool):
    """Reads a file."""

    def _invoke(self, tool_parameters: dict[str, Any]) -> Generator[ToolInvokeMessage, None, None]:
        yield from plugin_runtime.documented(self, tool_parameters, read_document)
