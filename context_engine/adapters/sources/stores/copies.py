"""Copies of a store in its server, for trials of changes that must not reach the store.

A data folder with the file `store-copies.json` is a trial's: sources and sinks opened with it use the copies that the
file names, and nothing else, also when the copies are gone.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from context_engine.errors import ConfigError, SourceError, StoreError

_FILE: Final = "store-copies.json"
_MARK: Final = "_copy_"
_MOST_NAME: Final = 40
"""Characters of the store's name in that of a copy; a name in PostgreSQL has 63 at most."""


class StoreName(NamedTuple):
    """A store of a server.

    Attributes:
        server: names the server: the adapter and the connection.
        name: of the store there.
    """

    server: str
    name: str

    def within(self, data_dir: Path) -> StoreName:
        """Return the store for those who work in a data folder: its copy, if the folder is a trial's.

        Raises:
            ConfigError: the folder is a trial's, without a copy of this store.
        """
        copies = _read(data_dir)
        if copies is None:
            return self
        if self.key not in copies:
            raise ConfigError(
                f"a trial is about one store, and this copy has none of {self.name!r} of {self.server}: give the "
                "sources one store, or leave those of the other out of the configuration"
            )
        return self._replace(name=copies[self.key])

    @property
    def key(self) -> str:
        """The key under which the file of a trial names this store."""
        return f"{self.server}/{self.name}"

    def new_copy(self) -> str:
        """Return a name for a copy."""
        return f"{self.begin_of_copies}{secrets.token_hex(6)}"

    @property
    def begin_of_copies(self) -> str:
        """The prefix of the names of its copies."""
        return f"{self.name[:_MOST_NAME]}{_MARK}"

    @property
    def copies(self) -> str:
        """A regular expression for the names of its copies; names have no special characters."""
        return f"^{self.begin_of_copies}[0-9a-f]{{12}}$"


class CopiedStore:
    """The methods of a store that make it `AccessProvable` and `CopiesElsewhere`."""

    _own: StoreName

    if TYPE_CHECKING:

        def _copy_as(self, name: str) -> None:
            """Copy all visible documents, and everything learnt, to a new store of the server.

            Raises:
                StoreError, SourceError: there is nothing to copy, or the server failed; nothing is left of the copy.
            """

        def _remove_copy(self, name: str) -> None:
            """Remove a copy; nothing happens if it is gone."""

    def copy_to(self, data_dir: Path) -> None:
        """Copy a snapshot of the store for a trial in a data folder (`AccessProvable`).

        Raises:
            StoreError: there is nothing to copy, or the server failed.
        """
        name = self._own.new_copy()
        try:
            self._copy_as(name)
        except SourceError as error:
            raise StoreError(f"the store {self._own.name!r} cannot be copied: {error}") from error
        _write(data_dir, {**(_read(data_dir) or {}), self._own.key: name})

    def drop_copy(self, data_dir: Path) -> None:
        """Remove the copy for a data folder (`CopiesElsewhere`); nothing happens if there is none.

        Raises:
            SourceError: the server failed.
        """
        copies = _read(data_dir) or {}
        name = copies.pop(self._own.key, "")
        if _MARK in name:
            self._remove_copy(name)
            _write(data_dir, copies)


def _read(data_dir: Path) -> dict[str, str] | None:
    """Return the copies that a data folder names; None: it is not a trial's."""
    file = data_dir / _FILE
    return dict(json.loads(file.read_text("utf-8"))) if file.is_file() else None


def _write(data_dir: Path, copies: dict[str, str]) -> None:
    (data_dir / _FILE).write_text(json.dumps(copies), "utf-8")
