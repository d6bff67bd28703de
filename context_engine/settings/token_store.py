"""The issued tokens of a deployment, as hashes, in one SQLite file shared by its processes."""

from __future__ import annotations

import hmac
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from context_engine.core.concurrency.forking import Lock, abandon, forget_in_child
from context_engine.errors import InvalidRequest, nearest
from context_engine.settings.principals import NewToken, new_token, token_hash
from context_engine.settings.shared_database import SharedDatabase

TOKEN_FILE: Final = "tokens.sqlite"
_USED_EVERY_S: Final = 60
_COLUMNS: Final = "id, name, principal, created, expires, revoked, used"
_FIRST_END: Final = "min(?, coalesce(revoked, ?))"
_NO_HASH: Final = "0" * 64
_TABLE: Final = """
CREATE TABLE tokens (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, principal TEXT NOT NULL, sha256 TEXT NOT NULL,
    created INTEGER NOT NULL, expires INTEGER, revoked INTEGER, used INTEGER
) WITHOUT ROWID
"""
"""Times are seconds since 1970. A negative `revoked` is that of a token revoked for good at its absolute value."""


class StoredToken(NamedTuple):
    """A stored token; times are aware, UTC, whole seconds.

    Attributes:
        id: part of the token; shown in logs.
        name: its purpose, given by whoever added it.
        principal: the principal of its holder.
        expires: refused from then on; None: never.
        revoked: refused from then on; None: not revoked.
        used: last use, to the minute; None: never used.
        ended: revoked for good; it stays so if the clock is set back before `revoked`.
    """

    id: str
    name: str
    principal: str
    created: datetime
    expires: datetime | None
    revoked: datetime | None
    used: datetime | None
    ended: bool = False

    def opens(self, now: datetime) -> bool:
        """Return whether it is neither expired nor revoked at `now`."""
        return not self.is_revoked(now) and (self.expires is None or now < self.expires)

    def is_revoked(self, now: datetime) -> bool:
        """Return whether it is revoked at `now`."""
        return self.ended or (self.revoked is not None and self.revoked <= now)


class TokenStore:
    """The tokens of one deployment. Safe for threads and processes.

    Args:
        folder: the deployment's data folder; the first token creates the file.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / TOKEN_FILE
        self._file = SharedDatabase(
            self.path, (_TABLE,), version=1, holds="the tokens", if_exposed=", and replace the tokens"
        )
        self._lock = Lock()
        self._reader: sqlite3.Connection | None = None
        self._reads: tuple[int, int] | None = None
        forget_in_child(self)

    def forget(self) -> None:
        """Reopen the file in a forked child."""
        abandon(self._reader)
        self._reader = self._reads = None

    def add(self, name: str, principal: str, *, now: datetime, expires: datetime | None = None) -> NewToken:
        """Create a token and store its hash.

        Args:
            now: the moment it is made.
            expires: refused from then on; None: never.

        Raises:
            InvalidRequest: the token would already be expired.
            ConfigError: the file cannot be written.
        """
        with self._file.written() as connection:
            return _insert(connection, name, principal, now, expires)

    def revoke(self, token_id: str, *, now: datetime) -> StoredToken:
        """Revoke a token and return it; a token that is already revoked is unchanged.

        Raises:
            InvalidRequest: there is no token of that id.
            ConfigError: the file cannot be written.
        """
        with self._file.written() as connection:
            _found(connection, token_id)
            statement = f"UPDATE tokens SET revoked = -{_FIRST_END} WHERE id = ? AND coalesce(revoked, 0) >= 0"
            connection.execute(statement, (_seconds(now), _seconds(now), token_id))
            return _found(connection, token_id)

    def rotate(self, token_id: str, *, now: datetime, expires: datetime | None, until: datetime) -> NewToken:
        """Replace a token by a new one with the same name and principal, and revoke the old one.

        Args:
            expires: expiry of the new token.
            until: end of the old token, unless it expires earlier.

        Raises:
            InvalidRequest: the old token is unknown or no longer valid, or the new one would be expired already.
            ConfigError: the file cannot be written.
        """
        with self._file.written() as connection:
            old = _found(connection, token_id)
            if not old.opens(now):
                raise InvalidRequest(f"the token {token_id} is no longer valid: add a new one")
            made = _insert(connection, old.name, old.principal, now, expires)
            statement = f"UPDATE tokens SET revoked = {_FIRST_END} WHERE id = ?"
            connection.execute(statement, (_seconds(until), _seconds(until), token_id))
            return made

    def all(self) -> list[StoredToken]:
        """Return all tokens, oldest first.

        Raises:
            ConfigError: the file cannot be read.
        """
        return [_token(row) for row in self._rows(f"SELECT {_COLUMNS} FROM tokens ORDER BY created, id")]

    def matching(self, token_id: str, sha256: str) -> StoredToken | None:
        """Return the token of an id, even if expired, if the hash matches; compared in constant time.

        Raises:
            ConfigError: the file cannot be read.
        """
        row = next(iter(self._rows(f"SELECT {_COLUMNS}, sha256 FROM tokens WHERE id = ?", token_id)), None)
        good = hmac.compare_digest(_NO_HASH if row is None else row[-1], sha256)
        return _token(row[:-1]) if good and row is not None else None

    def note_used(self, token_id: str, now: datetime) -> None:
        """Record that a token was used; at most once a minute over all processes.

        Raises:
            ConfigError: the file cannot be written.
        """
        seconds = int(now.timestamp())
        with self._file.written() as connection:
            statement = "UPDATE tokens SET used = ? WHERE id = ? AND (used IS NULL OR used <= ?)"
            connection.execute(statement, (seconds, token_id, seconds - _USED_EVERY_S))

    def close(self) -> None:
        """Close the file; a later call opens it again."""
        with self._lock:
            self._let_go()

    def _rows(self, query: str, *values: str) -> list[Any]:
        """Return the rows of a query; () if the file is missing or just being created."""
        with self._lock, self._file.problems_named():
            try:
                stat = self.path.stat()
            except FileNotFoundError:
                return []
            if self._reader is None or self._reads != (stat.st_dev, stat.st_ino):
                self._let_go()
                reader = self._file.reader()
                if reader is None:
                    return []
                self._reader, self._reads = reader, (stat.st_dev, stat.st_ino)
            return self._reader.execute(query, values).fetchall()

    def _let_go(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = self._reads = None


def _insert(
    connection: sqlite3.Connection, name: str, principal: str, now: datetime, expires: datetime | None
) -> NewToken:
    if expires is not None and expires <= now:
        raise InvalidRequest("the token would be expired already: give a later time")
    made = new_token()
    row = (
        made.id,
        name,
        principal,
        token_hash(made.text),
        _seconds(now),
        None if expires is None else _seconds(expires),
    )
    connection.execute("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, NULL, NULL)", row)
    return made


def _found(connection: sqlite3.Connection, token_id: str) -> StoredToken:
    rows = [_token(row) for row in connection.execute(f"SELECT {_COLUMNS} FROM tokens")]
    row = next((row for row in rows if row.id == token_id), None)
    if row is None:
        raise InvalidRequest(f"there is no token {token_id!r}.{nearest(token_id, [known.id for known in rows])}")
    return row


def _token(row: tuple[str, str, str, int, int | None, int | None, int | None]) -> StoredToken:
    token_id, name, principal, created, *others = row
    expires, revoked, used = (None if moment is None else datetime.fromtimestamp(abs(moment), UTC) for moment in others)
    ended = (others[1] or 0) < 0
    return StoredToken(token_id, name, principal, datetime.fromtimestamp(created, UTC), expires, revoked, used, ended)


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())
