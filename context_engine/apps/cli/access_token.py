"""`context-engine access token`: a token for a program, and its hash for access.yaml."""

from __future__ import annotations

import json
import sys
from typing import Final

import click
from rich.text import Text

from context_engine.apps.cli.app import with_debug
from context_engine.apps.cli.console import out, print_json, show
from context_engine.errors import InvalidRequest

_MOST_BYTES: Final = 10_000


@click.command(
    epilog='\b\nExamples:\n  context-engine access token\n  printf %s "$TOKEN" | context-engine access token -'
)
@click.argument("given", metavar="[-]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@with_debug
def token(given: str | None, as_json: bool) -> None:
    """Make a token and its hash for access.yaml; with "-", the hash of the token on stdin.

    The token is shown once and kept nowhere: give it to the program that is to show it. It opens what the file says,
    in a service and in the plugin, which takes the file along; 'token add' makes one for the service of this deployment
    alone, and no file need be changed.
    """
    from context_engine.settings.new_token import new_token, token_hash

    if given not in (None, "-"):
        raise InvalidRequest("a token on the command line is seen by every user of this machine: give it on stdin, '-'")
    made = new_token().text if given is None else _from_stdin()
    found = {"sha256": token_hash(made), **({} if given else {"token": made})}
    if as_json:
        print_json(json.dumps(found))
        return
    for label, value in found.items():
        show(out(), Text(f"{label}: ", "dim").append(value, "bold"))


def _from_stdin() -> str:
    text = sys.stdin.buffer.read(_MOST_BYTES).decode("utf-8", errors="replace").strip("\r\n")
    if not text:
        raise InvalidRequest("there is no token on stdin")
    return text
