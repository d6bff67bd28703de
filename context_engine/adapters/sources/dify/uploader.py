"""Documents taken through all steps of their writing, and once more where another run or an outage spoils one."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Final

from context_engine.adapters.sources.dify.document_marks import Row, free_name
from context_engine.adapters.sources.dify.inventory import as_written
from context_engine.adapters.sources.dify.target import Target
from context_engine.adapters.sources.dify.upload import Draft, Lost, Refused, check, fill, wait
from context_engine.adapters.sources.dify.writes import UNCLEAR, after
from context_engine.core.protocols import Clock
from context_engine.errors import SourceError, SourceNotFound, SourceProtocolError, SourceTimeout

__all__ = ["Rounds"]

_ROUNDS: Final = 4
_RECENT: Final = 100
_MOST_NUMBER: Final = 900


class Rounds:
    """Writes documents to one dataset.

    Args:
        target: the dataset.
        names: of its documents, which must not be written over; those that are met are added.
        clock: the time.
        indexing_s: how long a document may be indexed.
        done: told of each document that is whole, and of its row in Dify's list.
        refused: told of each that Dify does not take, and why.

    Attributes:
        states: in which indexing ended, each counted.
    """

    def __init__(
        self,
        target: Target,
        names: set[str],
        clock: Clock,
        indexing_s: float,
        done: Callable[[Draft, Row], None],
        refused: Callable[[Draft, str], None],
    ) -> None:
        self._target, self._names, self._clock, self._indexing_s = target, names, clock, indexing_s
        self._done, self._refused = done, refused
        self._dataset_id = target.made()
        self._outage: SourceError | None = None
        self.states: Counter[str] = Counter()

    def write(self, drafts: Sequence[Draft]) -> None:
        """Write documents; what is spoiled is deleted and made again, in a few rounds at most.

        Raises:
            SourceError: an outage that lasts.
        """
        for number in range(1, _ROUNDS + 1):
            self._outage = None
            self._round(drafts)
            drafts = [draft for draft in drafts if draft.lost]
            for draft in drafts:
                if draft.dify_id:
                    self._target.remove(draft.dify_id)
            if not drafts:
                return
            if self._outage is not None:
                if number == _ROUNDS:
                    raise self._outage
                self._target.writes.pause(after(number))
        for draft in drafts:
            self._refused(draft, f"{draft.lost}: run the command again when no other run writes to the dataset")

    def _round(self, drafts: Sequence[Draft]) -> None:
        writes, dataset_id = self._target.writes, self._dataset_id
        self._name(drafts)
        made = self._each(drafts, self._create)
        ready = self._indexed(made)
        filled = self._each(ready, partial(fill, dataset_id=dataset_id, writes=writes))
        self._finish(self._each(filled, partial(check, dataset_id=dataset_id, writes=writes)))

    def _name(self, drafts: Sequence[Draft]) -> None:
        """Give each document a name that no other has, as far as one look at the newest can tell."""
        recent = islice(self._target.writes.documents(self._dataset_id), _RECENT)
        self._names.update(row.name for row in recent if not row.empty)
        for draft in drafts:
            if draft.lost:
                self._names.discard(draft.name)
            first = 2 + secrets.randbelow(_MOST_NUMBER) if draft.met else 1
            draft.name, draft.dify_id, draft.lost = free_name(draft.key, draft.title, self._names, first), "", ""
            self._names.add(draft.name)

    def _create(self, draft: Draft) -> None:
        target = self._target
        draft.dify_id, draft.batch = target.writes.create_document(self._dataset_id, draft.name, target.technique)

    def _indexed(self, drafts: list[Draft]) -> list[Draft]:
        """Wait until documents can take chunks, and say what they are before they hold any."""
        due = self._clock.monotonic() + self._indexing_s

        def left() -> float:
            return due - self._clock.monotonic()

        writes = self._target.writes
        indexed = self._each(drafts, partial(wait, dataset_id=self._dataset_id, writes=writes, left=left))
        self.states.update(draft.state for draft in drafts if draft.state)
        if drafts and not indexed and left() <= 0:
            raise SourceTimeout(f"Dify indexed none of {len(drafts)} documents in {self._indexing_s:.0f} s")
        if indexed:
            writes.assign(self._dataset_id, {draft.dify_id: self._target.rows(draft.begun) for draft in indexed})
        return indexed

    def _each(self, drafts: Iterable[Draft], step: Callable[[Draft], None]) -> list[Draft]:
        """Do one step of documents and return those that came through it; an outage ends it for those that follow."""
        through, waiting = list[Draft](), list(drafts)
        for number, draft in enumerate(waiting):
            try:
                step(draft)
                through.append(draft)
            except (Lost, SourceNotFound) as error:
                draft.lost, draft.met = str(error), True
            except (Refused, SourceProtocolError) as error:
                self._undo(draft, str(error))
            except UNCLEAR as error:
                self._outage = error
                for one in waiting[number:]:
                    one.lost = str(error)
                break
        return through

    def _finish(self, drafts: Sequence[Draft]) -> None:
        """Assign what makes documents whole; see that it is there, and that nothing has changed meanwhile."""
        if not drafts:
            return
        target, dataset_id = self._target, self._dataset_id
        target.writes.assign(dataset_id, {draft.dify_id: target.rows(draft.whole) for draft in drafts})
        wanted, rows = {draft.dify_id for draft in drafts}, dict[str, Row]()
        for row in target.writes.documents(dataset_id):
            if row.dify_id in wanted:
                rows[row.dify_id] = row
            if len(rows) == len(wanted):
                break
        for draft in drafts:
            now = rows.get(draft.dify_id)
            if now is None or not now.ready:
                draft.lost, draft.met = "another run deleted it or took its name", True
            elif now.content_hash is None or now.stored is None:
                self._undo(draft, "Dify did not keep its metadata")
            elif not as_written(target.writes, dataset_id, now):
                draft.lost, draft.met = "another run wrote to it", True
            else:
                self._done(draft, now)

    def _undo(self, draft: Draft, reason: str) -> None:
        self._refused(draft, reason)
        if draft.dify_id:
            self._target.remove(draft.dify_id)
