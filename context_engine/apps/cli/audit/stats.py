"""`audit stats`: the records of a ledger counted, and what the chat models of its answers used and cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from context_engine.apps.cli.audit.ledger import NO_KEY, LedgerLocation, opened_ledger, say_unproved, with_ledger
from context_engine.apps.cli.console import print_line, print_table, publish, written
from context_engine.apps.cli.options import period_options, with_json, with_options, with_page
from context_engine.apps.web.inert import clean
from context_engine.core.text import counted

if TYPE_CHECKING:
    from context_engine.audit.ledger.costs import ModelUse
    from context_engine.audit.ledger.ledger import Ledger
    from context_engine.audit.ledger.look_up import LedgerStatistics

_KIB: Final = 1024
_DAYS_SHOWN: Final = 14
_TITLE: Final = "Records of a ledger"
_EPILOG: Final = """\b
Examples:
  context-engine audit stats
  context-engine audit stats --since 2026-03-01 --until 2026-04-01 --json
  context-engine audit stats --html stats.html
"""


class CountTable(NamedTuple):
    """A table of counts; ">" at the start of a column marks numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@click.command(epilog=_EPILOG)
@with_options(
    *period_options("Count records from this moment on, e.g. 2026-03-01.", "Count records before this moment.")
)
@with_page
@with_json
@with_ledger
def stats(at: LedgerLocation, since: datetime | None, until: datetime | None, page: Path | None, as_json: bool) -> None:
    """Count the records of a ledger by kind, domain, outcome and day, the tokens and cost of the chat models that
    answered, and the data stored beside the log.
    """
    from context_engine.audit.ledger.costs import model_uses
    from context_engine.audit.ledger.look_up import ledger_statistics

    with opened_ledger(at) as opened:
        ledger = opened.ledger
        ledger.integrate()
        statistics, about = ledger_statistics(ledger.database, since=since, until=until), _about(ledger)
        uses = model_uses(ledger.database, since=since, until=until)
        unsigned = ledger.keyring is None
    if page is not None:
        written(page, _page(statistics, uses, about))
    if as_json:
        models = [asdict(use) for use in uses]
        publish({**about, **asdict(statistics), "models": models})
    elif page is None:
        _print(statistics, uses, about)
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


def _print(totals: LedgerStatistics, uses: Sequence[ModelUse], about: Mapping[str, Any]) -> None:
    print_line(_head(about), "bold")
    print_line(_span(totals, about))
    for counts in _tables(totals, uses) if totals.records else ():
        print_line()
        print_table(tuple(counts.columns), counts.rows)
    if totals.erased:
        print_line(f"{counted(totals.erased, 'addendum')} erased".replace("addendums", "addenda"), "dim")


def _page(totals: LedgerStatistics, uses: Sequence[ModelUse], about: Mapping[str, Any]) -> str:
    """Return the statistics as one HTML page that loads nothing."""
    from context_engine.evaluation.blocks import ReportDocument, ReportSection, Table, to_html

    sections = [
        ReportSection(title=counts.title, blocks=[Table(columns=_marked(counts.columns), rows=counts.rows)])
        for counts in _tables(totals, uses)
    ]
    lead = f"{clean(_head(about))}. {_span(totals, about)}"
    shown = sections if totals.records else ()
    return to_html(ReportDocument(title=_TITLE, lead=lead, tiles=(), sections=shown))


def _marked(columns: Sequence[str]) -> list[str]:
    """Return columns as a report marks them: "<" before those of text."""
    return [name[1:] if name.startswith(">") else f"<{name}" for name in columns]


def _head(about: Mapping[str, Any]) -> str:
    head = f"{about['origin']}: {counted(about['size'], 'record')} in the log"
    head += f", {about['pending']} waiting" if about["pending"] else ""
    head += f", pruned up to {about['minimum_index']}" if about["minimum_index"] else ""
    head += f"; {counted(about['checkpoints'], 'checkpoint')}"
    return head + (f", the last at {about['last_checkpoint']}" if about["checkpoints"] else "")


def _span(totals: LedgerStatistics, about: Mapping[str, Any]) -> str:
    if not totals.records:
        return "No record in that time." if about["size"] else "Nothing is recorded yet."
    span = f"{counted(totals.records, 'record')} from {totals.first} to {totals.last}"
    return f"{span}, {counted(totals.callers, 'caller')}"


def _tables(totals: LedgerStatistics, uses: Sequence[ModelUse]) -> Iterator[CountTable]:
    """Yield the records by group, the models by domain, model and day, and what is stored."""
    days = dict(list(totals.days.items())[-_DAYS_SHOWN:])
    groups = {
        "kind": totals.kinds,
        "domain": totals.domains,
        "status": totals.statuses,
        "decision": totals.decisions,
        "day": days,
    }
    for name, counts in groups.items():
        rows = [(value or "–", str(count)) for value, count in counts.items() if value or len(counts) == 1]
        yield CountTable(f"By {name}", (name, ">records"), rows)
    if uses:
        yield _models("domain", uses, lambda use: replace(use, day="", model=""))
        yield _models("model", uses, lambda use: replace(use, day="", domain=""))
        of_days = [use for use in uses if use.day in days]
        yield _models("day", of_days, lambda use: replace(use, domain="", model=""))
    kept = [("entries", "", f"{totals.entries / _KIB:,.1f}")]
    kept += [(kind, str(stored.count), f"{stored.size / _KIB:,.1f}") for kind, stored in totals.stored.items()]
    yield CountTable("Kept", ("kept", ">number", ">KiB"), kept)


def _models(name: str, uses: Sequence[ModelUse], grouped: Callable[[ModelUse], ModelUse]) -> CountTable:
    from context_engine.audit.ledger.costs import together

    rows = [
        (
            getattr(use, name) or "–",
            f"{use.calls:,}",
            f"{use.input_tokens:,}",
            f"{use.output_tokens:,}",
            f"{use.amount} {use.currency}".strip() or "no price",
        )
        for use in together(map(grouped, uses))
    ]
    return CountTable(
        f"Chat models by {name}", (name, ">model calls", ">input tokens", ">output tokens", ">cost"), rows
    )
