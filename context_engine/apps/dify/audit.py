"""What a plugin records: its folder is replaced on upgrade and each replica stands alone, so a ledger in a server."""

from __future__ import annotations

from typing import Final, NamedTuple

from context_engine.core.protocols import Recorder
from context_engine.errors import ConfigError, MissingExtra
from context_engine.settings.audit_secrets import AUDIT_LEDGER, read_audit_ledger
from context_engine.wiring import Setup
from context_engine.wiring.audit import AuditMode, audit_mode, ledger_place, open_recorder

_IN_SERVER: Final = (
    f"set {AUDIT_LEDGER} among the variables to a PostgreSQL database, postgresql://USER:PASSWORD@HOST/DATABASE"
)
_NO_FILE: Final = "the plugin's folder is replaced on upgrade and each replica has its own, so records need a server"
_NOT_PACKED: Final = "this package holds nothing that writes to a ledger: pack it with 'plugin pack --audit'"


class PluginAudit(NamedTuple):
    """Whether the plugin records its searches.

    Attributes:
        mode: in force.
        problem: why a mode that is set is not.
    """

    mode: AuditMode
    problem: str | None = None

    def __str__(self) -> str:
        return f"audit: {self.mode}" + (f" ({self.problem})" if self.problem else "")


def plugin_audit(setup: Setup) -> PluginAudit:
    """Return whether searches are recorded.

    Raises:
        ConfigError: records are required and there is no server for them, or the ledger is to be a file.
    """
    mode = audit_mode(setup)
    if mode == "off":
        return PluginAudit("off")
    if read_audit_ledger(setup.env, setup.cwd) is None:
        if mode == "required":
            raise ConfigError(f"is 'required', and there is no ledger: {_NO_FILE}; {_IN_SERVER}", key="audit_mode")
        return PluginAudit("off", problem=f"audit_mode is {mode!r}, and there is no ledger: {_IN_SERVER}")
    if ledger_place(setup).file is not None:
        raise ConfigError(f"names a file: {_NO_FILE}; {_IN_SERVER}", key=AUDIT_LEDGER)
    return PluginAudit(mode)


def plugin_recorder(setup: Setup, *, rankings: bool = False) -> Recorder | None:
    """Return what records the plugin's searches, None where nothing does.

    Args:
        rankings: for passages that another node has found.

    Raises:
        ConfigError: see `plugin_audit`; a key that cannot be used; or the plugin was packed without what a ledger
            needs.
    """
    if plugin_audit(setup).mode == "off":
        return None
    try:
        return open_recorder(setup, kind="rank" if rankings else "search")
    except MissingExtra:
        raise ConfigError(_NOT_PACKED, key=AUDIT_LEDGER) from None
