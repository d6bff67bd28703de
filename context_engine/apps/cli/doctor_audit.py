"""What `doctor` and `config show` say of the audit: whether searches are recorded, where, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.text import Text

from context_engine.apps.cli.console import clean
from context_engine.apps.cli.words import counted
from context_engine.core.models import utc_text

if TYPE_CHECKING:
    from context_engine.wiring.audit_report import AuditReport, LedgerState


def audit_summary(report: AuditReport) -> str:
    """Return in one line whether searches are recorded, and where."""
    if report.ledger is None:
        return report.mode if report.problem is None else f"{report.mode}: {report.problem}"
    return f"{report.mode}, in {report.ledger}, " + (f"signed by {report.key}" if report.key else "not signed")


def audit_lines(report: AuditReport) -> Iterator[Text]:
    """Yield what a person should know, a line each."""
    if report.ledger is None and report.problem is None:
        yield Text("searches are not recorded (audit_mode)", "dim")
        return
    state = "nothing is recorded yet" if report.state is None else _held(report.state)
    if report.problem is None:
        yield Text(f"audit: {clean(audit_summary(report))}; {state}", "dim")
    else:
        given = "no answer is given" if report.mode == "required" else "answers are given unrecorded"
        yield Text(f"✗ nothing can be recorded, so {given}: {clean(report.problem)}", "red")
    for one in report.notices:
        yield Text(f"! {clean(one.message)}", "yellow")


def _held(state: LedgerState) -> str:
    held = counted(state.records, "record") + (f" and {state.pending} waiting" if state.pending else "")
    if state.checkpoint is None:
        return f"{held}, no checkpoint"
    written = utc_text(datetime.fromtimestamp(int(state.checkpoint.written), UTC))
    return f"{held}, the last checkpoint at {state.checkpoint.size} of {written}"
