"""`eval gate`: fail when retrieval got worse, for an installation's CI."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.text import Text

from context_engine.apps.cli.app import DEGRADED, FAILURE
from context_engine.apps.cli.console import note, print_line, print_table, styled, written
from context_engine.apps.cli.context import ConfigLocation, with_acting, with_location
from context_engine.apps.cli.eval.collections import collection_options, named_collections, open_named_collections
from context_engine.apps.cli.eval.options import (
    adapter_cautions,
    change_cells,
    check_writable,
    print_warnings,
    question_options,
    report_options,
    write_json,
    write_reports,
)
from context_engine.apps.cli.options import FILE
from context_engine.apps.cli.progress import progress_bar
from context_engine.apps.web.inert import clean
from context_engine.core.text import counted
from context_engine.errors import InvalidRequest

if TYPE_CHECKING:
    from context_engine.evaluation.collections import Collected
    from context_engine.evaluation.gate import GateResult, MeasureCheck
    from context_engine.evaluation.gate_file import GateFile

MEASURES: Final = ("R@10", "nDCG@10")
_CREATION_OPTIONS: Final = (
    *("queries", "qrels", "domain", "as_of", "collections", "collection"),
    *("measures", "floor", "allowed_loss", "strict"),
)
GATE: Final = """\b
Examples:
  context-engine eval gate gate.yaml --write --collections collections.yaml --floor R@10=0.8
  context-engine eval gate gate.yaml --report gate.md          (in CI: 0 passed, 1 something got worse)
  context-engine eval gate gate.yaml --set keyword_weight=0.3  (would this change pass?)
  context-engine eval gate gate.yaml --write                   (a new baseline; the file stays as it is)
"""


@click.command(epilog=GATE)
@click.argument("file", type=FILE)
@click.option("--write", is_flag=True, help="Save today's runs as the baseline; creates FILE if it does not exist.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Test the gate with a changed setting.")
@question_options
@collection_options
@click.option(
    "--measure", "-m", "measures", multiple=True, metavar="NAME", help="Compare this [default: R@10, nDCG@10]."
)
@click.option("--floor", multiple=True, metavar="MEASURE=VALUE", help="The lowest mean that each collection may have.")
@click.option("--allowed-loss", type=click.FloatRange(0, 1), metavar="LOSS", help="Loss that passes [default: 0].")
@click.option("--strict", is_flag=True, help="Fail on a loss within noise, too.")
@report_options
@with_acting
@with_location
def gate(file: Path, location: ConfigLocation, **options: Any) -> int:
    """Measure the collections of a gate file; fail if a mean is below its floor or worse than the baseline.

    With --write today's results become the baseline. Questions, judgements, measures and limits are named when the file
    is created; edit the file to change them. The gate refuses to compare if questions, judgements or documents differ
    from the baseline's.

    Exit codes: 0 passed, 1 something got worse, 2 the file or the baseline is invalid, 3 a source, the embedder or the
    reranker failed.
    """
    from context_engine.evaluation.gate import gate_result, gate_summary
    from context_engine.evaluation.gate_file import read_gate
    from context_engine.evaluation.report import gate_report

    if options["write"]:
        _write(file, location, options)
        return 0
    _refuse_creation_options(file, options)
    gate_file = read_gate(file)
    measured, demo = _evaluated(gate_file, location, options, tested_file=file)
    result = gate_result(gate_file, measured)
    report = gate_report(result, title=options["title"] or "Retrieval gate")
    write_reports(report, options, *measured.compared.values())
    if options["as_json"]:
        write_json(gate_summary(result), demo=demo)
    else:
        _print(result)
    if result.troubles:
        note("The result proves nothing, because a part of the set-up failed: fix it and run again", style="yellow")
        return DEGRADED
    return 0 if result.holds else FAILURE


def _evaluated(
    gate_file: GateFile, location: ConfigLocation, options: dict[str, Any], *, tested_file: Path | None = None
) -> tuple[Collected, bool]:
    """Measure the collections.

    Args:
        tested_file: the gate file, to compare with its baseline; None to measure only.

    Returns:
        The measurements, and whether they are the demo's.
    """
    from context_engine.evaluation.collections import evaluate_each
    from context_engine.evaluation.gate import check_comparable
    from context_engine.evaluation.variant import read_variant

    options = {"save_run": None, **options, "write": None}
    context, sessions = open_named_collections(location, options, gate_file.collections)
    if tested_file is not None:
        check_comparable(gate_file, sessions, tested_file)
    with progress_bar("Asking …") as progress:
        measured = evaluate_each(
            sessions, read_variant(options["settings"], context.known),
            baseline=None if tested_file is None else gate_file.baseline,
            measures=gate_file.measured, progress=progress,
        )  # fmt: skip
    return measured, context.demo


def _write(file: Path, location: ConfigLocation, options: dict[str, Any]) -> None:
    """Create a gate file, or measure the baseline of an existing one again.

    Raises:
        InvalidRequest: nothing to measure is named, or options change settings or the limits of an existing file.
        ConfigError: a mean is already below its floor, a source failed, a file cannot be written, or a file that is
            not a baseline would be overwritten.
    """
    from context_engine.evaluation.gate import check_baseline, check_replaceable, keep_baseline
    from context_engine.evaluation.gate_file import gate_text, read_gate

    if options["settings"]:
        raise InvalidRequest("--set tests a change, but --write saves the baseline of the current settings: omit one")
    is_new = not file.exists()
    if not is_new:
        _refuse_creation_options(file, options)
    gate_file = _new_gate(file, options) if is_new else read_gate(file)
    if gate_file.baseline is None:
        raise InvalidRequest(f"{file} names no baseline to write: it tests floors only")
    check_replaceable(gate_file)
    check_writable(file)
    measured, _ = _evaluated(gate_file, location, {**options, "save_run": gate_file.baseline})
    check_baseline(gate_file, measured, file)
    keep_baseline(gate_file.baseline, measured)
    note(f"written: {counted(len(measured.compared), 'run')} in {gate_file.baseline}")
    for caution in adapter_cautions(*measured.compared.values()):
        note(caution, style="yellow")
    if is_new:
        written(file, gate_text(file, gate_file))


def _new_gate(file: Path, options: dict[str, Any]) -> GateFile:
    from context_engine.evaluation.collections import Collection
    from context_engine.evaluation.gate_file import GateCollection, new_gate

    named = named_collections(options)
    if options["queries"] or options["qrels"]:
        named = {"questions": Collection(queries=options["queries"], qrels=options["qrels"])}
    if not named:
        raise InvalidRequest("name what to measure: --collections FILE, --collection NAME=FOLDER, or --qrels FILE")
    floors = dict(_floor(text) for text in options["floor"])
    defaults = {"domain": options["domain"], "as_of": options["as_of"] and options["as_of"].isoformat()}
    collections = {
        name: GateCollection.model_validate({**defaults, **collection.model_dump(exclude_none=True), "floors": floors})
        for name, collection in named.items()
    }
    return new_gate(
        file, collections,
        measures=options["measures"] or MEASURES, allowed_loss=options["allowed_loss"] or 0.0,
        beyond_noise=not options["strict"],
    )  # fmt: skip


def _floor(text: str) -> tuple[str, float]:
    measure, _, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not measure or not 0.0 <= number <= 1.0:
        raise InvalidRequest(f"--floor takes MEASURE=VALUE with a value from 0 to 1, e.g. R@10=0.8, got {text!r}")
    return measure, number


def _refuse_creation_options(file: Path, options: dict[str, Any]) -> None:
    """Refuse options that only create a gate file: an existing file holds its own limits."""
    named = [name for name in _CREATION_OPTIONS if options[name] not in (None, (), False)]
    if named:
        option = "--measure" if named[0] == "measures" else f"--{named[0].replace('_', '-')}"
        raise InvalidRequest(f"{option} only applies when --write creates a gate file: change it in {file} instead")


def _print(result: GateResult) -> None:
    columns = ("!collection", "!measure", ">!floor", ">!baseline", ">!now", ">!difference", ">!95 %", "!outcome")
    print_table(columns, map(_row, result.checks))
    for check in result.fallen:
        _print_worst_questions(result, check)
    print_line()
    for name, troubles in result.troubles.items():
        print_warnings(f"{name}: {trouble}" for trouble in troubles)
    print_warnings(adapter_cautions(*result.collected.compared.values()))
    checks = counted(len(result.checks), "check")
    if result.holds:
        print_line(f"✓ {checks} passed on {result.collected.questions} judged questions", "green")
    else:
        print_line(f"✗ {len(result.fallen)} of {checks} failed", "bold red")


def _row(check: MeasureCheck) -> list[Text]:
    from context_engine.evaluation.report import OUTCOMES

    failed = check.outcome != "holds"
    numbers = ("" if value is None else f"{value:.4f}" for value in (check.floor, check.baseline, check.now))
    style = "bold red" if failed else "green"
    change = (Text(), Text()) if check.pair is None else change_cells(check.pair, style if failed else "")
    outcome = Text(OUTCOMES[check.outcome], style)
    return [Text(check.collection, "bold"), Text(check.measure), *map(Text, numbers), *change, outcome]


def _print_worst_questions(result: GateResult, check: MeasureCheck) -> None:
    from context_engine.evaluation.blocks import cut
    from context_engine.evaluation.gate import lost_most

    rows = lost_most(result.collected, check.collection, check.measure)
    if not rows:
        return
    print_line()
    print_line(f"{check.collection}: largest losses by {check.measure}", "bold")
    for row in rows:
        numbers = f"  {row.baseline:.3f} → {row.now:.3f}  "
        print_line(styled(numbers, (row.question, "bold"), (f"  {clean(cut(row.text))}", "dim")))
