"""The token of an Authorization header."""

from __future__ import annotations

from typing import Final

MOST_BYTES: Final = 16_384
"""Longest header that is looked at."""

_BLANK: Final = " \t"


def bearer_token(authorization: str | None) -> bytes | None:
    """Return the token of a header as its bytes; None where there is none.

    Args:
        authorization: the header's bytes read as Latin-1, as a server gives them; a text with other characters is taken
            as UTF-8.
    """
    if authorization is None or len(authorization) > MOST_BYTES:
        return None
    scheme, _, token = authorization.strip(_BLANK).partition(" ")
    token = token.strip(_BLANK)
    if scheme.lower() != "bearer" or not token:
        return None
    try:
        return token.encode("latin-1")
    except UnicodeEncodeError:
        return token.encode("utf-8", "surrogatepass")
