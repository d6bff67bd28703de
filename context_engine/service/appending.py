"""Files of lines, to which several threads and processes append."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from context_engine.core.concurrency.forking import Lock
from context_engine.errors import ConfigError

_WRITING: Final = Lock()


def append_line(path: Path, line: str) -> None:
    """Append a line to a file, which is made with its folders if it is missing; only its owner may read it.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _WRITING:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(descriptor, "ab") as file:
                file.write(line.encode() + b"\n")
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=str(path)) from None


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file; none without the file.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        return path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read ({type(error).__name__})", file=str(path)) from None
