"""The files of a folder, and what each may be called."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from context_engine.ingest.file_names import shown_name

_HIDDEN: Final = (".", "~$")  # the latter says that somebody has the Office file of that name open


def files_of(root: Path, unread: Callable[[OSError, Path], None], linked: Callable[[str], None]) -> Iterator[Path]:
    """Yield the files of a folder in the order of their paths.

    Hidden ones, those by which Office marks a file as open ("~$rates.xlsx"), and linked folders are left out.

    Args:
        root: the folder.
        unread: told of a folder that cannot be listed.
        linked: told of a folder that is a link, by its path below `root` as it is shown.
    """
    found: list[Path] = []
    for folder, folders, names in os.walk(root, onerror=lambda error: unread(error, root)):
        here = Path(folder)
        links = {name for name in folders if os.path.islink(here / name)}  # noqa: PTH114 - Path's raises before 3.12
        for name in sorted(links):
            linked(shown_name((here / name).relative_to(root).as_posix()))
        folders[:] = [name for name in folders if not name.startswith(".") and name not in links]
        found += [here / name for name in names if not name.startswith(_HIDDEN)]
    yield from sorted(found, key=lambda file: file.relative_to(root).as_posix())


def names_of(file: Path, root: Path, *, alone: bool) -> list[str]:
    """Return the names a file may go by, as they are on the disk.

    A file given alone goes by every end of its full path, shortest first.
    """
    if not alone:
        return [file.relative_to(root).as_posix()]
    parts = file.absolute().parts[1:]
    return ["/".join(parts[-length:]) for length in range(1, len(parts) + 1)]
