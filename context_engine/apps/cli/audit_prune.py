"""`context-engine audit prune`: records that are old enough leave the ledger, as far as retention allows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import click

from context_engine.apps.cli.audit_ledger import LedgerLocation, opened_ledger, with_ledger
from context_engine.apps.cli.console import note, outcome, print_json
from context_engine.apps.cli.sure import make_sure
from context_engine.apps.cli.words import counted
from context_engine.errors import ConfigError

if TYPE_CHECKING:
    from context_engine.audit.ledger.prune import Pruned, PruningPlan, Retention
    from context_engine.wiring.build import Setup


SCHEMA_VERSION: Final = 1
PRUNE: Final = """\b
Examples:
  context-engine audit prune --dry-run
  context-engine audit prune --yes
"""


@click.command(epilog=PRUNE)
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@with_ledger
def prune(at: LedgerLocation, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Remove the oldest records, with their questions and texts, and free their place.

    audit_retention_days of the configuration, and of each domain, says how long records are kept. Only the beginning
    of a log can be removed, in steps of 256 records and as far as every record in it is old enough: a domain that is
    kept longer holds the others back. Proofs of what is left, and between all checkpoints, stay good. A ledger in a
    file is then written anew and becomes smaller; searches that are recorded wait as long as that takes.
    """
    from context_engine.audit.ledger.prune import plan_pruning
    from context_engine.audit.ledger.prune import prune as prune_records

    with opened_ledger(at) as opened:
        ledger, retention = opened.ledger, _retention(opened.context.setup)
        ledger.integrate()
        plan, done = plan_pruning(ledger, retention, ledger.clock.now()), None
        count = plan.border - plan.minimum
        if count and not dry_run:
            make_sure(f"Remove {counted(count, 'record')}, those up to {plan.before}?", yes=yes)
            done = prune_records(ledger, retention, clock=ledger.clock)
            plan = done.plan
    if as_json:
        print_json(json.dumps(_published(plan, done), ensure_ascii=False))
    else:
        _report(plan, removed=done is not None)
    _hold(plan)
    if done is not None:
        _leftovers(done)


def _retention(setup: Setup) -> Retention:
    """Return how long records are kept.

    Raises:
        ConfigError: it is said nowhere.
    """
    from context_engine.audit.ledger.prune import Retention

    base = setup.resolver.base().values.audit_retention_days
    domains = {
        name: setup.resolver.base(spec).values.audit_retention_days for name, spec in setup.registry.domains.items()
    }
    if base is None and not any(days for days in domains.values()):
        raise ConfigError(
            "is set neither in the configuration nor for a domain: records are kept for ever",
            key="audit_retention_days",
        )
    return Retention(base, domains)


def _report(plan: PruningPlan, *, removed: bool) -> None:
    count = plan.border - plan.minimum
    if not count:
        outcome("nothing to remove", f"{counted(plan.size - plan.minimum, 'record')} stay")
        return
    what = f"{counted(count, 'record')}, those up to {plan.before}; {plan.size - plan.border} stay"
    outcome("removed" if removed else "would be removed", what)


def _hold(plan: PruningPlan) -> None:
    """Say what keeps more from being removed."""
    holder = plan.holder
    if holder is None:
        return
    whose = f"of domain {holder.domain!r}" if holder.domain else "of no domain"
    kept = "for ever" if holder.days is None else counted(holder.days, "day")
    waiting = holder.position - plan.border
    note(
        f"The first that must stay is record {holder.position} ({holder.record_id}) of {holder.time}, {whose}, kept "
        f"{kept}." + (f" {counted(waiting, 'older record')} wait for the next step of 256." if waiting else "")
    )


def _leftovers(done: Pruned) -> None:
    if done.overwritten is None:
        note("PostgreSQL keeps deleted rows until it is vacuumed: run 'VACUUM FULL' on the ledger's tables.")
    elif not done.overwritten:
        note("The file could not be written anew while others use it: its place is used again later.", style="yellow")


def _published(plan: PruningPlan, done: Pruned | None) -> dict[str, Any]:
    holder = None if plan.holder is None else plan.holder._asdict()
    return {
        "schema_version": SCHEMA_VERSION,
        "dry_run": done is None,
        "minimum": plan.minimum,
        "border": plan.border,
        "size": plan.size,
        "before": plan.before,
        "holder": holder,
        "addenda": None if done is None else done.addenda,
        "overwritten": None if done is None else done.overwritten,
    }
