"""Whether a path exists. A folder that this user may not enter is an error; its files do not count as missing."""

from __future__ import annotations

from pathlib import Path


def is_there(path: Path) -> bool:
    """Return whether a path exists; links are followed.

    Since Python 3.14 `Path.exists` returns False for every error, so a file in a closed folder would look missing.

    Raises:
        OSError: it cannot be looked up, e.g. PermissionError for a closed folder above it.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
