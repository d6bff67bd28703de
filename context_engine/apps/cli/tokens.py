"""`context-engine token` and `access token`: tokens for programs that call the service."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click
from rich.text import Text

from context_engine.apps.cli.app import with_debug
from context_engine.apps.cli.console import note, print_json, print_line, print_table
from context_engine.apps.cli.context import ConfigLocation, operator_context, with_location
from context_engine.apps.cli.options import TimeSpan, with_json
from context_engine.core.models import API_PRINCIPAL, utc_text
from context_engine.errors import InvalidRequest, nearest

if TYPE_CHECKING:
    from context_engine.settings.principals import NewToken
    from context_engine.settings.token_store import StoredToken, TokenStore
    from context_engine.wiring.setup import Setup

_MOST_BYTES: Final = 10_000
_LONGEST_NAME: Final = 200
ACCESS: Final = """\b
Examples:
  context-engine access token
  printf %s "$TOKEN" | context-engine access token -
"""
ADD: Final = """\b
Examples:
  context-engine token add intranet-search --expires 90d
  context-engine token add dify --principal dify-gateway --expires 2027-06-30
"""


@click.command("token", epilog=ACCESS)
@click.argument("source", metavar="[-]", required=False)
@with_json
@with_debug
def access_token(source: str | None, as_json: bool) -> None:
    """Make a token and its hash for access.yaml; with "-", the hash of the token on stdin.

    The token is shown once and stored nowhere: give it to the program that is to use it. It opens what access.yaml
    allows, in a service and in the plugin, which carries that file. 'token add' makes a token for this deployment's
    service only, without a change to any file.
    """
    from context_engine.settings.principals import new_token, token_hash

    if source not in (None, "-"):
        raise InvalidRequest(
            "every user of this machine can see a token on the command line: give it on stdin instead, with '-'"
        )
    text = new_token().text if source is None else _token_from_stdin()
    values = {"sha256": token_hash(text), **({} if source else {"token": text})}
    if as_json:
        print_json(json.dumps(values))
        return
    for label, value in values.items():
        _print_secret(label, value)


def _print_secret(label: str, value: str) -> None:
    """Print a token or its hash; as words `print_line` would hide it."""
    print_line(Text(f"{label}: ", "dim").append(value, "bold"))


def _token_from_stdin() -> str:
    text = sys.stdin.buffer.read(_MOST_BYTES).decode("utf-8", errors="replace").strip("\r\n")
    if not text:
        raise InvalidRequest("there is no token on stdin")
    return text


@click.group()
def token() -> None:
    """Issue and revoke the tokens of this deployment's service; for operators.

    They are stored as hashes beside the base and take effect at once, in every process. For a token that is reviewed as
    part of access.yaml use 'access token'.
    """


@token.command(epilog=ADD)
@click.argument("name")
@click.option("--principal", metavar="NAME", default=API_PRINCIPAL.id, show_default=True, help="Who acts with it.")
@click.option("--expires", type=TimeSpan(), help="When it expires: after a number of days or hours, or at a moment.")
@with_json
@with_location
def add(
    location: ConfigLocation, name: str, principal: str, expires: timedelta | datetime | None, as_json: bool
) -> None:
    """Make a token for the program NAME and show it, once.

    The principal is one of access.yaml, whose roles decide what may be searched, or 'api', which without an entry of
    its own has no roles and is cleared for public documents. A source without access rules is open to every principal.
    """
    name = name.strip()
    if not name.isprintable() or not 0 < len(name) <= _LONGEST_NAME:
        raise InvalidRequest(f"NAME must be 1 to {_LONGEST_NAME} printable characters")

    def work(store: TokenStore, setup: Setup, now: datetime) -> None:
        _check_principal(principal, setup)
        _show_new(store.add(name, principal, now=now, expires=_end(expires, now)), as_json)

    _with_store(location, work, writes=True)


@token.command("list", epilog="\b\nExample:\n  context-engine token list")
@with_json
@with_location
def list_tokens(location: ConfigLocation, as_json: bool) -> None:
    """List all tokens, including those that have expired or were revoked."""
    _with_store(location, lambda store, setup, now: _show_all(store.all(), setup, now, as_json))


@token.command(epilog="\b\nExample:\n  context-engine token revoke 5f3a1c0e9b")
@click.argument("token_id", metavar="ID")
@with_location
def revoke(location: ConfigLocation, token_id: str) -> None:
    """Revoke the token ID; the next request with it is refused."""

    def work(store: TokenStore, _: Setup, now: datetime) -> None:
        revoked = store.revoke(token_id, now=now)
        note(f"{revoked.id} ({revoked.name}) is revoked")

    _with_store(location, work, writes=True)


@token.command(epilog="\b\nExample:\n  context-engine token rotate 5f3a1c0e9b --keep 2d --expires 90d")
@click.argument("token_id", metavar="ID")
@click.option(
    "--expires", type=TimeSpan(), help="When the new token expires [default: as long as the old one was valid]."
)
@click.option("--keep", type=TimeSpan(), help="How long the old token stays valid [default: it ends at once].")
@with_json
@with_location
def rotate(
    location: ConfigLocation,
    token_id: str,
    expires: timedelta | datetime | None,
    keep: timedelta | datetime | None,
    as_json: bool,
) -> None:
    """Replace the token ID by a new one with the same name and principal, and show that, once."""

    def work(store: TokenStore, setup: Setup, now: datetime) -> None:
        old = next((stored for stored in store.all() if stored.id == token_id), None)
        if old is not None:
            _check_principal(old.principal, setup)
        span = old.expires - old.created if expires is None and old is not None and old.expires else expires
        ends, old_ends = _end(span, now), _end(keep, now) or now
        _show_new(store.rotate(token_id, now=now, expires=ends, until=old_ends), as_json)

    _with_store(location, work, writes=True)


def _end(span: timedelta | datetime | None, now: datetime) -> datetime | None:
    return now + span if isinstance(span, timedelta) else span


def _with_store(
    location: ConfigLocation, work: Callable[[TokenStore, Setup, datetime], None], *, writes: bool = False
) -> None:
    """Call `work` with the deployment's tokens.

    Raises:
        InvalidRequest: the user is not an operator.
    """
    from context_engine.settings.token_store import TokenStore

    context = operator_context(location)
    if writes and not context.demo:
        context.setup.claim(context.data_dir)
    with closing(TokenStore(context.data_dir)) as store:
        work(store, context.setup, datetime.now(UTC).replace(microsecond=0))


def _check_principal(principal: str, setup: Setup) -> None:
    principals = setup.config.principals
    if principals.caller(principal, "") is not None:
        return
    if not principals.in_force:
        raise InvalidRequest(f"there is no principal {principal!r}: there is no config/access.yaml that could name it")
    known = [API_PRINCIPAL.id, *principals.named]
    raise InvalidRequest(f"unknown principal {principal!r}.{nearest(principal, known)}")


def _show_new(created: NewToken, as_json: bool) -> None:
    if as_json:
        print_json(json.dumps({"id": created.id, "token": created.text}))
        return
    _print_secret("token", created.text)
    note(f"It is shown only now, and stored as a hash; its id is {created.id}.")


def _show_all(tokens: list[StoredToken], setup: Setup, now: datetime, as_json: bool) -> None:
    rows = [(stored, _state(stored, setup, now)) for stored in tokens]
    if as_json:
        print_json({"tokens": [{**_as_dict(stored), "state": state} for stored, state in rows]})
        return
    if not tokens:
        print_line("There are no tokens. Make one with 'context-engine token add NAME'.")
        return
    cells = []
    for stored, state in rows:
        ends = min((end for end in (stored.expires, stored.revoked) if end is not None), default=None)
        dates = (_day(stored.created), _day(ends), _minute(stored.used))
        cells.append((stored.id, stored.name, stored.principal, *dates, Text(state, "" if state == "open" else "dim")))
    print_table(("id", "name", "principal", "created", "ends", "last used", "state"), cells)


def _state(stored: StoredToken, setup: Setup, now: datetime) -> str:
    if stored.is_revoked(now):
        return "revoked"
    if stored.expires is not None and stored.expires <= now:
        return "expired"
    return "open" if setup.config.principals.caller(stored.principal, "") is not None else "unknown principal"


def _as_dict(stored: StoredToken) -> dict[str, Any]:
    fields = stored._asdict()
    del fields["ended"]  # the state says it
    return {key: utc_text(value) if isinstance(value, datetime) else value for key, value in fields.items()}


def _day(moment: datetime | None) -> str:
    return "–" if moment is None else moment.date().isoformat()


def _minute(moment: datetime | None) -> str:
    return "–" if moment is None else moment.strftime("%Y-%m-%d %H:%M")
