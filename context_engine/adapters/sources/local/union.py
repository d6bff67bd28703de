"""Several indexes of one schema as one: its statistics are those of an index that holds all their documents.

An index is a list of segments, and a segment is a few files that never change. So a folder of links to the segments of
several indexes, with the list of all of them, opens as one index; nothing is copied. A single index is opened so too:
the engine writes a lock beside what it opens, and a reader may not be allowed to write to the base.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import Any, Final

import tantivy

from context_engine.adapters.sources.local import index as indexing
from context_engine.errors import StoreError


def union(paths: Sequence[Path], metas: Sequence[Mapping[str, Any]]) -> tantivy.Searcher:
    """Return a searcher over several indexes; equal scores stand in the order of the indexes.

    The folder of links is gone when this returns: the searcher has the files open.

    Args:
        paths: directories of the indexes, at least one.
        metas: the content of each `meta.json` (`index.read_meta`).

    Raises:
        OSError, ValueError: a file is not there, or not any more; look at the indexes again.
        StoreError: there is no place for temporary folders.
    """
    with link_folder() as folder:
        for path, meta in zip(paths, metas, strict=True):
            kept = indexing.segments(meta)
            for file in os.scandir(path.absolute()):
                if file.name.partition(".")[0] in kept:
                    link(Path(file.path), folder / file.name)
        joined = {
            **metas[0],
            "segments": [segment for meta in metas for segment in meta["segments"]],
            "opstamp": max(meta["opstamp"] for meta in metas),
        }
        (folder / indexing.META).write_text(json.dumps(joined), "utf-8")
        return indexing.opened(folder).searcher()


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
