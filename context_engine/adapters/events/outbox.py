"""Events that wait for their delivery: one file each, so that neither a crash nor a second process loses one."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from context_engine.core.models import Event
from context_engine.errors import ConfigError

logger = logging.getLogger(__name__)
OUTBOX: Final = "events-outbox"
"""Name of the outbox in the data folder."""

MOST_WAITING: Final = 10_000
_SUFFIX: Final = ".json"


class WaitingEvent(NamedTuple):
    """An event in the outbox: its id, its envelope as JSON, and its file."""

    event_id: str
    body: str
    file: Path


class Outbox:
    """A folder of waiting events that only its owner may read. Several threads and processes may use it.

    Args:
        most: how many events may wait; beyond that the oldest are dropped, with an error in the log.
    """

    def __init__(self, folder: Path, most: int = MOST_WAITING) -> None:
        self._folder, self._most = folder, most

    def put(self, event: Event, body: str) -> int:
        """Keep an event durably; return how many older ones were dropped to make room.

        Raises:
            ConfigError: it cannot be written.
        """
        name = f"{event.time:%Y%m%dT%H%M%S%f}-{hashlib.sha256(event.event_id.encode()).hexdigest()[:32]}"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write_durably(self._folder / f"{name}{_SUFFIX}", f"{event.event_id}\n{body}".encode())
        except OSError as error:
            problem = f"events cannot be kept for their delivery: {error.strerror}"
            raise ConfigError(problem, file=str(self._folder)) from None
        return self._make_room()

    def waiting(self) -> Iterator[WaitingEvent]:
        """Yield the waiting events, the oldest first."""
        for file in self._files():
            with suppress(OSError):  # delivered by another process meanwhile
                event_id, _, body = file.read_text("utf-8").partition("\n")
                yield WaitingEvent(event_id, body, file)

    def __len__(self) -> int:
        return len(self._files())

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob(f"*{_SUFFIX}"))

    def _make_room(self) -> int:
        oldest = self._files()[: -self._most]
        for file in oldest:
            file.unlink(missing_ok=True)
        if oldest:
            logger.error("%d events were dropped: more than %d wait in %s", len(oldest), self._most, self._folder)
        return len(oldest)


def _write_durably(file: Path, content: bytes) -> None:
    """Write a file that is there whole or not at all."""
    temporary = file.with_suffix(f".{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(file)
