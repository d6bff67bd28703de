"""Passages from other nodes: a Knowledge Retrieval node's result, or chunk dicts of this engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from context_engine.adapters.sources.dify.metadata import MetadataReader, readable_name
from context_engine.adapters.sources.dify.settings import DifySettings, MetadataNames, check_dify
from context_engine.apps.dify.dify_json import plain, plain_text, unusable
from context_engine.apps.dify.node_output import NOTICE_DATASET, dataset_uuid, fence_nonce
from context_engine.core.context import parse_fences
from context_engine.core.models import (
    Chunk,
    FetchedAtBasis,
    Notice,
    NoticeCode,
    Registry,
    SourceSpec,
    SourceType,
    chunk_from_dict,
    to_moment,
)
from context_engine.errors import ConfigError, InvalidRequest

MOST_PASSAGES: Final = 1000
_UNREGISTERED: Final = "unregistered"
_NAMES: Final = MetadataNames(
    authority_tier="authority_tier",
    source_type="source_type",
    trust_class="trust_class",
    classification="classification",
    document_version="document_version",
    effective_from="effective_from",
    effective_to="effective_to",
    superseded_by="superseded_by",
    ttl_seconds="ttl_seconds",
    doc_type="doc_type",
    section="section",
)


class Passages(NamedTuple):
    """Chunks by source, and notices about them."""

    sources: tuple[tuple[SourceSpec, tuple[Chunk, ...]], ...]
    notices: tuple[Notice, ...]


def read_passages(value: Any, registry: Registry, domain: str | None, *, trust_metadata: bool) -> Passages:
    """Parse passages; a passage from a source in a manifest gets at most the manifest's tier.

    Notices among them are not passages: see `read_missing`.

    Args:
        value: a list of passages, or JSON text of one.
        domain: match sources of this domain only; None for all.
        trust_metadata: whether a passage of an unregistered source may state its tier; otherwise it is tier 5.

    Raises:
        InvalidRequest: not a list of passages with text, or more than 1000.
        UnknownDomain: the domain is not registered.
    """
    rows = _rows(value)
    known = _Known(registry, domain)
    unknown = _unregistered_spec(trust_metadata=trust_metadata)
    notices: list[Notice] = []
    unregistered: dict[str, None] = {}
    passages: dict[str, tuple[SourceSpec, list[Chunk]]] = {} if rows else {_UNREGISTERED: (unknown, [])}
    for number, row in enumerate(rows, start=1):
        if _is_notice(row):
            continue
        spec = known.source_of(row)
        if spec is None:
            spec = unknown
            unregistered[_stated_origin(row)] = None
        passages.setdefault(spec.id, (spec, []))[1].append(_read(number, row, spec, notices))
    if unregistered and not trust_metadata:
        names = list(unregistered)[:5]
        shown = ", ".join(repr(name) if name else "passages without a source" for name in names)
        reason = f"in no manifest, so counted as general web (tier 5): {shown}"
        notices.append(Notice(NoticeCode.PASSAGES_UNREGISTERED, "", reason, {"origins": names}))
    return Passages(tuple((spec, tuple(chunks)) for spec, chunks in passages.values()), tuple(notices))


def read_missing(value: Any, registry: Registry, domain: str | None) -> tuple[SourceSpec, ...]:
    """Return the sources that notices among the passages report as missing; unregistered ones count as one.

    Arguments and errors are those of `read_passages`.
    """
    known = _Known(registry, domain)
    named = [known.named(row) or [_unregistered_spec(trust_metadata=False)] for row in _rows(value) if _is_notice(row)]
    return tuple({spec.id: spec for specs in named for spec in specs}.values())


def _unregistered_spec(*, trust_metadata: bool) -> SourceSpec:
    return SourceSpec(
        id=_UNREGISTERED,
        title="Passages of no registered source",
        type=SourceType.GENERAL_WEB,
        adapter="callable",
        trust_document_metadata=trust_metadata,
    )


class _Known:
    """Maps a passage to its source."""

    def __init__(self, registry: Registry, domain: str | None) -> None:
        names = [domain] if domain else [name for name in registry.names if name in registry.domains]
        self._by_dataset: dict[str, SourceSpec] = {}
        self._by_id: dict[str, SourceSpec] = {}
        for spec in (source for name in names for source in registry.domain(name).sources):
            self._by_id.setdefault(spec.id, spec)
            for dataset in (*spec.dataset_ids, dataset_uuid(spec.id)):
                self._by_dataset.setdefault(dataset.lower(), spec)

    def source_of(self, row: Mapping[str, Any]) -> SourceSpec | None:
        """Return the source by the dataset, which Dify writes; other metadata comes from documents and is untrusted."""
        if _of_node(row):
            return self._by_dataset.get(str(row["metadata"].get("dataset_id", "")).lower())
        tag = row.get("_provenance")
        source_id = row.get("source_id") or (tag.get("source_id") if isinstance(tag, Mapping) else None)
        dataset = str(row.get("dataset_id", "")).lower()
        return self._by_id.get(str(source_id)) or self._by_dataset.get(dataset)

    def named(self, notice: Mapping[str, Any]) -> list[SourceSpec]:
        """Return the registered sources that a notice names; the rest of the notice is not repeated."""
        listed = notice["metadata"]["doc_metadata"].get("sources")
        names = [source_id for source_id in listed if isinstance(source_id, str)] if isinstance(listed, list) else []
        return [self._by_id[name] for name in dict.fromkeys(names) if name in self._by_id]


def _rows(value: Any) -> list[Mapping[str, Any]]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise InvalidRequest("passages must be a list: choose the result of a Knowledge Retrieval node") from None
    if isinstance(value, Mapping):
        value = value.get("result", value.get("chunks"))
    if not isinstance(value, list):
        raise InvalidRequest("passages must be a list: choose the result of a Knowledge Retrieval node")
    flat = [item for row in value for item in (row if isinstance(row, list) else [row])]
    if len(flat) > MOST_PASSAGES:
        raise InvalidRequest(f"{len(flat)} passages were given, at most {MOST_PASSAGES} can be ranked at once")
    for number, row in enumerate(flat, start=1):
        problem = _problem(row)
        if problem is not None:
            raise InvalidRequest(f"passages: passage {number} {problem}")
    return [plain(row) for row in flat]


def _problem(row: Any) -> str | None:
    """Return the problem of a passage, phrased to follow its number; None if it is readable."""
    if not isinstance(row, Mapping) or not isinstance(row.get("content"), str) or not row["content"].strip():
        return "has no text in 'content'"
    if "\x00" in row["content"] or plain_text(row["content"]) != row["content"]:
        return "holds binary data (NUL or lone surrogates) in 'content'"
    for name in ("metadata", "_provenance"):
        if row.get(name) is not None and not isinstance(row[name], Mapping):
            return f"has a '{name}' that is not an object but {type(row[name]).__name__}"
    return unusable(row)


def _of_node(row: Mapping[str, Any]) -> bool:
    metadata = row.get("metadata")
    return isinstance(metadata, Mapping) and metadata.get("_source") == "knowledge"


def _is_notice(row: Mapping[str, Any]) -> bool:
    """Return whether a passage is an engine's notice, by fields that Dify writes: a document could forge others."""
    if not _of_node(row) or not isinstance(row["metadata"].get("doc_metadata"), Mapping):
        return False
    metadata = row["metadata"]
    ours = metadata.get("dataset_id") == NOTICE_DATASET or metadata.get("data_source_type") == "external"
    return ours and metadata["doc_metadata"].get("notice") is True


def _stated_origin(row: Mapping[str, Any]) -> str:
    """Return the origin that a passage of an unregistered source states, or ""."""
    metadata = row["metadata"] if _of_node(row) else row
    name = metadata.get("dataset_name") or metadata.get("source_id") or metadata.get("dataset_id")
    return str(name)[:80] if name else ""


def _read(number: int, row: Mapping[str, Any], spec: SourceSpec, notices: list[Notice]) -> Chunk:
    try:
        return _chunk(row, spec, notices)
    except InvalidRequest as error:
        raise InvalidRequest(f"passages: passage {number}: {error}") from None


def _chunk(row: Mapping[str, Any], spec: SourceSpec, notices: list[Notice]) -> Chunk:
    if not _of_node(row):
        return chunk_from_dict(row, notices)
    metadata = row["metadata"]
    own = metadata.get("doc_metadata")
    own = dict(own) if isinstance(own, Mapping) else {}
    if isinstance(own.get("document_name"), str):
        own["document_name"] = readable_name(own["document_name"])
    position = metadata.get("segment_position")
    return Chunk(
        content=_unfenced(row["content"], own),
        chunk_id=str(own.get("chunk_id") or metadata.get("segment_id") or ""),
        document_id=_words(metadata.get("document_id")),
        dataset_id=_words(metadata.get("dataset_id")),
        title=readable_name(row.get("title")) or readable_name(metadata.get("document_name")),
        position=position - 1 if isinstance(position, int) and position > 0 else None,
        metadata=own,
        **_age(own),
        **_reader(spec).claims(own, notices),
    )


def _age(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return when the content was retrieved from its origin, if an earlier search stated it."""
    moment, basis = to_moment(own.get("fetched_at")), own.get("fetched_at_basis")
    if moment is None or basis not in tuple(FetchedAtBasis):
        return {}
    return {"fetched_at": moment, "fetched_at_basis": FetchedAtBasis(basis)}


def _reader(spec: SourceSpec) -> MetadataReader:
    """Return a reader of document metadata under the manifest's names, if the source has Dify settings."""
    try:
        return MetadataReader(check_dify(spec))
    except ConfigError:
        return MetadataReader(DifySettings(metadata=_NAMES))


def _unfenced(content: str, own: Mapping[str, Any]) -> str:
    """Return the text inside a fence that an earlier search added."""
    search_id = own.get("search_id")
    if not isinstance(search_id, str) or "<<<untrusted" not in content:
        return content
    try:
        inside = parse_fences(content, fence_nonce(search_id))
    except InvalidRequest:
        return content
    return inside[0] if len(inside) == 1 else content


def _words(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
