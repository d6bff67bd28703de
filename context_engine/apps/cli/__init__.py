"""The command line; one file a command group."""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress

import click

from context_engine import __version__
from context_engine.apps.cli.access.check import access
from context_engine.apps.cli.access.policy import policy
from context_engine.apps.cli.access.prove import prove
from context_engine.apps.cli.app import App, with_debug
from context_engine.apps.cli.audit import audit
from context_engine.apps.cli.chunk import chunk
from context_engine.apps.cli.config import config, init
from context_engine.apps.cli.doctor.command import doctor
from context_engine.apps.cli.domains import domains, import_datasets
from context_engine.apps.cli.eval.run import eval_
from context_engine.apps.cli.ingest import ingest
from context_engine.apps.cli.kb.upkeep import kb
from context_engine.apps.cli.plugin import plugin
from context_engine.apps.cli.search.command import search
from context_engine.apps.cli.search.compare import compare
from context_engine.apps.cli.serve import mcp, serve
from context_engine.apps.cli.tags import tags
from context_engine.apps.cli.tokens import access_token, token
from context_engine.core.concurrency.executor import EXECUTOR

__all__ = ["main", "run"]

EPILOG = """\b
First steps:
  context-engine search "NPA classification criteria" --domain NPA     (the demo bank)
  context-engine init my-bank                                          (a configuration of your own)

\b
Exit codes:
  0 answered   1 failure   2 usage or configuration   3 degraded
  4 nothing relevant, required evidence missing, or a tag that fails
"""


@click.group(cls=App, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(
    __version__, "--version", "-V", package_name="dify-context-engine", message="context-engine %(version)s"
)
@with_debug
def main() -> None:
    """Retrieval for a bank's knowledge: ranked by relevance and authority, every chunk with its provenance."""


for command in (
    search,
    compare,
    domains,
    doctor,
    config,
    init,
    chunk,
    ingest,
    kb,
    eval_,
    tags,
    access,
    token,
    policy,
    audit,
    plugin,
    serve,
    mcp,
):
    main.add_command(command)
domains.add_command(import_datasets)
access.add_command(prove)
access.add_command(access_token)


def run() -> None:
    """Run the command line as the program `context-engine`.

    The interpreter cannot end a thread in a model's native code: the process would be aborted, and its exit code lost.
    Where a call that was given up still runs, the process ends without waiting for its threads.
    """
    try:
        main(prog_name="context-engine")
    except SystemExit as end:
        if not EXECUTOR.busy:
            raise
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(end.code if isinstance(end.code, int) else 0)
