"""`eval run` and `eval compare`: measure retrieval on judged questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.text import Text

from context_engine.apps.cli.app import DEGRADED
from context_engine.apps.cli.console import note, print_line, print_table
from context_engine.apps.cli.context import ConfigLocation, with_acting, with_location
from context_engine.apps.cli.eval.collections import (
    collection_options,
    finish_collections,
    named_collections,
    open_named_collections,
    save_runs,
)
from context_engine.apps.cli.eval.options import (
    adapter_cautions,
    change_cells,
    change_style,
    judgements_option,
    measure_options,
    open_evaluation,
    question_options,
    report_options,
    top_k_option,
    write_json,
    write_reports,
)
from context_engine.apps.cli.options import FILE, PLACE
from context_engine.apps.cli.progress import progress_bar
from context_engine.apps.cli.words import ms
from context_engine.apps.web.inert import clean
from context_engine.errors import InvalidRequest

if TYPE_CHECKING:
    from context_engine.evaluation.collections import Collection
    from context_engine.evaluation.evaluate import Compared
    from context_engine.evaluation.variant import Variant
    from context_engine.wiring.setup import Setup

RUN: Final = """\b
Examples:
  context-engine eval run                                  (the demo bank's forty questions)
  context-engine eval run --queries q.jsonl --qrels qrels.tsv -d NPA --html report.html
  context-engine eval run --judgements                     (what readers judged on the pages)
  context-engine eval run --set authority_weight=0 --baseline default --report ab.md
  context-engine eval run --save-run today.run && context-engine eval run --baseline today.run
  context-engine eval run --collections collections.yaml --set keyword_weight=0.4 --baseline default
"""
SET: Final = "Change a setting, except those under index, or a source's by ADAPTER.KEY."
COMPARE: Final = """\b
Example:
  context-engine eval compare new.run old.run --qrels qrels.tsv --queries q.jsonl -d NPA --html ab.html
"""


@click.command(epilog=RUN)
@question_options
@judgements_option
@collection_options
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help=SET)
@click.option("--baseline", multiple=True, metavar="RUN|KEY=VALUE", help="Compare with a run, settings or 'default'.")
@top_k_option
@measure_options
@click.option("--save-run", type=PLACE, metavar="FILE", help="Write the rankings as a TREC run.")
@report_options
@with_acting
@with_location
def run(location: ConfigLocation, **options: Any) -> None:
    """Ask every question and measure what is returned.

    Without files the demo bank's forty questions are asked. Beside the measures it shows at which stage gold answers
    are lost, tiers and the authority boost, context tokens, latency and the worst questions. Needs the extra 'eval'.

    With several collections each is compared with the baseline separately; --save-run and a baseline of runs then name
    a folder.

    Exit code 3: a source, the embedder or the reranker failed in some search.
    """
    from context_engine.evaluation.evaluate import evaluate
    from context_engine.evaluation.metrics import DEFAULT_MEASURES, read_measures
    from context_engine.evaluation.variant import read_variant

    options["measures"] = read_measures(options["measures"] or DEFAULT_MEASURES)
    collections = named_collections(options)
    if collections:
        _run_collections(location, options, collections)
        return
    context, session = open_evaluation(location, options)
    variant = read_variant(options["settings"], session.setup)
    with progress_bar("Asking …") as progress:
        compared = evaluate(
            session, variant,
            baseline=_baseline(options["baseline"], session.setup), measures=options["measures"],
            top_k=options["top_k"], by=options["by"], progress=progress,
        )  # fmt: skip
    if options["save_run"] is not None:
        from context_engine.evaluation.qrels import write_run

        write_run(options["save_run"], compared.ours.places, compared.ours.name)
        note(f"written: {options['save_run']}")
    _finish(compared, options, demo=context.demo)


def _run_collections(location: ConfigLocation, options: dict[str, Any], collections: Mapping[str, Collection]) -> None:
    from context_engine.evaluation.collections import evaluate_each
    from context_engine.evaluation.variant import read_variant

    context, sessions = open_named_collections(location, options, collections)
    with progress_bar("Asking …") as progress:
        measured = evaluate_each(
            sessions, read_variant(options["settings"], context.known),
            baseline=_baseline(options["baseline"], context.known, folder=True), measures=options["measures"],
            top_k=options["top_k"], by=options["by"], progress=progress,
        )  # fmt: skip
    if options["save_run"] is not None:
        save_runs(options["save_run"], measured)
    finish_collections(measured, options, demo=context.demo)


@click.command(epilog=COMPARE)
@click.argument("ours", type=FILE)
@click.argument("theirs", type=FILE)
@question_options
@measure_options
@report_options
@with_acting
@with_location
def compare(ours: Path, theirs: Path, location: ConfigLocation, **options: Any) -> None:
    """Compare two run files on the same judgements; nothing is asked. A question missing from a file counts 0."""
    from context_engine.evaluation.evaluate import compare_files
    from context_engine.evaluation.metrics import DEFAULT_MEASURES, read_measures

    measures = read_measures(options["measures"] or DEFAULT_MEASURES)
    context, session = open_evaluation(location, options, ours, theirs)
    compared = compare_files(session, ours, theirs, measures=measures, by=options["by"])
    _finish(compared, options, demo=context.demo)


def _baseline(values: tuple[str, ...], setup: Setup, *, folder: bool = False) -> Variant | Path | None:
    """Return the baseline: a set-up, a run file, or a folder of run files (`folder`); None if none is named."""
    from context_engine.evaluation.variant import Variant, read_variant

    if not values:
        return None
    if values == ("default",):
        return Variant()
    if all("=" in value for value in values):
        return read_variant(values, setup)
    if len(values) == 1 and (Path(values[0]).is_dir() if folder else Path(values[0]).is_file()):
        return Path(values[0])
    expected = "folder of runs" if folder else "run file"
    raise InvalidRequest(f"--baseline takes a {expected}, KEY=VALUE or 'default', got {' '.join(values)!r}")


def _finish(compared: Compared, options: dict[str, Any], *, demo: bool) -> None:
    from context_engine.evaluation.evaluate import summary
    from context_engine.evaluation.report import evaluation_report

    title = options["title"] or ("Retrieval on the demo bank" if demo else "Retrieval evaluation")
    write_reports(evaluation_report(compared, title=title), options, compared)
    if options["as_json"]:
        write_json(summary(compared), demo=demo)
    else:
        _print(compared)
    if compared.degraded:
        click.get_current_context().exit(DEGRADED)


def _print(compared: Compared) -> None:
    ours, baseline = compared.ours, compared.baseline
    columns = ("!measure", ">!mean", ">!95 %", ">!baseline", ">!difference", ">!95 %", ">!won/lost")
    rows = []
    for measure in ours.measures:
        mean, low, high = ours.interval(measure)
        row = [Text(measure, "bold"), Text(f"{mean:.4f}"), Text(f"{low:.3f}–{high:.3f}", "dim")]
        if baseline is not None:
            pair = ours.against(baseline, measure)
            change = change_cells(pair, change_style(pair))
            row += [Text(f"{baseline.mean(measure):.4f}"), *change, Text(f"{pair.wins}/{pair.losses}")]
        rows.append(row)
    print_table(columns if baseline else columns[:3], rows)
    print_line()
    for line in _summary_lines(compared):
        print_line(line)


def _summary_lines(compared: Compared) -> list[Text]:
    from context_engine.evaluation.account import latency, token_efficiency
    from context_engine.evaluation.score import RETURNED, gold_fates

    run, session = compared.ours.run, compared.session
    lines = [Text(f"{len(session.qrels)} judged questions · {compared.ours.name}")]
    if compared.baseline is not None:
        lines[0].append(f" against {compared.baseline.name}")
    lines += [Text(clean(trouble), "yellow") for trouble in compared.troubles]
    if run is None:
        return lines
    fates = Counter(fate.stage for fate in gold_fates(run, session.qrels))
    lost = ", ".join(f"{count} {stage}" for stage, count in fates.most_common() if stage != RETURNED)
    lines.append(Text(f"{fates[RETURNED]} of {fates.total()} gold answers in the first {run.depth}"))
    lines[-1].append(f"; lost at: {lost}" if lost else "")
    used, time = token_efficiency(run, session.corpus), latency(run)
    share = f", {100 * used.share:.2g} % of the corpus" if used.share is not None else ""
    lines.append(Text(f"context {used.context:.0f} tokens{share} · p50 {ms(time.p50)} · p95 {ms(time.p95)}"))
    if run.embedder is not None:
        lines.append(Text(str(run.embedder)))
    return [*lines, *(Text(caution, "yellow") for caution in adapter_cautions(compared))]
