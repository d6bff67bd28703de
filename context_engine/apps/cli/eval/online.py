"""`eval online`: compare the two arms of an experiment by the judgements of their callers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from context_engine.apps.cli.app import DEGRADED
from context_engine.apps.cli.console import note, outcome, print_table, publish
from context_engine.apps.cli.context import ConfigLocation, operator_context, with_location
from context_engine.apps.cli.options import with_json
from context_engine.core.text import counted
from context_engine.errors import InvalidRequest, nearest

if TYPE_CHECKING:
    from context_engine.core.models import Experiment
    from context_engine.evaluation.online import ArmResult, OnlineComparison

ONLINE: Final = """\b
Examples:
  context-engine eval online deep
  context-engine eval online deep --json

\b
Exit code: 0 the experiment is over, 3 it is not, 1 failure, 2 usage or configuration.
"""


@click.command(epilog=ONLINE)
@click.argument("name")
@with_json
@with_location
def online(location: ConfigLocation, name: str, as_json: bool) -> int:
    """Compare the two settings of experiment NAME by the thumbs of those who were served them.

    The setting 'experiments' declares an experiment. Each caller is always served the same arm, and counts once, with
    the first judgement. The rule may be looked at as often as you like: with equal arms it claims a difference with
    probability alpha at most.
    """
    from context_engine.evaluation.online import compared_online
    from context_engine.service.judgements import read_judgements

    context = operator_context(location)
    experiments = context.setup.resolver.base().values.experiments
    if name not in experiments:
        raise InvalidRequest(f"there is no experiment {name!r} in the setting experiments.{nearest(name, experiments)}")
    experiment = experiments[name]
    compared = compared_online(
        read_judgements(context.data_dir), name, alpha=experiment.alpha, most_pairs=experiment.most_pairs
    )
    if as_json:
        publish(_published(name, experiment, compared))
    else:
        _print(experiment, compared)
    return DEGRADED if compared.decision == "not_yet" else 0


def _published(name: str, experiment: Experiment, compared: OnlineComparison) -> dict[str, Any]:
    arms = {arm: {**result._asdict(), "share": result.share} for arm, result in (("a", compared.a), ("b", compared.b))}
    about = {"domain": experiment.domain, "alpha": experiment.alpha, "most_pairs": experiment.most_pairs}
    return {"experiment": name, **about, **compared._asdict(), **arms}


def _print(experiment: Experiment, compared: OnlineComparison) -> None:
    rows = [_row("a", compared.a), _row("b", compared.b)]
    print_table(("arm", ">callers", ">thumbs up", ">share", "95 % interval", ">judgements"), rows)
    outcome(*_decision(compared))
    note(
        f"{counted(compared.pairs, 'pair')} of callers: only a had thumbs up in {compared.better_a}, only b in "
        f"{compared.better_b}; evidence {compared.evidence:.2f}, {1 / experiment.alpha:g} decides."
    )
    if compared.unknown:
        note(f"{counted(compared.unknown, 'judgement')} without a known caller are not compared.", style="yellow")


def _row(arm: str, result: ArmResult) -> tuple[str, int, int, str, str, int]:
    share = "–" if result.share is None else f"{100 * result.share:.1f} %"
    interval = f"{100 * result.low:.1f} to {100 * result.high:.1f} %"
    return arm, result.callers, result.up, share, interval, result.judgements


def _decision(compared: OnlineComparison) -> tuple[str, str]:
    if compared.decision in ("a", "b"):
        return f"{compared.decision} is better", f"decided at pair {compared.stopped_at}"
    if compared.decision == "no_difference":
        return "no difference", f"in all {counted(compared.pairs, 'pair')} that were planned"
    if compared.more is None:
        return "not yet", "with what was seen so far it will end without a difference"
    return "not yet", f"about {counted(compared.more, 'more pair')} of callers, if what was seen goes on"
