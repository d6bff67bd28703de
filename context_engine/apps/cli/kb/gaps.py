"""`kb gaps`: what is asked and not answered, answered by weak sources alone or badly, never shown, or shown too old."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from context_engine.apps.cli.audit.cases import check_pages
from context_engine.apps.cli.audit.ledger import LedgerLocation, opened_ledger, with_ledger
from context_engine.apps.cli.console import note, print_line, print_table, publish, written
from context_engine.apps.cli.context import only_domain, with_domain
from context_engine.apps.cli.options import with_json, with_page
from context_engine.core.text import counted

if TYPE_CHECKING:
    from context_engine.insight.gaps import DocumentName, Gaps, QuestionGroup

_MOST_ROWS: Final = 15
_MOST_DOCUMENTS: Final = 30
GAPS: Final = """\b
Examples:
  context-engine kb gaps --domain NPA
  context-engine kb gaps --domain NPA --days 30 --html gaps.html
"""


@click.command(epilog=GAPS)
@with_domain("The domain whose searches are read")
@click.option(
    "--days", type=click.IntRange(1, 3660), default=90, show_default=True, help="Length of the period that ends now."
)
@with_page
@with_json
@with_ledger
def gaps(at: LedgerLocation, domain: str | None, days: int, page: Path | None, as_json: bool) -> None:
    """Show the gaps of a domain that its recorded searches reveal.

    Subjects that were asked and not answered, with the documents that came nearest; subjects that only tiers 4 and 5
    answered; subjects whose answers or passages got thumbs down on the pages; documents that no answer showed; and
    documents past their lifetime that were shown. It needs the record of searches; a question whose text was not kept
    is counted only.
    """
    from context_engine.insight.gaps import revealed_gaps

    if page is not None:
        check_pages()

    with opened_ledger(at) as opened:
        name = only_domain(opened.context.setup.registry, domain)
        since = datetime.now(UTC) - timedelta(days=days)
        context = opened.context
        report, unread = revealed_gaps(context.setup, context.data_dir, opened.ledger, name, since)
    if page is not None:
        from context_engine.apps.web.rendering import Page, standalone_page

        values = {"gaps": report, "domain": name, "days": days, "unread": unread}
        written(page, standalone_page(Page("review/gaps.html", values), demo=context.demo))
    if as_json:
        publish({"domain": name, "days": days, **_published(report)})
    elif page is None:
        _print(report, days)
        if unread:
            note(f"not looked at, because they cannot list their documents: {', '.join(unread)}", style="yellow")


def _published(report: Gaps) -> dict[str, Any]:
    def group(item: QuestionGroup) -> dict[str, Any]:
        return {**item._asdict(), "documents": [name._asdict() for name in item.documents]}

    return {
        "searches": report.searches,
        "questions_not_kept": report.unread,
        "unanswered": [group(item) for item in report.unanswered],
        "weakly_answered": [group(item) for item in report.weak],
        "thumbs_down": [group(item) for item in report.disliked],
        "never_shown": [name._asdict() for name in report.never_shown],
        "shown_past_lifetime": [{**item.name._asdict(), "answers": item.answers} for item in report.stale],
    }


def _print(report: Gaps, days: int) -> None:
    _print_groups("Asked and not answered", report.unanswered, "nearest documents")
    _print_groups("Answered by tiers 4 and 5 alone", report.weak, "documents")
    _print_groups("Thumbs down", report.disliked, "documents", ("thumbs", "readers"))
    never = [(_name(name),) for name in report.never_shown]
    _print_rows(f"Never shown in {counted(days, 'day')}", "document", ("document",), never, _MOST_DOCUMENTS)
    stale = [(_name(item.name), item.answers) for item in report.stale]
    _print_rows("Past their lifetime, and shown", "document", ("document", ">answers"), stale, _MOST_DOCUMENTS)
    note(f"{counted(report.searches, 'question')} of the last {counted(days, 'day')}")
    if report.unread:
        note(f"{counted(report.unread, 'question')} not kept or erased: they are counted, but not shown")


def _print_groups(
    title: str, groups: Sequence[QuestionGroup], documents: str, counts: tuple[str, str] = ("asked", "askers")
) -> None:
    rows = [
        (group.question, group.searches, group.askers, group.last[:10], ", ".join(map(_name, group.documents)))
        for group in groups
    ]
    columns = ("question", *(f">{name}" for name in counts), "last", documents)
    _print_rows(title, "subject", columns, rows, _MOST_ROWS)


def _print_rows(title: str, noun: str, columns: Sequence[str], rows: Sequence[Sequence[object]], most: int) -> None:
    """Print the first rows of a table, below a title that counts all of them; nothing without a row."""
    if not rows:
        return
    print_line(f"{title}: {counted(len(rows), noun)}", "bold")
    print_table(columns, rows[:most])
    if len(rows) > most:
        note(f"and {len(rows) - most} more; --json has them")
    print_line()


def _name(name: DocumentName) -> str:
    return f"{name.document_id}{f' v{name.version}' if name.version else ''} ({name.source_id})"
