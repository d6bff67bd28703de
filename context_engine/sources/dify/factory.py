"""How a manifest's `adapter: dify` is opened."""

from __future__ import annotations

from functools import partial

from context_engine.models import SourceSpec
from context_engine.sources.dify.settings import check_dify
from context_engine.sources.dify.source import DifySource
from context_engine.sources.dify.workspace import Workspace
from context_engine.sources.factory import SourceContext

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
