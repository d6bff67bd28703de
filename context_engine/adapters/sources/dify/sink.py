"""Write documents to Dify chunk by chunk; runs may be killed and may run at the same time.

A new version is complete before the old one is deleted. The marks identify both, and the hash, which declares a
document complete, is assigned last, after reading back what Dify holds. Dify has no compare-and-set, so no run can lock
out another: each run writes its own documents, a run that sees two complete copies keeps the newest, and a damaged
document is written again by this run or the next."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from context_engine.adapters.sources.dify.document_marks import DatasetDocument, Key, document_name, without_number
from context_engine.adapters.sources.dify.target import Inventory, TargetDataset, as_written, holds, take_inventory
from context_engine.adapters.sources.dify.upload import DocumentUpload, Refusal, UploadRefused, checked
from context_engine.adapters.sources.dify.uploader import Uploader
from context_engine.adapters.sources.dify.workspace import Workspace, list_datasets
from context_engine.adapters.sources.dify.writes import Writes
from context_engine.core.models import Chunk, Notice, NoticeCode, SourceSpec, messages
from context_engine.core.protocols import Clock, SinkReport
from context_engine.errors import InvalidRequest

_MANY: Final = 500  # documents; Dify takes minutes for them


def sink_report(summary: Mapping[str, Any], written: int, *, dry_run: bool) -> SinkReport:
    """Return the report of a run from its published summary; `written` documents were new or had changed."""
    return SinkReport(
        place="Dify",
        outcome="" if dry_run else _outcome(summary),
        advice=tuple(_advice(summary, written, dry_run)),
        remarks=tuple(f"Dify: {note}" for note in summary["notes"]),
        problems=tuple(f"not as written: {_named(row)}: {row['reason']}" for row in summary["damaged"]),
        published=summary,
        dataset_ids={
            row["source"]: row["dataset_id"]
            for row in summary["datasets"]
            if row["dataset_id"] is not None and not row["in_manifest"]
        },
    )


def _advice(summary: Mapping[str, Any], written: int, dry_run: bool) -> Iterator[str]:
    for row in summary["datasets"]:
        of_source = f"source {row['source']}: dataset {row['name']!r}"
        index = row["indexing_technique"].replace("_", " ")
        other = "high_quality" if row["indexing_technique"] == "economy" else "economy"
        choice = f"with Dify's {index} index (settings: {{indexing_technique: {other}}} chooses the other)"
        if row["dataset_id"] is None and dry_run:
            yield f"{of_source} would be created {choice}"
        elif row["new"]:
            yield f"{of_source} was created {choice}"
    if dry_run and written >= _MANY:
        yield (
            f"{written} documents are {written} documents in Dify too, one for each record, with at least "
            f"{3 * written} calls; the embedded base (--to local) takes a large table in seconds"
        )


def _outcome(summary: Mapping[str, Any]) -> str:
    old = f", {_counted(summary['deleted'], 'old document')} deleted" if summary["deleted"] else ""
    left = f", {_counted(summary['leftovers'], 'leftover')} of a broken run removed" if summary["leftovers"] else ""
    twice = f", {_counted(summary['doubled'], 'doubled document')} removed" if summary["doubled"] else ""
    taken = f"Dify took {_counted(summary['documents'], 'document')} with {_counted(summary['segments'], 'chunk')}"
    return f"{taken}{old}{left}{twice}; {_counted(summary['calls'], 'call')}"


def _named(row: Mapping[str, str]) -> str:
    return " ".join(part for part in (row["source_id"], row["document_id"], row["version"]) if part)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


logger = logging.getLogger(__name__)
INDEXING_S: Final = 300.0
_MOST_UPLOADS: Final = 20
_MOST_CHUNKS: Final = 1000
_MOST_NAMED: Final = 5
_DAMAGED: Final = "its chunks differ from those written"


class DifySink:
    """Writes the documents of Dify sources, for one thread; a `ReportingSink` and `FileTrackingSink`.

    `settle` ends a run.

    Args:
        workspace: returns the workspace of a connection.
        read_only: write and remove nothing, not even leftovers; for a dry run.
        repair: compare the chunks of every document, not only of those whose size has changed, and remove empty
            documents without metadata.
        indexing_s: how long a document may take to be indexed.
        tell: receives messages about failures that are retried.

    Attributes:
        refusals: documents that Dify did not accept.

    Raises:
        ConfigError: a source is not writable.
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
        tell: Callable[[str], None] = lambda _problem: None,
    ) -> None:
        self.refusals: list[Refusal] = []
        self._specs = {spec.id: spec for spec in specs}
        self._workspace, self._clock, self._sleep, self._tell = workspace, clock, sleep, tell
        self._read_only, self._repair, self._indexing_s = read_only, repair, indexing_s
        self._writes: dict[str, Writes] = {}
        self._named: dict[str, dict[str, str]] = {}
        self._targets: dict[str, TargetDataset] = {}
        self._listed: dict[str, set[str]] = {}
        self._held: dict[Key, DatasetDocument] = {}
        self._doubled: dict[Key, list[DatasetDocument]] = {}
        self._damaged: dict[Key, str] = {}
        self._empty: set[str] = set()
        self._names: set[str] = set()
        self._uploads: list[DocumentUpload] = []
        self._counts: Counter[str] = Counter()
        self._states: Counter[str] = Counter()

    def put(self, source_id: str, document_id: str, version: str, content_hash: str, chunks: Sequence[Chunk]) -> bool:
        """Queue a document for writing; return False if Dify holds it unchanged.

        Raises:
            SourceError: Dify gave no valid answer; earlier writes stay.
        """
        self.documents(source_id)
        key, target = (source_id, document_id, version), self._targets[source_id]
        if self._empty:
            self._names.add(document_name(key, chunks[0].title if chunks else None))
        stored = self._held.get(key)
        if stored is not None and target.hash_held(stored.content_hash) == content_hash:
            return False
        marked, line = target.hash_written(content_hash), target.settings.chunk_line
        upload = DocumentUpload.of(key, marked, chunks, target.names, target.technique, chunk_line=line)
        try:
            checked(upload)
        except UploadRefused as error:
            self._refuse(upload, str(error))
            return True
        self._uploads.append(upload)
        if len(self._uploads) >= _MOST_UPLOADS or sum(len(queued.segments) for queued in self._uploads) >= _MOST_CHUNKS:
            self.commit()
        return True

    def delete(self, source_id: str, document_id: str, version: str) -> bool:
        """Delete a document with its copies; return whether it existed."""
        self.documents(source_id)
        return self._forget((source_id, document_id, version), keep="")

    def documents(self, source_id: str) -> Mapping[tuple[str, str], str]:
        """Return {(document_id, version): content_hash}; the hash is "" for a damaged document.

        Dify is listed once. Leftovers of a killed run are deleted, and all but one of duplicates.
        """
        if source_id not in self._targets:
            self._targets[source_id] = self._target(source_id)
        target = self._targets[source_id]
        if target.dataset_id is not None and target.dataset_id not in self._listed:
            self._list(target, target.dataset_id)
        stored = [(key, row.content_hash) for key, row in self._held.items() if key[0] == source_id]
        return {key[1:]: target.hash_held(content_hash) for key, content_hash in stored}

    def file_of(self, source_id: str, document_id: str, version: str) -> str | None:
        """Return the path of a document's file, or None if Dify does not hold it."""
        self.documents(source_id)
        row = self._held.get((source_id, document_id, version))
        return None if row is None else row.file

    def commit(self) -> None:
        """Write all queued documents, and wait until they are searchable.

        Raises:
            SourceError: Dify gave no valid answer; earlier writes stay.
        """
        uploads, self._uploads = self._uploads, []
        for source_id in dict.fromkeys(upload.key[0] for upload in uploads):
            self._write(self._targets[source_id], [upload for upload in uploads if upload.key[0] == source_id])

    def settle(self) -> None:
        """Compare Dify's list with the result of this run: delete duplicates, report missing documents.

        The last of several runs to end sees what all of them wrote.

        Raises:
            SourceError: Dify gave no valid answer.
        """
        targets = {target.dataset_id: target for target in self._targets.values() if target.dataset_id in self._listed}
        if self._read_only:
            return
        for dataset_id, target in targets.items():
            assert dataset_id is not None
            inventory = take_inventory(
                target.writes.all_documents(dataset_id), partial(as_written, target.writes, dataset_id)
            )
            for rows in [rows for key, rows in inventory.doubled.items() if self._is_ours(key)]:
                self._counts["doubled"] += len(rows)
                for row in rows:
                    target.remove(row.dify_id)
            for key, row in self._held.items():
                if key[0] in self._specs and self._targets[key[0]].dataset_id == dataset_id:
                    self._compare(key, row, inventory)
            self._remove_empty(target, inventory)
            unfinished = [row.name for row in inventory.unfinished if row.key is None or self._is_ours(row.key)]
            if unfinished:
                message = (
                    f"unfinished: {', '.join(map(repr, unfinished[:_MOST_NAMED]))}, {len(unfinished)} in all. Another "
                    "run is writing them, or was interrupted: the next run removes them"
                )
                target.notice(NoticeCode.DOCUMENTS_UNFINISHED, message, count=len(unfinished))

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Notices about the written documents."""
        return tuple(notice for target in self._targets.values() for notice in target.notices)

    def summary(self) -> dict[str, Any]:
        """Return what Dify accepted, ready for JSON."""
        return {
            "datasets": [
                {
                    "source": target.spec.id,
                    "dataset_id": target.dataset_id,
                    "name": target.name,
                    "new": target.created,
                    "in_manifest": bool(target.spec.dataset_ids),
                    "indexing_technique": target.technique,
                }
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
            "notes": list(messages(self.notices)),
            "calls": sum(writes.calls for writes in self._writes.values()),
            "waited_s": round(sum(writes.waited_s for writes in self._writes.values()), 3),
        }

    def report(self, written: int) -> SinkReport:
        """Return the report of the run; see `ReportingSink`."""
        return sink_report(self.summary(), written, dry_run=self._read_only)

    def _target(self, source_id: str) -> TargetDataset:
        spec = self._specs.get(source_id)
        if spec is None:
            raise InvalidRequest(f"source {source_id!r} is not among the sources of this run")
        connection = spec.connection or ""
        if connection not in self._writes:
            workspace = self._workspace(connection)
            self._writes[connection] = Writes(workspace, self._clock, self._sleep, self._tell)
        if not spec.dataset_ids and connection not in self._named:
            infos = list_datasets(self._workspace(connection), self._clock)
            self._named[connection] = {info.name: info.dataset_id for info in infos}
        return TargetDataset(spec, self._writes[connection], self._named.get(connection, {}))

    def _list(self, target: TargetDataset, dataset_id: str) -> None:
        """List a dataset's documents; delete leftovers of an interrupted run and duplicates."""
        inventory = take_inventory(target.writes.all_documents(dataset_id), partial(self._intact, target))
        self._listed[dataset_id] = inventory.names
        for key, row in inventory.copies.items():
            good = key not in inventory.damaged and key not in inventory.old
            self._held[key] = row if good else row._replace(content_hash="")
            if row.hidden:
                message = f"document {row.name!r} is disabled or archived in Dify"
                target.notice(NoticeCode.DOCUMENT_DISABLED, message, document=row.name)
        other = {
            key for key, row in inventory.copies.items() if row.content_hash and not target.hash_held(row.content_hash)
        }
        if old := sum(map(self._is_ours, other.union(inventory.old))):
            message = (
                f"{old} documents of dataset {dataset_id} were written by an earlier release, or with another "
                "chunk_line: those in the folder are written again"
            )
            target.notice(NoticeCode.DOCUMENTS_OF_EARLIER_RELEASE, message, count=old, dataset_id=dataset_id)
        self._damaged |= {key: _DAMAGED for key in inventory.damaged if self._is_ours(key)}
        certain = {key for key in inventory.doubled if key not in inventory.damaged and key not in inventory.old}
        self._doubled |= {key: rows for key, rows in inventory.doubled.items() if key not in certain}
        left = [row for row in inventory.unfinished if row.key is None or self._is_ours(row.key)]
        left += inventory.empty if self._repair else []
        self._empty |= set() if self._repair else {row.dify_id for row in inventory.empty}
        if self._read_only:
            return
        self._counts["leftovers"] += len(left)
        copies = [row for key in certain if self._is_ours(key) for row in inventory.doubled[key]]
        self._counts["doubled"] += len(copies)
        for row in (*left, *copies):
            target.remove(row.dify_id)

    def _is_ours(self, key: Key) -> bool:
        return key[0] in self._specs

    def _intact(self, target: TargetDataset, row: DatasetDocument) -> bool:
        """Whether a document's chunks are as written."""
        is_intact = holds if self._repair else as_written
        return is_intact(target.writes, target.made(), row)

    def _compare(self, key: Key, stored: DatasetDocument, inventory: Inventory) -> None:
        """Record the document as damaged if Dify's list does not show it as written."""
        row = inventory.copies.get(key)
        if row is None:
            self._damaged[key] = "another run deleted it"
        elif key in inventory.damaged:
            self._damaged[key] = _DAMAGED
        elif stored.content_hash and row.content_hash != stored.content_hash:
            self._damaged[key] = "another run wrote something else"

    def _remove_empty(self, target: TargetDataset, inventory: Inventory) -> None:
        """Remove documents that were empty when this run began and still are, if they are named like one of its own.

        A run that was killed before it marked them leaves such documents.
        """
        still = [row for row in inventory.empty if row.dify_id in self._empty]
        ours = {row.dify_id for row in still if {row.name, without_number(row.name)} & self._names}
        for dify_id in ours:
            self._counts["leftovers"] += target.remove(dify_id)
        others = [row.name for row in still if row.dify_id not in ours]
        if others:
            shown = ", ".join(map(repr, others[:_MOST_NAMED]))
            message = (
                f"empty and without metadata: {shown}, {len(others)} in all. A run that was killed may have left them, "
                "or somebody made them by hand: --repair removes them"
            )
            target.notice(NoticeCode.DOCUMENTS_EMPTY, message, count=len(others))

    def _write(self, target: TargetDataset, uploads: Sequence[DocumentUpload]) -> None:
        names = self._listed.setdefault(target.made(), set())
        uploader = Uploader(target, names, self._clock, self._indexing_s, self._replace, self._refuse)
        try:
            uploader.write(uploads)
        finally:
            self._states.update(uploader.states)

    def _replace(self, upload: DocumentUpload, row: DatasetDocument) -> None:
        """Record a complete document, and delete the one it replaces."""
        self._counts["documents"] += 1
        self._counts["segments"] += len(upload.segments)
        self._forget(upload.key, keep=row.dify_id)
        self._held[upload.key] = row

    def _forget(self, key: Key, keep: str) -> bool:
        """Delete the documents under a key except one; return whether any existed."""
        stored = self._held.pop(key, None)
        self._damaged.pop(key, None)
        rows = [*([stored] if stored is not None else []), *self._doubled.pop(key, [])]
        for row in rows:
            if row.dify_id != keep:
                self._counts["deleted"] += self._targets[key[0]].remove(row.dify_id)
        return stored is not None

    def _refuse(self, upload: DocumentUpload, reason: str) -> None:
        self.refusals.append(Refusal(*upload.key, reason))
        logger.warning("Dify refused document %s of source %s", upload.key[1], upload.key[0])
