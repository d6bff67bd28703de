"""The tool `domains`: what can be searched, and how it is."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import plugin_runtime
from dify_plugin import Tool
from dify_plugin.entities.tool import ToolInvokeMessage

from context_engine.apps.dify.answer import ToolOutput
from context_engine.apps.dify.catalogue import catalogue
from context_engine.apps.dify.failure import guarded_tool
from context_engine.apps.dify.fields import flag_field, text_field


class DomainsTool(Tool):
    """Lists the domains and their sources."""

    def _invoke(self, tool_parameters: dict[str, Any]) -> Generator[ToolInvokeMessage, None, None]:
        caller = plugin_runtime.caller_of(self)

        def listed(credentials: Any) -> ToolOutput:
            with plugin_runtime.ENGINES.use(credentials) as opened:
                name = text_field(tool_parameters, "domain_name")
                check = flag_field(tool_parameters, "check_health", True)
                return catalogue(opened, plugin_runtime.principal_of(self, opened), name, check=check, caller=caller)

        yield from plugin_runtime.messages(self, guarded_tool(self.runtime.credentials, listed))
