"""`audit report`: one case as a single file, to be read without the ledger and without a network."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import click

from context_engine.apps.cli.audit.ledger import (
    LedgerLocation,
    OpenLedger,
    opened_ledger,
    say_unsigned,
    with_ledger,
)
from context_engine.apps.cli.console import publish, written
from context_engine.apps.cli.context import CliContext
from context_engine.apps.cli.options import with_json, with_page
from context_engine.audit.review.stored import find_record
from context_engine.errors import MissingExtra
from context_engine.service.records import OwnedRecord

REPORT: Final = """\b
Examples:
  context-engine audit report 019cad50-24a0-7afe-8262-0d28d32447a6 --html case.html
  context-engine audit report 019cad50-24a0-7afe-8262-0d28d32447a6 --json | jq '.replay.identical'
"""


@click.command(epilog=REPORT)
@click.argument("record_id", metavar="ID")
@with_page
@with_json
@with_ledger
def report(at: LedgerLocation, record_id: str, page: Path | None, as_json: bool) -> None:
    """Write the case ID as one file: question, funnel, chunks, drops, sources, settings, integrity, answers, replay.

    The page loads nothing and runs nothing. It holds the question and the texts that the ledger still has: keep it as
    you keep the ledger. ID is the id of a search, an answer or another record of 'audit list'.
    """
    if page is None and not as_json:
        raise click.UsageError("Give --html FILE or --json.")
    check_pages()
    with opened_ledger(at) as opened:
        values = _values(opened, record_id)
        if page is not None:
            written(page, _page(values, opened.context))
        if as_json:
            replay = None if values["finding"] is None else values["finding"].replay
            publish({**values["case"].to_dict(), "replay": None if replay is None else replay.to_dict()})
        say_unsigned(opened.ledger)


def check_pages(what: str = "the report of a case") -> None:
    """Check that the packages that make pages are installed.

    Args:
        what: needs them, for the error.

    Raises:
        MissingExtra: the extra `server` is not installed.
    """
    if not all(map(find_spec, ("fastapi", "jinja2"))):
        raise MissingExtra(what, "server")


def case_page(opened: OpenLedger, record_id: str) -> tuple[str, str]:
    """Return a case as one HTML file, and whether it could be computed again: identical, differs, or why not.

    Raises:
        RecordNotFound: there is none of that id, or it was pruned.
    """
    values = _values(opened, record_id)
    finding = values["finding"]
    again = "not possible" if finding is None else finding.headline
    if finding is not None and finding.replay is not None:
        again = "identical" if finding.replay.identical else "differs"
    return _page(values, opened.context), again


def _page(values: dict[str, Any], context: CliContext) -> str:
    from context_engine.apps.web.rendering import Page, standalone_page

    return standalone_page(Page("review/case.html", values), demo=context.demo)


def _values(opened: OpenLedger, record_id: str) -> dict[str, Any]:
    """Return what the template of a case reads, with the result of a replay if the record has one."""
    from context_engine.apps.web.review.again import Now
    from context_engine.apps.web.review.case import case_of
    from context_engine.apps.web.review.checks import replay_finding
    from context_engine.apps.web.review.pages import case_values

    context, stored = opened.context, find_record(opened.ledger, record_id)
    record = OwnedRecord(opened.ledger, record_id, stored.entry, stored.index)
    case = case_of(record, operator=True, mask=context.setup.mask(), demo=context.demo)
    now = Now(setup=context.setup, data_dir=context.data_dir)
    finding = replay_finding(record, now) if case.replayable else None
    return {**case_values(case, record), "finding": finding, "replayed": None}
