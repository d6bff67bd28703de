"""A dataset that can be written to: its documents, what indexing has still to do, and Dify's view of it all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import Any, Final, NamedTuple

from context_engine.testing.fake_dify.data import FakeDataset, FakeDocument, FakeSegment
from context_engine.testing.fake_dify.stored import StoredDataset, store

_STAGES: Final = (("waiting", 0.2), ("parsing", 0.4), ("cleaning", 0.5), ("splitting", 0.6), ("indexing", 1.0))


class Indexing(NamedTuple):
    """Work that a document waits for.

    Attributes:
        started: when it was begun, on the fake's clock.
        takes_s: seconds until it is done; infinite for an update that never ends.
        segments: what the document holds then.
        error: why it fails then, None if it does not.
        completed_at: unix seconds.
    """

    started: float
    takes_s: float
    segments: Sequence[FakeSegment]
    error: str | None
    completed_at: int


class HeldDataset:
    """A dataset with its documents by their ids.

    Args:
        dataset: as declared.
        created_at: unix seconds.
        clock: seconds that only grow, for indexing.
    """

    def __init__(self, dataset: FakeDataset, created_at: int, clock: Callable[[], float]) -> None:
        self.dataset, self.created_at, self._clock = dataset, created_at, clock
        self._stored: StoredDataset | None = store(dataset, created_at)
        self._documents = {
            one.id: replace(one.document, id=one.id, place=one.position) for one in self._stored.documents
        }
        self._work: dict[str, Indexing] = {}

    @property
    def stored(self) -> StoredDataset:
        """The dataset as Dify holds it now."""
        self._settle()
        if self._stored is None:
            self._stored = store(replace(self.dataset, documents=list(self._documents.values())), self.created_at)
        return self._stored

    @property
    def documents(self) -> list[FakeDocument]:
        """The documents as they are now, each with its id and place."""
        self._settle()
        return list(self._documents.values())

    def document(self, identity: str) -> FakeDocument | None:
        """Return a document by its id."""
        self._settle()
        return self._documents.get(identity)

    def put(self, document: FakeDocument, indexing: Indexing | None = None) -> None:
        """Write a document, or one in the place of the one with its id, and begin to index it."""
        assert document.id is not None
        self._documents[document.id] = document
        self._stored = None
        if indexing is not None:
            self._work[document.id] = indexing

    def remove(self, identity: str) -> None:
        """Drop a document."""
        self._work.pop(identity, None)
        self._documents.pop(identity, None)
        self._stored = None

    def change(self, **fields: Any) -> None:
        """Change fields of the dataset itself."""
        self.dataset = replace(self.dataset, **fields)
        self._stored = None

    def _settle(self) -> None:
        """Bring documents to where indexing has come."""
        now = self._clock()
        for identity, work in list(self._work.items()):
            if work.takes_s == inf:
                continue
            document = self._documents[identity]
            done = (now - work.started) / work.takes_s if work.takes_s else 1.0
            if done >= 1.0:
                del self._work[identity]
                self.put(_indexed(document, work))
            elif document.indexing_status != (status := next(name for name, until in _STAGES if done < until)):
                self.put(replace(document, indexing_status=status))


def _indexed(document: FakeDocument, work: Indexing) -> FakeDocument:
    status = "error" if work.error else "completed"
    segments = () if work.error else work.segments
    return replace(
        document, indexing_status=status, error=work.error, segments=segments, completed_at=work.completed_at
    )
