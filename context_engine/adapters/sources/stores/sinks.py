"""What sinks of every store share, and the sink of a dry run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from context_engine.core.models import Chunk


class CommittingSink(ABC):
    """A sink that is left like a transaction: it commits unless an error is raised, and always closes."""

    @abstractmethod
    def commit(self) -> None:
        """Make everything written so far durable and searchable."""

    @abstractmethod
    def close(self) -> None:
        """Release the store without committing; may be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.commit()
        finally:
            self.close()


class DrySink:
    """A `Sink` that writes nothing, but lists the stored documents.

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
