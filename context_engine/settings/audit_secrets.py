"""Where the ledger is and which keys it is signed with, from the environment alone: both are secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from context_engine.secrecy import keep_secret
from context_engine.settings.interpolate import Interpolator
from context_engine.settings.placement import PREFIX

AUDIT_LEDGER: Final = f"{PREFIX}AUDIT_LEDGER"
AUDIT_KEY: Final = f"{PREFIX}AUDIT_KEY"
AUDIT_FORMER_KEYS: Final = f"{PREFIX}AUDIT_FORMER_KEYS"
SECRET_PARAMETERS: Final = ("password", "sslpassword")
"""What libpq takes behind the question mark of a URL that nobody may see."""


def read_audit_ledger(env: Mapping[str, str], folder: Path) -> str | None:
    """Return where the ledger is, None where it is not said.

    Args:
        env: says it as `CONTEXT_ENGINE_AUDIT_LEDGER`: a file, `postgresql://USER:PASSWORD@HOST/DATABASE`, or
            `${file:/run/secrets/NAME}` that holds one of the two.
        folder: relative paths start here.

    Raises:
        ConfigError: the file it names cannot be read.
    """
    url = _read(AUDIT_LEDGER, env, folder)
    for password in _passwords(url or ""):
        keep_secret(password)
    return url


def read_audit_keys(env: Mapping[str, str], folder: Path) -> tuple[str, ...]:
    """Return the signing keys, as they are written: the one in force first, then former ones; () where none is set.

    Args:
        env: holds them as `CONTEXT_ENGINE_AUDIT_KEY` and, parted by white space, `CONTEXT_ENGINE_AUDIT_FORMER_KEYS`:
            the keys themselves, or `${file:/run/secrets/NAME}`.
        folder: relative paths start here.

    Raises:
        ConfigError: a file of keys cannot be read.
    """
    keys = tuple(key for name in (AUDIT_KEY, AUDIT_FORMER_KEYS) for key in (_read(name, env, folder) or "").split())
    for key in keys:
        keep_secret(key)
    return keys


def _passwords(url: str) -> Iterator[str]:
    """Yield the passwords of a URL, as they are written and as they are meant: host and database may be shown."""
    try:
        parts = urlsplit(url)
        query = parse_qs(parts.query)
        found = [parts.password or "", *(one for name in SECRET_PARAMETERS for one in query.get(name, ()))]
    except ValueError:  # no URL at all: the form is refused where it is used
        found = [url]
    for password in filter(None, found):
        yield from (password, unquote(password))


def _read(name: str, env: Mapping[str, str], folder: Path) -> str | None:
    written = env.get(name, "").strip()
    if not written:
        return None
    return str(Interpolator(env, folder, name, files=True).fill(written)).strip()
