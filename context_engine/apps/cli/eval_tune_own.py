"""`context-engine eval tune --adapter --own-pairs`: what a base learns from itself, with judged questions or without.

Without judged questions nothing says that it helps who asks: the adapter is kept, and put in force only by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from context_engine.apps.cli.app import FAILURE
from context_engine.apps.cli.calibration import judged_questions, print_calibrations
from context_engine.apps.cli.console import error_line, note, outcome
from context_engine.apps.cli.context import CliContext, ConfigLocation, open_context
from context_engine.apps.cli.domain_option import only_domain
from context_engine.apps.cli.eval_options import write_json
from context_engine.apps.cli.kb_base import busy
from context_engine.apps.cli.taught_base import TaughtBase, taught_base
from context_engine.apps.cli.words import counted

if TYPE_CHECKING:
    from context_engine.evaluation.learning.own_start import OwnStart


def own_start(taught: TaughtBase) -> OwnStart:
    """Learn from the pairs that a base makes itself, and say what came of it.

    Raises:
        InvalidRequest: the base makes too few pairs.
    """
    from context_engine.evaluation.learning.own_start import learn_own

    with busy("Learning from the base's own pairs; a model on a CPU embeds some 5,000 questions a minute …"):
        found = learn_own(taught.held, taught.embedder)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(found.kinds.items()))
    note(f"{sum(found.kinds.values())} own pairs ({kinds}); {found.choosing} chose {counted(found.rounds, 'round')},")
    note(f"{found.aside} others were held aside for what follows, found by cosine alone:")
    gain = found.gain
    note(f"  AP@10 {found.before:.4f}, learnt {gain.mean:+.4f}, 95 % {gain.low:+.4f} to {gain.high:+.4f}")
    if found.maps is None:
        note("  no better beyond noise: nothing is taken over from them.")
    return found


def tune_unjudged(location: ConfigLocation, options: dict[str, Any]) -> None:
    """Learn an adapter of a domain from its base alone; keep it, and put it in force only where that is forced.

    Raises:
        ConfigError, InvalidRequest: as `taught_base` and `own_start`.
    """
    context = open_context(location, domain=options["domain"], one_domain=True)
    with taught_base(context, only_domain(context.registry, options["domain"])) as taught:
        found = own_start(taught)
        if options["as_json"]:
            write_json({"own_pairs": found.evidence()}, demo=context.demo)
        if found.maps is None:
            error_line("no adapter is kept: on pairs held aside the model alone is as good")
            click.get_current_context().exit(FAILURE)
        if not options["dry_run"]:
            _keep(context, taught, found, force=options["force"])


def _keep(context: CliContext, taught: TaughtBase, found: OwnStart, *, force: bool) -> None:
    from context_engine.adapters.sources.local.domain_adapter import DomainAdapter
    from context_engine.wiring import use_adapter

    assert found.maps is not None
    name, evidence = taught.domain.domain, {"questions": 0, "own_pairs": found.evidence()}
    adapter = DomainAdapter(taught.base.model_id, *found.maps)
    kept = taught.base.keep_adapter(name, adapter, evidence, taught.held.origin)
    if not force:
        outcome("kept", f"{kept.adapter_id}, not in force: no judged question says that it helps")
        note("Own pairs are pieces of texts, and no questions: where they were tried, what they taught did not help")
        note(f"every domain. Judge some questions, or see for yourself: 'kb adapter use {kept.adapter_id} -d {name}'.")
        return
    judged = judged_questions(context.setup).get(name, ())
    with busy("Calibrating …"):
        calibration = use_adapter(
            context.setup, taught.base, context.setup.registry.domain(name), kept.adapter_id, judged=judged
        )
    print_calibrations([calibration])
    outcome("in force", f"{name} is searched with {kept.adapter_id}; 'kb adapter undo' takes it back")
