"""Where a returned passage can be read on: its file on this machine, or its address."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from context_engine.core.models import RankedChunk, SearchResult

_PAGED: Final = ".pdf"


class Places:
    """The places of a result's passages.

    Args:
        result: the answer.
        base: the folder of the embedded base, which knows where its documents' files are; None: no file is looked for.
    """

    def __init__(self, result: SearchResult, base: Path | None) -> None:
        from context_engine.adapters.sources.factory import in_embedded_base
        from context_engine.adapters.sources.local.folders import IngestedFolders

        self._folders = None if base is None else IngestedFolders(base)
        self._local = {spec.id for spec in result.specs if in_embedded_base(spec)}

    def file(self, chunk: RankedChunk) -> Path | None:
        """Return the file the passage was cut from, None where it is not on this machine."""
        path = chunk.chunk.path
        if self._folders is None or path is None or not self.embedded(chunk):
            return None
        return self._folders.file(chunk.source_id, path)

    def embedded(self, chunk: RankedChunk) -> bool:
        """Return whether the passage comes from the embedded base."""
        return chunk.source_id in self._local

    def folders(self, chunk: RankedChunk) -> list[Path]:
        """Return the folders and files that were ingested into the passage's source."""
        return [] if self._folders is None or not self.embedded(chunk) else self._folders.of(chunk.source_id)

    def link(self, chunk: RankedChunk) -> str | None:
        """Return the passage's address, else that of its file, at its page."""
        if chunk.url is not None:
            return chunk.url
        file = self.file(chunk)
        return None if file is None else file_address(file, chunk.page)


def file_address(file: Path, page: int | None) -> str:
    """Return the address of a file, of a PDF at a page."""
    address = file.absolute().as_uri()
    return f"{address}#page={page}" if page and file.suffix.lower() == _PAGED else address
