"""`eval gate`: fail where retrieval got worse, for an installation's CI."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.text import Text

from context_engine.apps.cli.app import DEGRADED, FAILURE
from context_engine.apps.cli.console import clean, note, out, show, table, written
from context_engine.apps.cli.context import ConfigLocation, with_acting, with_location
from context_engine.apps.cli.eval.collections import collected, given_collections, opened_collections
from context_engine.apps.cli.eval.options import (
    PATH,
    asking,
    cautions_of,
    check_writable,
    judged,
    reported,
    write_json,
    write_reports,
)
from context_engine.apps.cli.words import counted
from context_engine.errors import InvalidRequest

if TYPE_CHECKING:
    from context_engine.evaluation.collections import Collected
    from context_engine.evaluation.gate import GateResult, MeasureCheck
    from context_engine.evaluation.gate_file import GateFile


MEASURES: Final = ("R@10", "nDCG@10")

_MADE_BY: Final = (
    *("queries", "qrels", "domain", "as_of", "collections", "collection"),
    *("measures", "floor", "allowed_loss", "strict"),
)

GATE: Final = """\b
Examples:
  context-engine eval gate gate.yaml --write --collections collections.yaml --floor R@10=0.8
  context-engine eval gate gate.yaml --report gate.md          (in CI: 0 holds, 1 something fell)
  context-engine eval gate gate.yaml --set keyword_weight=0.3  (would this change pass?)
  context-engine eval gate gate.yaml --write                   (a new baseline, the file as it is)
"""


@click.command(epilog=GATE)
@click.argument("file", type=PATH)
@click.option("--write", is_flag=True, help="Keep today's runs as the baseline; makes FILE where there is none.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Try a change of settings.")
@judged
@collected
@click.option("--measure", "-m", "measures", multiple=True, metavar="NAME", help="Compared [default: R@10, nDCG@10].")
@click.option("--floor", multiple=True, metavar="MEASURE=VALUE", help="The least mean of each collection.")
@click.option("--allowed-loss", type=click.FloatRange(0, 1), metavar="LOSS", help="Of a mean [default: 0].")
@click.option("--strict", is_flag=True, help="A loss fails within noise, too.")
@reported
@with_acting
@with_location
def gate(file: Path, location: ConfigLocation, **options: Any) -> None:
    """Measure what a gate file names, and fail where a mean is below its floor or has lost against the baseline.

    With --write the numbers of today become the baseline. Questions, judgements, measures and limits are named when the
    file is made; afterwards it is edited by hand. Questions, judgements or documents that are not those of the baseline
    are refused, as nothing can be compared then.

    Exit codes: 0 it holds, 1 something fell, 2 the file or the baseline cannot be used, 3 a source, the embedder or the
    reranker did not do its part.
    """
    from context_engine.evaluation.gate import gate_result, gate_summary
    from context_engine.evaluation.gate_file import read_gate
    from context_engine.evaluation.report import gate_report

    if options["write"]:
        _write(file, location, options)
        return
    _refuse_limits(file, options)
    gate_file = read_gate(file)
    measured, demo = _evaluated(gate_file, location, options, compared_in=file)
    result = gate_result(gate_file, measured)
    report = gate_report(result, title=options["title"] or "Retrieval gate")
    write_reports(report, options, *measured.compared.values())
    if options["as_json"]:
        write_json(gate_summary(result), demo=demo)
    else:
        _print(result)
    if result.troubles:
        note(
            "A part of the set-up did not answer, so that nothing was shown: mend that, and measure again",
            style="yellow",
        )
        click.get_current_context().exit(DEGRADED)
    click.get_current_context().exit(0 if result.holds else FAILURE)


def _evaluated(
    gate_file: GateFile, location: ConfigLocation, options: dict[str, Any], *, compared_in: Path | None = None
) -> tuple[Collected, bool]:
    """Return what was measured, beside the baseline where the gate of a file is tested, and whether it is the demo."""
    from context_engine.evaluation.collections import evaluate_each
    from context_engine.evaluation.gate import check_comparable
    from context_engine.evaluation.variant import read_variant

    context, sessions = opened_collections(
        location, {"save_run": None, **options, "write": None}, gate_file.collections
    )
    if compared_in is not None:
        check_comparable(gate_file, sessions, compared_in)
    with asking() as progress:
        measured = evaluate_each(
            sessions,
            read_variant(options["settings"], context.known),
            baseline=None if compared_in is None else gate_file.baseline,
            measures=gate_file.measured,
            progress=progress,
        )
    return measured, context.demo


def _write(file: Path, location: ConfigLocation, options: dict[str, Any]) -> None:
    """Make a gate file, or measure the baseline of one anew.

    Raises:
        InvalidRequest: nothing is named to be measured, or settings are changed, or limits of a file that is there.
        ConfigError: a mean is below its floor already, a source did not do its part, a file cannot be written, or one
            would be written over that is no baseline.
    """
    from context_engine.evaluation.gate import check_baseline, check_replaceable, keep_baseline
    from context_engine.evaluation.gate_file import gate_text, read_gate

    if options["settings"]:
        raise InvalidRequest("--set tries a change, and a baseline is of the configuration as it is: leave one of them")
    made = not file.exists()
    if not made:
        _refuse_limits(file, options)
    gate_file = _made(file, options) if made else read_gate(file)
    if gate_file.baseline is None:
        raise InvalidRequest(f"{file} names no baseline, so there is none to write: it tests floors alone")
    check_replaceable(gate_file)
    check_writable(file)
    measured, _ = _evaluated(gate_file, location, {**options, "save_run": gate_file.baseline})
    check_baseline(gate_file, measured, file)
    keep_baseline(gate_file.baseline, measured)
    note(f"written: {counted(len(measured.compared), 'run')} in {gate_file.baseline}")
    for caution in cautions_of(*measured.compared.values()):
        note(caution, style="yellow")
    if made:
        written(file, gate_text(file, gate_file))


def _made(file: Path, options: dict[str, Any]) -> GateFile:
    """Return the gate that the options ask for."""
    from context_engine.evaluation.collections import Collection
    from context_engine.evaluation.gate_file import GateCollection, new_gate

    named = given_collections(options)
    queries, qrels = options["queries"], options["qrels"]
    if queries or qrels:
        named = {"questions": Collection(queries=queries, qrels=qrels)}
    if not named:
        raise InvalidRequest(
            "name what is to be measured: --collections FILE, --collection NAME=FOLDER, or --qrels FILE"
        )
    floors = dict(_floor(text) for text in options["floor"])
    otherwise = {"domain": options["domain"], "as_of": options["as_of"] and options["as_of"].isoformat()}
    collections = {
        name: GateCollection.model_validate({**otherwise, **collection.model_dump(exclude_none=True), "floors": floors})
        for name, collection in named.items()
    }
    return new_gate(
        file,
        collections,
        measures=options["measures"] or MEASURES,
        allowed_loss=options["allowed_loss"] or 0.0,
        beyond_noise=not options["strict"],
    )


def _floor(text: str) -> tuple[str, float]:
    """Return measure and value of MEASURE=VALUE.

    Raises:
        InvalidRequest: it is of another form, or the value lies outside 0 to 1.
    """
    measure, _, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not measure or not 0.0 <= number <= 1.0:
        raise InvalidRequest(f"--floor is written MEASURE=VALUE, its value from 0 to 1, e.g. R@10=0.8, got {text!r}")
    return measure, number


def _refuse_limits(file: Path, options: dict[str, Any]) -> None:
    """Refuse options that only make a file: an edited file is the one place of its limits."""
    named = [name for name in _MADE_BY if options[name] not in (None, (), False)]
    if named:
        option = "--measure" if named[0] == "measures" else f"--{named[0].replace('_', '-')}"
        raise InvalidRequest(f"{option} is for making a gate file with --write: change it in {file} itself")


def _print(result: GateResult) -> None:
    console = out()
    columns = ("!collection", "!measure", ">!floor", ">!baseline", ">!now", ">!difference", ">!95 %", "!outcome")
    show(console, table(columns, map(_row, result.checks)))
    for check in result.fallen:
        _print_lost(result, check)
    console.print()
    for name, troubles in result.troubles.items():
        for trouble in troubles:
            show(console, Text(clean(f"{name}: {trouble}"), "yellow"))
    for caution in cautions_of(*result.collected.compared.values()):
        show(console, Text(caution, "yellow"))
    count, fallen = len(result.checks), len(result.fallen)
    if result.holds:
        show(
            console, Text(f"✓ {counted(count, 'check')} hold on {result.collected.questions} judged questions", "green")
        )
    else:
        show(console, Text(f"✗ {fallen} of {counted(count, 'check')} fell", "bold red"))


def _row(check: MeasureCheck) -> list[Text]:
    from context_engine.evaluation.report import OUTCOMES

    pair, fell = check.pair, check.outcome != "holds"
    numbers = ("" if value is None else f"{value:.4f}" for value in (check.floor, check.baseline, check.now))
    difference = ("", "") if pair is None else (f"{pair.mean:+.4f}", f"{pair.low:+.3f} to {pair.high:+.3f}")
    style = "bold red" if fell else "green"
    return [
        Text(check.collection, "bold"),
        Text(check.measure),
        *map(Text, numbers),
        Text(difference[0], style if fell else ""),
        Text(difference[1], "dim"),
        Text(OUTCOMES[check.outcome], style),
    ]


def _print_lost(result: GateResult, check: MeasureCheck) -> None:
    from context_engine.evaluation.blocks import cut
    from context_engine.evaluation.gate import lost_most

    rows = lost_most(result.collected, check.collection, check.measure)
    if not rows:
        return
    console = out()
    console.print()
    show(console, Text(f"{check.collection}: lost most by {check.measure}", "bold"))
    for row in rows:
        numbers = f"  {row.baseline:.3f} → {row.now:.3f}  "
        show(console, Text(numbers).append(clean(row.question), "bold").append(f"  {clean(cut(row.text))}", "dim"))
