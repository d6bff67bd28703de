"""Documents written to Dify, chunk by chunk as they were cut, by runs that may be killed and that may meet.

A new version is whole before the old one goes. Both are known by their marks, and the hash, which makes a document
whole, is assigned last, after Dify was asked what it holds. Dify can compare nothing before it sets it, so no run can
keep another out: each makes documents of its own, the newest of two that are whole is kept by whoever sees both, and
what is not as it was written is made again, by this run or the next.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

from context_engine.errors import (
    InvalidRequest,
    SourceError,
    SourceForbidden,
    SourceNotFound,
    SourceProtocolError,
    SourceTimeout,
)
from context_engine.models import Chunk, SourceSpec
from context_engine.protocols import Clock
from context_engine.sources.dify.draft import Draft, Lost, Refusal, Refused, check, checked, fill, wait
from context_engine.sources.dify.inventory import Inventory, take_stock
from context_engine.sources.dify.listing import list_datasets
from context_engine.sources.dify.stored import Stored
from context_engine.sources.dify.target import Target
from context_engine.sources.dify.workspace import Workspace
from context_engine.sources.dify.writes import UNCLEAR, Writes, after
from context_engine.sources.dify.written import Key, Row, free_name

__all__ = ["DifySink", "Refusal"]

logger = logging.getLogger(__name__)

INDEXING_S: Final = 300.0
_MOST_DRAFTS: Final = 20
_MOST_CHUNKS: Final = 1000
_ROUNDS: Final = 4
"""How often a document is made at most; another run or an outage may spoil one."""

_RECENT: Final = 100
_MOST_NUMBER: Final = 900
_DAMAGED: Final = "it does not hold the chunks that were written to it"


class DifySink:
    """Writes the documents of Dify sources; a document sink for one thread. `settle` ends a run.

    Args:
        specs: the sources.
        workspace: returns the workspace of a connection.
        clock: the time.
        read_only: nothing is written, what a killed run left is not removed either; for a dry run.
        repair: every document is asked for its chunks, not only those whose size differs from what was written, and
            what is empty and says nothing of itself is removed.
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
        repair: bool = False,
        indexing_s: float = INDEXING_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.refusals: list[Refusal] = []
        self._specs = {spec.id: spec for spec in specs}
        self._workspace, self._clock, self._sleep = workspace, clock, sleep
        self._read_only, self._repair, self._indexing_s = read_only, repair, indexing_s
        self._writes: dict[str, Writes] = {}
        self._named: dict[str, dict[str, str]] = {}
        self._targets: dict[str, Target] = {}
        self._listed: dict[str, set[str]] = {}
        self._held: dict[Key, Row] = {}
        self._doubled: dict[Key, list[Row]] = {}
        self._damaged: dict[Key, str] = {}
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
        draft = Draft.of(key, content_hash, chunks, target.names, target.technique)
        try:
            checked(draft)
        except Refused as error:
            self._refuse(draft, str(error))
            return True
        self._drafts.append(draft)
        if len(self._drafts) >= _MOST_DRAFTS or sum(len(one.segments) for one in self._drafts) >= _MOST_CHUNKS:
            self.commit()
        return True

    def delete(self, source_id: str, document_id: str, version: str) -> bool:
        """Delete a document with its copies; return whether it was there."""
        self.documents(source_id)
        return self._forget((source_id, document_id, version), keep="")

    def documents(self, source_id: str) -> Mapping[tuple[str, str], str]:
        """Return {(document_id, version): content_hash}; the hash is "" where Dify does not hold what was written.

        Dify is asked once. What a killed run left is deleted, and what stands twice, but for one.
        """
        if source_id not in self._targets:
            self._targets[source_id] = self._target(source_id)
        target = self._targets[source_id]
        if target.dataset_id is not None and target.dataset_id not in self._listed:
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

    def settle(self) -> None:
        """Compare Dify's list with what this run leaves: what stands twice goes but for one, what is missing is said.

        Whichever of several runs ends last sees what all of them wrote.

        Raises:
            SourceError: Dify gives no good answer.
        """
        targets = {target.dataset_id: target for target in self._targets.values() if target.dataset_id in self._listed}
        if self._read_only:
            return
        for dataset_id, target in targets.items():
            assert dataset_id is not None
            found = take_stock(target.writes.all_documents(dataset_id), partial(self._as_written, target))
            for rows in [rows for key, rows in found.doubled.items() if self._is_ours(key)]:
                self._counts["doubled"] += len(rows)
                for row in rows:
                    self._remove(target, row.dify_id)
            for key, row in self._held.items():
                if key[0] in self._specs and self._targets[key[0]].dataset_id == dataset_id:
                    self._compare(key, row, found)
            unfinished = [row.name for row in found.unfinished if row.key is None or self._is_ours(row.key)]
            if unfinished:
                told = f"{len(unfinished)} documents are unfinished, {unfinished[0]!r} is one: another run is writing"
                target.notes[f"{told} them, or was broken off; then the next run removes them"] = None

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
            "doubled": self._counts["doubled"],
            "damaged": [
                {"source_id": key[0], "document_id": key[1], "version": key[2], "reason": reason}
                for key, reason in self._damaged.items()
            ],
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
        """Read what a dataset holds; delete what a broken run left and copies of what is held."""
        found = take_stock(target.writes.all_documents(dataset_id), partial(self._sound, target))
        self._listed[dataset_id] = found.names
        for key, row in found.held.items():
            self._held[key] = row if key not in found.damaged and key not in found.old else row._replace(content_hash="")
            if row.hidden:
                target.notes[f"document {row.name!r} is disabled or archived in Dify"] = None
        self._damaged |= {key: _DAMAGED for key in found.damaged if self._is_ours(key)}
        good = {key for key in found.doubled if key not in found.damaged and key not in found.old}
        self._doubled |= {key: rows for key, rows in found.doubled.items() if key not in good}
        left = [row for row in found.unfinished if row.key is None or self._is_ours(row.key)]
        left += found.empty if self._repair else []
        if self._read_only:
            return
        self._counts["leftovers"] += len(left)
        copies = [row for key in good if self._is_ours(key) for row in found.doubled[key]]
        self._counts["doubled"] += len(copies)
        for row in (*left, *copies):
            self._remove(target, row.dify_id)

    def _is_ours(self, key: Key) -> bool:
        """Whether a document is of a source that this run writes."""
        return key[0] in self._specs

    def _as_written(self, target: Target, row: Row) -> bool:
        """Whether a document holds what was written: by Dify's count of characters, else by the chunks themselves."""
        return row.as_written or (row.ready and self._holds(target, row))

    def _sound(self, target: Target, row: Row) -> bool:
        return self._holds(target, row) if self._repair and row.ready else self._as_written(target, row)

    def _holds(self, target: Target, row: Row) -> bool:
        """Whether the chunks that Dify holds are those that were written; Dify is asked for them."""
        try:
            return Stored.of(target.writes.contents(target.made(), row.dify_id)) == row.stored
        except SourceNotFound:
            return False

    def _compare(self, key: Key, held: Row, found: Inventory) -> None:
        """Note whether a document that this run leaves stands in Dify's list as it was written."""
        row = found.held.get(key)
        if row is None:
            self._damaged[key] = "it is gone: another run deleted it"
        elif key in found.damaged:
            self._damaged[key] = _DAMAGED
        elif held.content_hash and row.content_hash != held.content_hash:
            self._damaged[key] = "another run wrote something else"

    def _write(self, target: Target, drafts: list[Draft]) -> None:
        """Write documents; what another run or an outage spoils is made again, under another name."""
        for number in range(_ROUNDS):
            outage = self._round(target, drafts)
            drafts = [draft for draft in drafts if draft.lost]
            for draft in drafts:
                if draft.dify_id:
                    self._remove(target, draft.dify_id)
            if not drafts:
                return
            if outage is not None:
                if number == _ROUNDS - 1:
                    raise outage
                target.writes.pause(after(number + 1))
        for draft in drafts:
            self._refuse(draft, f"{draft.lost}: run the command again when no other run writes to the dataset")

    def _round(self, target: Target, drafts: Sequence[Draft]) -> SourceError | None:
        """Take documents through all steps; return the outage that some of them met, if any."""
        dataset_id, outages = target.made(), list[SourceError]()
        taken = self._taken(target, dataset_id)
        for draft in drafts:
            taken.discard(draft.name)
            first = 2 + secrets.randbelow(_MOST_NUMBER) if draft.met else 1
            draft.name, draft.dify_id, draft.lost = free_name(draft.key, draft.title, taken, first), "", ""
            taken.add(draft.name)
        made = self._each(target, drafts, partial(self._create, target), outages)
        ready = self._indexed(target, dataset_id, made, outages)
        step = partial(fill, dataset_id=dataset_id, writes=target.writes)
        filled = self._each(target, ready, step, outages)
        step = partial(check, dataset_id=dataset_id, writes=target.writes)
        self._finish(target, dataset_id, self._each(target, filled, step, outages))
        return outages[0] if outages else None

    def _taken(self, target: Target, dataset_id: str) -> set[str]:
        """Return the names that are in use: those the dataset had, and those that were given since."""
        names = self._listed.setdefault(dataset_id, set())
        recent = islice(target.writes.documents(dataset_id), _RECENT)
        names.update(row.name for row in recent if not row.empty)
        return names

    def _create(self, target: Target, draft: Draft) -> None:
        draft.dify_id, draft.batch = target.writes.create_document(target.made(), draft.name, target.technique)

    def _indexed(
        self, target: Target, dataset_id: str, drafts: list[Draft], outages: list[SourceError]
    ) -> list[Draft]:
        """Wait until documents can take chunks, and say what they are before they hold any."""
        due = self._clock.monotonic() + self._indexing_s

        def left() -> float:
            return due - self._clock.monotonic()

        step = partial(wait, dataset_id=dataset_id, writes=target.writes, left=left)
        indexed = self._each(target, drafts, step, outages)
        self._states.update(draft.state for draft in drafts if draft.state)
        if drafts and not indexed and left() <= 0:
            raise SourceTimeout(f"Dify indexed none of {len(drafts)} documents in {self._indexing_s:.0f} s")
        if indexed:
            target.writes.assign(dataset_id, {draft.dify_id: target.rows(draft.begun) for draft in indexed})
        return indexed

    def _each(
        self, target: Target, drafts: Iterable[Draft], step: Callable[[Draft], None], outages: list[SourceError]
    ) -> list[Draft]:
        """Do one step of documents and return those that came through it; an outage ends it for those that follow."""
        through, waiting = list[Draft](), list(drafts)
        for number, draft in enumerate(waiting):
            try:
                step(draft)
                through.append(draft)
            except (Lost, SourceNotFound) as error:
                draft.lost, draft.met = str(error), True
            except (Refused, SourceProtocolError) as error:
                self._undo(target, draft, str(error))
            except UNCLEAR as error:
                outages.append(error)
                for one in waiting[number:]:
                    one.lost = str(error)
                break
        return through

    def _finish(self, target: Target, dataset_id: str, drafts: Sequence[Draft]) -> None:
        """Assign what makes documents whole, see that it is there and nothing has changed, delete what they replace."""
        if not drafts:
            return
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
                self._undo(target, draft, "Dify did not keep its metadata")
            elif not self._as_written(target, now):
                draft.lost, draft.met = "another run wrote to it", True
            else:
                self._replace(draft, now)

    def _replace(self, draft: Draft, row: Row) -> None:
        self._counts["documents"] += 1
        self._counts["segments"] += len(draft.segments)
        self._forget(draft.key, keep=row.dify_id)
        self._held[draft.key] = row

    def _forget(self, key: Key, keep: str) -> bool:
        """Delete what is held under a key, but for one document; return whether there was anything."""
        held = self._held.pop(key, None)
        self._damaged.pop(key, None)
        rows = [*([held] if held is not None else []), *self._doubled.pop(key, [])]
        for row in rows:
            if row.dify_id != keep:
                self._counts["deleted"] += self._remove(self._targets[key[0]], row.dify_id)
        return held is not None

    def _undo(self, target: Target, draft: Draft, reason: str) -> None:
        self._refuse(draft, reason)
        if draft.dify_id:
            self._remove(target, draft.dify_id)

    def _refuse(self, draft: Draft, reason: str) -> None:
        self.refusals.append(Refusal(*draft.key, reason))
        logger.warning("Dify refused document %s of source %s", draft.key[1], draft.key[0])

    def _remove(self, target: Target, identity: str) -> bool:
        try:
            target.writes.delete_document(target.made(), identity)
        except (SourceForbidden, SourceProtocolError) as error:
            target.notes[f"document {identity} was not deleted: {error}"] = None
            return False
        return True
