"""`context-engine serve`, `web` and `mcp`: the HTTP service, the pages for one person, and MCP."""

from __future__ import annotations

import hmac
import logging
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from multiprocessing import current_process
from typing import TYPE_CHECKING, Final

import click

from context_engine.apps.cli.app import TERMINATED
from context_engine.apps.cli.console import note
from context_engine.apps.cli.context import (
    ConfigLocation,
    note_unwritten,
    open_context,
    os_user,
    with_acting,
    with_location,
)
from context_engine.apps.cli.progress import progress_bar
from context_engine.errors import MissingExtra

if TYPE_CHECKING:
    from context_engine.apps.server.logs import LogForm
    from context_engine.apps.server.workers import Worker
    from context_engine.apps.web.site import WebSite
    from context_engine.service.deployment import Deployment
    from context_engine.service.kept import KeptResults

logger = logging.getLogger(__name__)

SERVE: Final = """\b
Examples:
  context-engine serve --demo --no-auth
  CONTEXT_ENGINE_API_TOKEN=... context-engine serve --host 0.0.0.0 --config-dir /etc/context-engine

\b
SIGTERM: stop in order: readiness off, current requests answered, records written. A second one stops at once.
SIGHUP: load the configuration again; if it is invalid, the current one stays in force.
Exit code: 0 stopped in order, 1 requests were cut off or records lost, 2 usage or configuration.
"""
WEB: Final = """\b
Examples:
  context-engine web
  context-engine web --config-dir /srv/bank --port 8080 --no-browser

\b
Exit code: 0 ended in order, 1 requests were cut off or records lost, 2 usage or configuration.
"""
MCP: Final = """\b
Examples:
  context-engine mcp --config-dir /srv/bank            (an assistant starts this, and ends it)
  claude mcp add bank -- context-engine mcp --config-dir /srv/bank
"""


@click.command(epilog=SERVE)
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="Port; 0: any free port.")
@click.option("--no-auth", is_flag=True, help="Accept every caller without a token; loopback interface only.")
@click.option("--demo", is_flag=True, help="Serve the fictitious demo bank.")
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes for one port.")
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Log format on stderr."
)
@with_location
def serve(
    location: ConfigLocation, host: str, port: int, no_auth: bool, demo: bool, workers: int, log_format: LogForm
) -> None:
    """Serve the engine over HTTP: the RAG API, and the interfaces for Dify and for assistants.

    Callers need a token: CONTEXT_ENGINE_API_TOKEN, one of config/access.yaml, or one of an identity provider.
    """
    _check_extra()
    early_reloads = _hold_reloads()
    from context_engine.apps.server.logs import log_to_stderr
    from context_engine.apps.server.running import listening_socket
    from context_engine.apps.server.workers import Worker, supervise

    log_to_stderr(log_format)
    here, worker = click.get_current_context(), click.get_current_context().find_object(Worker)
    if workers > 1 and worker is None:
        here.exit(supervise(workers, listening_socket(host, port), _work))
    here.exit(
        _serve(location, host, port, early_reloads, no_auth=no_auth, demo=demo, log_format=log_format, worker=worker)
    )


def _hold_reloads() -> list[int]:
    """Collect each SIGHUP in a list until the service handles it; without a handler it would end the process."""
    early_reloads: list[int] = []
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda number, _frame: early_reloads.append(number))
    return early_reloads


def _work(args: list[str], worker: Worker) -> None:
    """Run a command line as a worker of `serve`."""
    from context_engine.apps.cli import run

    run(args, worker)


def _serve(
    location: ConfigLocation,
    host: str,
    port: int,
    early_reloads: list[int],
    *,
    no_auth: bool,
    demo: bool,
    log_format: LogForm,
    worker: Worker | None,
) -> int:
    """Serve in this process until a signal; return the exit code.

    Args:
        early_reloads: the SIGHUPs that came before the service could handle them.
    """
    from context_engine.apps.server.app import create_app
    from context_engine.apps.server.metrics import WorkerReports
    from context_engine.apps.server.running import ConfiguredLoader, listening_socket, run
    from context_engine.apps.server.service import Service
    from context_engine.service.deployment import LiveDeployment
    from context_engine.service.kept import KeptResults
    from context_engine.wiring.callers import open_authenticator

    joined = None if worker is None else worker.joined()
    kept = KeptResults if joined is None else joined.kept
    if demo:
        live = LiveDeployment(_demo_loader(location, kept))
    else:
        live = LiveDeployment(ConfiguredLoader(location.config_dir, location.stage, location.data_dir, kept))
    first = live.current
    callers = open_authenticator(first.setup, first.data_dir, no_auth=no_auth, host=host)
    service = Service(
        live,
        callers,
        own_names_only=no_auth,
        renew=lambda deployment: callers.renew(deployment.setup),
        rates=None if joined is None else joined.rates,
        reports=None if worker is None or joined is None else WorkerReports(worker.number, joined.metrics),
    )
    listening = listening_socket(host, port) if worker is None else worker.listening
    address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
    write_line = note if log_format == "text" else logger.info

    def announce() -> None:
        _announce(first, address, no_auth=no_auth, write_line=write_line)
        for number in early_reloads[:1]:
            signal.raise_signal(number)

    app = create_app(service, _site(first))
    if worker is None:
        return run(app, service, listening, announce)
    return run(app, service, listening, partial(worker.serves, announce), worker.obey)


def _check_extra() -> None:
    if not all(map(find_spec, ("fastapi", "uvicorn", "prometheus_client", "jinja2"))):
        raise MissingExtra("the HTTP service", "server")


def _site(deployment: Deployment) -> WebSite | None:
    """Return the pages of a service, if its settings want them."""
    if not deployment.settings.server_pages:
        return None
    from context_engine.apps.web.sessions import Sessions
    from context_engine.apps.web.site import WebSite
    from context_engine.settings.environment_secrets import read_session_key
    from context_engine.wiring.callers import code_flow

    setup, url = deployment.setup, deployment.settings.server_public_url or ""
    own_key = hmac.digest(current_process().authkey, b"sessions", "sha256").hex()  # workers have the same
    sessions = Sessions(read_session_key(setup.env, setup.cwd) or own_key, secure=url.startswith("https://"))
    return WebSite(sessions, code_flow(setup, url))


def _demo_loader(location: ConfigLocation, kept: Callable[[], KeptResults]) -> Callable[[], Deployment]:
    from context_engine import demo
    from context_engine.service.deployment import open_deployment
    from context_engine.settings import find_data_dir
    from context_engine.wiring.setup import load_setup

    def load() -> Deployment:
        setup = load_setup(config_dir=location.config_dir, manifest_dir=demo.MANIFESTS, stage=location.stage)
        folder = find_data_dir(location.data_dir, env=os.environ, cwd=setup.cwd)
        with progress_bar("Building the demo bank's knowledge base (once) …") as progress:
            data_dir = demo.ensure_base(folder, setup.registry, progress)
        return open_deployment(setup, data_dir=data_dir, demo=True, kept=kept())

    return load


def _announce(deployment: Deployment, address: str, *, no_auth: bool, write_line: Callable[[str], None]) -> None:
    """Write the served domains, the accepted callers and the address."""
    names = ", ".join(deployment.setup.registry.names)
    bank = " of the fictitious demo bank" if deployment.demo else ""
    write_line(f"domains{bank}: {names}")
    write_line(f"callers: {'everybody on this machine (--no-auth)' if no_auth else 'holders of a token'}")
    write_line(f"OpenAPI document: {address}/openapi.json")
    if deployment.settings.server_pages:
        write_line(f"pages: {deployment.settings.server_public_url or address}/")
    write_line(f"listening on {address}")


@click.command(epilog=WEB)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port of 127.0.0.1.  [default: any free port]")
@click.option("--no-browser", is_flag=True, help="Open no browser; only print the address.")
@with_acting
@with_location
def web(location: ConfigLocation, port: int, no_browser: bool) -> int:
    """Open the pages in a browser: ask and search, documents, review, administration.

    The pages are served to this machine until Ctrl-C. The printed address signs in once, as the principal that
    access.yaml assigns to the operating system's user. Without a configuration the pages show the demo bank.
    'serve' offers the same pages to a whole bank.
    """
    _check_extra()
    context = open_context(location)
    import secrets
    import webbrowser

    from context_engine.adapters.identity.authenticator import ProcessToken
    from context_engine.apps.server.app import create_app
    from context_engine.apps.server.running import listening_socket, run
    from context_engine.apps.server.service import Service
    from context_engine.apps.web.sessions import Sessions
    from context_engine.apps.web.site import WebSite
    from context_engine.core.models import Authenticated
    from context_engine.service.deployment import LiveDeployment, open_deployment

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    operator = location.acting_as is None and context.setup.config.principals.is_operator(os_user())
    caller = Authenticated(principal=context.principal, token_id="web", operator=operator)
    live = LiveDeployment(lambda: open_deployment(context.setup, data_dir=context.data_dir, demo=context.demo))
    token, sessions = secrets.token_urlsafe(32), Sessions()
    service = Service(live, ProcessToken(token, caller), own_names_only=True)
    listening = listening_socket("127.0.0.1", port)
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"

    def announce() -> None:
        link = f"{address}/sign-in?code={sessions.code_for(token)}"
        note(f"pages: {link} (opens once, within five minutes; Ctrl-C ends)")
        if not no_browser:
            webbrowser.open(link)

    return run(create_app(service, WebSite(sessions)), service, listening, announce)


@click.command(epilog=MCP)
@with_acting
@with_location
def mcp(location: ConfigLocation) -> int:
    """Serve the tools of search, answers and jobs over the Model Context Protocol on stdin and stdout.

    Assistants start this program themselves. Every call is made as the principal that access.yaml assigns to the
    operating system's user. Without a configuration the tools search the demo bank. 'serve' offers the same tools over
    HTTP at /mcp. Exit code: 0 stdin was closed, 143 ended by a signal, 2 usage or configuration.
    """
    if find_spec("mcp") is None:
        raise MissingExtra("the Model Context Protocol", "mcp")
    context = open_context(location)
    from context_engine.apps.mcp.stdio import serve_stdio
    from context_engine.core.models import Authenticated
    from context_engine.service.deployment import open_deployment

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    operator = location.acting_as is None and context.setup.config.principals.is_operator(os_user())
    deployment = open_deployment(context.setup, data_dir=context.data_dir, demo=context.demo)
    try:
        in_order = serve_stdio(deployment, Authenticated(principal=context.principal, operator=operator))
    finally:
        deployment.close()
        note_unwritten()
    return 0 if in_order else TERMINATED
