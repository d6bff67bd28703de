"""The folders that documents were ingested from, so that a passage can be opened in its file.

Chunks, tags and answers know a document's path below the folder that was ingested, and no more: where that folder lies
on this machine is nobody else's business. It stands in a file of the base.
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
    """What was ingested into each source of a base, the latest first; a file that cannot be read holds nothing.

    Args:
        base: the folder of the base.
    """

    def __init__(self, base: Path) -> None:
        self._path = base / _FILE

    def add(self, source_ids: Iterable[str], ingested: Path) -> None:
        """Remember that a folder, or a single file, was ingested into sources.

        Raises:
            OSError: it cannot be written.
        """
        held = dict(self._held())
        place = str(ingested.absolute())
        for source_id in source_ids:
            held[source_id] = [place, *(one for one in held.get(source_id, ()) if one != place)][:_MOST]
        temporary = self._path.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps({"form": _FORM, "sources": held}), "utf-8")
        temporary.replace(self._path)

    def of(self, source_id: str) -> list[Path]:
        """Return the folders and files that were ingested into a source, the latest first."""
        return [Path(one) for one in self._held().get(source_id, ())]

    def file(self, source_id: str, path: str) -> Path | None:
        """Return the file of a document, None where it is in none of the source's folders any more.

        Args:
            source_id: the source.
            path: of the document, relative to the folder that was ingested.
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
            held = json.loads(self._path.read_text("utf-8"))
            return dict(held["sources"]) if held["form"] == _FORM else {}
        except (OSError, ValueError, TypeError, KeyError):
            return {}
