"""Run uploads through all their steps, and repeat those spoiled by another run or an outage."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Final

from context_engine.adapters.sources.dify.document_marks import DatasetDocument, free_name
from context_engine.adapters.sources.dify.target import TargetDataset, as_written
from context_engine.adapters.sources.dify.upload import DocumentUpload, UploadLost, UploadRefused, check, fill, wait
from context_engine.adapters.sources.dify.writes import UNCLEAR, after
from context_engine.core.protocols import Clock
from context_engine.errors import SourceError, SourceNotFound, SourceProtocolError, SourceTimeout

_ROUNDS: Final = 4
_RECENT: Final = 100
_MOST_NUMBER: Final = 900


class Uploader:
    """Writes documents to one dataset.

    Args:
        names: of its documents, which must not be overwritten; new names are added.
        indexing_s: how long a document may take to be indexed.
        done: called with each complete upload and its entry in Dify's list.
        refused: called with each upload that Dify refuses, and the reason.

    Attributes:
        states: counts of the states in which indexing ended.
    """

    def __init__(
        self,
        target: TargetDataset,
        names: set[str],
        clock: Clock,
        indexing_s: float,
        done: Callable[[DocumentUpload, DatasetDocument], None],
        refused: Callable[[DocumentUpload, str], None],
    ) -> None:
        self._target, self._names, self._clock, self._indexing_s = target, names, clock, indexing_s
        self._done, self._refused = done, refused
        self._dataset_id = target.made()
        self._outage: SourceError | None = None
        self.states: Counter[str] = Counter()

    def write(self, uploads: Sequence[DocumentUpload]) -> None:
        """Write documents; spoiled ones are deleted and uploaded again, in at most 4 rounds.

        Raises:
            SourceError: an outage lasts.
        """
        for number in range(1, _ROUNDS + 1):
            self._outage = None
            self._round(uploads)
            uploads = [upload for upload in uploads if upload.lost]
            for upload in uploads:
                if upload.dify_id:
                    self._target.remove(upload.dify_id)
            if not uploads:
                return
            if self._outage is not None:
                if number == _ROUNDS:
                    raise self._outage
                self._target.writes.pause_after(self._outage, after(number))
        for upload in uploads:
            self._refused(upload, f"{upload.lost}: run the command again when no other run writes to the dataset")

    def _round(self, uploads: Sequence[DocumentUpload]) -> None:
        writes, dataset_id = self._target.writes, self._dataset_id
        self._name(uploads)
        made = self._each(uploads, self._create)
        ready = self._indexed(made)
        filled = self._each(ready, partial(fill, dataset_id=dataset_id, writes=writes))
        self._finish(self._each(filled, partial(check, dataset_id=dataset_id, writes=writes)))

    def _name(self, uploads: Sequence[DocumentUpload]) -> None:
        """Give each document a unique name, checked against the newest entries of Dify's list."""
        recent = islice(self._target.writes.documents(self._dataset_id), _RECENT)
        self._names.update(row.name for row in recent if not row.empty)
        for upload in uploads:
            if upload.lost:
                self._names.discard(upload.name)
            first = 2 + secrets.randbelow(_MOST_NUMBER) if upload.collided else 1
            upload.name, upload.dify_id, upload.lost = free_name(upload.key, upload.title, self._names, first), "", ""
            self._names.add(upload.name)

    def _create(self, upload: DocumentUpload) -> None:
        target = self._target
        upload.dify_id, upload.batch = target.writes.create_document(self._dataset_id, upload.name, target.technique)

    def _indexed(self, uploads: list[DocumentUpload]) -> list[DocumentUpload]:
        """Wait until documents accept chunks, then assign the marks that identify them as unfinished."""
        due = self._clock.monotonic() + self._indexing_s

        def left() -> float:
            return due - self._clock.monotonic()

        writes = self._target.writes
        indexed = self._each(uploads, partial(wait, dataset_id=self._dataset_id, writes=writes, left=left))
        self.states.update(upload.state for upload in uploads if upload.state)
        if uploads and not indexed and left() <= 0:
            raise SourceTimeout(f"Dify indexed none of {len(uploads)} documents in {self._indexing_s:.0f} s")
        if indexed:
            writes.assign(self._dataset_id, {upload.dify_id: self._target.rows(upload.begun) for upload in indexed})
        return indexed

    def _each(self, uploads: Iterable[DocumentUpload], step: Callable[[DocumentUpload], None]) -> list[DocumentUpload]:
        """Run one step for each document and return those that passed; an outage stops the rest."""
        through, waiting = list[DocumentUpload](), list(uploads)
        for number, upload in enumerate(waiting):
            try:
                step(upload)
                through.append(upload)
            except (UploadLost, SourceNotFound) as error:
                upload.lost, upload.collided = str(error), True
            except (UploadRefused, SourceProtocolError) as error:
                self._undo(upload, str(error))
            except UNCLEAR as error:
                self._outage = error
                for unsent in waiting[number:]:
                    unsent.lost = str(error)
                break
        return through

    def _finish(self, uploads: Sequence[DocumentUpload]) -> None:
        """Assign the marks of completeness; check that they are stored and that nothing else has changed."""
        if not uploads:
            return
        target, dataset_id = self._target, self._dataset_id
        target.writes.assign(dataset_id, {upload.dify_id: target.rows(upload.complete) for upload in uploads})
        wanted, rows = {upload.dify_id for upload in uploads}, dict[str, DatasetDocument]()
        for row in target.writes.documents(dataset_id):
            if row.dify_id in wanted:
                rows[row.dify_id] = row
            if len(rows) == len(wanted):
                break
        for upload in uploads:
            now = rows.get(upload.dify_id)
            if now is None or not now.ready:
                upload.lost, upload.collided = "another run deleted it or took its name", True
            elif now.content_hash is None or now.digest is None:
                self._undo(upload, "Dify did not keep its metadata")
            elif not as_written(target.writes, dataset_id, now):
                upload.lost, upload.collided = "another run wrote to it", True
            else:
                self._done(upload, now)

    def _undo(self, upload: DocumentUpload, reason: str) -> None:
        self._refused(upload, reason)
        if upload.dify_id:
            self._target.remove(upload.dify_id)
