"""`context-engine mcp`: the tools for an assistant that starts this program."""

from __future__ import annotations

import logging
import sys
from importlib.util import find_spec

import click

from context_engine.apps.cli.acting import os_user, with_acting
from context_engine.apps.cli.app import TERMINATED
from context_engine.apps.cli.console import note
from context_engine.apps.cli.context import ConfigLocation, open_context, with_location
from context_engine.errors import MissingExtra

EPILOG = """\b
Examples:
  context-engine mcp --config-dir /srv/bank            (an assistant starts this, and ends it)
  claude mcp add bank -- context-engine mcp --config-dir /srv/bank
"""


@click.command(epilog=EPILOG)
@with_acting
@with_location
def mcp(location: ConfigLocation) -> None:
    """Serve the tools search, fetch, explain and domains over the Model Context Protocol on stdin and stdout.

    Assistants start this program themselves. Every call is made as the principal that access.yaml gives the user of
    the system. Without a configuration the tools search the demo bank. Over HTTP, 'serve' has the same tools at /mcp.
    Exit code: 0 stdin was closed, 143 ended by a signal, 2 usage or configuration.
    """
    if find_spec("mcp") is None:
        raise MissingExtra("the Model Context Protocol", "mcp")
    context = open_context(location)
    from context_engine.apps.mcp.stdio import serve_stdio
    from context_engine.service.callers import Authenticated
    from context_engine.service.deployment import open_deployment
    from context_engine.wiring.audit_writers import close_writers

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    operator = context.setup.config.principals.is_operator(os_user())
    deployment = open_deployment(context.setup, data_dir=context.data_dir, demo=context.demo)
    try:
        in_order = serve_stdio(deployment, Authenticated(principal=context.principal, operator=operator))
    finally:
        deployment.close()
        for sentence in close_writers():
            note(f"warning: {sentence}", style="yellow")
    click.get_current_context().exit(0 if in_order else TERMINATED)
