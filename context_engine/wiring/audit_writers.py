"""The writers of the ledgers: one per ledger and process, closed when the process ends."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from context_engine.core.concurrency.forking import Lock
from context_engine.core.engine import SystemClock

if TYPE_CHECKING:
    from context_engine.audit.recorder import LedgerInUse, LedgerWriter

_AT_EXIT_S: Final = 10.0
_BEFORE_OTHERS: Final = 100
_writers: Final[dict[str, LedgerWriter]] = {}
_lock: Final = Lock()
_closing_in: Final[set[int]] = set()  # ids of the processes that close their writers at exit


def shared_writer(key: str, open_ledger: Callable[[], LedgerInUse], place: str) -> LedgerWriter:
    """Return the writer of a ledger; the same key gives the same writer.

    Args:
        key: identifies the ledger and the way of writing to it.
        open_ledger: opens it at the first record.
    """
    from context_engine.audit.recorder import LedgerWriter

    with _lock:
        if key not in _writers:
            _writers[key] = LedgerWriter(open_ledger, clock=SystemClock(), place=place, on_start=_close_at_exit)
        return _writers[key]


@atexit.register
def close_writers(timeout_s: float = _AT_EXIT_S) -> tuple[str, ...]:
    """Write pending records, make last checkpoints and close the ledgers; a later record reopens its ledger.

    Returns:
        A sentence for each ledger with unrecorded searches.
    """
    return tuple(notice for writer in _all_writers() if (notice := writer.close(timeout_s)))


def pending_records() -> int:
    """Return the number of records of this process that wait to be written."""
    return sum(writer.pending for writer in _all_writers())


def lost_records() -> int:
    """Return the number of records of this process that were lost."""
    return sum(writer.lost for writer in _all_writers())


def _close_at_exit() -> None:
    """Register `close_writers` at exit, also in `multiprocessing` children, which skip `atexit`."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None and os.getpid() not in _closing_in:
        _closing_in.add(os.getpid())
        util.Finalize(None, close_writers, exitpriority=_BEFORE_OTHERS)


def _all_writers() -> list[LedgerWriter]:
    with _lock:
        return list(_writers.values())
