"""Hand the engine's results to a ledger.

jobs       pending records, and the drafts they are composed from
session    an open ledger: retries, upkeep, and lost records
writer     the one thread of a process that writes to a ledger
recorder   the `Recorder` of an engine
"""

from context_engine.audit.recorder.jobs import LedgerInUse
from context_engine.audit.recorder.recorder import LedgerRecorder
from context_engine.audit.recorder.writer import LedgerWriter

__all__ = ["LedgerInUse", "LedgerRecorder", "LedgerWriter"]
