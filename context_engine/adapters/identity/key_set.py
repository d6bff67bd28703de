"""The public keys of an OpenID Connect provider, as its JSON Web Key Set publishes them (RFC 7517)."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.exceptions import InvalidKeyError

logger = logging.getLogger(__name__)

_MOST_KEYS: Final = 200
_LEAST_RSA_BITS: Final = 2048
_FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA",)),
    "ES256": ("P-256",),
    "ES384": ("P-384",),
    "ES512": ("P-521",),
    "EdDSA": ("Ed25519", "Ed448"),
}
"""What a key must be for an algorithm: an RSA key, or one on a curve."""

_READERS: Final[Mapping[str, Any]] = {"RSA": RSAAlgorithm, "EC": ECAlgorithm, "OKP": OKPAlgorithm}


class _Key(NamedTuple):
    """A public key and the one algorithm it is for, None where the provider does not say."""

    public: Any
    algorithm: str | None


class KeySet:
    """Public keys by their ids.

    Args:
        keys: by the id, and by RSA or the curve.
    """

    def __init__(self, keys: Mapping[tuple[str, str], _Key]) -> None:
        self._keys = dict(keys)

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, kid: str, algorithm: str) -> Any:
        """Return the public key of an id that an algorithm can use; None where there is none."""
        for family in _FAMILIES[algorithm]:
            key = self._keys.get((kid, family))
            if key is not None and key.algorithm in (None, algorithm):
                return key.public
        return None


def read_key_set(document: Any) -> KeySet:
    """Return the keys of a document that can check a signature; any others are left out.

    Raises:
        ValueError: it is no key set, or holds none of them.
    """
    rows = document.get("keys") if isinstance(document, Mapping) else None
    if not isinstance(rows, list):
        raise ValueError("it is no JSON Web Key Set: check that the address is the provider's jwks_uri")
    keys: dict[tuple[str, str], _Key] = {}
    for row in rows[:_MOST_KEYS]:
        found = _read(row) if isinstance(row, Mapping) else None
        if found is not None:
            keys.setdefault(found[0], found[1])
    if not keys:
        raise ValueError(f"none of its {len(rows)} keys can check a signature of a kind that is taken")
    return KeySet(keys)


def _read(row: Mapping[str, Any]) -> tuple[tuple[str, str], _Key] | None:
    """Return a key with its place; None where it is no public key for signatures, has no id, or is too short."""
    kid, kind, operations = row.get("kid"), row.get("kty"), row.get("key_ops", ["verify"])
    verifies = row.get("use", "sig") == "sig" and isinstance(operations, list) and "verify" in operations
    if not isinstance(kid, str) or not isinstance(kind, str) or kind not in _READERS or not verifies or "d" in row:
        return None
    family = "RSA" if kind == "RSA" else str(row.get("crv"))
    algorithm = row.get("alg")
    if not any(family in families for families in _FAMILIES.values()):
        return None
    if algorithm is not None and family not in _FAMILIES.get(str(algorithm), ()):
        return None
    try:
        public = _READERS[kind].from_jwk(json.dumps(dict(row)))
    except (InvalidKeyError, ValueError, TypeError, KeyError, AttributeError) as error:
        logger.warning("a key of the provider cannot be read: %s (kid %.80r)", type(error).__name__, kid)
        return None
    if family == "RSA" and public.key_size < _LEAST_RSA_BITS:
        logger.warning("a key of the provider is too short: %d bits (kid %.80r)", public.key_size, kid)
        return None
    return (kid, family), _Key(public, algorithm)
