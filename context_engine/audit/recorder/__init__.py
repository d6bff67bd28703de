"""What an engine hands its results to.

jobs       a record that waits to be written
batch      records written together, or one by one
session    a ledger while it is open
drafting   records as one ledger has them
losses     what was not recorded, counted until the ledger says so itself
writer     the one thread of a process that writes to a ledger
recorder   the `Recorder` of an engine
"""

from context_engine.audit.recorder.jobs import LedgerInUse
from context_engine.audit.recorder.recorder import LedgerRecorder
from context_engine.audit.recorder.writer import LedgerWriter

__all__ = ["LedgerInUse", "LedgerRecorder", "LedgerWriter"]
