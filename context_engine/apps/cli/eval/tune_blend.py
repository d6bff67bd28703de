"""`eval tune --blend`: learn the weights of a candidate's scores for one domain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click
from rich.table import Table

from context_engine.apps.cli.app import DEGRADED
from context_engine.apps.cli.console import print_line, print_table, table, written
from context_engine.apps.cli.context import ConfigLocation
from context_engine.apps.cli.eval.options import (
    chosen_measure,
    open_evaluation,
    print_warnings,
    refuse_to_write,
    under_adapter,
    write_json,
    write_reports,
)
from context_engine.apps.cli.progress import progress_bar
from context_engine.apps.web.inert import clean
from context_engine.errors import InvalidRequest

if TYPE_CHECKING:
    from pathlib import Path

    from context_engine.core.models import LearntBlend
    from context_engine.evaluation.learning.adapter_gate import AdapterTrial
    from context_engine.evaluation.learning.blend_tune import BlendTrial
    from context_engine.evaluation.learning.taught_base import TaughtBase
    from context_engine.evaluation.session import Session

_SAME_QUESTIONS: Final = (
    "An adapter is in force. If it was learnt from these questions, their cosines and the numbers above are better "
    "than those of new questions will be: learn both at once (--adapter --blend), or use other questions."
)


def tune_blend(location: ConfigLocation, options: dict[str, Any]) -> None:
    """Learn a domain's blend, print its gain, and write it to the manifest if the gain is beyond noise."""
    from context_engine.evaluation.learning.blend_tune import learn_blend, one_domain
    from context_engine.evaluation.variant import Variant, open_with_models

    if options["grid"]:
        raise InvalidRequest("--blend learns weights and --grid tries settings: give one of them")
    measure = chosen_measure(options)
    context, session = open_evaluation(location, options)
    check_target(options["write"], one_domain(session))
    engine, _ = open_with_models(session.setup, Variant(), session.data_dir)
    with engine, progress_bar("Asking …") as progress:
        trial = learn_blend(
            session, engine, measure=measure, folds=options["folds"], top_k=options["top_k"], progress=progress
        )
    if not options["as_json"]:
        _print(trial, refusal_follows=_is_refused(trial, options))
        if under_adapter(trial.blend.cosine or ""):
            print_warnings([_SAME_QUESTIONS])
    _finish(trial, options, demo=context.demo)


def tune_blend_beside(
    session: Session, taught: TaughtBase, adapter: AdapterTrial, options: dict[str, Any], adapter_json: dict[str, Any]
) -> None:
    """Learn a blend from the questions of a new adapter, each searched with an adapter not learnt from it.

    Args:
        adapter_json: the adapter's part of the JSON output.
    """
    from context_engine.evaluation.learning.blend_tune import learn_stacked

    measure = chosen_measure(options)
    with progress_bar("Asking …") as progress:
        trial = learn_stacked(
            session, taught.base, taught.held.origin, taught.domain.domain, adapter,
            measure=measure, folds=options["folds"], top_k=options["top_k"], progress=progress,
        )  # fmt: skip
    if not options["as_json"]:
        _print(trial, refusal_follows=_is_refused(trial, options))
    _finish(trial, options, demo=False, adapter_json=adapter_json)


def check_target(path: Path | None, domain: str) -> None:
    """Check before learning that the blend can be written.

    Raises:
        ConfigError: the file is not the manifest of the domain.
    """
    from context_engine.evaluation.learning.blend_tune import check_manifest

    if path is not None:
        check_manifest(path, domain)


def _finish(
    trial: BlendTrial, options: dict[str, Any], *, demo: bool, adapter_json: dict[str, Any] | None = None
) -> None:
    """Write the reports, the JSON and the manifest; exit with code 1 if refused, 3 if a source failed."""
    from context_engine.evaluation.learning.blend_tune import blend_report, manifest_with_blend

    write_reports(blend_report(trial, title=options["title"] or f"A blend learnt for {trial.domain}"), options)
    if options["as_json"]:
        value = {"domain": trial.domain, "refusal": trial.refusal, "learnt_blend": trial.blend.model_dump(mode="json")}
        write_json(value | ({} if adapter_json is None else {"adapter": adapter_json}), demo=demo)
    if options["write"] is not None:
        if _is_refused(trial, options):
            refuse_to_write(str(trial.refusal))
        written(options["write"], manifest_with_blend(options["write"], trial.domain, trial.blend))
    if trial.troubles:
        click.get_current_context().exit(DEGRADED)


def _is_refused(trial: BlendTrial, options: dict[str, Any]) -> bool:
    """Return whether the blend should be written but must not be."""
    return options["write"] is not None and trial.refusal is not None and not options["force"]


def _print(trial: BlendTrial, *, refusal_follows: bool) -> None:
    """Print the measurements, and the refusal unless an error line with it follows."""
    rows = []
    for measure, row in trial.held_out.items():
        mean, low, high = row["difference"]
        numbers = (f"{row['before']:.4f}", f"{row['after']:.4f}", f"{mean:+.4f}", f"{low:+.4f} to {high:+.4f}")
        rows.append((measure, *numbers))
    print_table(("!measure", ">!without", ">!held out", ">!difference", ">!95 %"), rows)
    print_line()
    print_line(_terms(trial.blend))
    print_line()
    print_line(f"learnt from {trial.taught} of {len(trial.before)} judged questions of {trial.domain}")
    print_warnings(trial.troubles)
    if not refusal_follows:
        better = ("better beyond noise on held-out questions", "green")
        print_line(*(better if trial.refusal is None else (clean(trial.refusal), "yellow")))


def _terms(blend: LearntBlend) -> Table:
    """Return a table of the terms, largest weight first."""
    terms = sorted(blend.terms.items(), key=lambda item: -abs(item[1].weight))
    rows = ((name, f"{term.weight:+.3f}", f"{term.mean:.3f}", f"{term.deviation:.3f}") for name, term in terms)
    return table(("!term", ">!weight", ">!mean", ">!deviation"), rows)
