"""Errors of the safeguards: the access policy, masking and the audit ledger."""

from __future__ import annotations

from typing import Any

from context_engine.errors.base import ContextEngineError


class PolicyError(ContextEngineError):
    """The access policy failed, so nobody's rights are known and nothing is searched."""

    code = "policy_error"


class BackupError(ContextEngineError):
    """A backup cannot be made, read or restored."""

    code = "backup"


class MaskingError(ContextEngineError):
    """Personal data could not be masked, so the text is withheld."""

    code = "masking_error"


class AuditError(ContextEngineError):
    """The audit ledger cannot serve the request."""

    code = "audit_error"


class AuditUnavailable(AuditError):
    """An answer could not be recorded and `audit_mode` is `required`, so it is withheld."""

    code = "audit_unavailable"


class RecordNotFound(AuditError):
    """The ledger has no record of that id."""

    code = "record_not_found"


class RecordNotWritten(RecordNotFound):
    """The record of a recent answer is not yet written.

    Attributes:
        retry_after_s: seconds until it is there, unless the ledger is down.
    """

    code = "record_not_written"

    def __init__(self, message: str, *, retry_after_s: float = 1.0) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)

    def to_dict(self) -> dict[str, Any]:
        """Return the message with retry_after_s."""
        return {**super().to_dict(), "retry_after_s": self.retry_after_s}


class LedgerNotFound(AuditError):
    """No ledger yet; the first record creates it."""

    code = "ledger_not_found"


class AuditOff(AuditError):
    """Searches are not recorded here."""

    code = "audit_off"


class QueryNotRecorded(AuditError):
    """The request needs the question, which was not recorded or was erased."""

    code = "query_not_recorded"


class LedgerCorrupt(AuditError):
    """The data of the ledger is inconsistent."""

    code = "ledger_corrupt"


class LedgerVersionMismatch(AuditError):
    """The ledger was written by a newer version of this package."""

    code = "ledger_version"
