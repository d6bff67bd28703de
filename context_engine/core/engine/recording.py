"""Handing something to the recorder: it stops an answer only where nothing may be given out unrecorded."""

from __future__ import annotations

import logging
from collections.abc import Callable

from context_engine.core.protocols import Recorder
from context_engine.errors import AuditUnavailable

logger = logging.getLogger(__name__)


def hand_over(recorder: Recorder | None, keep: Callable[[Recorder], None], what: str) -> None:
    """Have something recorded, where there is a recorder.

    Args:
        keep: calls the recorder.
        what: it is, for the log.

    Raises:
        AuditUnavailable: it could not be recorded, and must not be given out without.
    """
    if recorder is None:
        return
    try:
        keep(recorder)
    except AuditUnavailable:
        raise
    except Exception:
        logger.exception("%s could not be recorded", what)
