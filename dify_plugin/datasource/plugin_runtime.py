"""What the provider and the data source of this process share: what answers their calls, and its log."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dify_plugin.config.logger_format import plugin_logger_handler
from dify_plugin.errors.model import InvokeBadRequestError

from context_engine import Caller
from context_engine.apps.dify.answer import ToolOutput
from context_engine.apps.dify.backend import Engines, open_backend
from context_engine.apps.dify.credentials import Credentials
from context_engine.apps.dify.failure import ToolFailure, guarded
from context_engine.apps.dify.tools import ToolName

ROOT = Path(__file__).resolve().parent
ENGINES = Engines(lambda credentials: open_backend(credentials, root=ROOT))

_logger = logging.getLogger("context_engine")
_logger.setLevel(logging.INFO)
_logger.addHandler(plugin_logger_handler)
_logger.propagate = False


def called(
    credentials: Mapping[str, Any],
    name: ToolName,
    fields: Mapping[str, Any],
    user: str | None = None,
    *,
    refused: type[Exception] = InvokeBadRequestError,
) -> ToolOutput:
    """Return what the backend of a form answers; Dify names the user of a data source, and no app.

    Args:
        refused: the class of the error to raise. Dify shows the message alone for the errors whose names it knows, and
            the SDK's whole traceback for any other.

    Raises:
        Exception: of the class `refused`, instead of any error; its message has no secret.
    """

    def call(read: Credentials) -> ToolOutput:
        with ENGINES.use(read) as backend:
            return backend.call(name, fields, Caller(principal=user), lambda *_: ())

    try:
        return guarded(credentials, call)
    except ToolFailure as error:
        problem = str(error)
    raise refused(problem)
