"""The demo bank as Dify datasets, one for each of its sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from context_engine.core.models import Chunk, DomainSpec, SourceSpec, SourceType
from context_engine.ingest.run import ingest
from context_engine.testing.fake_dify.data import FakeDataset, FakeDocument, FakeSegment, Model

_RERANKER: Final[Model] = ("langgenius/fake/fake", "fake-rerank")
_DEMO: Final = Path(__file__).resolve().parents[2] / "demo"


def demo_datasets() -> list[FakeDataset]:
    """Return the bank's 20 sources, each named by its source id.

    Registers are economy datasets; procedures are high-quality with a reranker, all others high-quality without.
    """
    specs = [spec for path in sorted((_DEMO / "manifests").glob("*.yaml")) for spec in _domain(path).sources]
    documents = _Documents()
    ingest(_DEMO / "bank", specs, documents)
    return [_dataset(spec, documents.of(spec.id)) for spec in specs]


def _domain(path: Path) -> DomainSpec:
    return DomainSpec.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))


class _Documents:
    """A sink that collects the chunks of `ingest`."""

    def __init__(self) -> None:
        self._chunks: dict[tuple[str, str, str], Sequence[Chunk]] = {}

    def put(self, source_id: str, document_id: str, version: str, content_hash: str, chunks: Sequence[Chunk]) -> bool:
        """Keep a document's chunks."""
        self._chunks[source_id, document_id, version] = chunks
        return True

    def delete(self, source_id: str, document_id: str, version: str) -> bool:
        """Drop a document."""
        return self._chunks.pop((source_id, document_id, version), None) is not None

    def documents(self, source_id: str) -> Mapping[tuple[str, str], str]:
        """Return {}: every document is new."""
        return {}

    def commit(self) -> None:
        """Do nothing."""

    def of(self, source_id: str) -> list[Sequence[Chunk]]:
        """Return the documents of a source."""
        return [chunks for (source, _, _), chunks in self._chunks.items() if source == source_id and chunks]


def _dataset(spec: SourceSpec, documents: Sequence[Sequence[Chunk]]) -> FakeDataset:
    return FakeDataset(
        spec.id,
        "economy" if spec.type is SourceType.SYSTEM_OF_RECORD else "high_quality",
        [_document(spec, chunks) for chunks in documents],
        description=spec.title,
        reranker=_RERANKER if spec.type is SourceType.BANK_SOP else None,
    )


def _document(spec: SourceSpec, chunks: Sequence[Chunk]) -> FakeDocument:
    first = chunks[0]
    fields: dict[str, Any] = {
        "document_id": first.document_id,
        "version": first.document_version,
        "doc_type": first.doc_type,
        "source_type": spec.type.value,
        "authority_tier": spec.tier,
        "effective_from": first.effective_from and first.effective_from.isoformat(),
        "effective_to": first.effective_to and first.effective_to.isoformat(),
        "superseded_by": first.superseded_by,
        "owner": first.metadata.get("owner"),
    }
    name = " ".join(part for part in (first.document_id, first.document_version, first.title) if part)
    return FakeDocument(
        name,
        [FakeSegment(chunk.content) for chunk in chunks],
        {key: value for key, value in fields.items() if value is not None},
    )
