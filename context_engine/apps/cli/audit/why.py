"""`audit why`: why a chunk was shown or not, and the smallest change that would show it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from context_engine.apps.cli.audit.ledger import LedgerLocation, opened_ledger, read_saved, say_unsigned, with_ledger
from context_engine.apps.cli.console import print_line, publish
from context_engine.apps.cli.options import OLD_FILE, with_json
from context_engine.apps.web.naming import candidate_names
from context_engine.audit.review.stored import find_record, recorded_result
from context_engine.core.models import SearchResult
from context_engine.service.explaining.why_words import NOT_SAME, why_lines

if TYPE_CHECKING:
    from context_engine.audit.review.why import AccessTaken, Why


WHY: Final = """\b
Examples:
  context-engine audit why 019cad50-24a0-7afe-8262-0d28d32447a6 NPA-SOP-001@3.2#4
  context-engine audit why 019cad50-24a0-7afe-8262-0d28d32447a6 web-17 --source regulators
  context-engine search "default fund" -d DCE --json --full > answer.json
  context-engine audit why --file answer.json NPA-SOP-001@3.2#4
"""


class _Recorded(NamedTuple):
    """A search, and the chunks that access control removed from it."""

    result: SearchResult
    access: AccessTaken


@click.command(epilog=WHY)
@click.argument("names", metavar="[ID] CHUNK", nargs=-1)
@click.option("--source", metavar="ID", help="The chunk's source; needed for a chunk that was no candidate.")
@click.option(
    "--file", type=OLD_FILE, metavar="FILE", help="A result written by 'search --json --full', instead of ID."
)
@click.option("--query", metavar="TEXT", help="The question, if only its digest was recorded.")
@with_json
@with_ledger
def why(
    at: LedgerLocation, names: tuple[str, ...], source: str | None, file: Path | None, query: str | None, as_json: bool
) -> None:
    """Tell why a chunk was shown in answer ID or not, and the smallest change that would have shown it.

    CHUNK is the chunk's id, the beginning of it, or SOURCE/CHUNK as shown by 'audit show'. The change is proved by
    computing the answer again with it; the guide to auditing defines the size of a change.
    Exit code: 0, 4 the question was not recorded, 2 no such chunk, usage or configuration.
    """
    from context_engine.audit.review.why import why as why_shown

    if len(names) != (2 if file is None else 1):
        raise click.UsageError("Give the ID of a record, or --file, and a CHUNK.")
    if file is not None and (query is not None or at.ledger is not None):
        raise click.UsageError("--query and --ledger are for a record of a ledger, not for --file.")
    recorded = _of_ledger(at, names[0], query) if file is None else _of_file(file)
    answer = why_shown(recorded.result, names[-1], source, recorded.access)
    if as_json:
        publish(answer.to_dict())
    else:
        print_why(answer, recorded.result)


def _of_ledger(at: LedgerLocation, record_id: str, query: str | None) -> _Recorded:
    from context_engine.audit.review.account import account_of
    from context_engine.audit.review.why import AccessTaken

    with opened_ledger(at) as opened:
        ledger = opened.ledger
        record = find_record(ledger, record_id)
        result = recorded_result(ledger, record_id, record.entry, query)
        entry = account_of(record.entry, record.index, ledger).entry
        say_unsigned(ledger)
    return _Recorded(result, AccessTaken.of_entry(entry))


def _of_file(file: Path) -> _Recorded:
    from context_engine.audit.review.why import AccessTaken

    return _Recorded(read_saved(file)[0], AccessTaken())


def print_why(why: Why, result: SearchResult) -> None:
    """Print why a chunk was shown or not."""
    if not why.same:
        print_line(NOT_SAME, "yellow")
    for line in why_lines(why, result, candidate_names(result)):
        print_line(line)
