"""`context-engine token` and `access token`: tokens for programs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click
from rich.text import Text

from context_engine.apps.cli.app import with_debug
from context_engine.apps.cli.console import note, out, print_json, show, table
from context_engine.apps.cli.context import ConfigLocation, open_context, require_operator, with_location
from context_engine.core.models import API_PRINCIPAL, to_moment, utc_text
from context_engine.errors import InvalidRequest, nearest

if TYPE_CHECKING:
    from context_engine.settings.principals import NewToken
    from context_engine.settings.token_store import StoredToken, TokenStore
    from context_engine.wiring import Setup


_MOST_BYTES: Final = 10_000


@click.command(
    "token", epilog='\b\nExamples:\n  context-engine access token\n  printf %s "$TOKEN" | context-engine access token -'
)
@click.argument("given", metavar="[-]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@with_debug
def access_token(given: str | None, as_json: bool) -> None:
    """Make a token and its hash for access.yaml; with "-", the hash of the token on stdin.

    The token is shown once and kept nowhere: give it to the program that is to show it. It opens what the file says,
    in a service and in the plugin, which takes the file along; 'token add' makes one for the service of this deployment
    alone, and no file need be changed.
    """
    from context_engine.settings.principals import new_token, token_hash

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


_SPAN: Final = re.compile(r"([1-9][0-9]{0,4})([hd])")

_LONGEST_NAME: Final = 200

ADD: Final = """\b
Examples:
  context-engine token add intranet-search --expires 90d
  context-engine token add dify --principal dify-gateway --expires 2027-06-30
"""

if TYPE_CHECKING:
    _SpanType = click.ParamType[timedelta | datetime]
else:  # not generic before click 8.2
    _SpanType = click.ParamType


class _Span(_SpanType):
    """90d, 12h, or a day or moment such as 2027-06-30."""

    name = "90d|DAY"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta | datetime:
        """Return the time span, or the moment, UTC where no zone is given."""
        if isinstance(value, str) and (found := _SPAN.fullmatch(value.strip())):
            return timedelta(**{{"h": "hours", "d": "days"}[found[2]]: int(found[1])})
        moment = to_moment(value)
        if moment is None:
            self.fail(f"{value!r} is neither a time nor a day: write it as 90d, 12h or 2027-06-30", param, ctx)
        return moment


def _then(span: timedelta | datetime | None, now: datetime) -> datetime | None:
    return now + span if isinstance(span, timedelta) else span


@click.group()
def token() -> None:
    """Give out and take back the tokens that open this deployment's service; for an operator.

    They lie as hashes beside the base and count at once, in every process. A token that should stand under review in
    access.yaml instead is made by 'access token'.
    """


@token.command(epilog=ADD)
@click.argument("name")
@click.option("--principal", metavar="NAME", default=API_PRINCIPAL.id, show_default=True, help="Who acts with it.")
@click.option("--expires", type=_Span(), help="When it ends: after so many days or hours, or at a moment.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@with_location
def add(
    location: ConfigLocation, name: str, principal: str, expires: timedelta | datetime | None, as_json: bool
) -> None:
    """Make a token for the program NAME and show it, once.

    The principal is one of access.yaml, whose roles then say what may be searched, or 'api', which without an entry of
    its own has none and is cleared for what is public.
    """
    name = name.strip()
    if not name.isprintable() or not 0 < len(name) <= _LONGEST_NAME:
        raise InvalidRequest(f"NAME must be 1 to {_LONGEST_NAME} printable characters")
    _with_store(
        location,
        lambda store, setup, now: _show_new(
            store.add(name, _known(principal, setup), now=now, expires=_then(expires, now)), as_json
        ),
        written=True,
    )


@token.command("list", epilog="\b\nExample:\n  context-engine token list")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@with_location
def list_tokens(location: ConfigLocation, as_json: bool) -> None:
    """List the tokens that were given out, also those that open nothing any more."""
    _with_store(location, lambda store, setup, now: _show_all(store.all(), setup, now, as_json))


@token.command(epilog="\b\nExample:\n  context-engine token revoke 5f3a1c0e9b")
@click.argument("token_id", metavar="ID")
@with_location
def revoke(location: ConfigLocation, token_id: str) -> None:
    """Let the token ID open nothing any more, from the next request on."""

    def work(store: TokenStore, _: Setup, now: datetime) -> None:
        one = store.revoke(token_id, now=now)
        note(f"{one.id} ({one.name}) opens nothing any more")

    _with_store(location, work, written=True)


@token.command(epilog="\b\nExample:\n  context-engine token rotate 5f3a1c0e9b --keep 2d --expires 90d")
@click.argument("token_id", metavar="ID")
@click.option("--expires", type=_Span(), help="When the new one ends; else after as long as the old one was given.")
@click.option("--keep", type=_Span(), help="How long the old one opens beside it; else it ends at once.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@with_location
def rotate(
    location: ConfigLocation,
    token_id: str,
    expires: timedelta | datetime | None,
    keep: timedelta | datetime | None,
    as_json: bool,
) -> None:
    """Make a token in place of the token ID, with its name and principal, and show it, once."""

    def work(store: TokenStore, setup: Setup, now: datetime) -> None:
        old = next((one for one in store.all() if one.id == token_id), None)
        if old is not None:
            _known(old.principal, setup)
        span = old.expires - old.created if expires is None and old is not None and old.expires else expires
        ends, until = _then(span, now), _then(keep, now) or now
        _show_new(store.rotate(token_id, now=now, expires=ends, until=until), as_json)

    _with_store(location, work, written=True)


def _with_store(
    location: ConfigLocation, work: Callable[[TokenStore, Setup, datetime], None], *, written: bool = False
) -> None:
    """Call `work` with the deployment's tokens.

    Raises:
        InvalidRequest: the user is no operator.
    """
    from context_engine.settings.token_store import TokenStore

    context = open_context(location, build_demo=False, operator=True)
    require_operator(context.setup.config.principals)
    if written and not context.demo:
        context.setup.claim(context.data_dir)
    with closing(TokenStore(context.data_dir)) as store:
        work(store, context.setup, datetime.now(UTC).replace(microsecond=0))


def _known(principal: str, setup: Setup) -> str:
    principals = setup.config.principals
    if principals.caller(principal, "") is None:
        if not principals.in_force:
            raise InvalidRequest(
                f"there is no principal {principal!r}: config/access.yaml names them, and there is none"
            )
        raise InvalidRequest(
            f"unknown principal {principal!r}.{nearest(principal, [API_PRINCIPAL.id, *principals.named])}"
        )
    return principal


def _show_new(made: NewToken, as_json: bool) -> None:
    if as_json:
        print_json(json.dumps({"id": made.id, "token": made.text}))
        return
    show(out(), Text("token: ", "dim").append(made.text, "bold"))
    note(f"It is shown this once, and kept as a hash alone; its id is {made.id}.")


def _show_all(tokens: list[StoredToken], setup: Setup, now: datetime, as_json: bool) -> None:
    states = [_state(one, setup, now) for one in tokens]
    if as_json:
        published = [{**_published(one), "state": state} for one, state in zip(tokens, states, strict=True)]
        print_json({"tokens": published})
        return
    if not tokens:
        show(out(), Text("No token was given out. Make one with 'context-engine token add NAME'."))
        return
    rows = []
    for one, state in zip(tokens, states, strict=True):
        ends = min((end for end in (one.expires, one.revoked) if end is not None), default=None)
        days = (_day(one.created), _day(ends), _minute(one.used))
        rows.append((one.id, one.name, one.principal, *days, Text(state, "" if state == "open" else "dim")))
    show(out(), table(("id", "name", "principal", "created", "ends", "last used", "state"), rows))


def _state(one: StoredToken, setup: Setup, now: datetime) -> str:
    if one.revoked is not None and one.revoked <= now:
        return "revoked"
    if one.expires is not None and one.expires <= now:
        return "expired"
    return "open" if setup.config.principals.caller(one.principal, "") is not None else "unknown principal"


def _published(one: StoredToken) -> dict[str, Any]:
    return {key: utc_text(value) if isinstance(value, datetime) else value for key, value in one._asdict().items()}


def _day(moment: datetime | None) -> str:
    return "–" if moment is None else moment.date().isoformat()


def _minute(moment: datetime | None) -> str:
    return "–" if moment is None else moment.strftime("%Y-%m-%d %H:%M")
