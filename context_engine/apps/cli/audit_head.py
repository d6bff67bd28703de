"""`context-engine audit head`: a checkpoint, to be kept where nobody who writes to the ledger can."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from context_engine.apps.cli.app import FAILURE
from context_engine.apps.cli.audit_ledger import (
    LedgerLocation,
    OpenLedger,
    opened_ledger,
    say_unproved,
    unproved,
    with_ledger,
)
from context_engine.apps.cli.console import note, print_json, write_text
from context_engine.apps.cli.exact_file import written_exactly
from context_engine.apps.cli.words import counted
from context_engine.errors import LedgerCorrupt

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger


SCHEMA_VERSION: Final = 1
_VERIFY: Final = "run 'context-engine audit verify'"
HEAD: Final = """\b
Examples:
  context-engine audit head > /mnt/worm/$(date +%F).checkpoint
  context-engine audit verify --against /mnt/worm/2026-03-02.checkpoint
"""


@click.command(epilog=HEAD)
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write it there, not to stdout."
)
@click.option(
    "--publish", "hand_out", is_flag=True, help="Hand it to the witnesses, file and program that the settings name."
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@with_ledger
def head(at: LedgerLocation, out: Path | None, hand_out: bool, as_json: bool) -> None:
    """Write a checkpoint of the log as it is now: how many records it has, and their root.

    What waits is integrated first. Against a checkpoint that was kept elsewhere, 'audit verify' finds out whether
    records were cut off or the log was rewritten since. Who may not write to the ledger, or has not the key of one that
    is signed, gets the newest checkpoint there is. Exit code 1 where it could not be handed out to all.
    """
    with opened_ledger(at) as opened:
        from context_engine.audit.ledger.key_change import present_checkpoint

        ledger = opened.ledger
        problems = _handed_out(opened) if hand_out else ()
        checkpoint = present_checkpoint(ledger)
        facts = head_facts(ledger, checkpoint.note)
        missing, newer = unproved(ledger, checkpoint), ledger.size + ledger.pending_count() - checkpoint.size
    if out is not None:
        written_exactly(out, checkpoint.note)
    if as_json:
        said = {"newer_records": newer, "not_proved": missing, "problems": problems}
        print_json(json.dumps({"schema_version": SCHEMA_VERSION, **facts, **said}, ensure_ascii=False))
    elif out is None:
        write_text(checkpoint.note)
    if newer:
        note(f"{counted(newer, 'newer record')} not in it: they wait, or its log has gone on.", style="yellow")
    say_unproved(missing)
    for problem in problems:
        note(problem, style="red")
    click.get_current_context().exit(FAILURE if problems else 0)


def _handed_out(opened: OpenLedger) -> tuple[str, ...]:
    """Hand a checkpoint out wherever it has not been; return what it could not be handed to, a sentence each."""
    from context_engine.audit.ledger.publish import publish
    from context_engine.core.engine import SystemClock
    from context_engine.wiring.audit_checkpoints import checkpoint_rhythm

    with closing(checkpoint_rhythm(opened.context.setup)) as rhythm:
        published = publish(opened.ledger, rhythm, SystemClock(), at_once=True)
    return () if published is None else published.problems


def head_facts(ledger: Ledger, written: str) -> dict[str, Any]:
    """Return what a checkpoint of the ledger says, JSON-ready, with the keys that are known to have signed it.

    Raises:
        LedgerCorrupt: it is not signed as it says, or of another log than the records make now.
    """
    from context_engine.audit.formats.checkpoint import parse_checkpoint
    from context_engine.audit.formats.note import parse_note, verify_note
    from context_engine.audit.formats.strict import FormatError

    keys = () if ledger.keyring is None else ledger.keyring.verifiers
    try:
        signed_note = parse_note(written)
        checkpoint, signed = parse_checkpoint(signed_note), verify_note(signed_note, keys)
    except FormatError as error:
        raise LedgerCorrupt(f"{error}: {_VERIFY}") from None
    if (checkpoint.origin, checkpoint.root) != (ledger.origin, ledger.root(checkpoint.size)):
        raise LedgerCorrupt(f"the checkpoint of {checkpoint.size} records is of others than are there now: {_VERIFY}")
    return {
        "origin": checkpoint.origin,
        "size": checkpoint.size,
        "root": checkpoint.root.hex(),
        "checkpoint": written,
        "signed_by": [one.key.text for one in signed],
    }
