"""The mark of a ledger's erasures: a random text that every erasure replaces, so that copies made before are known."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, delete, insert, select

from context_engine.audit.ledger.schema import meta
from context_engine.core.concurrency.calls import Breaker, DeadlineCaller
from context_engine.core.concurrency.forking import Lock
from context_engine.core.protocols import Clock
from context_engine.errors import AuditError, LedgerNotFound

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger

logger = logging.getLogger(__name__)
_NAME: Final = "erasure_mark"
_BYTES: Final = 16
_READ_S: Final = 1.0
_MOST_FAILURES: Final = 3  # in a row
_PAUSE_S: Final = 30.0


def renew_mark(connection: Connection) -> None:
    """Replace the mark, in the transaction that erases."""
    connection.execute(delete(meta).where(meta.c.name == _NAME))
    connection.execute(insert(meta).values(name=_NAME, value=secrets.token_hex(_BYTES)))


def read_mark(connection: Connection) -> str:
    """Return the mark; "" if nothing was ever erased."""
    return connection.scalar(select(meta.c.value).where(meta.c.name == _NAME)) or ""


class ErasureMark:
    """Reads the mark of a ledger, which other processes may replace. Thread-safe.

    A ledger that cannot be read costs each caller a second at most, and after three failures in a row nothing for 30 s.

    Args:
        open_ledger: opens the ledger if there is one; called on first use, and again until it succeeds.
    """

    def __init__(self, open_ledger: Callable[[], Ledger], clock: Clock) -> None:
        self._open_ledger, self._monotonic = open_ledger, clock.monotonic
        self._caller = DeadlineCaller("the ledger", "erasures", clock.monotonic, AuditError)
        self._breaker, self._lock = Breaker(_MOST_FAILURES, _PAUSE_S), Lock()
        self._ledger: Ledger | None = None

    def read(self) -> str | None:
        """Return the mark; "" if there is no ledger or nothing was ever erased, None if it cannot be read now."""
        if self._breaker.wait_s(self._monotonic()) > 0:
            return None
        try:
            mark = self._caller.call(self._read, _READ_S, nothing="no mark")
        except AuditError as error:
            logger.debug("whether something was erased cannot be read: %s", error)
            mark = None
        self._breaker.note(self._monotonic(), failed=mark is None)
        return mark

    def close(self) -> None:
        """Close the ledger; a later call opens it again."""
        with self._lock:
            ledger, self._ledger = self._ledger, None
        if ledger is not None:
            ledger.close()

    def _read(self) -> str:
        with self._lock:
            if self._ledger is None:
                try:
                    self._ledger = self._open_ledger()
                except LedgerNotFound:
                    return ""
            ledger = self._ledger
        with ledger.database.connect() as connection:
            return read_mark(connection)
