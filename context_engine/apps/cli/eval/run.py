"""`eval run` and `eval compare`: measure retrieval on judged questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.text import Text

from context_engine.apps.cli.app import DEGRADED
from context_engine.apps.cli.console import clean, note, out, show, table
from context_engine.apps.cli.context import ConfigLocation, with_acting, with_location
from context_engine.apps.cli.eval.collections import (
    collected,
    finish_collections,
    given_collections,
    opened_collections,
    save_runs,
)
from context_engine.apps.cli.eval.options import (
    PATH,
    asking,
    cautions_of,
    judged,
    measured_by,
    opened,
    reported,
    write_json,
    write_reports,
)
from context_engine.apps.cli.words import ms
from context_engine.errors import InvalidRequest

if TYPE_CHECKING:
    from context_engine.evaluation.collections import Collection
    from context_engine.evaluation.evaluate import Compared
    from context_engine.evaluation.variant import Variant
    from context_engine.wiring import Setup


RUN_PATH: Final = click.Path(path_type=Path)

RUN: Final = """\b
Examples:
  context-engine eval run                                  (the demo bank's forty questions)
  context-engine eval run --queries q.jsonl --qrels qrels.tsv -d NPA --html report.html
  context-engine eval run --set authority_weight=0 --baseline default --report ab.md
  context-engine eval run --save-run today.run && context-engine eval run --baseline today.run
  context-engine eval run --collections collections.yaml --set keyword_weight=0.4 --baseline default
"""

SET: Final = "Any setting but those under index, or ADAPTER.KEY of sources."

COMPARE: Final = """\b
Example:
  context-engine eval compare new.run old.run --qrels qrels.tsv --queries q.jsonl -d NPA --html ab.html
"""


@click.command(epilog=RUN)
@judged
@collected
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help=SET)
@click.option("--baseline", multiple=True, metavar="RUN|KEY=VALUE", help="A run file, settings, or 'default'.")
@click.option("--top-k", "-k", type=click.IntRange(1, 1000), metavar="N", help="Chunks read [default: stage2_top_k].")
@measured_by
@click.option("--save-run", type=RUN_PATH, metavar="FILE", help="Write the rankings as a TREC run file.")
@reported
@with_acting
@with_location
def run(location: ConfigLocation, **options: Any) -> None:
    """Ask a set-up every question and measure what it returns.

    Without files the demo bank's forty questions are asked. Beside the measures: where gold answers are lost, tiers and
    the authority boost, context tokens, latency, the worst questions. Needs the extra 'eval'.

    Several collections are measured in one run, each with its own paired difference to the baseline; the runs to save,
    and a baseline of runs, are a folder then.

    Exit code 3: a source, the embedder or the reranker did not do its part in some search.
    """
    from context_engine.evaluation.evaluate import evaluate
    from context_engine.evaluation.metrics import DEFAULT_MEASURES, read_measures
    from context_engine.evaluation.variant import read_variant

    options["measures"] = read_measures(options["measures"] or DEFAULT_MEASURES)
    collections = given_collections(options)
    if collections:
        _run_each(location, options, collections)
        return
    context, session = opened(location, options)
    variant = read_variant(options["settings"], session.setup)
    with asking() as progress:
        compared = evaluate(
            session,
            variant,
            baseline=_baseline(options["baseline"], session.setup),
            measures=options["measures"],
            top_k=options["top_k"],
            by=options["by"],
            progress=progress,
        )
    if options["save_run"] is not None:
        from context_engine.evaluation.qrels import write_run

        write_run(options["save_run"], compared.ours.places, compared.ours.name)
        note(f"written: {options['save_run']}")
    _finish(compared, options, demo=context.demo)


def _run_each(location: ConfigLocation, options: dict[str, Any], collections: Mapping[str, Collection]) -> None:
    """Measure several collections."""
    from context_engine.evaluation.collections import evaluate_each
    from context_engine.evaluation.variant import read_variant

    context, sessions = opened_collections(location, options, collections)
    with asking() as progress:
        measured = evaluate_each(
            sessions,
            read_variant(options["settings"], context.known),
            baseline=_baseline(options["baseline"], context.known, runs=True),
            measures=options["measures"],
            top_k=options["top_k"],
            by=options["by"],
            progress=progress,
        )
    if options["save_run"] is not None:
        save_runs(options["save_run"], measured)
    finish_collections(measured, options, demo=context.demo)


@click.command(epilog=COMPARE)
@click.argument("ours", type=PATH)
@click.argument("theirs", type=PATH)
@judged
@measured_by
@reported
@with_acting
@with_location
def compare(ours: Path, theirs: Path, location: ConfigLocation, **options: Any) -> None:
    """Compare two run files on the same judgements; nothing is asked. A question a file lacks counts 0."""
    from context_engine.evaluation.evaluate import compare_files
    from context_engine.evaluation.metrics import DEFAULT_MEASURES, read_measures

    measures = read_measures(options["measures"] or DEFAULT_MEASURES)
    context, session = opened(location, options, ours, theirs)
    compared = compare_files(session, ours, theirs, measures=measures, by=options["by"])
    _finish(compared, options, demo=context.demo)


def _baseline(values: tuple[str, ...], setup: Setup, *, runs: bool = False) -> Variant | Path | None:
    """Return what is compared with: a set-up, a run file, or of several collections (`runs`) a folder of them."""
    from context_engine.evaluation.variant import Variant, read_variant

    if not values:
        return None
    if values == ("default",):
        return Variant()
    if all("=" in value for value in values):
        return read_variant(values, setup)
    if len(values) == 1 and (Path(values[0]).is_dir() if runs else Path(values[0]).is_file()):
        return Path(values[0])
    expected = "folder of runs" if runs else "run file"
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
    console, ours, baseline = out(), compared.ours, compared.baseline
    columns = ("!measure", ">!mean", ">!95 %", ">!baseline", ">!difference", ">!95 %", ">!won/lost")
    rows = []
    for measure in ours.measures:
        mean, low, high = ours.interval(measure)
        row = [Text(measure, "bold"), Text(f"{mean:.4f}"), Text(f"{low:.3f}–{high:.3f}", "dim")]
        if baseline is not None:
            pair = ours.against(baseline, measure)
            style = ("green" if pair.mean > 0 else "red") if pair.beyond_noise else "dim"
            row += [Text(f"{baseline.mean(measure):.4f}"), Text(f"{pair.mean:+.4f}", style)]
            row += [Text(f"{pair.low:+.3f} to {pair.high:+.3f}", "dim"), Text(f"{pair.wins}/{pair.losses}")]
        rows.append(row)
    show(console, table(columns if baseline else columns[:3], rows))
    console.print()
    for line in _lines(compared):
        show(console, line)


def _lines(compared: Compared) -> list[Text]:
    from context_engine.evaluation.account import latency, token_efficiency
    from context_engine.evaluation.score import RETURNED, gold_fates

    run, session = compared.ours.run, compared.session
    lines = [Text(f"{len(session.qrels)} judged questions · {compared.ours.name}")]
    if compared.baseline is not None:
        lines[0].append(f" against {compared.baseline.name}")
    lines += [Text(clean(trouble), "yellow") for trouble in compared.troubles]
    if run is None:
        return lines
    ends = Counter(fate.stage for fate in gold_fates(run, session.qrels))
    lost = ", ".join(f"{count} {stage}" for stage, count in ends.most_common() if stage != RETURNED)
    lines.append(Text(f"{ends[RETURNED]} of {ends.total()} gold answers in the first {run.depth}"))
    lines[-1].append(f"; lost at: {lost}" if lost else "")
    used, time = token_efficiency(run, session.corpus), latency(run)
    share = f", {100 * used.share:.2g} % of the corpus" if used.share is not None else ""
    lines.append(Text(f"context {used.context:.0f} tokens{share} · p50 {ms(time.p50)} · p95 {ms(time.p95)}"))
    if run.embedder is not None:
        lines.append(Text(str(run.embedder)))
    return [*lines, *(Text(caution, "yellow") for caution in cautions_of(compared))]
