"""`context-engine audit show`: everything that a record tells of one answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from context_engine.apps.cli.audit_ledger import NO_KEY, LedgerLocation, opened_ledger, say_unproved, with_ledger
from context_engine.apps.cli.console import out, print_json
from context_engine.audit.review.stored import context_entries, find_record, ledger_pseudonyms

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger


SCHEMA_VERSION: Final = 1
_SEARCHES: Final = ("search", "rank")
_NO_CHECKPOINT: Final = "No checkpoint covers this record yet: 'context-engine audit head' makes one."
SHOW: Final = """\b
Examples:
  context-engine audit show 019cad50-24a0-7afe-8262-0d28d32447a6
  context-engine audit show 019cad50-24a0-7afe-8262-0d28d32447a6 --texts
  context-engine audit show 019cad50-24a0-7afe-8262-0d28d32447a6 --json | jq '.entry.chunks[].sha256'
"""


@click.command(epilog=SHOW)
@click.argument("record_id", metavar="ID")
@click.option("--query", metavar="TEXT", help="The question, where only its digest was recorded.")
@click.option("--texts", is_flag=True, help="Show the passages too, as the caller was given them.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@with_ledger
def show(at: LedgerLocation, record_id: str, query: str | None, texts: bool, as_json: bool) -> None:
    """Show what was recorded under ID: who asked, under which rule, what was shown, and what was not and why.

    ID is the id of a search, or of a refusal, a context or another record that 'audit list' names.
    """
    from context_engine.audit.review.account import account_of

    with opened_ledger(at) as opened:
        ledger = opened.ledger
        found = find_record(ledger, record_id)
        account = account_of(
            found.entry,
            found.index,
            ledger,
            query=query,
            pseudonyms=ledger_pseudonyms(ledger),
            contexts=context_entries(ledger, record_id),
        )
        passages = _passages(found.entry, ledger) if texts else None
        proof = _proof(ledger, found.index)
    if as_json:
        published = {"schema_version": SCHEMA_VERSION, **account.to_dict(), "proof": proof}
        if passages is not None:
            published["texts"] = [one._asdict() for one in passages]
        print_json(json.dumps(published, ensure_ascii=False, default=str))
    else:
        from context_engine.apps.cli.audit_account import print_account, print_passages

        print_account(out(), account, proof)
        print_passages(out(), passages or ())
    say_unproved(proof["not_proved"])


class ShownPassage(NamedTuple):
    """A chunk that an answer showed, to be read.

    Attributes:
        rank: 1-based.
        sha256: of the text, hex.
        text: None where it is not there any more.
    """

    rank: int
    source: str
    chunk: str
    sha256: str
    text: str | None


def _passages(entry: bytes, ledger: Ledger) -> list[ShownPassage]:
    """Return what an answer showed.

    Raises:
        InvalidRequest: the record is of something else than a search.
    """
    from context_engine.audit.review.shown import recorded_answer

    return [
        ShownPassage(
            one.rank,
            one.source_id,
            one.chunk_id,
            one.content_sha256,
            None if one.chunk is None else one.chunk.content,
        )
        for one in recorded_answer(entry, ledger).chunks
    ]


def _proof(ledger: Ledger, index: int | None) -> dict[str, Any]:
    """Return how firmly a record stands: the first checkpoint that covers it, and what that does not prove."""
    covering = None if index is None else next((one for one in ledger.checkpoints() if one.size > index), None)
    missing = [NO_KEY] if ledger.keyring is None else []
    return {
        "index": index,
        "checkpoint": None if covering is None else covering.size,
        "signed": covering is not None and "\n\n" in covering.note.rstrip("\n"),
        "not_proved": missing if covering is not None else [*missing, _NO_CHECKPOINT],
    }
