"""The ledger of a deployment, for those who ask for records; the engine writes to it by itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from context_engine.core.concurrency.forking import Lock
from context_engine.errors import AuditOff, LedgerNotFound
from context_engine.wiring import Setup
from context_engine.wiring.audit import audit_mode, open_ledger

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger


class DeploymentLedger:
    """Opens the ledger when it is first read, once, and lends it to all threads.

    Args:
        setup: says where it is, and whether searches are recorded.
        data_dir: the folder of the embedded base; None for the usual one.
    """

    def __init__(self, setup: Setup, data_dir: Path | None) -> None:
        self._setup, self._data_dir = setup, data_dir
        self._lock = Lock()
        self._opened: Ledger | None = None

    @property
    def recording(self) -> bool:
        """Whether searches are recorded."""
        return audit_mode(self._setup) != "off"

    def opened(self) -> Ledger | None:
        """Return the ledger; None where there is none yet, because nothing was ever recorded in it.

        Raises:
            AuditOff: searches are not recorded.
            AuditError: it cannot be opened.
        """
        if not self.recording:
            raise AuditOff("searches are not recorded here: whoever runs the service sets audit_mode")
        with self._lock:
            if self._opened is None:
                try:
                    self._opened = open_ledger(self._setup, self._data_dir, create=False)
                except LedgerNotFound:
                    return None
            return self._opened

    def close(self) -> None:
        """Close the ledger; may be called twice."""
        with self._lock:
            ledger, self._opened = self._opened, None
        if ledger is not None:
            ledger.close()
