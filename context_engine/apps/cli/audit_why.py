"""`context-engine audit why`: why a chunk was shown or not, and the smallest change that would have shown it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from context_engine.apps.cli.audit_ledger import NO_KEY, LedgerLocation, opened_ledger, say_unproved, with_ledger
from context_engine.apps.cli.audit_record import read_saved
from context_engine.apps.cli.console import out, print_json
from context_engine.audit.review.stored import find_record, recorded_result

if TYPE_CHECKING:
    from context_engine.audit.review.absence import AccessTaken
    from context_engine.core.models import SearchResult


SCHEMA_VERSION: Final = 1
_FILE: Final = click.Path(dir_okay=False, exists=True, path_type=Path)
WHY: Final = """\b
Examples:
  context-engine audit why 019cad50-24a0-7afe-8262-0d28d32447a6 NPA-SOP-001@3.2#4
  context-engine audit why 019cad50-24a0-7afe-8262-0d28d32447a6 web-17 --source regulators
  context-engine search "default fund" -d DCE --json --full > answer.json
  context-engine audit why --file answer.json NPA-SOP-001@3.2#4
"""


class _Recorded(NamedTuple):
    """A search, and what access control took from it."""

    result: SearchResult
    access: AccessTaken


@click.command(epilog=WHY)
@click.argument("names", metavar="[ID] CHUNK", nargs=-1)
@click.option("--source", metavar="ID", help="Source of the chunk; needed for a chunk that was no candidate.")
@click.option("--file", type=_FILE, metavar="FILE", help="A result that 'search --json --full' wrote, in place of ID.")
@click.option("--query", metavar="TEXT", help="The question, where only its digest was recorded.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@with_ledger
def why(
    at: LedgerLocation, names: tuple[str, ...], source: str | None, file: Path | None, query: str | None, as_json: bool
) -> None:
    """Tell why the answer ID showed a chunk or did not, and the smallest change with which it would have.

    CHUNK is the chunk's id or the beginning of it, or SOURCE/CHUNK as 'audit show' has it. The change is proved by
    computing the answer again with it; how large a change is, the guide to auditing says.
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
        published = {"schema_version": SCHEMA_VERSION, **answer.to_dict()}
        print_json(json.dumps(published, ensure_ascii=False, default=str))
    else:
        from context_engine.apps.cli.audit_why_words import print_why

        print_why(out(), answer, recorded.result)


def _of_ledger(at: LedgerLocation, record_id: str, query: str | None) -> _Recorded:
    from context_engine.audit.review.absence import AccessTaken
    from context_engine.audit.review.account import account_of

    with opened_ledger(at) as opened:
        ledger = opened.ledger
        found = find_record(ledger, record_id)
        result = recorded_result(ledger, record_id, found.entry, query)
        entry = account_of(found.entry, found.index, ledger).entry
        say_unproved([NO_KEY] if ledger.keyring is None else [])
    return _Recorded(result, AccessTaken.of_entry(entry))


def _of_file(file: Path) -> _Recorded:
    from context_engine.audit.record.saved import load_result
    from context_engine.audit.review.absence import AccessTaken

    return _Recorded(load_result(read_saved(file)), AccessTaken())
