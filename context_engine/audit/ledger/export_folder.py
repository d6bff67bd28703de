"""The folder of an export: each file is there wholly or not at all, and what is there already is not written again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

_PARTIAL: Final = ".p"
_UNFINISHED: Final = ".unfinished"


class ExportFolder:
    """Files below a folder, and how many were written, kept and removed.

    Args:
        path: of the folder; it is made with the first file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written = self.kept = self.removed = 0

    def read(self, name: str) -> bytes | None:
        """Return a file, None where it is not there."""
        path = self.path / name
        return path.read_bytes() if path.is_file() else None

    def keeps(self, name: str) -> bool:
        """Return whether a file that never changes is there, and count it."""
        there = (self.path / name).is_file()
        self.kept += there
        return there

    def names(self, folder: str) -> set[str]:
        """Return the names of the files in a folder."""
        path = self.path / folder
        return {one.name for one in path.iterdir()} if path.is_dir() else set()

    def put(self, name: str, data: bytes, *, private: bool = False) -> None:
        """Write a file; the partial tiles that a full one takes the place of go.

        Args:
            name: its path below the folder.
            data: what it holds.
            private: its owner alone may read it.
        """
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}{_UNFINISHED}")
        unfinished.unlink(missing_ok=True)  # one that was left may be open to others
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666), "wb") as file:
            file.write(data)
        unfinished.replace(path)
        self.written += 1
        if (partial := path.with_name(f"{path.name}{_PARTIAL}")).is_dir():
            shutil.rmtree(partial)

    def remove(self, name: str) -> None:
        """Remove a file, where it is there."""
        path = self.path / name
        if path.is_file():
            path.unlink()
            self.removed += 1
