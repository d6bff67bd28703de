"""What one search may use: the connection as read for it, and how often it may call."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from context_engine.adapters.http.keys import ApiKey
from context_engine.settings.connections import Connection

__all__ = ["Access", "Calls"]


@dataclass(slots=True)
class Access:
    """A connection as it was read for one search; read again after a refused key.

    Attributes:
        since: monotonic seconds when it was read.
    """

    connection: Connection
    key: ApiKey
    since: float

    @property
    def server(self) -> str:
        """The base URL without its version."""
        return self.connection.base_url.removesuffix("/v1")

    @property
    def limit(self) -> int | None:
        """Calls a minute that this process may make."""
        rate = self.connection.rate_per_minute
        return None if rate is None else max(int(rate * self.connection.rate_share), 1)


@dataclass(slots=True)
class Calls:
    """The calls one search may still make beyond the first of each dataset; shared by its threads."""

    spare: int
    attempts: int
    lock: threading.Lock = field(default_factory=threading.Lock)

    def more(self) -> bool:
        """Take one; False if there is none."""
        with self.lock:
            self.spare -= 1
            return self.spare >= 0
