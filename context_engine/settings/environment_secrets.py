"""Secrets from the environment: API token, addresses of ledger and cache, keys of signatures, pseudonyms and cache."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from context_engine.errors import ConfigError
from context_engine.secrecy import keep_secret
from context_engine.settings.files import Interpolator
from context_engine.settings.layers import PREFIX

API_TOKEN: Final = f"{PREFIX}API_TOKEN"
_TOKEN_MIN: Final = 32


def read_api_token(env: Mapping[str, str], folder: Path) -> str | None:
    """Return the API token, stripped; None if unset.

    Args:
        env: `CONTEXT_ENGINE_API_TOKEN` holds the token in any form, or `${file:/run/secrets/NAME}`.
        folder: relative paths of files start here.

    Raises:
        ConfigError: it is shorter than 32 characters, or its file cannot be read.
    """
    return _long_secret(API_TOKEN, env, folder)


SESSION_KEY: Final = f"{PREFIX}SESSION_KEY"


def read_session_key(env: Mapping[str, str], folder: Path) -> str | None:
    """Return the key that encrypts the cookies of the pages; None if unset: each process then makes its own.

    Args:
        env: `CONTEXT_ENGINE_SESSION_KEY` holds the key in any form, or `${file:/run/secrets/NAME}`.
        folder: relative paths of files start here.

    Raises:
        ConfigError: it is shorter than 32 characters, or its file cannot be read.
    """
    return _long_secret(SESSION_KEY, env, folder)


AUDIT_LEDGER: Final = f"{PREFIX}AUDIT_LEDGER"
AUDIT_KEY: Final = f"{PREFIX}AUDIT_KEY"
AUDIT_FORMER_KEYS: Final = f"{PREFIX}AUDIT_FORMER_KEYS"
SECRET_PARAMETERS: Final = ("password", "sslpassword")
"""Secret parameters in the query of a libpq URL."""


def read_audit_ledger(env: Mapping[str, str], folder: Path) -> str | None:
    """Return the address of the ledger; None if unset.

    Args:
        env: `CONTEXT_ENGINE_AUDIT_LEDGER` is a file, `postgresql://USER:PASSWORD@HOST/DATABASE`, or
            `${file:/run/secrets/NAME}` with one of the two in it.
        folder: relative paths start here.

    Raises:
        ConfigError: the file it names cannot be read.
    """
    url = _read(AUDIT_LEDGER, env, folder)
    for password in _passwords(url or ""):
        keep_secret(password)
    return url


def read_audit_keys(env: Mapping[str, str], folder: Path) -> tuple[str, ...]:
    """Return the signing keys as written, the current one first, then former ones; () if unset.

    Args:
        env: `CONTEXT_ENGINE_AUDIT_KEY` and, separated by white space, `CONTEXT_ENGINE_AUDIT_FORMER_KEYS` hold the keys
            themselves, or `${file:/run/secrets/NAME}`.
        folder: relative paths start here.

    Raises:
        ConfigError: a file of keys cannot be read.
    """
    keys = tuple(key for name in (AUDIT_KEY, AUDIT_FORMER_KEYS) for key in (_read(name, env, folder) or "").split())
    for key in keys:
        keep_secret(key)
    return keys


def _passwords(url: str) -> Iterator[str]:
    """Yield the passwords of a URL, both encoded and decoded; host and database are no secrets."""
    try:
        parts = urlsplit(url)
        query = parse_qs(parts.query)
        passwords = [parts.password or "", *(value for name in SECRET_PARAMETERS for value in query.get(name, ()))]
    except ValueError:  # not a URL: refused where it is used
        passwords = [url]
    for password in filter(None, passwords):
        yield from (password, unquote(password))


def _long_secret(name: str, env: Mapping[str, str], folder: Path) -> str | None:
    secret = _read(name, env, folder)
    if secret is None:
        return None
    if len(secret) < _TOKEN_MIN:
        problem = f"has {len(secret)} characters: at least {_TOKEN_MIN} random ones are needed"
        raise ConfigError(f"{problem}, e.g. of 'openssl rand -hex 32'", key=name)
    keep_secret(secret)
    return secret


def _read(name: str, env: Mapping[str, str], folder: Path) -> str | None:
    written = env.get(name, "").strip()
    if not written:
        return None
    return str(Interpolator(env, folder, name, files=True).fill(written)).strip()


PRIVACY_KEY: Final = f"{PREFIX}PRIVACY_KEY"
_KEY_MIN: Final = 16


def read_privacy_key(env: Mapping[str, str], folder: Path) -> bytes | None:
    """Return the key of pseudonyms; None if unset.

    Args:
        env: `CONTEXT_ENGINE_PRIVACY_KEY` holds the key itself, or `${file:/run/secrets/NAME}`.
        folder: relative paths of files start here.

    Raises:
        ConfigError: it is shorter than 16 characters, or its file cannot be read.
    """
    written = env.get(PRIVACY_KEY, "")
    if not written:
        return None
    key = str(Interpolator(env, folder, PRIVACY_KEY, files=True).fill(written))
    if len(key) < _KEY_MIN:
        problem = (
            f"has {len(key)} characters: at least {_KEY_MIN} random ones are needed, e.g. of 'openssl rand -hex 32'"
        )
        raise ConfigError(problem, key=PRIVACY_KEY)
    keep_secret(key)
    return key.encode()


CACHE_URL: Final = f"{PREFIX}CACHE_URL"
CACHE_KEY: Final = f"{PREFIX}CACHE_KEY"


class SharedCache(NamedTuple):
    """Where processes share kept answers, and the secret that they are sealed with."""

    url: str
    secret: bytes

    def __repr__(self) -> str:
        return "SharedCache(...)"


def read_shared_cache(env: Mapping[str, str], folder: Path) -> SharedCache | None:
    """Return the shared cache of answers; None if none is named.

    Args:
        env: `CONTEXT_ENGINE_CACHE_URL` and `CONTEXT_ENGINE_CACHE_KEY` hold address and key, or
            `${file:/run/secrets/NAME}`.
        folder: relative paths of files start here.

    Raises:
        ConfigError: the key is missing or shorter than 32 characters, or a file cannot be read.
    """
    url, key = _read(CACHE_URL, env, folder), _read(CACHE_KEY, env, folder) or ""
    if url is None:
        return None
    for password in _passwords(url):
        keep_secret(password)
    if len(key) < _TOKEN_MIN:
        problem = (
            f"has {len(key)} characters, and {CACHE_URL} names a cache that processes share: at least {_TOKEN_MIN} "
            "random ones are needed, the same in all of them, e.g. of 'openssl rand -hex 32'"
        )
        raise ConfigError(problem, key=CACHE_KEY)
    keep_secret(key)
    return SharedCache(url, key.encode())


WEBHOOK_KEY: Final = f"{PREFIX}WEBHOOK_KEY"
_WEBHOOK_PREFIX: Final = "whsec_"
_WEBHOOK_BYTES: Final = range(24, 65)


def read_webhook_key(env: Mapping[str, str], folder: Path) -> bytes | None:
    """Return the key that signs events for a web hook; None if unset.

    Args:
        env: `CONTEXT_ENGINE_WEBHOOK_KEY` holds 24 to 64 bytes in base64, with or without `whsec_` before them as in
            Standard Webhooks, or `${file:/run/secrets/NAME}`.
        folder: relative paths of files start here.

    Raises:
        ConfigError: it has another form, or its file cannot be read.
    """
    written = _read(WEBHOOK_KEY, env, folder)
    if written is None:
        return None
    keep_secret(written)
    encoded = written.removeprefix(_WEBHOOK_PREFIX)
    keep_secret(encoded)
    try:
        key = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) not in _WEBHOOK_BYTES:
        problem = "must be 24 to 64 random bytes in base64, e.g. of 'openssl rand -base64 32'"
        raise ConfigError(problem, key=WEBHOOK_KEY)
    return key
