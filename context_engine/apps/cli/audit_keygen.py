"""`context-engine audit keygen`: a key that checkpoints are signed with."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

import click

from context_engine.apps.cli.app import with_debug
from context_engine.apps.cli.console import note
from context_engine.errors import ConfigError, InvalidRequest, MissingExtra

_OWNER_ALONE: Final = 0o600
KEYGEN: Final = """\b
Examples:
  context-engine audit keygen audit.bank.example/retrieval --out /run/secrets/audit.key
  export CONTEXT_ENGINE_AUDIT_KEY='${file:/run/secrets/audit.key}'
"""


@click.command(epilog=KEYGEN)
@click.argument("name", metavar="NAME")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write the key there, for you alone."
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@with_debug
def keygen(name: str, out: Path | None, as_json: bool) -> None:
    """Make a signing key for the log NAME; its verifier key goes to those who check.

    NAME stands as the origin in every checkpoint and proof: an address without a scheme, such as
    audit.bank.example/retrieval, that no other log has. The signing key is secret and is kept nowhere else.
    """
    try:
        from context_engine.audit.formats.keys import SigningKey
        from context_engine.audit.formats.strict import FormatError
    except ImportError:
        raise MissingExtra("the audit ledger", "audit") from None
    try:
        key = SigningKey.generate(name)
    except FormatError as error:
        raise InvalidRequest(str(error)) from None
    if out is not None:
        _write_secret(out, key.text)
    # Past the filter that hides keys: this one is asked for.
    if as_json:
        secret = {"signing_key": key.text} if out is None else {"file": str(out)}
        click.echo(json.dumps({"name": name, "key_id": key.key_id, "verifier_key": key.verifier.text, **secret}))
        return
    if out is None:
        click.echo(key.text)
    else:
        note(f"written: {out}")
    note(f"verifier key: {key.verifier.text}", style="bold")


def _write_secret(file: Path, text: str) -> None:
    """Write a new file that its owner alone may read.

    Raises:
        ConfigError: it is there already, or cannot be written.
    """
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ALONE)
        with open(handle, "w", encoding="utf-8") as opened:
            opened.write(f"{text}\n")
    except FileExistsError:
        raise ConfigError("is there already: a key is never written over another", file=str(file)) from None
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=str(file)) from None
