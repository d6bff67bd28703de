"""When a checkpoint is due, and which process makes it: kept in the ledger, so that one does and the others see it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from sqlalchemy import Connection, delete, insert, select

from context_engine.audit.ledger.schema import meta

_NAME: Final = "publication"


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What was handed out, and who is at it.

    Attributes:
        done: records that the last checkpoint had which went out by each way, {name of the way: size}.
        tried: seconds since 1970 at which the last one was made.
        tried_size: records that it had.
        leased: seconds since 1970 until which a process is at it; 0: none is.
    """

    done: Mapping[str, int] = field(default_factory=dict)
    tried: float = 0.0
    tried_size: int = 0
    leased: float = 0.0

    def owed(self, ways: Iterable[str], size: int) -> tuple[str, ...]:
        """Return the ways out that have not had a checkpoint of that size."""
        return tuple(way for way in ways if self.done.get(way, 0) != size)

    def due(self, ways: Iterable[str], size: int, now: float, *, records: int, seconds: float) -> bool:
        """Whether a checkpoint is due: so many records or seconds after the last, where one is owed."""
        if not size or not self.owed(ways, size):
            return False
        return size - self.tried_size >= records or not 0 <= now - self.tried < seconds

    def given(self, ways: Iterable[str], size: int) -> Publication:
        """Return this once a checkpoint has gone out by some ways, with nobody at it any more."""
        return replace(self, done={**self.done, **dict.fromkeys(ways, size)}, leased=0.0)


def read_publication(connection: Connection) -> Publication:
    """Return what the ledger says of it; where that cannot be read, nothing was handed out."""
    written = connection.scalar(select(meta.c.value).where(meta.c.name == _NAME))
    try:
        said = json.loads(written or "{}")
        return Publication(
            done={str(way): int(size) for way, size in said.get("done", {}).items()},
            tried=float(said.get("tried", 0.0)),
            tried_size=int(said.get("tried_size", 0)),
            leased=float(said.get("leased", 0.0)),
        )
    except (ValueError, TypeError, AttributeError):
        return Publication()


def write_publication(connection: Connection, state: Publication) -> None:
    """Store it, inside the caller's transaction."""
    said = {"done": dict(state.done), "tried": state.tried, "tried_size": state.tried_size, "leased": state.leased}
    connection.execute(delete(meta).where(meta.c.name == _NAME))
    connection.execute(insert(meta).values(name=_NAME, value=json.dumps(said)))
