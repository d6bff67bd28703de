"""The MACs of rows, made with the key in force and checked with any that is known; without a key there are none."""

from __future__ import annotations

import hmac
from typing import Final, NamedTuple

from context_engine.audit.formats.keys import Keyring
from context_engine.audit.formats.mac import pending_mac, row_mac


class Seal(NamedTuple):
    """A row's MAC, and the key that made it; both None without a key."""

    mac: bytes | None
    key_id: str | None


NO_SEAL: Final = Seal(None, None)


class Seals:
    """Makes and checks the MACs of rows.

    Args:
        keyring: the key in force and former ones; None: there is no key.
    """

    def __init__(self, keyring: Keyring | None) -> None:
        self._keyring = keyring
        self._key_id = None if keyring is None else keyring.key_id
        self._key = None if keyring is None or self._key_id is None else keyring.mac_key(self._key_id)

    def pending(self, leaf: bytes) -> Seal:
        """Return the MAC of a record that waits.

        Args:
            leaf: its leaf hash.
        """
        return NO_SEAL if self._key is None else Seal(pending_mac(self._key, leaf), self._key_id)

    def row(self, index: int, leaf: bytes) -> Seal:
        """Return the MAC of a record in the log.

        Args:
            index: its place.
            leaf: its leaf hash.
        """
        return NO_SEAL if self._key is None else Seal(row_mac(self._key, index, leaf), self._key_id)

    def vouches(self, leaf: bytes, seal: Seal) -> bool:
        """Return whether a record that waits has a MAC of a key that is known, and it is right.

        Args:
            leaf: its leaf hash.
            seal: what stands beside it.
        """
        if self._keyring is None or seal.mac is None or seal.key_id is None:
            return False
        key = self._keyring.mac_key(seal.key_id)
        return key is not None and hmac.compare_digest(pending_mac(key, leaf), seal.mac)
