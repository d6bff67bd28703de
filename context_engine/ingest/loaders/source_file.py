"""A file that a loader reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from context_engine.ingest.loaded import LoadedDocument, Skipped
from context_engine.models import IngestSettings

__all__ = ["Loader", "SourceFile"]


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file inside the folder that is ingested.

    Attributes:
        path: where it is.
        name: its path relative to the folder, with "/"; what documents and errors are named by.
        settings: how it is read.
    """

    path: Path
    name: str
    settings: IngestSettings = field(default_factory=IngestSettings)

    def read(self) -> bytes:
        """Return the whole content."""
        return self.path.read_bytes()

    def open(self) -> BinaryIO:
        """Open the content to be read piece by piece."""
        return self.path.open("rb")


Loader = Callable[[SourceFile], Iterator[LoadedDocument | Skipped]]
"""From a file to its documents, and a `Skipped` for what gave none."""
