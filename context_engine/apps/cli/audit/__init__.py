"""`context-engine audit`: the record of searches, and proofs of it."""

from __future__ import annotations

import click

from context_engine.apps.cli.audit.drift import drift
from context_engine.apps.cli.audit.export import export
from context_engine.apps.cli.audit.impact import impact
from context_engine.apps.cli.audit.proofs import head, keygen, prove
from context_engine.apps.cli.audit.records import list_records, stats
from context_engine.apps.cli.audit.removal import erase, prune
from context_engine.apps.cli.audit.replay import replay
from context_engine.apps.cli.audit.show import show
from context_engine.apps.cli.audit.verify import verify
from context_engine.apps.cli.audit.why import why


@click.group()
def audit() -> None:
    """Show, check and prove what was recorded; for an operator, once there is an access.yaml."""


for command in (
    drift,
    erase,
    export,
    head,
    impact,
    keygen,
    list_records,
    prove,
    prune,
    replay,
    show,
    stats,
    verify,
    why,
):
    audit.add_command(command)
