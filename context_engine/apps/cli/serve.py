"""`context-engine serve` and `context-engine mcp`: HTTP and MCP services."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import click

from context_engine.apps.cli.app import TERMINATED
from context_engine.apps.cli.console import note
from context_engine.apps.cli.context import ConfigLocation, open_context, os_user, with_acting, with_location
from context_engine.apps.cli.progress import progress_bar
from context_engine.errors import MissingExtra

if TYPE_CHECKING:
    from context_engine.apps.server.logs import LogForm
    from context_engine.service.deployment import Deployment


logger = logging.getLogger(__name__)

SERVE: Final = """\b
Examples:
  context-engine serve --demo --no-auth
  CONTEXT_ENGINE_API_TOKEN=... context-engine serve --host 0.0.0.0 --config-dir /etc/context-engine

\b
SIGTERM: readiness off, requests at work answered, records written, then the end; a second one ends at once.
SIGHUP: the configuration is loaded anew; one that cannot be used is refused, and the one in force stays.
Exit code: 0 stopped in order, 1 requests were cut off or records lost, 2 usage or configuration.
"""


@click.command(epilog=SERVE)
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="Port; 0: any that is free."
)
@click.option("--no-auth", is_flag=True, help="Let everybody in, on the loopback interface alone.")
@click.option("--demo", is_flag=True, help="Serve the demo bank, all of it fictitious.")
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Of the log on stderr."
)
@with_location
def serve(location: ConfigLocation, host: str, port: int, no_auth: bool, demo: bool, log_format: LogForm) -> None:
    """Serve the engine over HTTP: the RAG API, and what Dify and assistants ask.

    Nobody is let in without a token: CONTEXT_ENGINE_API_TOKEN, the tokens of config/access.yaml, or those of an
    identity provider.
    """
    if not all(map(find_spec, ("fastapi", "uvicorn"))):
        raise MissingExtra("the HTTP service", "server")
    from context_engine.apps.server.app import create_app
    from context_engine.apps.server.logs import log_to_stderr
    from context_engine.apps.server.running import listening_socket, run
    from context_engine.apps.server.service import Service
    from context_engine.service.deployment import LiveDeployment
    from context_engine.wiring.callers import open_authenticator

    log_to_stderr(log_format)
    live = LiveDeployment(_demo_loader(location) if demo else _loader(location))
    first = live.current
    callers = open_authenticator(first.setup, first.data_dir, no_auth=no_auth, host=host)
    service = Service(live, callers, own_names_only=no_auth, renew=lambda deployment: callers.renew(deployment.setup))
    listening = listening_socket(host, port)
    address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
    say = note if log_format == "text" else logger.info
    announce = partial(_announce, first, address, no_auth=no_auth, say=say)
    code = run(create_app(service), service, listening, announce)
    click.get_current_context().exit(code)


def _loader(location: ConfigLocation) -> Callable[[], Deployment]:
    from context_engine.apps.server.running import ConfiguredLoader

    return ConfiguredLoader(location.config_dir, location.stage, location.data_dir)


def _demo_loader(location: ConfigLocation) -> Callable[[], Deployment]:
    from context_engine import demo
    from context_engine.service.deployment import open_deployment
    from context_engine.settings import find_data_dir
    from context_engine.wiring import load_setup

    def load() -> Deployment:
        setup = load_setup(config_dir=location.config_dir, manifest_dir=demo.MANIFESTS, stage=location.stage)
        folder = find_data_dir(location.data_dir, env=os.environ, cwd=setup.cwd)
        with progress_bar("Building the demo bank's knowledge base (once) …") as progress:
            place = demo.ensure_base(folder, setup.registry, progress)
        return open_deployment(setup, data_dir=place, demo=True)

    return load


def _announce(deployment: Deployment, address: str, *, no_auth: bool, say: Callable[[str], None]) -> None:
    """Say what is served, to whom and where."""
    names = ", ".join(deployment.setup.registry.names)
    bank = " of the demo bank, all of it fictitious" if deployment.demo else ""
    say(f"domains{bank}: {names}")
    say("who may call: everybody on this machine (--no-auth)" if no_auth else "who may call: holders of a token")
    say(f"OpenAPI document: {address}/openapi.json")
    say(f"listening on {address}")


MCP = """\b
Examples:
  context-engine mcp --config-dir /srv/bank            (an assistant starts this, and ends it)
  claude mcp add bank -- context-engine mcp --config-dir /srv/bank
"""


@click.command(epilog=MCP)
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
