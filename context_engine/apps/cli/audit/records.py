"""`audit list`: the records of a ledger, listed or drawn at random."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from context_engine.apps.cli.audit.ledger import (
    NO_KEY,
    LedgerLocation,
    opened_ledger,
    say_unknown_domain,
    say_unproved,
    with_ledger,
)
from context_engine.apps.cli.console import note, print_json_line, print_table, publish
from context_engine.apps.cli.options import period_options, with_json, with_options
from context_engine.audit.review.stored import ledger_pseudonyms, missing_keys
from context_engine.core.text import counted
from context_engine.settings.environment_secrets import AUDIT_FORMER_KEYS

if TYPE_CHECKING:
    from context_engine.audit.ledger.ledger import Ledger
    from context_engine.audit.ledger.look_up import Criteria, RecordRow, Sample


_KINDS: Final = ("search", "rank", "refusal", "context", "answer", "fetch", "erasure", "key", "loss", "pruning")
_DECISIONS: Final = ("answered", "no_match", "out_of_scope", "incomplete")
_STATUSES: Final = ("complete", "degraded", "failed")
_PSEUDONYM: Final = re.compile(r"[0-9a-f]{32}")
_SHOWN: Final = 20
_SHORT: Final = 8
_TO_THE_SECOND: Final = 19

LIST: Final = """\b
Examples:
  context-engine audit list --domain NPA --decision out_of_scope
  context-engine audit list --caller ana.garcia --since 2026-03-01 --until 2026-04-01
  context-engine audit list --kind refusal --limit 1000 --jsonl
  context-engine audit list --kind search --until 2026-04-01 --sample 25 --seed "drawn on 2 April: 84417"
"""


@click.command("list", epilog=LIST)
@click.option("--domain", "-d", metavar="NAME", help="Only records of this domain.")
@with_options(*period_options("From this moment on, e.g. 2026-03-01.", "Before this moment."))
@click.option("--caller", metavar="NAME", help="Only records of this caller: a name or a pseudonym.")
@click.option("--kind", type=click.Choice(_KINDS), help="Only records of this kind.")
@click.option("--decision", type=click.Choice(_DECISIONS), help="Only records with this decision.")
@click.option("--status", type=click.Choice(_STATUSES), help="Only records with this status.")
@click.option(
    "--limit", "-n", type=click.IntRange(min=1), default=_SHOWN, show_default=True, help="Most records shown."
)
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="Draw N records by --seed, instead of --limit.")
@click.option("--seed", metavar="TEXT", help="The seed of a sample: a text that the log's keeper did not choose.")
@with_json
@click.option("--jsonl", is_flag=True, help="Write one JSON object per line.")
@with_ledger
def list_records(
    at: LedgerLocation,
    caller: str | None,
    sample: int | None,
    seed: str | None,
    as_json: bool,
    jsonl: bool,
    limit: int,
    **wanted: Any,
) -> None:
    """List records, newest first: searches, rankings, refusals, contexts, answers, and changes of the log itself.

    Callers are shown by their pseudonyms. 'audit show ID' shows one record. A sample consists of the records with the
    smallest SHA-256 of the seed, a line feed and their id, so everybody draws the same sample from the same records.
    """
    if as_json and jsonl:
        raise click.UsageError("--json and --jsonl are two forms of the list: choose one")
    if (sample is None) != (seed is None):
        raise click.UsageError("--sample and --seed go together: the size of the sample, and a text that you choose")
    with opened_ledger(at) as opened:
        ledger = opened.ledger
        ledger.integrate()
        if sample is not None and seed is not None:
            rows, population = _drawn(ledger, caller, sample, seed, **wanted)
        else:
            # One record more than is shown tells whether there are more.
            rows, population = _found(ledger, caller, limit=limit + 1, **wanted), None
        more = population is None and len(rows) > limit
        listed = [Listed(row, _refused_with(ledger, row)) for row in (rows[:limit] if population is None else rows)]
        unsigned = ledger.keyring is None
        missing = missing_keys(ledger) if caller is not None and _PSEUDONYM.fullmatch(caller) is None else []
        if not listed:
            say_unknown_domain(opened, wanted["domain"])
    if as_json:
        facts = {} if population is None else {"sample": {"seed": seed, "size": len(rows), "population": population}}
        records = [record.to_dict() for record in listed]
        publish({"records": records, "more": more, **facts})
    elif jsonl:
        for record in listed:
            print_json_line(json.dumps(record.to_dict(), ensure_ascii=False))
    elif listed:
        print_table((">index", "time", "kind", "id", "domain", "outcome", "caller"), map(_row, listed))
    else:
        note("No record matches.")
    if more:
        note(f"There are more: these are the newest {limit}; --limit shows more.")
    if population is not None:
        note(f"{len(rows)} of {counted(population, 'record')}, drawn by the seed {seed!r}.")
    if missing:
        note(
            f"Records under the key {', '.join(missing)} cannot be matched with a name: give the key "
            f"({AUDIT_FORMER_KEYS}), or the caller's pseudonym.",
            style="yellow",
        )
    if unsigned:
        say_unproved((NO_KEY,))


class Listed(NamedTuple):
    """A listed record.

    Attributes:
        row: its look-up row.
        error: the error code of a refused request; None for other records.
    """

    row: RecordRow
    error: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {**asdict(self.row), "error": self.error}


def _refused_with(ledger: Ledger, row: RecordRow) -> str | None:
    """Return the error code of a refused request, read from its entry, because the look-up row does not have it."""
    from context_engine.audit.record.entry import read_entry

    stored = ledger.entry_at(row.index) if row.kind == "refusal" else None
    if stored is None or stored.entry is None:
        return None
    code = read_entry(stored.entry).get("error", {}).get("code")
    return None if code is None else str(code)


def _found(ledger: Ledger, caller: str | None, *, limit: int, **wanted: Any) -> list[RecordRow]:
    """Return the requested records, newest first."""
    rows = [row for criteria in _criteria(ledger, caller, limit=limit, **wanted) for row in ledger.rows(criteria)]
    return _newest_first(rows)[:limit]


def _drawn(ledger: Ledger, caller: str | None, size: int, seed: str, **wanted: Any) -> Sample:
    """Return a sample of the requested records, newest first."""
    from context_engine.audit.ledger.look_up import merged

    samples = [ledger.sample(criteria, size, seed) for criteria in _criteria(ledger, caller, **wanted)]
    drawn = merged(samples, size, seed)
    return drawn._replace(rows=_newest_first(drawn.rows))


def _criteria(ledger: Ledger, caller: str | None, **wanted: Any) -> list[Criteria]:
    """Return the criteria: one set, or one for each pseudonym of the caller."""
    from context_engine.audit.ledger.look_up import Criteria

    callers = [None] if caller is None else sorted(_pseudonyms(ledger, caller))
    return [Criteria(caller=pseudonym, **wanted) for pseudonym in callers]


def _newest_first(rows: Iterable[RecordRow]) -> list[RecordRow]:
    return sorted(rows, key=lambda row: (row.time, row.index), reverse=True)


def _pseudonyms(ledger: Ledger, caller: str) -> set[str]:
    """Return the caller's pseudonyms in the ledger: one under each key, and one from the time without a key."""
    if _PSEUDONYM.fullmatch(caller):
        return {caller}
    return {pseudonyms.of_caller(caller) for pseudonyms in ledger_pseudonyms(ledger)}


def _row(record: Listed) -> tuple[object, ...]:
    row = record.row
    outcome = " · ".join(filter(None, (row.status, row.decision, record.error)))
    of = f"of {row.search_id}" if row.search_id else ""
    described = (row.kind, row.record_id, row.domain or "–", outcome or of or "–", (row.caller or "–")[:_SHORT])
    return (row.index, row.time[:_TO_THE_SECOND], *described)
