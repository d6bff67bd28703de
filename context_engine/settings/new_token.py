"""Tokens for programs: how one is made, and by what it is found without being kept."""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Final, NamedTuple

_ID_BYTES: Final = 5
_SECRET_BYTES: Final = 32
_FORM: Final = re.compile(rb"ce_([0-9a-f]{10})_[A-Za-z0-9_-]{43}")


class NewToken(NamedTuple):
    """A token, to be shown once.

    Attributes:
        id: ten hexadecimal digits, no secret.
        text: ce_ID_SECRET; 256 random bits in the alphabet of URLs.
    """

    id: str
    text: str


def new_token() -> NewToken:
    """Return a random token."""
    token_id = secrets.token_hex(_ID_BYTES)
    return NewToken(token_id, f"ce_{token_id}_{secrets.token_urlsafe(_SECRET_BYTES)}")


def id_in(token: bytes) -> str | None:
    """Return the id that stands in a token; None where it has another form."""
    found = _FORM.fullmatch(token)
    return None if found is None else found[1].decode()


def token_hash(token: str | bytes) -> str:
    """Return the SHA-256 of a token in hexadecimal; a token is random, so no slow hash is needed."""
    return hashlib.sha256(token if isinstance(token, bytes) else token.encode()).hexdigest()
