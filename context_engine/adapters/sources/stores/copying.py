"""Copying the documents of a source to another store, and the comparison that shows the copy to be the same.

Documents are written in transactions of whole documents, so that an interrupted copy is continued by the next one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from math import fsum, sqrt
from operator import mul
from typing import Any, Final, NamedTuple

from context_engine.adapters.sources.stores.chunk_rows import index_texts
from context_engine.core.models import WholeDocument
from context_engine.core.protocols import Copyable, CopySink, Sink

Key = tuple[str, str]
"""A document's id and version."""
Progress = Callable[[int, int, str], None]
"""Called with documents done, documents in total, and the name of the source."""

_READ_AT_ONCE: Final = 256
_COMMIT_FROM: Final = 5_000
"""Chunks in a transaction, with the rest of the last document."""
_LEAST_COSINE: Final = 0.999
"""Of a vector with itself in another form: a byte for each of 384 numbers costs about .00002."""


class CopyDifference(NamedTuple):
    """A document that is not the same in both stores.

    Attributes:
        what: what differs, in words.
    """

    document_id: str
    version: str
    what: str


class SourceCopy(NamedTuple):
    """The result of copying a source; in a dry run, what would be done.

    Attributes:
        documents: in the origin; `chunks` and `vectors` in the documents that were compared.
        written: documents that the other store lacked, or had with another hash.
        mended: documents that it had with the same hash, and that were not the same.
        deleted: documents that only the other store had, and has no more.
        kept: documents that only the other store has; all of them if the origin has no document of the source.
        digest: SHA-256 over ids and texts of the documents compared, as the other store returns them.
        differences: documents that are not the same.
    """

    source_id: str
    documents: int
    chunks: int = 0
    vectors: int = 0
    written: int = 0
    mended: int = 0
    deleted: int = 0
    kept: Sequence[Key] = ()
    digest: str = ""
    differences: Sequence[CopyDifference] = ()

    def to_dict(self) -> Mapping[str, Any]:
        """Return all fields, ready for JSON."""
        differences = [difference._asdict() for difference in self.differences]
        kept = [{"document_id": document_id, "version": version} for document_id, version in self.kept]
        return {**self._asdict(), "kept": kept, "differences": differences}


def planned(origin: Copyable, sink: Sink, source_id: str, *, delete: bool) -> SourceCopy:
    """Return what a copy of a source would do, judged by the hashes of its documents."""
    return _Plan.of(origin, sink, source_id, delete=delete).report()


class StoreCopier:
    """Copies sources of one store to another.

    Args:
        origin: the store that is read.
        reopened: opens the other store, to read what was committed.
        sink: of the other store.

    Attributes:
        vectors_refused: whether the origin has vectors and the other store can hold none.
    """

    def __init__(
        self,
        origin: Copyable,
        reopened: Callable[[], AbstractContextManager[Copyable]],
        sink: CopySink,
        progress: Progress,
    ) -> None:
        self._origin, self._reopened, self._sink, self._progress = origin, reopened, sink, progress
        self._accepted: dict[tuple[str, int], bool] = {}

    @property
    def vectors_refused(self) -> bool:
        """Whether vectors were left out."""
        return not all(self._accepted.values())

    def copy(self, source_id: str, *, delete: bool) -> SourceCopy:
        """Copy a source, compare every document, and write once more those that differ.

        Args:
            delete: delete documents that only the other store has.

        Raises:
            InvalidRequest: a document cannot be stored.
            StoreVersionMismatch: the other store has vectors of another model or dimension.
        """
        plan = _Plan.of(self._origin, self._sink, source_id, delete=delete)
        for document_id, version in plan.gone:
            self._sink.delete(source_id, document_id, version)
        self._write(source_id, plan.missing)
        keys = list(self._origin.document_hashes(source_id))
        compared = self._compared(source_id, keys)
        wrong = [difference[:2] for difference in compared.differences]
        if wrong:
            self._write(source_id, wrong)
            compared = self._compared(source_id, keys)
        return plan.report()._replace(
            chunks=compared.chunks,
            vectors=compared.vectors,
            mended=len({*wrong} - {difference[:2] for difference in compared.differences}),
            digest=compared.digest,
            differences=compared.differences,
        )

    def _write(self, source_id: str, keys: Sequence[Key]) -> None:
        done = waiting = 0
        for document in _read(self._origin, source_id, keys):
            self._progress(done, len(keys), source_id)
            done += 1
            if document is None:
                continue  # removed meanwhile
            self._sink.put_stored(source_id, self._fitting(document))
            waiting += len(document.chunks)
            if waiting >= _COMMIT_FROM:
                self._sink.commit()
                waiting = 0
        self._sink.commit()

    def _fitting(self, document: WholeDocument) -> WholeDocument:
        """Return a document without vectors if the other store can hold none."""
        model = _model_of(document)
        if model is None:
            return document
        if model not in self._accepted:
            self._accepted[model] = self._sink.accept_vectors(*model)
        return document if self._accepted[model] else document._replace(vectors=(), model_id="")

    def _compared(self, source_id: str, keys: Sequence[Key]) -> SourceCopy:
        chunks = vectors = 0
        digest, differences = hashlib.sha256(), list[CopyDifference]()
        with self._reopened() as target:
            pairs = zip(_read(self._origin, source_id, keys), _read(target, source_id, keys), strict=True)
            for done, (key, (own, other)) in enumerate(zip(keys, pairs, strict=True)):
                self._progress(done, len(keys), f"comparing {source_id}")
                what = "" if own is None else difference_of(self._fitting(own), other)  # None: removed meanwhile
                if what:
                    differences.append(CopyDifference(*key, what))
                if other is not None:
                    chunks += len(other.chunks)
                    vectors += sum(map(len, other.vectors))
                    for chunk in other.chunks:
                        digest.update(f"{key}\0{chunk.chunk_id}\0{chunk.content}\0".encode())
        return SourceCopy(source_id, len(keys), chunks, vectors, digest=digest.hexdigest(), differences=differences)


class _Plan(NamedTuple):
    """The documents to write, to delete, and to keep though the origin has not got them.

    Where the origin has no document of a source, nothing is deleted.
    """

    source_id: str
    documents: int
    missing: Sequence[Key]
    gone: Sequence[Key]
    kept: Sequence[Key]

    @classmethod
    def of(cls, origin: Copyable, sink: Sink, source_id: str, *, delete: bool) -> _Plan:
        wanted, copied = origin.document_hashes(source_id), sink.documents(source_id)
        missing = [key for key, content_hash in wanted.items() if copied.get(key) != content_hash]
        extra = sorted(copied.keys() - wanted.keys())
        return cls(source_id, len(wanted), missing, *((extra, ()) if delete and wanted else ((), extra)))

    def report(self) -> SourceCopy:
        """Return the report before anything is compared."""
        return SourceCopy(
            self.source_id, self.documents, written=len(self.missing), deleted=len(self.gone), kept=self.kept
        )


def difference_of(own: WholeDocument, other: WholeDocument | None) -> str:
    """Return what differs in another store's copy of a document, in words; "" if nothing does.

    Vectors are the same if they have the same direction, for stores round them differently. A heading without text may
    have none, for not every store searches it.
    """
    if other is None:
        return "it is missing"
    for name, words in _COMPARED.items():
        if getattr(own, name) != getattr(other, name):
            return f"{words} differs"
    if list(own.chunks) != list(other.chunks):
        return "its chunks differ"
    models = {_model_of(document) for document in (own, other)} - {None}
    if len(models) > 1:
        return "the model of its vectors differs"
    return "" if _same_vectors(own, other) else "its vectors differ"


_COMPARED: Final = {"content_hash": "its hash", "indexed_at": "its time of ingestion", "access": "its access class"}


def _same_vectors(own: WholeDocument, other: WholeDocument) -> bool:
    pairs = list(zip(_vectors_of(own), _vectors_of(other), strict=True))
    unequal = [place for place, (first, second) in enumerate(pairs) if bool(first) != bool(second)]
    if unequal:
        texts = index_texts(own.chunks)
        if not all(texts[place].bare for place in unequal):
            return False
    return all(
        len(first) == len(second) and all(map(_same_direction, first, second))
        for first, second in pairs
        if first and second
    )


def _same_direction(first: Sequence[float], second: Sequence[float]) -> bool:
    if first == second:
        return True
    product = fsum(map(mul, first, second))
    return product >= _LEAST_COSINE * sqrt(fsum(map(mul, first, first)) * fsum(map(mul, second, second))) > 0.0


def _vectors_of(document: WholeDocument) -> Sequence[Sequence[Sequence[float]]]:
    return document.vectors or [()] * len(document.chunks)


def _model_of(document: WholeDocument) -> tuple[str, int] | None:
    """Return the model and the dimension of a document's vectors, None if it has none."""
    first = next((vector for vectors in document.vectors for vector in vectors), None)
    return None if first is None else (document.model_id, len(first))


def _read(store: Copyable, source_id: str, keys: Sequence[Key]) -> Iterator[WholeDocument | None]:
    for start in range(0, len(keys), _READ_AT_ONCE):
        yield from store.stored_documents(source_id, keys[start : start + _READ_AT_ONCE])
