"""The engine in the plugin's own process, over what was typed into the form or packed into the plugin."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from context_engine.apps.dify.answer import ToolOutput
from context_engine.apps.dify.audit import plugin_audit, plugin_recorder
from context_engine.apps.dify.catalogue import domain_titles
from context_engine.apps.dify.external import ExternalAnswer
from context_engine.apps.dify.health import refuse_unhealthy
from context_engine.apps.dify.model_reranker import Ask
from context_engine.apps.dify.plugin_settings import PluginSetup
from context_engine.apps.dify.retrieval import EXTERNAL_KNOWLEDGE, Retrieval, search_records
from context_engine.apps.dify.tools import ToolName, Tools
from context_engine.core.engine import SystemClock
from context_engine.core.models import Caller
from context_engine.core.policy.access import AccessViews
from context_engine.service.deployment import Deployment
from context_engine.wiring import build_engine


@dataclass(frozen=True, kw_only=True)
class OpenEngine(Deployment):
    """A deployment of the plugin's own; a `Backend`.

    Attributes:
        folder: holds what was typed in as files; removed with this value.
    """

    folder: tempfile.TemporaryDirectory[str]

    def call(self, tool: ToolName, fields: Mapping[str, Any], caller: Caller, ask: Ask) -> ToolOutput:
        """Return what a tool gives back, to the principal of the app and the user that Dify names."""
        tools = Tools(deployment=self, audit=plugin_audit(self.setup))
        return tools.call(tool, fields, caller, self.principals.for_dify(caller.app, caller.principal), ask)

    def titles(self, caller: Caller) -> list[tuple[str, str]]:
        """Return (name, title to show) of each domain that a caller may know."""
        return domain_titles(self, self.principals.for_dify(caller.app, caller.principal))

    def check(self) -> None:
        """Try every source once; see `refuse_unhealthy`."""
        refuse_unhealthy(self)

    def retrieve(self, asked: Retrieval, token: str) -> ExternalAnswer:
        """Answer as the principal of the endpoint's access token, the only thing about a request that is checked."""
        principal = self.principals.for_token(token, now=SystemClock().now()) or EXTERNAL_KNOWLEDGE
        return search_records(asked, self, principal)

    def close(self) -> None:
        """Close the engine and remove the folder."""
        super().close()
        self.folder.cleanup()


def open_engine(plugin: PluginSetup) -> OpenEngine:
    """Return an engine over a plugin's configuration.

    Raises:
        ConfigError: an adapter or reranker that is not there, or records that can be kept nowhere.
    """
    setup = plugin.setup
    recorder = plugin_recorder(setup)
    return OpenEngine(
        setup=setup,
        engine=build_engine(setup, data_dir=plugin.data_dir, recorder=recorder, recorded=recorder is not None),
        views=AccessViews(setup.registry, setup.access),
        data_dir=plugin.data_dir,
        demo=plugin.demo,
        rankings=plugin_recorder(setup, rankings=True),
        folder=plugin.folder,
    )
