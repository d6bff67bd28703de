"""The state of the audit for an operator: mode, ledger, key and what is missing."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shutil import disk_usage
from typing import TYPE_CHECKING, Any, Final

from context_engine.core.models import Notice, NoticeCode
from context_engine.errors import AuditError, ConfigError
from context_engine.presence import is_there
from context_engine.settings.environment_secrets import AUDIT_KEY, AUDIT_LEDGER
from context_engine.wiring.audit import (
    AuditMode,
    audit_mode,
    check_audit,
    checkpoint_rhythm,
    ledger_keyring,
    ledger_place,
    open_ledger,
)

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger
    from context_engine.wiring.setup import Setup


_LEAST_FREE: Final = 1 << 20
"""Free bytes below which the next record, with its texts, may not fit."""

_NO_KEY: Final = (
    f"answers require a record, and the records are not signed: without {AUDIT_KEY} anyone who can write to the ledger "
    "can forge it; 'context-engine audit keygen NAME' makes a key"
)


@dataclass(frozen=True, slots=True)
class LastCheckpoint:
    """The last checkpoint of a ledger.

    Attributes:
        size: the number of records it covers.
        written: seconds since 1970.
    """

    size: int
    written: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerState:
    """The content of a ledger in numbers.

    Attributes:
        records: number of records in the log.
        pending: number of records that wait for their place in the log.
        lost: number of searches known not to be recorded.
        checkpoint: the last checkpoint, or None.
    """

    records: int
    pending: int
    lost: int
    checkpoint: LastCheckpoint | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """How searches are recorded.

    Attributes:
        mode: the mode in force.
        ledger: its address without a password; None if nothing is recorded.
        key: name and id of the current key, or None.
        state: the ledger's content; None if it does not exist yet or cannot be opened.
        problem: why nothing can be recorded.
        notices: unwise settings and losses.
    """

    mode: AuditMode
    ledger: str | None = None
    key: str | None = None
    state: LedgerState | None = None
    problem: str | None = None
    notices: tuple[Notice, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        listed = [
            {"code": notice.code, "subject": notice.subject, "message": notice.message} for notice in self.notices
        ]
        state = asdict(self.state) if self.state else None
        return {
            "mode": self.mode,
            "ledger": self.ledger,
            "key": self.key,
            "state": state,
            "problem": self.problem,
            "notices": listed,
        }


def audit_in_force(setup: Setup, data_dir: str | Path | None = None) -> AuditReport:
    """Return how searches are recorded according to the configuration; opens nothing.

    Args:
        data_dir: see `ledger_place`.
    """
    mode: AuditMode = "off"
    try:
        mode = audit_mode(setup)
        if mode == "off":
            return AuditReport(mode=mode)
        check_audit(setup, data_dir)
        place, keyring = ledger_place(setup, data_dir), ledger_keyring(setup)
        notices = audit_notices(setup, data_dir)
    except ConfigError as error:
        return AuditReport(mode=mode, problem=str(error))
    key = None if keyring is None else f"{keyring.current.name} {keyring.key_id}"
    return AuditReport(mode=mode, ledger=place.shown, key=key, notices=notices)


def audit_report(setup: Setup, data_dir: str | Path | None = None) -> AuditReport:
    """Return how searches are recorded, and the ledger's content; a ledger on a server is created if missing.

    Args:
        data_dir: see `ledger_place`.
    """
    report = audit_in_force(setup, data_dir)
    if report.ledger is None:
        return report
    try:
        place = ledger_place(setup, data_dir)
        if _is_missing(place.file):  # the recording process creates it and must own it
            return report
        with open_ledger(setup, data_dir, create=place.file is None) as ledger:
            state, stuck = _state(ledger), tuple(_stuck(ledger, checkpoint_rhythm(setup).ways))
    except (AuditError, ConfigError) as error:
        return replace(report, problem=str(error))
    problem = None if place.file is None else _unwritable(place.file)
    return replace(report, state=state, problem=problem, notices=(*report.notices, *_lost(state), *stuck))


def _unwritable(file: Path) -> str | None:
    """Return why this process could add no record to the ledger's file now, and how to mend it."""
    if not (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)):
        return f"this user may only read the ledger {file}: run this as another user, or change the rights"
    free = disk_usage(file.parent).free
    if free < _LEAST_FREE:
        return f"{free // 1024} kB are free where the ledger {file} is: free some disk space"
    return None


def _state(ledger: Ledger) -> LedgerState:
    from context_engine.audit.ledger.look_up import Criteria

    checkpoints = ledger.checkpoints()
    lost = 0
    for row in ledger.rows(Criteria(kind="loss")):
        entry = ledger.entry_at(row.index)
        lost += 0 if entry is None or entry.entry is None else int(json.loads(entry.entry).get("count", 0))
    last = LastCheckpoint(checkpoints[-1].size, checkpoints[-1].written) if checkpoints else None
    return LedgerState(records=ledger.size, pending=ledger.pending_count(), lost=lost, checkpoint=last)


def audit_notices(setup: Setup, data_dir: str | Path | None = None) -> tuple[Notice, ...]:
    """Return advice about the recording of searches, without opening anything.

    Raises:
        ConfigError: an unusable address or key.
    """
    mode = audit_mode(setup)
    if mode == "off":
        return ()
    unsigned = mode == "required" and ledger_keyring(setup) is None
    return (
        *((Notice(NoticeCode.AUDIT_KEY_MISSING, AUDIT_KEY, _NO_KEY),) if unsigned else ()),
        *_writable(ledger_place(setup, data_dir).file),
    )


def _writable(file: Path | None) -> Iterator[Notice]:
    """Yield a notice if others may change or replace the ledger's file."""
    if file is None or os.name != "posix":
        return
    for place, name in ((file, "the ledger"), (file.parent, "the ledger's folder")):
        try:
            mode = place.stat().st_mode
        except OSError:  # missing, or no permission to look
            continue
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            message = f"{name} {place} can be changed by every user of this machine: run chmod o-w {place}"
            yield Notice(NoticeCode.AUDIT_LEDGER_WRITABLE, AUDIT_LEDGER, message)


def _is_missing(file: Path | None) -> bool:
    try:
        return file is not None and not is_there(file)
    except OSError:  # no permission to look: opening it reports that
        return False


def _stuck(ledger: Ledger, ways: Iterable[str]) -> Iterator[Notice]:
    """Yield a notice if the last checkpoint was not published everywhere, which no search reports."""
    from context_engine.audit.ledger.publish import read_publication

    with ledger.database.connect() as connection:
        state = read_publication(connection)
    if owed := [way for way in ways if state.done.get(way, 0) < state.tried_size]:
        message = (
            f"the checkpoint at {state.tried_size} records was not published to: {', '.join(owed)}; "
            "'context-engine audit head --publish' tries again and reports why"
        )
        yield Notice(NoticeCode.AUDIT_CHECKPOINT_STUCK, AUDIT_LEDGER, message, {"ways": owed})


def _lost(state: LedgerState | None) -> Iterator[Notice]:
    if state is not None and state.lost:
        are = "1 search is" if state.lost == 1 else f"{state.lost} searches are"
        message = (
            f"{are} not recorded, for the ledger was down or slow: "
            "the records of kind 'loss' say when; a larger audit_buffer lasts longer, and with audit_mode "
            "'required' no answer is given without a record"
        )
        yield Notice(NoticeCode.AUDIT_RECORDS_LOST, AUDIT_LEDGER, message, {"count": state.lost})
