"""The folders that documents were ingested from, so that a passage can be opened in its file.

Chunks, tags and answers know only a document's path below the ingested folder: the folder's place on this machine is
private. It stands in a file of the base.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from context_engine.ingest.files import original_name, shown_name

_FILE: Final = "folders.json"
_FORM: Final = 1
_MOST: Final = 100


class IngestedFolders:
    """The folders ingested into each source of a base, the latest first; an unreadable file counts as empty."""

    def __init__(self, base: Path) -> None:
        self._path = base / _FILE

    def add(self, source_ids: Iterable[str], ingested: Path) -> None:
        """Remember that a folder, or a single file, was ingested into sources.

        Raises:
            OSError: the file cannot be written.
        """
        folders = dict(self._held())
        place = str(ingested.absolute())
        for source_id in source_ids:
            folders[source_id] = [place, *(known for known in folders.get(source_id, ()) if known != place)][:_MOST]
        temporary = self._path.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps({"form": _FORM, "sources": folders}), "utf-8")
        temporary.replace(self._path)

    def of(self, source_id: str) -> list[Path]:
        """Return the folders and files that were ingested into a source, the latest first."""
        return [Path(folder) for folder in self._held().get(source_id, ())]

    def file(self, source_id: str, path: str) -> Path | None:
        """Return the file of a document, None if none of the source's folders holds it any more.

        Args:
            path: of the document, relative to the ingested folder.
        """
        for place in self.of(source_id):
            if place.is_dir():
                file = place / os.fsdecode(original_name(path))
                if file.is_relative_to(place) and ".." not in file.parts and file.is_file():
                    return file
            elif place.is_file() and f"/{shown_name(place.as_posix())}".endswith(f"/{path}"):
                return place
        return None

    def _held(self) -> Mapping[str, Sequence[str]]:
        try:
            folders = json.loads(self._path.read_text("utf-8"))
            return dict(folders["sources"]) if folders["form"] == _FORM else {}
        except (OSError, ValueError, TypeError, KeyError):
            return {}
