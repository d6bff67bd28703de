"""`context-engine audit`: what was recorded of searches, and proofs of it; an operator's."""

from __future__ import annotations

import click

from context_engine.apps.cli.audit_drift import drift
from context_engine.apps.cli.audit_erase import erase
from context_engine.apps.cli.audit_export import export
from context_engine.apps.cli.audit_head import head
from context_engine.apps.cli.audit_impact import impact
from context_engine.apps.cli.audit_keygen import keygen
from context_engine.apps.cli.audit_list import list_records
from context_engine.apps.cli.audit_prove import prove
from context_engine.apps.cli.audit_prune import prune
from context_engine.apps.cli.audit_replay import replay
from context_engine.apps.cli.audit_show import show
from context_engine.apps.cli.audit_stats import stats
from context_engine.apps.cli.audit_verify import verify
from context_engine.apps.cli.audit_why import why


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
