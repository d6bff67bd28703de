"""What a loader gives: a document as it stands in a file, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = ["LoadedDocument", "Skipped"]


class Skipped(NamedTuple):
    """A file or line that gave no document.

    Attributes:
        path: relative to the folder that is ingested.
        line: 1-based line of the file, None where the whole file is meant.
        error: False for what nobody asked for (no rule, an unknown kind of file), True for what should have worked.
    """

    path: str
    reason: str
    line: int | None = None
    error: bool = True

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}" if self.line else f"{self.path}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedDocument:
    """A document as it stands in a file.

    Attributes:
        path: relative to the folder that is ingested, with "/".
        text: what is cut; for a record its fields as text.
        offset: characters of the file that stand before `text` (front matter), so that spans are offsets in the file.
        fields: front matter, or the record; values are JSON values, dates and moments.
        header: what the first lines of the text say about the document ("Version: 3.2"); `fields` goes before it.
        record: whether the document is an entity record.
        line: 1-based line of the record in its file.
    """

    path: str
    text: str
    offset: int = 0
    fields: Mapping[str, Any] = field(default_factory=dict)
    header: Mapping[str, str] = field(default_factory=dict)
    record: bool = False
    line: int | None = None

    @property
    def stem(self) -> str:
        """The file's name without its suffix; for a record with its line."""
        name = self.path.rsplit("/", 1)[-1]
        stem = name.rsplit(".", 1)[0] or name
        return f"{stem}:{self.line}" if self.line else stem
