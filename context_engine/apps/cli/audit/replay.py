"""`audit replay`: recompute a recorded search from its record alone."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from context_engine.answer.replay import AnswerReplay
from context_engine.apps.cli.app import FAILURE, NOT_ANSWERED
from context_engine.apps.cli.audit.ledger import LedgerLocation, opened_ledger, read_saved, with_ledger
from context_engine.apps.cli.audit.many import Selection, examine_many, with_selection
from context_engine.apps.cli.console import note, print_line, publish
from context_engine.apps.cli.context import CliContext, open_context
from context_engine.apps.cli.options import OLD_FILE, with_json
from context_engine.apps.web.review.again import Now, recomputed
from context_engine.apps.web.review.again import replayed as replayed_now
from context_engine.core.text import counted
from context_engine.errors import QueryNotRecorded
from context_engine.service.explaining.words import setting_words

if TYPE_CHECKING:
    from context_engine.audit.review.replay import Replay


_SHOWN: Final = 100
_NOT_RECORDED: Final = "question not recorded"

REPLAY: Final = """\b
Examples:
  context-engine audit replay 019cad50-24a0-7afe-8262-0d28d32447a6
  context-engine search "default fund" -d DCE --json --full > answer.json
  context-engine audit replay --file answer.json
  context-engine audit replay --since 2026-07-01 --until 2026-10-01 --sample 100 --seed 84417 --results replays.jsonl
"""


@click.command(epilog=REPLAY)
@click.argument("record_id", metavar="[ID]", required=False)
@click.option(
    "--file", type=OLD_FILE, metavar="FILE", help="A result written by 'search --json --full', instead of ID."
)
@click.option("--query", metavar="TEXT", help="The question, if only its digest was recorded.")
@with_selection
@with_json
@with_ledger
def replay(
    at: LedgerLocation, record_id: str | None, file: Path | None, query: str | None, selection: Selection, as_json: bool
) -> int:
    """Compute a recorded search or answer again from its record alone; no source and no model is called.

    The second stage and the contexts must give the same bytes, and an answer saved beside its record must match the
    record; otherwise the first different field and the reason are reported. The record of an answer must give the same
    sentences and verdicts. Settings that changed since are listed, with their effect on the answer. With --since,
    --until, --domain or --sample all searches of a period, or a sample of them, are computed in one run. Exit code: 0
    identical, 1 not, 4 a question was not recorded, 2 usage or configuration.
    """
    if (record_id is not None) + (file is not None) + selection.given != 1:
        raise click.UsageError("Give the ID of a record, or --file, or a period or a sample.")
    if record_id is None and query is not None:
        raise click.UsageError("--query is for one record of a ledger.")
    if file is not None and at.ledger is not None:
        raise click.UsageError("--ledger is for records of a ledger, not for --file.")
    if selection.given:
        return _many(at, selection, as_json=as_json)
    replayed = _of_file(at, file) if file is not None else _of_ledger(at, str(record_id), query)
    if as_json:
        publish(replayed.to_dict())
    elif isinstance(replayed, AnswerReplay):
        _print_answer(replayed)
    else:
        _print(replayed)
    return 0 if replayed.identical else FAILURE


def _of_ledger(at: LedgerLocation, record_id: str, query: str | None) -> Replay | AnswerReplay:
    with opened_ledger(at) as opened:
        return replayed_now(opened.ledger, record_id, _now(opened.context), query)


def _now(context: CliContext) -> Now:
    return Now(setup=context.setup, data_dir=context.data_dir, tell=partial(note, style="yellow"))


def _print_answer(replayed: AnswerReplay) -> None:
    if replayed.identical:
        count = counted(replayed.sentences, "sentence")
        print_line(f"identical: the record gives the same answer, {count} with the same verdicts", "green")
        return
    print_line(f"not identical: {replayed.explanation}", "red")
    if replayed.difference is not None:
        path, was, now = replayed.difference
        print_line(f"  {path}: recorded {_value(was)}, computed {_value(now)}")


def _many(at: LedgerLocation, selection: Selection, *, as_json: bool) -> int:
    """Replay the selected searches; return the exit code."""
    with opened_ledger(at) as opened:
        now = _now(opened.context)

        def examine(record_id: str) -> tuple[str, str]:
            try:
                replayed = replayed_now(opened.ledger, record_id, now)
            except QueryNotRecorded as error:
                return _NOT_RECORDED, str(error)
            if replayed.identical:
                return "identical", ""
            where = f"{replayed.difference.path}: " if replayed.difference is not None else ""
            return "different", f"{where}{replayed.explanation or 'a context differs'}"

        results = examine_many(opened, selection, examine, title="Replaying …", as_json=as_json)
    seen = {result.result for result in results}
    if seen - {"identical", _NOT_RECORDED}:
        return FAILURE
    return NOT_ANSWERED if _NOT_RECORDED in seen else 0


def _of_file(at: LedgerLocation, file: Path) -> Replay:
    from context_engine.audit.record.parts import code_of

    result, saved = read_saved(file)
    now = _now(open_context(at.configuration, build_demo=False))
    published = saved if "record" in saved else None
    return recomputed(result, now, recorded_by=code_of(saved), published=published)


def _print(replayed: Replay) -> None:
    if replayed.identical:
        print_line("identical: the record gives the same answer to the byte", "green")
    else:
        print_line(f"not identical: {replayed.explanation or 'a context differs'}", "red")
    if replayed.difference is not None:
        path, was, now = replayed.difference
        first, second = ("shown", "in the record") if replayed.reason == "answer_altered" else ("recorded", "computed")
        print_line(f"  {path}: {first} {_value(was)}, {second} {_value(now)}")
    for context in replayed.contexts:
        verdict = "identical" if context.identical else context.reason
        print_line(f"context {context.record_id}: {verdict}", "" if context.identical else "yellow")
    _print_settings(replayed)
    if replayed.changed_scorer is not None:
        was, now = replayed.changed_scorer
        print_line(f"vectors were compared by {was}, now by {now or 'none'}: the record cannot tell what that changes")


def _print_settings(replayed: Replay) -> None:
    """Print the changed settings and their effect on the answer."""
    changed = replayed.changed_settings
    if changed is None:
        return
    if not changed:
        print_line("no setting has changed since")
        return
    print_line(f"{counted(len(changed), 'setting')} changed since:")
    for setting in changed:
        was, now = (_value(setting_words(setting.key, value)) for value in (setting.was, setting.now))
        print_line(f"  {setting.key}: {was}, now {now} ({setting.origin})")
    if replayed.answer_now is not None:
        path, was, now = replayed.answer_now
        print_line(f"the answer would differ: {path}: {_value(was)}, then {_value(now)}", "yellow")
    elif any(setting.judged for setting in changed):
        print_line("the answer would be the same, as far as the record can tell")
    unjudged = [setting.key for setting in changed if not setting.judged]
    if unjudged:
        print_line(f"the record cannot tell what these change: {', '.join(unjudged)}", "dim")


def _value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"
