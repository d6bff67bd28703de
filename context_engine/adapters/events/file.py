"""Events as lines of JSON in a file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from context_engine.adapters.events import EventContext, event_json
from context_engine.adapters.model_access import Options, read_options
from context_engine.core.concurrency.forking import Lock
from context_engine.core.models import Event
from context_engine.errors import ConfigError

_LOOKED_AT: Final = 1024 * 1024


class FileOptions(Options):
    """The options of the sink `file`.

    Attributes:
        path: absolute; the file is made if it is missing.
    """

    path: Path


def open_file(options: Mapping[str, Any], context: EventContext) -> FileSink:
    """Return the sink `file`; nothing is written yet.

    Raises:
        ConfigError: an unusable option.
    """
    path = read_options(FileOptions, options).path
    if not path.is_absolute():
        problem = f"'{path}' is relative: it would be a different file in each folder; write an absolute path"
        raise ConfigError(problem, key="path")
    return FileSink(path, context.source)


class FileSink:
    """Appends each event to a file that only its owner may read, durably and in one write. Thread-safe.

    An event that stands in the last MiB already is not written again.
    """

    def __init__(self, path: Path, source: str) -> None:
        self._path, self._source, self._writing = path, source, Lock()

    def send(self, event: Event) -> None:
        line = event_json(event, self._source).encode()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._writing:
                descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
                with os.fdopen(descriptor, "r+b", buffering=0) as file:
                    _append(file, event.event_id, line)
        except OSError as error:
            raise ConfigError(f"events cannot be written: {error.strerror}", file=str(self._path)) from None

    def close(self) -> None:
        """Do nothing: the file is open only during a write."""


def _append(file: BinaryIO, event_id: str, line: bytes) -> None:
    """Append a line, on a line of its own even after one that a crash cut off."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _LOOKED_AT))
    tail = file.read()
    if f'"id":{json.dumps(event_id, ensure_ascii=False)},'.encode() in tail:
        return
    file.write((b"" if tail.endswith(b"\n") or not tail else b"\n") + line + b"\n")
    os.fsync(file.fileno())
