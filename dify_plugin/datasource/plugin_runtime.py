"""What the provider and the data source of this process share: what answers their calls, and its log."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dify_plugin.config.logger_format import plugin_logger_handler

from context_engine import Caller
from context_engine.apps.dify.answer import ToolOutput
from context_engine.apps.dify.backend import Engines, open_backend
from context_engine.apps.dify.credentials import Credentials
from context_engine.apps.dify.failure import guarded
from context_engine.apps.dify.tools import ToolName

ROOT = Path(__file__).resolve().parent
ENGINES = Engines(lambda credentials: open_backend(credentials, root=ROOT))

_logger = logging.getLogger("context_engine")
_logger.setLevel(logging.INFO)
_logger.addHandler(plugin_logger_handler)
_logger.propagate = False


def called(
    credentials: Mapping[str, Any], name: ToolName, fields: Mapping[str, Any], user: str | None = None
) -> ToolOutput:
    """Return what the backend of a form answers; Dify names the user of a data source, and no app.

    Raises:
        ToolFailure: instead of any other error; its message has no secret.
    """

    def call(read: Credentials) -> ToolOutput:
        with ENGINES.use(read) as backend:
            return backend.call(name, fields, Caller(principal=user), lambda *_: ())

    return guarded(credentials, call)
