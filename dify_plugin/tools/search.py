"""The tool `search`: a question for a domain."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import plugin_runtime
from dify_plugin import Tool
from dify_plugin.entities.tool import ToolInvokeMessage


class SearchTool(Tool):
    """Searches a domain in two stages."""

    def _invoke(self, tool_parameters: dict[str, Any]) -> Generator[ToolInvokeMessage, None, None]:
        yield from plugin_runtime.answered(self, "search", tool_parameters)
