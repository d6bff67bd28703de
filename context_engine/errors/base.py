"""The base of all errors, and those of requests, tokens, configuration and the safeguards: access, masking, audit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar

from context_engine.secrecy import hide_in_error


def closest(word: str, valid: Iterable[str]) -> str | None:
    """Return the closest valid word; None if no valid word is close."""
    folded = {name.casefold(): name for name in sorted(str(name) for name in valid)}
    close = get_close_matches(str(word).casefold(), list(folded), n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def did_you_mean(word: str, valid: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the closest valid word; "" if no valid word is close."""
    close = closest(word, valid)
    return "" if close is None else f" Did you mean {close!r}?"


def nearest(word: str, valid: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the closest valid word; " Valid: a, b, c." if no valid word is close."""
    names = sorted(str(name) for name in valid)
    return did_you_mean(word, names) or (f" Valid: {', '.join(names)}." if names else "")


class ContextEngineError(Exception):
    """Base of every error of this package; `code` is stable and machine-readable, and no message holds a key."""

    code: ClassVar[str] = "error"

    def __init__(self, *args: Any) -> None:
        super().__init__(*(hide_in_error(arg) if isinstance(arg, str) else arg for arg in args))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle an error with its state, so that unpickling does not call its constructor."""
        return _restored, (type(self), self.args, self.__dict__)

    def to_dict(self) -> dict[str, Any]:
        """Return {"code", "message"} and the fields of the subclass, ready for JSON."""
        return {"code": self.code, "message": str(self)}


def _restored(kind: type[ContextEngineError], args: tuple[Any, ...], fields: dict[str, Any]) -> ContextEngineError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(fields)
    return error


class InvalidRequest(ContextEngineError):
    """A query, an option or a chunk that cannot be used."""

    code = "invalid_request"


class UnknownDomain(InvalidRequest):
    """The domain is not registered."""

    code = "unknown_domain"

    def __init__(self, domain: str, known: Sequence[str], unread: Sequence[ConfigError] = ()) -> None:
        self.domain = domain
        self.known = tuple(known)
        have = f" Registered: {', '.join(self.known)}." if self.known else ""
        hint = did_you_mean(domain, self.known)
        if unread:
            hint += f" A manifest that cannot be read may hold it: {'; '.join(map(str, unread))}"
        elif not self.known:
            have, hint = " No domain is registered.", " Write one with 'context-engine init DIR'."
        super().__init__(f"unknown domain {domain!r}.{have}{hint}")


class InvalidFilter(InvalidRequest):
    """A filter that cannot be read."""

    code = "invalid_filter"


class CursorExpired(InvalidRequest):
    """The rest of an answer is no longer kept."""

    code = "cursor_expired"


class JobNotFound(InvalidRequest):
    """There is no job of that id, or it is not the caller's."""

    code = "job_not_found"


class NotAuthenticated(ContextEngineError):
    """No token, or an invalid one; the message never says which."""

    code = "not_authenticated"


class TokensUnchecked(ContextEngineError):
    """The token cannot be checked at the moment, so it is neither accepted nor refused."""

    code = "tokens_unchecked"


class NotPermitted(ContextEngineError):
    """The token is valid but does not allow this."""

    code = "not_permitted"


class Overloaded(ContextEngineError):
    """The service is at its limit and its queue is full.

    Args:
        message: which limit was reached.
        retry_after_s: seconds to wait before asking again.
    """

    code = "overloaded"

    def __init__(self, message: str, *, retry_after_s: float = 1.0) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)

    def to_dict(self) -> dict[str, Any]:
        """Return the message with retry_after_s."""
        return {**super().to_dict(), "retry_after_s": self.retry_after_s}


class ConfigError(ContextEngineError):
    """A file, key or variable of the configuration that cannot be used.

    Args:
        problem: what is wrong and how to fix it, one sentence or two.
        file: the file it is in, if any.
        key: the dotted key inside the file, if any.

    Attributes:
        others: further problems found in the same reading.
    """

    code = "config_error"
    others: tuple[ConfigError, ...] = ()

    def __init__(self, problem: str, *, file: str | None = None, key: str | None = None) -> None:
        self.problem, self.file, self.key = hide_in_error(problem), file, None if key is None else hide_in_error(key)
        where = ": ".join(part for part in (file, self.key) if part)
        super().__init__(f"{where}: {problem}" if where else problem)

    @property
    def each(self) -> tuple[ConfigError, ...]:
        """This problem and its `others`."""
        return (self, *self.others)

    @classmethod
    def together(cls, problems: Sequence[ConfigError]) -> ConfigError:
        """Return one error for several problems: the first, which carries the others; equal ones count once."""
        singles = [single for problem in problems for single in problem.each]
        first, *others = {(type(single), str(single)): single for single in singles}.values()
        first.others = tuple(others)
        return first

    def to_dict(self) -> dict[str, Any]:
        """Return the message with its file and key."""
        return {**super().to_dict(), "file": self.file, "key": self.key}


class MissingVariable(ConfigError):
    """A ${NAME} in a configuration value is not set."""

    code = "missing_variable"


class MissingExtra(ConfigError):
    """An optional dependency is not installed."""

    code = "missing_extra"

    def __init__(self, feature: str, extra: str) -> None:
        self.extra = extra
        install = f"pip install 'dify-context-engine[{extra}]'"
        super().__init__(f"{feature} needs an optional dependency. Install it with: {install}")


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
