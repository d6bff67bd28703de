"""Where the log of the service goes: to stderr, a line for each record."""

from __future__ import annotations

import logging
import sys

from context_engine.apps.server.log_forms import LogForm, formatter


def log_to_stderr(form: LogForm) -> None:
    """Have warnings of everything and the events of the service written; what `--debug` set up takes the form."""
    set_up = logging.getLogger().handlers
    for handler in set_up:
        if type(handler) is logging.StreamHandler and handler.stream is sys.stderr:
            handler.setFormatter(formatter(form))
    if set_up:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(form))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("context_engine").setLevel(logging.INFO)
