"""`policy export`: the access rules as Cedar policies."""

from __future__ import annotations

import click

from context_engine.apps.cli.access.check import access_context
from context_engine.apps.cli.console import print_json, write_text
from context_engine.apps.cli.context import ConfigLocation, with_location
from context_engine.errors import InvalidRequest


@click.group()
def policy() -> None:
    """Export the access rules; for an operator, once there is an access.yaml."""


@policy.command(
    epilog="\b\nExamples:\n  context-engine policy export --cedar > rules.cedar\n"
    "  context-engine policy export --cedar --entities > entities.json"
)
@click.option("--cedar", is_flag=True, required=True, help="As Cedar policies.")
@click.option("--entities", is_flag=True, help="What they speak of instead: clearances, sources, principals; as JSON.")
@with_location
def export(location: ConfigLocation, cedar: bool, entities: bool) -> None:
    """Write the manifests' rules for reviewers and for tools that analyse them."""
    from context_engine.core.policy.access_review import cedar_entities, cedar_policies
    from context_engine.settings.access_file import MANIFEST_POLICY

    context = access_context(location)
    decides = context.setup.config.principals.policy
    if decides != MANIFEST_POLICY:
        raise InvalidRequest(
            f"the policy {decides!r} decides here and not the manifests' rules: export it where it stands"
        )
    domains = tuple(context.registry.domains.values())
    if entities:
        principals = context.setup.config.principals.named.values()
        print_json(cedar_entities(domains, principals))
    else:
        write_text(cedar_policies(domains))
