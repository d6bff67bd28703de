"""Where the documents of one source go in Dify: a dataset, made if there is none, and its metadata fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from context_engine.adapters.sources.dify.document_marks import Value, fitted, kind_of
from context_engine.adapters.sources.dify.settings import DifySettings, read_settings
from context_engine.adapters.sources.dify.writes import Field, Writes
from context_engine.core.chunking import LINE_FORM
from context_engine.core.models import Notice, NoticeCode, SourceSpec
from context_engine.errors import ConfigError, SourceForbidden, SourceNotFound, SourceProtocolError

MOST_DATASET_NAME: Final = 40
MOST_FIELD_NAME: Final = 255
MOST_FIELDS: Final = 100
"""Metadata fields of a dataset up to which new ones are made."""


class TargetDataset:
    """The dataset of a source.

    Args:
        spec: the source; without dataset ids its dataset is the one named like it.
        writes: the workspace.

    Attributes:
        form: how its chunks are written: the form of their line, and what it says.
        dataset_id: None until it is known to exist.
        created: whether this run made it.
        notices: what could not be kept.
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
        """Keep a notice of the source, once."""
        notice = Notice(code, self.spec.id, message, detail)
        if notice not in self.notices:
            self.notices.append(notice)

    def hash_written(self, content_hash: str) -> str:
        """Return what a document is marked with: the hash of its content, and the form of its chunks."""
        return f"{content_hash} {self.form}"

    def hash_held(self, written: str | None) -> str:
        """Return the hash of a document's content; "" where it is not whole, or its chunks are of another form."""
        content_hash, _, form = (written or "").partition(" ")
        return content_hash if form == self.form else ""

    def made(self) -> str:
        """Return the dataset's id; create it where there is none.

        Raises:
            SourceError: Dify refuses it.
        """
        if self.dataset_id is None:
            body = {"name": self.name, "description": self.spec.title[:400], "indexing_technique": self.technique}
            self.dataset_id, self.created = self.writes.create_dataset(body), True
        return self.dataset_id

    def rows(self, given: Mapping[str, Value]) -> list[dict[str, Any]]:
        """Return metadata as Dify takes it; fields that are not there yet are created."""
        out: list[dict[str, Any]] = []
        for name, value in given.items():
            field = self._field(name, value)
            if field is None:
                continue
            held = fitted(value, field.kind)
            if held is None:
                said = f"metadata {name!r}: a value does not fit its field of type {field.kind}, left out"
                self.notice(NoticeCode.METADATA_VALUE_LEFT_OUT, said, metadata=name, kind=field.kind)
            else:
                out.append({"id": field.id, "name": name, "value": held})
        return out

    def remove(self, identity: str) -> bool:
        """Delete a document; return whether Dify did."""
        try:
            self.writes.delete_document(self.made(), identity)
        except (SourceForbidden, SourceProtocolError) as error:
            said = f"document {identity} was not deleted: {error}"
            self.notice(NoticeCode.DOCUMENT_NOT_DELETED, said, document_id=identity, problem=str(error))
            return False
        return True

    def _field(self, name: str, value: Value) -> Field | None:
        dataset_id = self.made()
        if self._fields is None:
            self._fields = self.writes.fields(dataset_id)
        if name not in self._fields:
            if len(name) > MOST_FIELD_NAME or len(self._fields) >= MOST_FIELDS:
                said = f"metadata {name[:60]!r} is left out: the dataset has {len(self._fields)} fields"
                self.notice(NoticeCode.METADATA_FIELD_LEFT_OUT, said, metadata=name[:60], fields=len(self._fields))
                return None
            self._fields[name] = self.writes.create_field(dataset_id, name, kind_of(value))
        return self._fields[name]

    def _read(self, dataset_id: str) -> None:
        """Check that our chunks can be written to the dataset as they are."""
        where = f"source {self.spec.id!r}: dataset {dataset_id}"
        try:
            body = self.writes.dataset(dataset_id)
        except SourceNotFound:
            problem = f"{where} is not there: correct dataset_ids, or remove the key to have a dataset created"
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
