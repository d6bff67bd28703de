"""The tool `search`: a question for a domain."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import plugin_runtime
from dify_plugin import Tool
from dify_plugin.entities import ParameterOption
from dify_plugin.entities.tool import ToolInvokeMessage

from context_engine.apps.dify.answer import ToolOutput, search_answer
from context_engine.apps.dify.failure import guarded_tool, refuse_incomplete
from context_engine.apps.dify.form import read_search_form


class SearchTool(Tool):
    """Searches a domain in two stages."""

    def _invoke(self, tool_parameters: dict[str, Any]) -> Generator[ToolInvokeMessage, None, None]:
        caller = plugin_runtime.caller_of(self)

        def search(credentials: Any) -> ToolOutput:
            with plugin_runtime.ENGINES.use(credentials) as opened:
                principal = plugin_runtime.principal_of(self, opened)
                form = read_search_form(tool_parameters, opened.known_to(principal), caller, principal)
                result = opened.engine.search(form.request)
                if form.fail_if_missing:
                    refuse_incomplete(result)
                return search_answer(
                    result,
                    form=form.form,
                    demo=opened.plugin.demo,
                    notices=form.notices,
                    register_required=form.register_required,
                    mask=opened.engine.mask,
                )

        yield from plugin_runtime.messages(self, guarded_tool(self.runtime.credentials, search))

    def _fetch_parameter_options(self, parameter: str) -> list[ParameterOption]:
        return plugin_runtime.domain_options(self) if parameter == "domain" else []
