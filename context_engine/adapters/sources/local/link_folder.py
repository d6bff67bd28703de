"""A folder for links, there for as long as an index is opened."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import Final

from context_engine.errors import StoreError

_IN_MEMORY: Final = "/dev/shm"
"""A link took 5 microseconds here, and 2 milliseconds on a disk that others were writing to."""

_PREFIX: Final = "context-engine-links-"
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_ROOM_BYTES: Final = 4_000_000
"""Far more than the links of one search; where memory has less, the disk is taken."""

_LEFT_BEHIND_S: Final = 60.0
_TRIES: Final = 10


@contextmanager
def link_folder() -> Iterator[Path]:
    """Yield an empty folder of its own, and remove it.

    Raises:
        StoreError: there is no place for one, or no room in it.
    """
    folder = _made()
    try:
        yield folder
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise StoreError(
            f"there is no room for links to the index in {folder.parent} ({error}): make some, or set TMPDIR to a "
            "folder that has it"
        ) from error
    finally:
        _remove(folder)


def link(file: Path, to: Path) -> None:
    """Link a file; symbolic links need a right on some systems, hard links one and the same disk."""
    for make in (os.symlink, os.link):
        with suppress(OSError, NotImplementedError):
            make(file, to)
            return
    shutil.copyfile(file, to)


def _made() -> Path:
    try:
        place = _IN_MEMORY if _has_room(_IN_MEMORY) else gettempdir()
        _sweep(place)
        return Path(mkdtemp(prefix=_PREFIX, dir=place))
    except OSError as error:
        raise StoreError(
            f"no temporary folder can be made ({error}): a search needs one for links to the index; set TMPDIR to a "
            "folder that can be written to"
        ) from error


def _has_room(place: str) -> bool:
    return os.access(place, os.W_OK) and shutil.disk_usage(place).free >= _ROOM_BYTES


def _remove(folder: Path) -> None:
    """Remove a folder; the engine may just be making a lock in it."""
    for _ in range(_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return


@cache
def _sweep(place: str) -> None:
    """Remove, once in a process, what processes have left that ended in between."""
    for folder in Path(place).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _LEFT_BEHIND_S:
                shutil.rmtree(folder, ignore_errors=True)
