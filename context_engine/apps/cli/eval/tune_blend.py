"""`eval tune --blend`: learn the weights of a candidate's scores for one domain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click
from rich.table import Table
from rich.text import Text

from context_engine.apps.cli.app import DEGRADED, FAILURE
from context_engine.apps.cli.console import clean, error_line, out, show, table
from context_engine.apps.cli.context import ConfigLocation
from context_engine.apps.cli.eval.options import asking, opened, write_json, write_reports, written
from context_engine.apps.cli.words import under_adapter
from context_engine.errors import InvalidRequest

if TYPE_CHECKING:
    from pathlib import Path

    from context_engine.apps.cli.kb.base import TaughtBase
    from context_engine.core.models import LearntBlend
    from context_engine.evaluation.learning.adapter_gate import AdapterTrial
    from context_engine.evaluation.learning.blend_tune import BlendTrial
    from context_engine.evaluation.session import Session


_SAME_QUESTIONS: Final = (
    "An adapter is in force. If it was learnt from these questions, their cosines are better than those of new ones "
    "will be, and so are the numbers above: learn both at once (--adapter --blend), or this from other questions."
)


def tune_blend(location: ConfigLocation, options: dict[str, Any]) -> None:
    """Learn a domain's blend, print what it gains, and write it into the manifest where that is beyond noise."""
    from context_engine.evaluation.learning.blend_tune import learn_blend, one_domain
    from context_engine.evaluation.metrics import read_measures
    from context_engine.evaluation.variant import Variant, open_with_models

    if options["grid"]:
        raise InvalidRequest("--blend learns weights and --grid tries settings: give one of them")
    measure = read_measures([options["measure"]])[0]
    context, session = opened(location, options)
    check_target(options["write"], one_domain(session))
    engine, _ = open_with_models(session.setup, Variant(), session.data_dir)
    with engine, asking("Asking …") as progress:
        trial = learn_blend(
            session,
            engine,
            measure=measure,
            folds=options["folds"],
            top_k=options["top_k"],
            progress=progress,
        )
    if not options["as_json"]:
        _print(trial, said_below=_is_refused(trial, options))
        if under_adapter(trial.blend.cosine or ""):
            show(out(), Text(_SAME_QUESTIONS, "yellow"))
    _report(trial, options, demo=context.demo)


def tune_blend_beside(
    session: Session, taught: TaughtBase, trial: AdapterTrial, options: dict[str, Any], said: dict[str, Any]
) -> None:
    """Learn a blend from the questions that an adapter was just learnt from, each searched for as if it were new.

    Args:
        said: of the adapter, for `--json`.
    """
    from context_engine.evaluation.learning.blend_tune import learn_stacked
    from context_engine.evaluation.metrics import read_measures

    measure = read_measures([options["measure"]])[0]
    with asking("Asking …") as progress:
        found = learn_stacked(
            session,
            taught.base,
            taught.held.origin,
            taught.domain.domain,
            trial,
            measure=measure,
            folds=options["folds"],
            top_k=options["top_k"],
            progress=progress,
        )
    if not options["as_json"]:
        _print(found, said_below=_is_refused(found, options))
    _report(found, options, demo=False, said=said)


def check_target(path: Path | None, domain: str) -> None:
    """Refuse what cannot be written into, before anything is learnt.

    Raises:
        ConfigError: the file is not the manifest of the domain.
    """
    from context_engine.evaluation.learning.blend_file import check_manifest

    if path is not None:
        check_manifest(path, domain)


def _report(trial: BlendTrial, options: dict[str, Any], *, demo: bool, said: dict[str, Any] | None = None) -> None:
    """Write what was learnt, wherever it is wanted; end with the code that it deserves."""
    from context_engine.evaluation.learning.blend_tune import blend_report

    write_reports(blend_report(trial, title=options["title"] or f"A blend learnt for {trial.domain}"), options)
    if options["as_json"]:
        value = {"domain": trial.domain, "refusal": trial.refusal, "learnt_blend": trial.blend.model_dump(mode="json")}
        write_json(value | ({} if said is None else {"adapter": said}), demo=demo)
    if options["write"] is not None:
        _write(options["write"], trial, options)
    if trial.troubles:
        click.get_current_context().exit(DEGRADED)


def _is_refused(trial: BlendTrial, options: dict[str, Any]) -> bool:
    """Whether it is to be written, and must not be."""
    return options["write"] is not None and trial.refusal is not None and not options["force"]


def _print(trial: BlendTrial, *, said_below: bool) -> None:
    """Print what was measured; `said_below`: an error says the refusal."""
    console = out()
    rows = []
    for measure, row in trial.held_out.items():
        mean, low, high = row["difference"]
        numbers = (f"{row['before']:.4f}", f"{row['after']:.4f}", f"{mean:+.4f}", f"{low:+.4f} to {high:+.4f}")
        rows.append((measure, *numbers))
    show(console, table(("!measure", ">!without", ">!held out", ">!difference", ">!95 %"), rows))
    console.print()
    show(console, _terms(trial.blend))
    console.print()
    show(console, Text(f"{trial.taught} of {len(trial.before)} judged questions of {trial.domain} taught it"))
    better = ("better beyond noise on questions it was not learnt on", "green")
    for trouble in trial.troubles:
        show(console, Text(clean(str(trouble)), "yellow"))
    if not said_below:
        show(console, Text(*(better if trial.refusal is None else (clean(trial.refusal), "yellow"))))


def _terms(blend: LearntBlend) -> Table:
    """The terms, the weightiest first."""
    terms = sorted(blend.terms.items(), key=lambda item: -abs(item[1].weight))
    rows = ((name, f"{term.weight:+.3f}", f"{term.mean:.3f}", f"{term.deviation:.3f}") for name, term in terms)
    return table(("!term", ">!weight", ">!mean", ">!deviation"), rows)


def _write(path: Path, trial: BlendTrial, options: dict[str, Any]) -> None:
    from context_engine.evaluation.learning.blend_file import manifest_with_blend

    if _is_refused(trial, options):
        error_line(f"nothing is written: {trial.refusal} (--force writes it all the same)")
        click.get_current_context().exit(FAILURE)
    written(path, manifest_with_blend(path, trial.domain, trial.blend))
