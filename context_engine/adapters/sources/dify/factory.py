"""How a manifest's `adapter: dify` is opened."""

from __future__ import annotations

from functools import partial

from context_engine.adapters.sources.dify.settings import check_dify
from context_engine.adapters.sources.dify.source import DifySource
from context_engine.adapters.sources.dify.workspace import Workspace
from context_engine.adapters.sources.factory import SourceContext
from context_engine.core.models import SourceSpec

__all__ = ["open_dify"]


def open_dify(spec: SourceSpec, context: SourceContext) -> DifySource:
    """Return a Dify source; its connection is read now, so that a missing variable shows before the first search.

    Raises:
        ConfigError: the specification or the connection cannot be used.
    """
    check_dify(spec)
    assert spec.connection is not None
    connect = partial(context.connection, spec.connection)
    workspace: Workspace = context.shared(("dify", spec.connection), lambda: Workspace(connect, context.clock))
    workspace.access()
    return DifySource(spec, workspace, context.clock, context.timezone)
