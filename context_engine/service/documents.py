"""Lists the documents that a caller may read, and returns one as a Markdown file with its origin above the text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Sequence
from contextlib import closing
from itertools import islice
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote, unquote

import yaml

from context_engine.core.chunking.strategy import BOOKKEEPING_KEYS
from context_engine.core.engine.permission import fetched_chunks
from context_engine.core.engine.recall import as_source_error
from context_engine.core.models import DomainSpec, FetchRequest, Principal, SourceSpec, utc_text
from context_engine.core.protocols import Copyable
from context_engine.errors import FetchUnsupported, InvalidRequest, SourceError, StoreError, nearest
from context_engine.service.deployment import Deployment
from context_engine.service.fetching import FetchedPassage, fetch_passages, new_text, passages_of
from context_engine.wiring.build import source_opener
from context_engine.wiring.examine import offered

MOST_BYTES: Final = 10 * 1024 * 1024
"""Most bytes of a file."""

_TIMEOUT_S: Final = 10.0
_MOST_NAME: Final = 150
_READ_AT_ONCE: Final = 100  # documents
_OF_A_CHUNK: Final = BOOKKEEPING_KEYS | frozenset(
    ("section_title", "section_number", "section", "heading", "heading_only", "defines", "reference", "source_file")
)


class DocumentKey(NamedTuple):
    """The place of a document; version "" means "no version"."""

    source_id: str
    document_id: str
    version: str

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the key that `str` has written.

        Raises:
            InvalidRequest: not such a text.
        """
        parts = [unquote(part) for part in text.split("/")]
        if len(parts) != len(cls._fields):
            raise InvalidRequest(f"{text[:100]!r} is not a document of a list: list the documents again")
        return cls(*parts)

    def __str__(self) -> str:
        return "/".join(quote(part, safe="") for part in self)


class DocumentFile(NamedTuple):
    """A document as a Markdown file: YAML front matter with its origin, and its text."""

    key: DocumentKey
    name: str
    content: bytes


class DocumentPage(NamedTuple):
    """A part of a list of documents, in the order of their keys.

    Attributes:
        after: the key after which the next part begins; None at the end.
    """

    files: tuple[DocumentFile, ...]
    after: DocumentKey | None


def list_documents(
    deployment: Deployment, principal: Principal, domain: str, source_id: str, *, after: DocumentKey | None, most: int
) -> DocumentPage:
    """Return the documents of a source that a principal may read, each with every version.

    Args:
        after: the last key of the part before; None: from the beginning.
        most: documents, at least 1.

    Raises:
        UnknownDomain: not registered, or not for this principal.
        InvalidRequest: the domain has no such source, or none for this principal.
        FetchUnsupported: the adapter of the source cannot list documents.
        ConfigError, PolicyError, MaskingError, SourceError: as `Engine.fetch`.
    """
    spec = deployment.known_to(principal).domain(domain)
    source = next((candidate for candidate in spec.sources if candidate.id == source_id), None)
    if source is None:
        known = nearest(source_id, [candidate.id for candidate in spec.sources])
        raise InvalidRequest(f"domain {spec.domain} has no source {source_id[:100]!r} that you may search.{known}")
    try:
        width = min(most + 1, _READ_AT_ONCE)
        with closing(_files(deployment, principal, spec, source, after, width)) as readable:
            files = tuple(islice(readable, most + 1))
    except (SourceError, StoreError) as error:
        raise as_source_error(error, source.id) from error
    return DocumentPage(files[:most], files[most - 1].key if len(files) > most else None)


def _files(
    deployment: Deployment,
    principal: Principal,
    domain: DomainSpec,
    source: SourceSpec,
    after: DocumentKey | None,
    width: int,
) -> Generator[DocumentFile, None, None]:
    """Yield the readable documents after a key; they are read `width` at a time."""
    scope = deployment.views.of(principal).decisions[domain.domain].scope
    opener = source_opener(deployment.setup, data_dir=deployment.data_dir, embedder=lambda: None)
    with closing(opener.open(domain, source)) as opened:
        store = offered(opened, Copyable)
        if store is None:
            problem = f"its adapter {source.adapter!r} cannot list its documents"
            raise FetchUnsupported(problem, source_id=source.id)
        keys = sorted(DocumentKey(source.id, *key) for key in store.document_hashes(source.id))
        begin = 0 if after is None else bisect_right(keys, after)
        for start in range(begin, len(keys), width):
            window = keys[start : start + width]
            ids = tuple(dict.fromkeys(key.document_id for key in window))
            wanted = FetchRequest(domain=domain.domain, document_ids=ids, timeout_s=_TIMEOUT_S, access=scope)
            chunks = fetched_chunks(opened, wanted, source.classification)
            files = _by_key(passages_of(deployment, domain, source, chunks, wanted))
            yield from (files[key] for key in window if key in files)


def document_file(deployment: Deployment, principal: Principal, domain: str, key: DocumentKey) -> DocumentFile:
    """Return a document that a principal may read; the ledger records that it was fetched.

    Raises:
        InvalidRequest: there is no such document for this principal, or its file has more than `MOST_BYTES` bytes.
        UnknownDomain, ConfigError, PolicyError, MaskingError, SourceError: as `fetch_passages`.
    """
    fetched = fetch_passages(
        deployment, principal, domain=domain, source=key.source_id, document_ids=(key.document_id,)
    )
    for error in fetched.unanswered:
        raise error
    file = _by_key(fetched.passages).get(key)
    if file is None:
        raise InvalidRequest(f"there is no document {key} that you may read: list the documents again")
    if len(file.content) > MOST_BYTES:
        raise InvalidRequest(f"{file.name} has {len(file.content):,} bytes, at most {MOST_BYTES:,} are allowed")
    return file


def _by_key(passages: Sequence[FetchedPassage]) -> dict[DocumentKey, DocumentFile]:
    """Return the files of some passages, which are whole documents of one source."""
    documents: dict[DocumentKey, list[FetchedPassage]] = {}
    for passage in passages:
        key = DocumentKey(passage.source_id, passage.chunk.document_id or "", passage.chunk.document_version or "")
        documents.setdefault(key, []).append(passage)
    return {key: DocumentFile(key, _name(parts[0], key), _markdown(parts)) for key, parts in documents.items()}


def _name(passage: FetchedPassage, key: DocumentKey) -> str:
    """Return a file name: the title, and the version that the document states."""
    title = "".join(char if char.isprintable() and char not in '\\/:*?"<>|' else " " for char in passage.title or "")
    version = "".join(char for char in key.version if char.isalnum() or char in ".-_")
    stem = " ".join(title.split())[:_MOST_NAME].strip(". ") or "document"
    return f"{stem} ({version}).md" if version else f"{stem}.md"


def _markdown(passages: Sequence[FetchedPassage]) -> bytes:
    befores = (None, *(passage.chunk for passage in passages))
    parts = [new_text(before, passage.chunk).strip() for before, passage in zip(befores, passages)]
    head = yaml.safe_dump(_origin(passages), allow_unicode=True, sort_keys=False, width=1000)
    return "\n\n".join((f"---\n{head}---", *filter(None, parts))).encode("utf-8", "replace") + b"\n"


def _origin(passages: Sequence[FetchedPassage]) -> dict[str, Any]:
    """Return the fields of a document, by their names in front matter; of its own fields those that all chunks have."""
    first, chunk = passages[0], passages[0].chunk
    known: dict[str, Any] = {
        "document_id": chunk.document_id,
        "title": chunk.title,
        "version": chunk.document_version,
        "doc_type": chunk.doc_type,
        "effective_from": chunk.effective_from,
        "effective_to": chunk.effective_to,
        "superseded_by": chunk.superseded_by,
        "classification": str(first.classification),
        "source_type": str(first.source_type),
        "authority_tier": first.authority_tier,
        "trust_class": str(first.trust_class),
        "fetched_at": chunk.fetched_at and utc_text(chunk.fetched_at),
        "source": first.source_id,
        "url": first.url,
    }
    taken = _OF_A_CHUNK.union(known)
    own = {
        name: value
        for name, value in chunk.metadata.items()
        if name not in taken and all(passage.chunk.metadata.get(name) == value for passage in passages)
    }
    return {name: value for name, value in (known | own).items() if value is not None}
