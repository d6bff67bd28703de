"""The dataset that a source's documents are written to, and the documents already in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from context_engine.adapters.sources.dify.document_marks import (
    ContentDigest,
    DatasetDocument,
    Key,
    Value,
    fitted,
    kind_of,
)
from context_engine.adapters.sources.dify.settings import DifySettings, read_settings
from context_engine.adapters.sources.dify.writes import Field, Writes
from context_engine.core.chunking.chunk_line import LINE_FORM
from context_engine.core.models import Notice, NoticeCode, SourceSpec
from context_engine.errors import ConfigError, SourceForbidden, SourceNotFound, SourceProtocolError

MOST_DATASET_NAME: Final = 40
MOST_FIELD_NAME: Final = 255
MOST_FIELDS: Final = 100  # a dataset with as many metadata fields gets no new ones


class TargetDataset:
    """The dataset of a source; without dataset ids in the manifest, the one named like the source.

    Attributes:
        form: how its chunks are written: the version and content of their line.
        dataset_id: None until it is known to exist.
        created: whether this run created it.
        notices: values that could not be stored.
    """

    def __init__(self, spec: SourceSpec, writes: Writes, named: Mapping[str, str]) -> None:
        self.spec, self.writes = spec, writes
        self.settings: DifySettings = read_settings(spec)
        self.names = self.settings.metadata.used()
        self.form = f"line {LINE_FORM}{' of the document' * self.settings.chunk_line}"
        self.name = spec.id[:MOST_DATASET_NAME]
        self.dataset_id = spec.dataset_ids[0] if spec.dataset_ids else named.get(self.name)
        self.created = False
        self.technique: str = self.settings.indexing_technique or "high_quality"
        self.notices: list[Notice] = []
        self._fields: dict[str, Field] | None = None
        if self.dataset_id is not None:
            self._read(self.dataset_id)

    def notice(self, code: NoticeCode, message: str, **detail: Any) -> None:
        """Record a notice of the source once."""
        notice = Notice(code, self.spec.id, message, detail)
        if notice not in self.notices:
            self.notices.append(notice)

    def hash_written(self, content_hash: str) -> str:
        """Return a document's mark: the hash of its content, and the form of its chunks."""
        return f"{content_hash} {self.form}"

    def hash_held(self, written: str | None) -> str:
        """Return the hash of a document's content; "" if it is incomplete or its chunks have another form."""
        content_hash, _, form = (written or "").partition(" ")
        return content_hash if form == self.form else ""

    def made(self) -> str:
        """Return the dataset's id; create the dataset if it does not exist.

        Raises:
            SourceError: Dify refuses it.
        """
        if self.dataset_id is None:
            body = {"name": self.name, "description": self.spec.title[:400], "indexing_technique": self.technique}
            self.dataset_id, self.created = self.writes.create_dataset(body), True
        return self.dataset_id

    def rows(self, fields: Mapping[str, Value]) -> list[dict[str, Any]]:
        """Return metadata in the form Dify takes; missing fields are created."""
        out: list[dict[str, Any]] = []
        for name, value in fields.items():
            field = self._field(name, value)
            if field is None:
                continue
            stored = fitted(value, field.kind)
            if stored is None:
                message = f"metadata {name!r}: a value does not fit its field of type {field.kind} and is left out"
                self.notice(NoticeCode.METADATA_VALUE_LEFT_OUT, message, metadata=name, kind=field.kind)
            else:
                out.append({"id": field.id, "name": name, "value": stored})
        return out

    def remove(self, identity: str) -> bool:
        """Delete a document; return whether Dify did."""
        try:
            self.writes.delete_document(self.made(), identity)
        except (SourceForbidden, SourceProtocolError) as error:
            message = f"document {identity} was not deleted: {error}"
            self.notice(NoticeCode.DOCUMENT_NOT_DELETED, message, document_id=identity, problem=str(error))
            return False
        return True

    def _field(self, name: str, value: Value) -> Field | None:
        dataset_id = self.made()
        if self._fields is None:
            self._fields = self.writes.fields(dataset_id)
        if name not in self._fields:
            if len(name) > MOST_FIELD_NAME or len(self._fields) >= MOST_FIELDS:
                message = f"metadata {name[:60]!r} is left out: the dataset has {len(self._fields)} fields"
                self.notice(NoticeCode.METADATA_FIELD_LEFT_OUT, message, metadata=name[:60], fields=len(self._fields))
                return None
            self._fields[name] = self.writes.create_field(dataset_id, name, kind_of(value))
        return self._fields[name]

    def _read(self, dataset_id: str) -> None:
        """Check that our chunks can be written to the dataset as they are."""
        where = f"source {self.spec.id!r}: dataset {dataset_id}"
        try:
            body = self.writes.dataset(dataset_id)
        except SourceNotFound:
            problem = f"{where} does not exist: correct dataset_ids, or remove the key to have a dataset created"
            raise ConfigError(problem) from None
        if body.get("provider") == "external":
            raise ConfigError(f"{where} is external knowledge, which cannot be written to")
        if body.get("doc_form") not in ("text_model", None):
            problem = f"{where} cuts documents itself ({body['doc_form']}): give the source a dataset of plain chunks"
            raise ConfigError(problem)
        technique = body.get("indexing_technique") or self.technique
        if technique not in ("economy", "high_quality"):
            raise SourceProtocolError("Dify's description of the dataset cannot be read")
        self.technique = str(technique)


@dataclass(slots=True)
class Inventory:
    """The documents of a dataset that this package wrote.

    Attributes:
        copies: the newest intact copy of each document, or the newest copy if none is intact.
        damaged: copies with missing, duplicate or changed chunks.
        old: copies of an earlier release, which recorded no digest and so cannot be verified.
        doubled: further complete documents of the same key.
        unfinished: documents that a run is writing, or was writing when it was interrupted.
        empty: documents without text and metadata.
        names: of the documents that must not be overwritten.
    """

    copies: dict[Key, DatasetDocument] = field(default_factory=dict)
    damaged: dict[Key, DatasetDocument] = field(default_factory=dict)
    old: dict[Key, DatasetDocument] = field(default_factory=dict)
    doubled: dict[Key, list[DatasetDocument]] = field(default_factory=dict)
    unfinished: list[DatasetDocument] = field(default_factory=list)
    empty: list[DatasetDocument] = field(default_factory=list)
    names: set[str] = field(default_factory=set)


def take_inventory(rows: Iterable[DatasetDocument], intact: Callable[[DatasetDocument], bool]) -> Inventory:
    """Sort all documents of a dataset by their state.

    The newest intact copy is kept, so that two runs keep the same one.

    Args:
        intact: whether a complete document is as it was written.
    """
    inventory = Inventory()
    copies: dict[Key, list[DatasetDocument]] = {}
    for row in rows:
        if not row.empty:
            inventory.names.add(row.name)
        if row.key is not None and row.content_hash is not None:
            copies.setdefault(row.key, []).append(row)
        elif row.ours:
            inventory.unfinished.append(row)
        elif row.empty:
            inventory.empty.append(row)
    for key, rows_of_key in copies.items():
        _choose(inventory, key, sorted(rows_of_key, key=lambda row: row.age, reverse=True), intact)
    return inventory


def holds(writes: Writes, dataset_id: str, row: DatasetDocument) -> bool:
    """Whether the chunks in Dify, read now, are as written."""
    try:
        return row.ready and ContentDigest.of(writes.contents(dataset_id, row.dify_id)) == row.digest
    except SourceNotFound:
        return False


def as_written(writes: Writes, dataset_id: str, row: DatasetDocument) -> bool:
    """Whether a document is as written, by Dify's character count or, if that differs, by its chunks."""
    return row.as_written or holds(writes, dataset_id, row)


def _choose(
    inventory: Inventory, key: Key, newest_first: list[DatasetDocument], intact: Callable[[DatasetDocument], bool]
) -> None:
    good = next((row for row in newest_first if row.digest is not None and intact(row)), None)
    chosen = good or newest_first[0]
    inventory.copies[key] = chosen
    if good is None:
        (inventory.damaged if chosen.digest is not None else inventory.old)[key] = chosen
    if len(newest_first) > 1:
        inventory.doubled[key] = [row for row in newest_first if row is not chosen]


def problems(inventory: Inventory) -> Mapping[str, list[str]]:
    """Return problems as {kind: names of documents}."""
    by_kind = {
        "written twice": [inventory.copies[key].name for key in inventory.doubled],
        "with missing or changed chunks": [row.name for row in inventory.damaged.values()],
        "unfinished": [row.name for row in inventory.unfinished],
        "empty and without metadata": [row.name for row in inventory.empty],
    }
    return {kind: names for kind, names in by_kind.items() if names}
