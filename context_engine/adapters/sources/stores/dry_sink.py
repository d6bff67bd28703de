"""The sink of a dry run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from context_engine.core.models import Chunk


class DrySink:
    """A `Sink` that stores nothing, and knows what is stored.

    Args:
        documents: returns {(document_id, version): content_hash} of a source.
    """

    def __init__(self, documents: Callable[[str], Mapping[tuple[str, str], str]]) -> None:
        self.documents = documents

    def put(self, source_id: str, document_id: str, version: str, content_hash: str, chunks: Sequence[Chunk]) -> bool:
        """Write nothing."""
        return True

    def delete(self, source_id: str, document_id: str, version: str) -> bool:
        """Remove nothing."""
        return False

    def commit(self) -> None:
        """Do nothing."""
