"""`audit drift`: compare the chunks of an answer with the present content of their sources."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

import click
from rich.text import Text

from context_engine.apps.cli.app import DEGRADED
from context_engine.apps.cli.audit.ledger import LedgerLocation, OpenLedger, opened_ledger, with_ledger
from context_engine.apps.cli.audit.many import Selection, examine_many, with_selection
from context_engine.apps.cli.console import note, print_line, publish, styled
from context_engine.apps.cli.context import with_acting
from context_engine.apps.cli.options import with_json
from context_engine.apps.web.review.again import drifts_of, shown_in
from context_engine.core.text import counted

if TYPE_CHECKING:
    from context_engine.audit.review.drift import ChunkDrift
    from context_engine.audit.review.shown import ShownAnswer
    from context_engine.core.engine import Engine

_STYLES: Final = {"unchanged": "green", "changed": "yellow", "superseded": "yellow", "gone": "red"}
_WIDTH: Final = 13
_MOST_VALUE: Final = 60

DRIFT: Final = """\b
Examples:
  context-engine audit drift 019cad50-24a0-7afe-8262-0d28d32447a6
  context-engine audit drift 019cad50-24a0-7afe-8262-0d28d32447a6 --as auditor --json
  context-engine audit drift --since 2026-07-01 --sample 100 --seed 84417 --results drift.jsonl
"""


@click.command(epilog=DRIFT)
@click.argument("record_id", metavar="[ID]", required=False)
@click.option("--timeout", default=30.0, type=click.FloatRange(0.1, 600), help="Seconds for each source.")
@with_selection
@with_json
@with_acting
@with_ledger
def drift(at: LedgerLocation, record_id: str | None, timeout: float, selection: Selection, as_json: bool) -> int:
    """Fetch the chunks that answer ID showed, and report the changes of each.

    A chunk is unchanged, changed (its words, its cut or its metadata), gone, superseded by a newer version, or it
    cannot be checked, because its source cannot fetch chunks by id, or not now. Chunks that you may not read count as
    gone. ID may also be the id of a context. With --since, --until, --domain or --sample the answers of a period, or a
    sample of them, are compared in one run.

    Exit codes: 0 all chunks are unchanged, 3 some are not or cannot be checked, 1 failure.
    """
    if (record_id is not None) + selection.given != 1:
        raise click.UsageError("Give the ID of a record, or a period or a sample.")
    if record_id is None:
        return _many(at, selection, timeout, as_json=as_json)
    with opened_ledger(at) as opened, _engine(opened) as engine:
        answer = shown_in(opened.ledger, record_id)
        drifts = _drifts(opened, engine, answer, timeout)
    if as_json:
        publish(_published(opened, answer, drifts))
    else:
        for chunk in drifts:
            for text in _lines(chunk):
                print_line(text)
        _summary(answer, drifts)
    same = all(chunk.state == "unchanged" for chunk in drifts)
    return 0 if same else DEGRADED


def _engine(opened: OpenLedger) -> AbstractContextManager[Engine]:
    from context_engine.wiring.examine import fetching_engine

    return fetching_engine(opened.context.setup, opened.context.data_dir)


def _many(at: LedgerLocation, selection: Selection, timeout_s: float, *, as_json: bool) -> int:
    """Compare the selected answers with their sources; return the exit code."""
    with opened_ledger(at) as opened, _engine(opened) as engine:

        def examine(record_id: str) -> tuple[str, str]:
            drifts = _drifts(opened, engine, shown_in(opened.ledger, record_id), timeout_s)
            if all(chunk.state == "unchanged" for chunk in drifts):
                return "unchanged", ""
            return "not the same", _counts(drifts)

        results = examine_many(opened, selection, examine, title="Comparing …", as_json=as_json)
    return 0 if all(result.result == "unchanged" for result in results) else DEGRADED


def _drifts(opened: OpenLedger, engine: Engine, answer: ShownAnswer, timeout: float) -> tuple[ChunkDrift, ...]:
    return drifts_of(answer, engine, opened.context.setup, opened.context.principal, timeout)


def _published(opened: OpenLedger, answer: ShownAnswer, drifts: Sequence[ChunkDrift]) -> dict[str, Any]:
    from context_engine.audit.review.drift import counts

    return {
        "search_id": answer.search_id,
        "domain": answer.domain,
        "time": answer.time,
        "day": None if answer.past_day is None else answer.past_day.isoformat(),
        "principal": opened.context.principal.id,
        "counts": counts(drifts),
        "not_listed": answer.listed_short,
        "chunks": [chunk.to_dict() for chunk in drifts],
    }


def _lines(drift: ChunkDrift) -> Iterator[Text]:
    """Yield one line with the chunk and its state, then its changes."""
    shown, state = drift.shown, str(drift.state)
    title = shown.chunk.title if shown.chunk is not None else None
    version = f" v{shown.document_version}" if shown.document_version else ""
    section = f" §{shown.chunk.section}" if shown.chunk is not None and shown.chunk.section else ""
    name = f"{title or shown.document_id or shown.chunk_id}{version}{section}"
    state_text = (state.replace("_", " ").ljust(_WIDTH), _STYLES.get(state, "magenta"))
    yield styled(f"{shown.rank:>2}  ", state_text, f"{name}  ", (f"{shown.source_id}/{shown.chunk_id}", "dim"))
    for parts in _changes(drift):
        yield styled("    ", *parts)


def _changes(drift: ChunkDrift) -> Iterator[Sequence[str | tuple[str, str]]]:
    """Yield the parts of a line about each change."""
    if drift.superseded_by:
        yield [f"in force now: {drift.superseded_by}"]
    if drift.why:
        yield [drift.why]
    if drift.cut_into:
        yield [f"its words are now in {', '.join(drift.cut_into)}"]
    if drift.now_id:
        yield [f"its id is now {drift.now_id}"]
    for change in drift.text:
        before = f"… {change.before} " if change.before else ""
        was, now = f"[-{change.was}-]" if change.was else "", f"{{+{change.now}+}}" if change.now else ""
        yield [(before, "dim"), (was, "red"), (now, "green")]
    if drift.text_changed and not drift.text:
        yield ["its text has changed; the record no longer has the former text"]
    for field in drift.fields:
        if not (drift.superseded_by and field.name == "document_version"):
            yield [f"{field.name}: {_value(field.was)} → {_value(field.now)}"]


def _value(value: Any) -> str:
    text = "none" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MOST_VALUE else f"{text[:_MOST_VALUE]}…"


def _counts(drifts: Sequence[ChunkDrift]) -> str:
    """Return how many chunks are in each state, in words."""
    from context_engine.audit.review.drift import counts

    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts(drifts).items() if count)


def _summary(answer: ShownAnswer, drifts: Sequence[ChunkDrift]) -> None:
    note(f"{counted(len(drifts), 'chunk')} of the answer of {answer.time}: {_counts(drifts) or 'it showed none'}.")
    if answer.listed_short:
        note(f"{counted(answer.listed_short, 'further chunk')} cannot be named: the candidates were erased.")
