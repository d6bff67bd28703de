"""Several indexes of one schema opened as one, with the statistics of an index of all their documents.

An index is a list of segments, and a segment is a few files that never change. So a folder of links to the segments of
several indexes, with a list of all of them, opens as one index; nothing is copied. A single index is opened this way
too: tantivy writes a lock next to the index, and a reader may lack write permission on the base.
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
    """Return a searcher over several indexes; rows of equal scores are in the order of the indexes.

    The folder of links is deleted when this returns: the searcher has the files open.

    Args:
        paths: directories of the indexes, at least one.
        metas: the content of each `meta.json` (`index.read_meta`).

    Raises:
        OSError, ValueError: a file is missing, perhaps after a commit; read the indexes again.
        StoreError: no temporary folder can be created.
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
"""A link took 5 microseconds here, and 2 milliseconds on a busy disk."""
_PREFIX: Final = "context-engine-links-"
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_ROOM_BYTES: Final = 4_000_000
"""Far more than the links of one search need; with less free memory, the disk is used."""
_LEFT_BEHIND_S: Final = 60.0
_TRIES: Final = 10


@contextmanager
def link_folder() -> Iterator[Path]:
    """Yield a new empty folder, and remove it.

    Raises:
        StoreError: it cannot be created, or the disk is full.
    """
    folder = _made()
    try:
        yield folder
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise StoreError(
            f"no space for links to the index in {folder.parent} ({error}): free some, or set TMPDIR to a folder "
            "that has space"
        ) from error
    finally:
        _remove(folder)


def link(file: Path, to: Path) -> None:
    """Link a file; symbolic links need a permission on some systems, hard links the same disk."""
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
            f"no temporary folder can be created ({error}): a search needs one for links to the index; set TMPDIR to a "
            "writable folder"
        ) from error


def _has_room(place: str) -> bool:
    return os.access(place, os.W_OK) and shutil.disk_usage(place).free >= _ROOM_BYTES


def _remove(folder: Path) -> None:
    """Remove a folder; retried, because tantivy may be creating a lock in it."""
    for _ in range(_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return


@cache
def _sweep(place: str) -> None:
    """Remove, once per process, the folders left by killed processes."""
    for folder in Path(place).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _LEFT_BEHIND_S:
                shutil.rmtree(folder, ignore_errors=True)
