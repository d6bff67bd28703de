"""The command line: the groups and commands by name, and where each is implemented."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from contextlib import suppress
from typing import Final

import click

from context_engine import __version__
from context_engine.apps.cli.app import App, with_debug

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
_COMMANDS: Final = {
    "access": ("access:access", "Show and prove who may search what (operators)."),
    "ask": ("ask:ask", "Answer a question with sentences that show their passages."),
    "audit": ("audit:audit", "Show, check and prove the record of searches (operators)."),
    "backup": ("backup:backup", "Write base, ledger and configuration to one archive."),
    "chunk": ("chunk:chunk", "Show how FILE is cut; nothing is stored."),
    "compare": ("search.compare:compare", "Show an answer beside its baseline, and why they differ."),
    "completion": ("completion:completion", "Print the script that completes commands in SHELL."),
    "config": ("config:config", "Show and check the configuration."),
    "doctor": ("doctor.command:doctor", "Check that every source can be searched as declared."),
    "domains": ("domains:domains", "List domains and sources, and what the base holds of them."),
    "eval": ("eval:eval_", "Measure retrieval: run, compare, gate, judge, tune, scope."),
    "ingest": ("ingest:ingest", "Cut documents into chunks; write them to the base or to Dify."),
    "init": ("config:init", "Write a commented configuration and sample documents."),
    "job": ("job:job", "Work over many documents, with a memory and a budget."),
    "kb": ("kb:kb", "Look after the embedded knowledge base."),
    "mcp": ("serve:mcp", "Serve search tools to an assistant over MCP (stdin, stdout)."),
    "plugin": ("plugin:plugin", "Check, pack and set up the Dify plugin."),
    "policy": ("access.check:policy", "Export the access rules (operators)."),
    "restore": ("backup:restore", "Check an archive of 'backup' and put it in place."),
    "search": ("search.command:search", "Search a domain and show the ranked, provenance-tagged answer."),
    "serve": ("serve:serve", "Serve the engine over HTTP."),
    "tags": ("tags:tags", "Check provenance tags."),
    "token": ("tokens:token", "Manage the tokens that open the service (operators)."),
    "web": ("serve:web", "Open the pages in a browser: ask, documents, review."),
}
_COLLECT_AFTER: Final = 200_000  # new objects; a search makes 100,000 that stay, and each collection visits them


@click.group(
    "context-engine",
    cls=App,
    package="context_engine.apps.cli",
    lazy=_COMMANDS,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(
    __version__, "--version", "-V", package_name="dify-context-engine", message="context-engine %(version)s"
)
@with_debug
def main() -> None:
    """Retrieval for a bank's knowledge: ranked by relevance and authority, every chunk with its provenance."""


def run(args: list[str] | None = None, obj: object = None) -> None:
    """Run the command line as the program `context-engine`.

    Args:
        args: None: those of this process.
        obj: for the command that asks for an object of its class.

    The interpreter cannot end a thread in a model's native code: the process would be aborted, and its exit code lost.
    Where a call that was given up still runs, the process ends without waiting for its threads.
    """
    gc.set_threshold(_COLLECT_AFTER)
    if "_CONTEXT_ENGINE_COMPLETE" in os.environ:
        from context_engine.apps.cli.completion import complete_in_shells

        complete_in_shells()
    try:
        main(args, prog_name="context-engine", obj=obj)
    except SystemExit as end:
        executor = sys.modules.get("context_engine.core.concurrency.calls")  # not imported: nothing was called
        if executor is None or not executor.EXECUTOR.busy:
            raise
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(end.code if isinstance(end.code, int) else 0)
