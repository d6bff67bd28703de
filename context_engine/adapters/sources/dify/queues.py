"""The queue before a Dify server: one for all searches of this process."""

from __future__ import annotations

from typing import Final

from context_engine.adapters.sources.dify.fair_queue import FairQueue
from context_engine.core.concurrency.forking import Lock

_LOCK: Final = Lock()
_QUEUES: Final[dict[str, FairQueue]] = {}


def shared_queue(server: str) -> FairQueue:
    """Return the queue before a server, by its base URL without the version."""
    with _LOCK:
        return _QUEUES.setdefault(server, FairQueue())
