"""`doctor --external`: send an External Knowledge API the requests that Dify would send."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from rich.text import Text

from context_engine.apps.cli.console import print_json, print_line
from context_engine.apps.web.inert import clean
from context_engine.errors import InvalidRequest

if TYPE_CHECKING:
    from context_engine.apps.dify.registration import SimulatedCall

_TOKEN: Final = re.compile(r"[\x21-\x7e]+")


def external_is_good(
    address: str, *, token_env: str | None, token_file: str | None, domain: str | None, query: str | None, as_json: bool
) -> bool:
    """Simulate Dify's requests, show what Dify would make of the answers, and return whether all are good.

    Args:
        address: the URL registered in Dify.
        token_env, token_file: the variable or the file with the access token; exactly one of them.
        domain: the External Knowledge ID.
        query: the query of the retrieval; None: simulate the registration only.

    Raises:
        InvalidRequest: an option is invalid.
    """
    from context_engine.apps.dify.credentials import Redactor
    from context_engine.apps.dify.registration import simulate_calls

    if query is not None and domain is None:
        raise InvalidRequest("--external needs --domain, the External Knowledge ID to ask for; or --no-query")
    _check_address(address)
    token = _token(token_env, token_file)
    calls = simulate_calls(address, token, domain=None if query is None else domain, query=query or "")
    hide = Redactor((token,)).hide
    steps = [call._replace(verdict=hide(call.verdict)) for call in calls]
    notes = _notes(address, token)
    ok = all(step.ok for step in steps)
    if as_json:
        print_json({"ok": ok, "external": {"steps": [step._asdict() for step in steps], "notes": notes}})
    else:
        _show(steps, notes)
    return ok


def _check_address(address: str) -> None:
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        password = parts.password
    except ValueError:
        usable, password = False, None
    if not usable:
        raise InvalidRequest("--external must be an http or https URL, as it is registered in Dify")
    if password is not None:
        raise InvalidRequest("--external holds a password, which Dify would send with every search: remove it")


def _token(token_env: str | None, token_file: str | None) -> str:
    if (token_env is None) == (token_file is None):
        raise InvalidRequest("--external needs an access token: give either --token-env NAME or --token-file FILE")
    if token_env is not None:
        token, place = os.environ.get(token_env, ""), f"the variable {token_env}"
    else:
        try:
            token, place = Path(str(token_file)).read_text("utf-8"), f"the file {token_file}"
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidRequest(f"--token-file {token_file} cannot be read ({type(error).__name__})") from None
    token = token.strip()
    if not _TOKEN.fullmatch(token):
        raise InvalidRequest(f"{place} holds no access token (printable ASCII characters without spaces)")
    return token


def _notes(address: str, token: str) -> list[str]:
    from context_engine.apps.dify.external import LEAST_TOKEN

    notes = []
    if address.rstrip("/").endswith("/retrieval"):
        notes.append("the address ends in /retrieval, and Dify appends it once more: register it without")
    elif address.endswith("/"):
        notes.append("the address ends in a slash, and Dify appends /retrieval to it as it stands: register it without")
    if len(token) < LEAST_TOKEN:
        notes.append(
            f"the access token has fewer than {LEAST_TOKEN} characters: the plugin's endpoint lets none such in"
        )
    return notes


def _show(steps: list[SimulatedCall], notes: list[str]) -> None:
    for step in steps:
        sign = Text("✓ ", "green") if step.ok else Text("✗ ", "bold red")
        status = "no answer" if step.status is None else str(step.status)
        print_line(sign + Text(f"{step.step} ({status}, {step.elapsed_s:.2f} s): {clean(step.verdict)}"))
    for note in notes:
        print_line(f"! {note}", "yellow")
