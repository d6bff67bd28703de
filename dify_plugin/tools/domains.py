"""The tool `domains`: what can be searched, and how it is."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import plugin_runtime
from dify_plugin import Tool
from dify_plugin.entities.tool import ToolInvokeMessage


class DomainsTool(Tool):
    """Lists the domains and their sources."""

    def _invoke(self, tool_parameters: dict[str, Any]) -> Generator[ToolInvokeMessage, None, None]:
        yield from plugin_runtime.answered(self, "domains", tool_parameters)
