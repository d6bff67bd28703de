"""Documents written to Dify, chunk by chunk as they were cut, so that a run killed at any moment loses nothing.

A new version is whole before the old one goes. Both are known by their marks, and the hash, which makes a document
whole, is assigned last; what a killed run left behind, a part or an old version, is deleted by the next.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from context_engine.errors import (
    InvalidRequest,
    SourceForbidden,
    SourceNotFound,
    SourceProtocolError,
    SourceTimeout,
)
from context_engine.models import Chunk, SourceSpec
from context_engine.protocols import Clock
from context_engine.sources.dify.draft import Draft, Refusal, Refused, checked, fill, wait
from context_engine.sources.dify.listing import list_datasets
from context_engine.sources.dify.metadata import MARKS
from context_engine.sources.dify.target import Target
from context_engine.sources.dify.workspace import Workspace
from context_engine.sources.dify.writes import UNCLEAR, Writes
from context_engine.sources.dify.written import Row

__all__ = ["DifySink", "Refusal"]

logger = logging.getLogger(__name__)

INDEXING_S: Final = 300.0
_MOST_DRAFTS: Final = 20
_MOST_CHUNKS: Final = 1000
_ATTEMPTS: Final = 3
_DEFINITE: Final = (SourceProtocolError, SourceNotFound)


Key = tuple[str, str, str]


class DifySink:
    """Writes the documents of Dify sources; a document sink for one thread.

    Args:
        specs: the sources.
        workspace: returns the workspace of a connection.
        clock: the time.
        read_only: nothing is written, what a killed run left is not removed either; for a dry run.
        indexing_s: how long a document may be indexed.
        sleep: waits.

    Attributes:
        refusals: documents that Dify did not take.

    Raises:
        ConfigError: a source that cannot be written to.
    """

    def __init__(
        self,
        specs: Sequence[SourceSpec],
        workspace: Callable[[str], Workspace],
        clock: Clock,
        *,
        read_only: bool = False,
        indexing_s: float = INDEXING_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.refusals: list[Refusal] = []
        self._specs = {spec.id: spec for spec in specs}
        self._workspace, self._clock, self._sleep = workspace, clock, sleep
        self._read_only, self._indexing_s = read_only, indexing_s
        self._writes: dict[str, Writes] = {}
        self._named: dict[str, dict[str, str]] = {}
        self._targets: dict[str, Target] = {}
        self._listed: set[str] = set()
        self._held: dict[Key, Row] = {}
        self._drafts: list[Draft] = []
        self._counts: Counter[str] = Counter()
        self._states: Counter[str] = Counter()

    def put(self, source_id: str, document_id: str, version: str, content_hash: str, chunks: Sequence[Chunk]) -> bool:
        """Take a document to be written; return False if Dify holds it unchanged.

        Raises:
            SourceError: Dify gives no good answer; what was written before stays.
        """
        self.documents(source_id)
        key, target = (source_id, document_id, version), self._targets[source_id]
        held = self._held.get(key)
        if held is not None and held.content_hash == content_hash:
            return False
        draft = Draft.of(key, content_hash, chunks, target.names)
        try:
            checked(draft)
        except Refused as error:
            self._refuse(draft, str(error))
            return True
        self._drafts.append(draft)
        if len(self._drafts) >= _MOST_DRAFTS or sum(len(one.contents) for one in self._drafts) >= _MOST_CHUNKS:
            self.commit()
        return True

    def delete(self, source_id: str, document_id: str, version: str) -> bool:
        """Delete a document; return whether it was there."""
        self.documents(source_id)
        key = (source_id, document_id, version)
        held = self._held.pop(key, None)
        if held is None:
            return False
        self._delete(key, held.dify_id)
        return True

    def documents(self, source_id: str) -> Mapping[tuple[str, str], str]:
        """Return {(document_id, version): content_hash}; asked of Dify once. What a killed run left is deleted."""
        if source_id not in self._targets:
            self._targets[source_id] = self._target(source_id)
        target = self._targets[source_id]
        if target.dataset_id is not None and target.dataset_id not in self._listed:
            self._listed.add(target.dataset_id)
            self._list(target, target.dataset_id)
        return {key[1:]: row.content_hash or "" for key, row in self._held.items() if key[0] == source_id}

    def commit(self) -> None:
        """Write everything taken so far, and wait until it can be found.

        Raises:
            SourceError: Dify gives no good answer; what was written before stays.
        """
        drafts, self._drafts = self._drafts, []
        for source_id in dict.fromkeys(draft.key[0] for draft in drafts):
            self._write(self._targets[source_id], [draft for draft in drafts if draft.key[0] == source_id])

    def summary(self) -> dict[str, Any]:
        """Return what Dify accepted, ready for JSON."""
        return {
            "datasets": [
                {"source": target.spec.id, "dataset_id": target.dataset_id, "name": target.name, "new": target.created}
                for target in self._targets.values()
            ],
            "documents": self._counts["documents"],
            "segments": self._counts["segments"],
            "indexing_states": dict(self._states),
            "deleted": self._counts["deleted"],
            "leftovers": self._counts["leftovers"],
            "refused": [refusal._asdict() for refusal in self.refusals],
            "notes": [note for target in self._targets.values() for note in target.notes],
            "calls": sum(writes.calls for writes in self._writes.values()),
            "waited_s": round(sum(writes.waited_s for writes in self._writes.values()), 3),
        }

    def _target(self, source_id: str) -> Target:
        spec = self._specs.get(source_id)
        if spec is None:
            raise InvalidRequest(f"source {source_id!r} is not one of those that are written to")
        connection = spec.connection or ""
        if connection not in self._writes:
            workspace = self._workspace(connection)
            self._writes[connection] = Writes(workspace, self._clock, self._sleep)
        if not spec.dataset_ids and connection not in self._named:
            infos = list_datasets(self._workspace(connection), self._clock)
            self._named[connection] = {info.name: info.dataset_id for info in infos}
        return Target(spec, self._writes[connection], self._named.get(connection, {}))

    def _list(self, target: Target, dataset_id: str) -> None:
        """Read what a dataset holds; delete parts, and old versions of what is held twice."""
        left: list[str] = []
        for row in target.writes.documents(dataset_id):
            if row.key is None:
                left += [row.dify_id] if row.ours else []
            elif row.key in self._held:
                left.append(row.dify_id)
            else:
                self._held[row.key] = row._replace(content_hash="") if row.failed else row
            if row.key is not None and row.hidden:
                target.notes[f"document {row.name!r} is disabled or archived in Dify"] = None
        if not self._read_only:
            self._counts["leftovers"] += len(left)
            for identity in left:
                self._remove(target, identity)

    def _write(self, target: Target, drafts: list[Draft]) -> None:
        ready = self._prepared(target, drafts)
        filled = [draft for draft in ready if self._filled(target, draft)]
        self._finish(target, filled)

    def _prepared(self, target: Target, drafts: list[Draft]) -> list[Draft]:
        """Make the documents, wait until they can take chunks, and say what they are before they hold any."""
        dataset_id = target.made()
        self._listed.add(dataset_id)
        made = [draft for draft in drafts if self._tried(target, draft, partial(self._create, target))]
        due = self._clock.monotonic() + self._indexing_s

        def left() -> float:
            return due - self._clock.monotonic()

        waiting = partial(wait, dataset_id=dataset_id, writes=target.writes, left=left)
        indexed = [draft for draft in made if self._tried(target, draft, waiting)]
        self._states.update(draft.state for draft in made)
        if made and not indexed and left() <= 0:
            raise SourceTimeout(f"Dify indexed none of {len(made)} documents in {self._indexing_s:.0f} s")
        if indexed:
            target.writes.assign(dataset_id, {draft.dify_id: target.rows(draft.metadata) for draft in indexed})
        return indexed

    def _create(self, target: Target, draft: Draft) -> None:
        """Make an empty document; after an unclear end what was made is deleted, and it is made again."""
        dataset_id = target.made()
        while True:
            draft.attempt += 1
            try:
                draft.dify_id, draft.batch = target.writes.create_document(dataset_id, draft.name, target.technique)
                return
            except UNCLEAR:
                if draft.attempt >= _ATTEMPTS:
                    raise
                self._drop(target, draft)

    def _filled(self, target: Target, draft: Draft) -> bool:
        """Write a document's chunks; after an unclear end it is made anew."""
        for attempt in range(_ATTEMPTS):
            try:
                return self._tried(target, draft, partial(fill, dataset_id=target.made(), writes=target.writes))
            except UNCLEAR:
                if attempt == _ATTEMPTS - 1:
                    raise
                self._drop(target, draft)
                if not self._prepared(target, [draft]):
                    return False
        return False

    def _finish(self, target: Target, drafts: Sequence[Draft]) -> None:
        """Assign the hashes that make documents whole, see that they are there, and delete what they replace."""
        if not drafts:
            return
        dataset_id = target.made()
        rows = {
            draft.dify_id: target.rows({**draft.metadata, MARKS.content_hash: draft.content_hash}) for draft in drafts
        }
        target.writes.assign(dataset_id, rows)
        wanted, whole = set(rows), {}
        for row in target.writes.documents(dataset_id):
            if row.dify_id in wanted and row.key is not None:
                whole[row.dify_id] = row
            if len(whole) == len(wanted):
                break
        for draft in drafts:
            row_now = whole.get(draft.dify_id)
            if row_now is None:
                self._undo(target, draft, "Dify did not keep its metadata")
                continue
            self._counts["documents"] += 1
            self._counts["segments"] += len(draft.contents)
            before = self._held.get(draft.key)
            self._held[draft.key] = row_now
            if before is not None:
                self._delete(draft.key, before.dify_id)

    def _tried(self, target: Target, draft: Draft, step: Callable[[Draft], None]) -> bool:
        """Do one step of a document; a refusal ends this document, not the run."""
        try:
            step(draft)
        except (Refused, *_DEFINITE) as error:
            self._undo(target, draft, str(error))
            return False
        return True

    def _undo(self, target: Target, draft: Draft, reason: str) -> None:
        self._refuse(draft, reason)
        if draft.dify_id:
            self._remove(target, draft.dify_id)

    def _refuse(self, draft: Draft, reason: str) -> None:
        self.refusals.append(Refusal(*draft.key, reason))
        logger.warning("Dify refused document %s of source %s", draft.key[1], draft.key[0])

    def _drop(self, target: Target, draft: Draft) -> None:
        """Delete whatever stands under the draft's tag and is not whole."""
        tag = draft.name.rpartition("[")[2].removesuffix("]")
        for row in list(target.writes.documents(target.made(), tag)):
            if row.ours and row.key is None:
                target.writes.delete_document(target.made(), row.dify_id)
        draft.dify_id = ""

    def _delete(self, key: Key, identity: str) -> None:
        self._counts["deleted"] += self._remove(self._targets[key[0]], identity)

    def _remove(self, target: Target, identity: str) -> bool:
        try:
            target.writes.delete_document(target.made(), identity)
        except (SourceForbidden, SourceProtocolError) as error:
            target.notes[f"document {identity} was not deleted: {error}"] = None
            return False
        return True
