"""`context-engine audit stats`: what a ledger holds, counted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click
from rich.table import Table
from rich.text import Text

from context_engine.apps.cli.audit_ledger import NO_KEY, LedgerLocation, opened_ledger, say_unproved, with_ledger
from context_engine.apps.cli.console import clean, out, print_json, show
from context_engine.apps.cli.moment import Moment
from context_engine.apps.cli.words import counted

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger
    from context_engine.audit.ledger.statistics import LedgerStatistics


SCHEMA_VERSION: Final = 1
_KIB: Final = 1024
_DAYS_SHOWN: Final = 14
STATS: Final = """\b
Examples:
  context-engine audit stats
  context-engine audit stats --since 2026-03-01 --until 2026-04-01 --json
"""


@click.command(epilog=STATS)
@click.option("--since", type=Moment(), metavar="MOMENT", help="Count records from this moment on, e.g. 2026-03-01.")
@click.option("--until", type=Moment(), metavar="MOMENT", help="Count records before this moment.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@with_ledger
def stats(at: LedgerLocation, since: datetime | None, until: datetime | None, as_json: bool) -> None:
    """Count what a ledger holds: records by kind, domain, outcome and day, and what is kept beside the log."""
    from context_engine.audit.ledger.statistics import ledger_statistics

    with opened_ledger(at) as opened:
        ledger = opened.ledger
        ledger.integrate()
        found, about = ledger_statistics(ledger, since=since, until=until), _about(ledger)
        unsigned = ledger.keyring is None
    if as_json:
        print_json(json.dumps({"schema_version": SCHEMA_VERSION, **about, **asdict(found)}, ensure_ascii=False))
    else:
        _print(found, about)
    if unsigned:
        say_unproved((NO_KEY,))


def _about(ledger: Ledger) -> dict[str, Any]:
    checkpoints = ledger.checkpoints()
    return {
        "origin": ledger.origin,
        "size": ledger.size,
        "pending": ledger.pending_count(),
        "minimum_index": ledger.minimum_index,
        "checkpoints": len(checkpoints),
        "last_checkpoint": checkpoints[-1].size if checkpoints else None,
    }


def _print(found: LedgerStatistics, about: Mapping[str, Any]) -> None:
    console = out()
    head = f"{about['origin']}: {counted(about['size'], 'record')} in the log"
    head += f", {about['pending']} waiting" if about["pending"] else ""
    head += f", pruned up to {about['minimum_index']}" if about["minimum_index"] else ""
    head += f"; {counted(about['checkpoints'], 'checkpoint')}"
    head += f", the last at {about['last_checkpoint']}" if about["checkpoints"] else ""
    show(console, Text(clean(head), "bold"))
    if not found.records:
        show(console, Text("No record in that time." if about["size"] else "Nothing is recorded yet."))
        return
    span = f"{counted(found.records, 'record')} from {found.first} to {found.last}"
    show(console, Text(f"{span}, {counted(found.callers, 'caller')}"))
    groups = {"kind": found.kinds, "domain": found.domains, "status": found.statuses, "decision": found.decisions}
    days = dict(list(found.days.items())[-_DAYS_SHOWN:])
    for name, counts in {**groups, "day": days}.items():
        console.print()
        show(console, _counts(name, counts))
    console.print()
    show(console, _stored(found))
    if found.erased:
        show(console, Text(f"{counted(found.erased, 'addendum')} erased".replace("addendums", "addenda"), "dim"))


def _counts(name: str, counts: Mapping[str, int]) -> Table:
    table = _plain_table(name, "records")
    for value, count in counts.items():
        if value or len(counts) == 1:
            table.add_row(Text(clean(value or "–")), str(count))
    return table


def _stored(found: LedgerStatistics) -> Table:
    table = _plain_table("kept", "number", "KiB")
    table.add_row("entries", "", f"{found.entries / _KIB:,.1f}")
    for kind, one in found.stored.items():
        table.add_row(Text(clean(kind)), str(one.count), f"{one.size / _KIB:,.1f}")
    return table


def _plain_table(name: str, *numbers: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(name, overflow="fold")
    for number in numbers:
        table.add_column(number, justify="right")
    return table
