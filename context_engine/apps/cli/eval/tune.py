"""`eval tune` and `eval scope`: choose settings by evidence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.text import Text

from context_engine.apps.cli.app import DEGRADED
from context_engine.apps.cli.console import note, print_line, print_table, styled, written
from context_engine.apps.cli.context import CliContext, ConfigLocation, open_context, with_acting, with_location
from context_engine.apps.cli.eval.options import (
    DEMO_DAY,
    check_outputs,
    chosen_measure,
    default_options,
    judgements_option,
    open_evaluation,
    print_warnings,
    question_options,
    refuse_to_write,
    report_options,
    split_values,
    top_k_option,
    write_json,
    write_reports,
)
from context_engine.apps.cli.eval.tune_adapter import tune_adapter
from context_engine.apps.cli.eval.tune_blend import tune_blend
from context_engine.apps.cli.options import FILE
from context_engine.apps.cli.progress import progress_bar
from context_engine.core.models import Notice, NoticeCode, messages
from context_engine.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from context_engine.evaluation.questions import EvalQuestion
    from context_engine.evaluation.scope import Calibration
    from context_engine.evaluation.tune import Tuned

TUNE: Final = """\b
Examples:
  context-engine eval tune --grid authority_weight=0,0.2,0.4 --grid dedup_threshold=0.8,0.85,0.9
  context-engine eval tune --queries q.jsonl --qrels r.tsv -d NPA --grid rerank_weight=0.3,0.5,0.7 \\
      --write config/rag-pipeline.json
  context-engine eval tune --adapter --queries q.jsonl --qrels r.tsv -d NPA
  context-engine eval tune --blend --queries q.jsonl --qrels r.tsv -d NPA --write manifests/npa.yaml
  context-engine eval tune --adapter --blend --queries q.jsonl --qrels r.tsv -d NPA --write manifests/npa.yaml
"""
SCOPE: Final = """\b
Examples:
  context-engine eval scope
  context-engine eval scope --in our-questions.jsonl --domain NPA --keep 0.99 --html scope.html
"""


@click.command(epilog=TUNE)
@question_options
@judgements_option
@click.option("--grid", multiple=True, metavar="KEY=V1,V2", help="Values of a setting to try.")
@click.option("--adapter", is_flag=True, help="Learn an adapter of a domain's vectors instead of settings.")
@click.option("--blend", is_flag=True, help="Learn the weights of a candidate's scores instead, for one domain.")
@click.option("--own-pairs", is_flag=True, help="With --adapter: start from pairs made from the base itself.")
@click.option("--folds", type=click.IntRange(2), default=5, show_default=True, help="Parts for cross-validation.")
@click.option("--measure", "-m", default="nDCG@10", show_default=True, metavar="NAME", help="The measure to improve.")
@top_k_option
@click.option("--write", type=FILE, metavar="FILE", help="Write the result to this rag-pipeline.json or manifest.")
@click.option("--force", is_flag=True, help="Write or use the result even if it is not better beyond noise.")
@click.option("--dry-run", is_flag=True, help="With --adapter: measure only; keep nothing.")
@report_options
@with_acting
@with_location
def tune(location: ConfigLocation, **options: Any) -> None:
    """Search settings by cross-validation over the questions; write a configuration with its evidence.

    Every combination of the grid is measured; settings of stage 2 need the sources to be asked only once. A
    configuration is written only if the settings chosen on some questions are better, beyond noise, on the others.

    With --adapter two linear maps of the embedding model's vectors are learnt from the judged questions, and put in
    force only if they are better, beyond noise, on held-out questions ('kb adapter undo' reverts this).

    With --blend the setting learnt_blend is learnt for the domain of the questions, and written to its manifest.

    With both, the blend is learnt after the adapter: each question is searched with an adapter that was not learnt from
    it.
    """
    if options["adapter"]:
        _check_adapter_options(options)
        tune_adapter(location, options)
        return
    if options["own_pairs"]:
        raise InvalidRequest("--own-pairs needs --adapter")
    if options["blend"]:
        tune_blend(location, options)
        return
    from context_engine.evaluation.tune import candidates as grid_candidates
    from context_engine.evaluation.tune import tune as search
    from context_engine.evaluation.tuned_report import evidence, held_config, tuned_report

    measure = chosen_measure(options)
    if options["write"] is not None:
        held_config(options["write"])
    context, session = open_evaluation(location, options)
    candidates = grid_candidates(_grid(options["grid"]), session)
    with progress_bar("Searching …") as progress:
        tuned = search(
            session, candidates,
            measure=measure, folds=options["folds"], top_k=options["top_k"], progress=progress,
        )  # fmt: skip
    write_reports(tuned_report(tuned, title=options["title"] or "Settings by cross-validation"), options)
    if options["as_json"]:
        write_json(evidence(tuned), demo=context.demo)
    else:
        _print_tuned(tuned)
    if options["write"] is not None:
        _write(options["write"], tuned, force=options["force"])
    if tuned.troubles:
        click.get_current_context().exit(DEGRADED)


def _check_adapter_options(options: dict[str, Any]) -> None:
    """Refuse options that only apply to the search for settings or to a blend."""
    if options["dry_run"] and options["write"]:
        raise InvalidRequest("--dry-run and --write do not go together: omit one")
    for name in ("grid",) if options["blend"] else ("grid", "top_k", "write", "report", "html"):
        if options[name]:
            raise InvalidRequest(f"--adapter and --{name.replace('_', '-')} do not go together: omit one")


def _grid(assignments: tuple[str, ...]) -> dict[str, Any]:
    from context_engine.evaluation.variant import assignment

    grid: dict[str, Any] = {}
    for text in assignments:
        key, values = assignment(text)
        if key in grid:
            raise InvalidRequest(f"--grid {key} is given twice")
        grid[key] = list(dict.fromkeys(value for value in split_values(values) if value))
    return grid


def _print_tuned(tuned: Tuned) -> None:
    difference = tuned.difference
    rows = []
    for number, fold in enumerate(tuned.folds, start=1):
        numbers = (f"{value:.4f}" for value in (fold.trained, fold.held_out, fold.baseline))
        rows.append((number, len(fold.questions), *numbers, tuned.candidates[fold.chosen].name))
    columns = (">!fold", ">!questions", ">!chosen on", ">!held out", ">!as configured", "chosen")
    print_table(columns, rows)
    print_line()
    print_line(styled("best on all questions: ", (tuned.candidates[tuned.best].name, "bold")))
    line = f"{tuned.measure} held out: {difference.mean:+.4f} to the configuration, "
    line += f"95 % {difference.low:+.4f} to {difference.high:+.4f}: "
    verdict = ("better beyond noise", "green") if tuned.better else ("not better beyond noise", "yellow")
    print_line(styled(line, verdict))
    print_warnings(tuned.troubles)


def _write(path: Path, tuned: Tuned, *, force: bool) -> None:
    from context_engine.evaluation.tuned_report import evidence, merged_config

    if not force and not tuned.better:
        refuse_to_write("on held-out questions the result is not better than the configuration beyond noise")
    if not force and tuned.troubles:
        refuse_to_write(str(tuned.troubles[0]))
    written(path, merged_config(path, tuned))
    evidence_file = path.with_name(f"{path.stem}.evidence.json")
    written(evidence_file, json.dumps(evidence(tuned), indent=2, ensure_ascii=False) + "\n")
    sources = tuned.candidates[tuned.best].sources
    if sources:
        note(f"Settings of sources belong in the manifests; add them there: {json.dumps(sources)}", style="yellow")


@click.command(epilog=SCOPE)
@click.option("--in", "inside", type=FILE, metavar="FILE", help="Questions the knowledge base should answer.")
@click.option(
    "--out", "outside", type=FILE, metavar="FILE", help="Questions it should not [default: 200 everyday questions]."
)
@default_options
@click.option(
    "--keep", type=float, default=0.98, show_default=True, metavar="SHARE", help="Least share in scope to keep."
)
@report_options
@with_acting
@with_location
def scope(location: ConfigLocation, **options: Any) -> None:
    """Show what each scope threshold would keep and turn away.

    A question is out of scope if the best absolute relevance among its candidates is below scope_threshold.
    Out-of-scope questions that name no domain are asked in the domains of the others in turn.
    """
    from context_engine.evaluation.scope import calibrate, scope_report

    check_outputs(options)
    context = open_context(location)
    inside, outside = _questions(context, options)
    current, notices = _threshold_in_force(context, sorted({domain for _, domain in inside}))
    as_of = options["as_of"] or (DEMO_DAY if context.demo else None)
    with progress_bar("Asking …") as progress:
        signals = [_signals(context, questions, as_of, progress) for questions in (inside, outside)]
    calibration = calibrate(signals[0], signals[1], current=current, keep=options["keep"])
    texts = {question.id: question.text for question, _ in (*inside, *outside)}
    title = options["title"] or "Scope threshold"
    write_reports(scope_report(calibration, title=title, texts=texts, notes=messages(notices)), options)
    if options["as_json"]:
        write_json(calibration.to_dict(), demo=context.demo)
    else:
        _print_scope(calibration)


def _signals(context: CliContext, questions: Any, as_of: Any, progress: Any) -> list[tuple[str, float]]:
    from context_engine.evaluation.scope import best_signals
    from context_engine.wiring.build import build_engine

    with build_engine(context.known, data_dir=context.data_dir, recorded=False) as engine:
        return list(best_signals(engine, questions, as_of=as_of, principal=context.principal, progress=progress))


def _questions(
    context: CliContext, options: dict[str, Any]
) -> tuple[list[tuple[EvalQuestion, str]], list[tuple[EvalQuestion, str]]]:
    """Return the questions in and out of scope, each with its domain."""
    from context_engine import demo
    from context_engine.evaluation.questions import read_questions
    from context_engine.evaluation.scope import OUT_OF_SCOPE
    from context_engine.evaluation.session import with_domains

    path = options["inside"] or (demo.QUESTIONS if context.demo else None)
    if path is None:
        raise InvalidRequest("name questions the knowledge base should answer: --in FILE")
    asked = with_domains(read_questions(path), context.known, options["domain"], path)
    some_have_answers = any(question.gold for question, _ in asked)
    inside = [(question, domain) for question, domain in asked if question.gold or not some_have_answers]
    domains = sorted({domain for _, domain in inside})
    others = read_questions(options["outside"] or OUT_OF_SCOPE)
    outside = [(other, other.domain or domains[number % len(domains)]) for number, other in enumerate(others)]
    return inside, outside


def _threshold_in_force(context: CliContext, domains: Sequence[str]) -> tuple[float, list[Notice]]:
    """Return the first domain's threshold, and a notice if other domains have another one."""
    from context_engine.wiring.scope import scope_in_force

    thresholds = {
        name: scope_in_force(context.known, context.registry.domain(name), context.data_dir, access=context.scope).value
        for name in domains
    }
    current = thresholds[domains[0]]
    if len(set(thresholds.values())) == 1:
        return current, []
    named = ", ".join(f"{name} {value:.2f}" for name, value in thresholds.items())
    warning = (
        f"the domains have different thresholds in force ({named}): that of {domains[0]} is shown; ask one at a time"
    )
    note(warning, style="yellow")
    detail = {"thresholds": thresholds, "shown": domains[0]}
    return current, [Notice(NoticeCode.THRESHOLDS_DIFFER, "scope_threshold", warning, detail)]


def _print_scope(calibration: Calibration) -> None:
    rows = ((f"{row.threshold:.2f}", f"{row.kept:.1%}", f"{row.turned_away:.1%}") for row in calibration.table)
    print_table((">!threshold", ">!in scope kept", ">!out of scope turned away"), rows)
    print_line()
    print_line(f"{len(calibration.inside)} questions in scope, {len(calibration.outside)} out of scope")
    for label, row in (("in force", calibration.current), (f"keeps {calibration.keep:.0%}", calibration.chosen)):
        line = Text(f"{label}: ").append(f"{row.threshold:.2f}", "bold")
        print_line(line.append(f" keeps {row.kept:.1%}, turns away {row.turned_away:.1%}"))
    print_line(f"separation (area under the ROC curve): {calibration.separation:.3f}")
