"""Whether a path exists, where a folder that this user may not enter is an error, and no absence."""

from __future__ import annotations

from pathlib import Path


def is_there(path: Path) -> bool:
    """Return whether a path exists; links are followed.

    `Path.exists` answers False to every failure since Python 3.14: what may not be looked at would pass for missing.

    Raises:
        OSError: it cannot be looked up, e.g. PermissionError for a closed folder above it.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
