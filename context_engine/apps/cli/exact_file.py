"""Files that somebody checks byte by byte: no line end is translated."""

from __future__ import annotations

from pathlib import Path

from context_engine.apps.cli.console import note
from context_engine.errors import ConfigError


def read_exactly(path: Path) -> str:
    """Return the text of a file.

    Raises:
        ConfigError: it cannot be read, or is no UTF-8.
    """
    try:
        return path.read_bytes().decode()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=str(path)) from None
    except UnicodeDecodeError:
        raise ConfigError("is no text in UTF-8", file=str(path)) from None


def written_exactly(path: Path, content: str | bytes) -> None:
    """Write a file, and say so.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=str(path)) from None
    note(f"written: {path}")
