"""The plugin's tools over an engine, wherever it runs: in the plugin's own process, or in a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

from context_engine.apps.dify.answer import ToolOutput, search_answer
from context_engine.apps.dify.audit import PluginAudit
from context_engine.apps.dify.catalogue import catalogue
from context_engine.apps.dify.failure import refuse_incomplete
from context_engine.apps.dify.fields import flag_field, text_field
from context_engine.apps.dify.form import read_search_form
from context_engine.apps.dify.model_reranker import Ask
from context_engine.apps.dify.reranking import rerank_passages
from context_engine.core.models import Caller, Principal
from context_engine.service.deployment import Deployment

ToolName = Literal["search", "rerank", "domains"]
TOOLS: Final[tuple[ToolName, ...]] = get_args(ToolName)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The tools of a deployment.

    Attributes:
        audit: what `domains` says of the records.
        request_id: of the request to a server; None: there is none.
    """

    deployment: Deployment
    audit: PluginAudit
    request_id: str | None = None

    def call(
        self, tool: ToolName, fields: Mapping[str, Any], caller: Caller, principal: Principal, ask: Ask
    ) -> ToolOutput:
        """Return what a tool gives back.

        Args:
            tool: its name.
            fields: of its form.
            caller: for the record.
            principal: who asks.
            ask: calls a rerank model that is set up in Dify.

        Raises:
            ContextEngineError: a field that cannot be used, or whatever else went wrong.
        """
        if tool == "search":
            return self._search(fields, caller, principal)
        if tool == "rerank":
            return self._rerank(fields, caller, principal, ask)
        name, check = text_field(fields, "domain_name"), flag_field(fields, "check_health", True)
        return catalogue(self.deployment, principal, name, check=check, caller=caller, audit=self.audit)

    def _search(self, fields: Mapping[str, Any], caller: Caller, principal: Principal) -> ToolOutput:
        engine = self.deployment.engine
        form = read_search_form(fields, self.deployment.known_to(principal), caller, principal)
        result = engine.search(replace(form.request, request_id=self.request_id))
        if form.fail_if_missing:
            refuse_incomplete(result)
        return search_answer(
            result,
            form=form.form,
            demo=self.deployment.demo,
            notices=form.notices,
            register_required=form.register_required,
            mask=engine.mask,
            read=engine.context,
        )

    def _rerank(self, fields: Mapping[str, Any], caller: Caller, principal: Principal, ask: Ask) -> ToolOutput:
        engine = self.deployment.engine
        result, form = rerank_passages(fields, self.deployment, caller, principal, ask, request_id=self.request_id)
        return search_answer(
            result,
            form=form,
            demo=self.deployment.demo,
            notices=flag_field(fields, "notice_passage", True),
            mask=engine.mask,
            read=engine.context,
        )
