"""What sinks of stores share, and the sink of a dry run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

from context_engine.adapters.sources.stores.chunk_rows import ChunkRow, Place, SourcePlace, claimed_by, document_rows
from context_engine.adapters.sources.stores.served_store import other_model
from context_engine.core.models import AccessClass, Chunk, WholeDocument
from context_engine.core.protocols import Embedder
from context_engine.errors import StoreError

Name = tuple[str, str, str]
"""Of a document: source, document id and version."""


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
                self._finish()
        finally:
            self.close()

    def _finish(self) -> None:  # noqa: B027  most stores have nothing to do here
        """Finish a run after its last commit, such as by building indexes once instead of with each commit."""


class KnownDocument(Protocol):
    """A document of the last commit, or of the one that is being written."""

    @property
    def content_hash(self) -> str: ...

    @property
    def source_file(self) -> str | None: ...


D = TypeVar("D", bound=KnownDocument)


class WrittenDocument(NamedTuple):
    """A document to write.

    Attributes:
        claimed: the classification that it claims, or "".
        indexed_at: when it was ingested, ISO 8601.
        vectors: of each chunk, if they were made elsewhere; None: they are to be made.
    """

    name: Name
    content_hash: str
    claimed: str
    indexed_at: str
    rows: Sequence[ChunkRow]
    vectors: Sequence[Sequence[Sequence[float]]] | None = None


class ServerSink(CommittingSink, Generic[D]):
    """A sink over a server without transactions of any size: its documents are unseen until a commit names them."""

    ingest: str
    """The command that fills the store, for errors."""
    _now: Callable[[], datetime]
    _place: Place
    _embedder: Embedder | None
    _repair: bool
    _broken = False

    @abstractmethod
    def _documents(self, source_id: str) -> dict[tuple[str, str], D]:
        """Return {(document_id, version): document} of a source, including uncommitted changes."""

    @abstractmethod
    def _taken(self, name: Name, chunk_ids: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Return {chunk id: (document_id, version)} of the ids that another document of the source has."""

    @abstractmethod
    def _write(self, document: WrittenDocument, holds: AccessClass) -> None:
        """Write a document that the next commit does not have yet, to an access class."""

    @abstractmethod
    def _remove(self, name: Name) -> None:
        """Take a document out of the next commit."""

    def put(self, source_id: str, document_id: str, version: str, content_hash: str, chunks: Sequence[Chunk]) -> bool:
        """Write a document, replacing its chunks; return False, writing nothing, if `content_hash` is unchanged.

        Raises:
            InvalidRequest: a chunk cannot be stored, or its id already exists in the source; the document is unchanged.
            EmbedderError: the model failed: everything since the last commit is lost.
            SourceError: the server failed: everything since the last commit is lost.
        """
        known = self._documents(source_id).get((document_id, version))
        if known is not None and known.content_hash == content_hash:
            return False
        moment = self._now().isoformat(timespec="seconds")
        self._put((source_id, document_id, version), content_hash, moment, chunks)
        return True

    def put_stored(self, source_id: str, document: WholeDocument) -> None:
        """Write or replace a document of another store (`CopySink`); headings that are not searched get no vectors."""
        name = (source_id, *document.key)
        self._put(name, document.content_hash, document.indexed_at, document.chunks, document.vectors)

    def _put(
        self,
        name: Name,
        content_hash: str,
        moment: str,
        chunks: Sequence[Chunk],
        vectors: Sequence[Sequence[Sequence[float]]] | None = None,
    ) -> None:
        """Write a document in the place of the former one."""
        rows = document_rows(chunks, *name[1:], lambda chunk_ids: self._taken(name, chunk_ids))
        document = WrittenDocument(name, content_hash, claimed_by(chunks) or "", moment, rows, vectors)
        with self._whole():
            self._remove(name)
            self._write(document, (self._place(name[0]) or SourcePlace()).holds(document.claimed))

    def _vectors_for(self, model_id: str | None, dimension: int) -> tuple[str | None, int]:
        """Return the model and the dimension of the vectors after this writer, from those of the store.

        Raises:
            StoreVersionMismatch: the store's are of another model, and are not to be made anew.
        """
        embedder = self._embedder
        if embedder is None or embedder.model_id == model_id:
            return model_id, dimension
        if model_id is not None and not self._repair:
            raise other_model(model_id, embedder.model_id, self.ingest)
        return embedder.model_id, len(embedder.embed_documents(["dimension"])[0])

    def delete(self, source_id: str, document_id: str, version: str) -> bool:
        """Remove a document; return whether it existed."""
        if (document_id, version) not in self._documents(source_id):
            return False
        with self._whole():
            self._remove((source_id, document_id, version))
        return True

    def documents(self, source_id: str) -> Mapping[tuple[str, str], str]:
        """Return {(document_id, version): content_hash} of the source, including uncommitted changes."""
        return {name: stored.content_hash for name, stored in self._documents(source_id).items()}

    def file_of(self, source_id: str, document_id: str, version: str) -> str | None:
        """Return the path of a document's file, or None if its chunks do not state it."""
        stored = self._documents(source_id).get((document_id, version))
        return None if stored is None else stored.source_file

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Refuse everything after a failure that may have left half a document.

        Raises:
            StoreError: an earlier change failed.
        """
        if self._broken:
            raise StoreError(
                f"everything written since the last commit is lost, because a change failed: run '{self.ingest}' again"
            )
        self._broken = True
        yield
        self._broken = False


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
