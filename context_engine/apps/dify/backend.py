"""What answers the plugin's calls: the engine in its own process, or a server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from context_engine.apps.dify.answer import ToolOutput
from context_engine.apps.dify.credentials import Credentials
from context_engine.apps.dify.embedded import open_engine
from context_engine.apps.dify.external import ExternalAnswer
from context_engine.apps.dify.model_reranker import Ask
from context_engine.apps.dify.plugin_settings import load_plugin
from context_engine.apps.dify.remote import open_remote
from context_engine.apps.dify.retrieval import Retrieval
from context_engine.apps.dify.tools import ToolName
from context_engine.core.models import Caller


class Backend(Protocol):
    """Answers the plugin's calls. Safe for many threads."""

    def call(self, tool: ToolName, fields: Mapping[str, Any], caller: Caller, ask: Ask) -> ToolOutput:
        """Return what a tool gives back.

        Args:
            tool: its name.
            fields: of its form.
            caller: the app and the user as Dify's runtime names them.
            ask: calls a rerank model that is set up in Dify.

        Raises:
            ContextEngineError: a field that cannot be used, or whatever else went wrong.
        """
        ...

    def titles(self, caller: Caller) -> list[tuple[str, str]]:
        """Return (name, title to show) of each domain that a caller may know."""
        ...

    def check(self) -> None:
        """Try for real what the form says.

        Raises:
            ContextEngineError: what is wrong with it, and how to mend it.
        """
        ...

    def retrieve(self, asked: Retrieval, token: str) -> ExternalAnswer:
        """Answer a request of the External Knowledge API that carries an endpoint's access token.

        Raises:
            ContextEngineError: it could not be answered.
        """
        ...

    def close(self) -> None:
        """Close what is open; called once."""
        ...


def open_backend(credentials: Credentials, *, root: Path, env: Mapping[str, str] | None = None) -> Backend:
    """Return what answers the calls of a form: the server that it names, else an engine of the plugin's own.

    Args:
        credentials: the form.
        root: the plugin's folder.
        env: the process's own if None.

    Raises:
        ConfigError: something in the form cannot be used.
    """
    remote = open_remote(credentials)
    return remote or open_engine(load_plugin(credentials, root=root, env=env))
