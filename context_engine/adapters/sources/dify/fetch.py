"""Read chunks of a Dify dataset by their ids, from the lists of documents and of their chunks.

Dify returns a chunk by id only if its document is named too. A request that names documents is answered from these;
for chunk ids without documents every document is read in turn, and a dataset too large for that gives an error.
Documents that a search would not find (disabled, archived, not indexed) are omitted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from context_engine.adapters.http import Access, Backoff, HttpCall, RetryBudget, retried
from context_engine.adapters.sources.dify.answer import named
from context_engine.adapters.sources.dify.dataset import DatasetInfo, SearchMethod
from context_engine.adapters.sources.dify.document_marks import DatasetDocument, read_row
from context_engine.adapters.sources.dify.examine import EXTERNAL
from context_engine.adapters.sources.dify.fair_queue import Ticket, ask_each
from context_engine.adapters.sources.dify.metadata import MARKED, MetadataReader
from context_engine.adapters.sources.dify.reading import divided, line_of_first, read_chunks, read_records
from context_engine.adapters.sources.dify.settings import UUID, DifySettings
from context_engine.adapters.sources.dify.workspace import Workspace
from context_engine.core.models import Chunk, FetchRequest, SourceSpec
from context_engine.errors import SourceError, SourceForbidden, SourceNotFound, SourceProtocolError, SourceUnavailable

_BACKOFF: Final = Backoff(first_s=0.1, most_s=2.0)
_PAGE: Final = 100
_MOST_PAGES: Final = 1000
_MOST_SEARCHED: Final = 200  # documents searched for chunk ids alone, each with a call or more
_NO_METHOD: Final = SearchMethod("", None, None, {})


@dataclass(frozen=True, slots=True)
class DatasetFetch:
    """Fetches from datasets of one workspace; each call may take until the deadline of its ticket."""

    workspace: Workspace
    spec: SourceSpec
    settings: DifySettings
    claims: MetadataReader
    access: Access

    def documents(self, dataset_id: str, request: FetchRequest, ticket: Ticket) -> list[Chunk]:
        """Return the chunks of the requested documents that the caller may read.

        Raises:
            SourceError: Dify gave no usable answer, or the dataset cannot be read through its API.
        """
        info = self._info(dataset_id, ticket)
        chunks: list[Chunk] = []
        for dify_id in self._wanted(dataset_id, info, frozenset(request.document_ids), ticket):
            chunks += self._chunks(info, dify_id, request, ticket)
        return chunks

    def scattered(self, dataset_id: str, request: FetchRequest, ticket: Ticket) -> list[Chunk]:
        """Return the chunks requested by chunk id, from any document.

        Raises:
            SourceError: as `documents`; or the dataset has too many documents to search.
        """
        info = self._info(dataset_id, ticket)
        rows = [row for row in self._rows(dataset_id, ticket) if not row.hidden and row.ready]
        left = {chunk_id for chunk_id in request.chunk_ids if UUID.fullmatch(chunk_id)}
        fetched_chunks: list[Chunk] = []
        for row in rows[:_MOST_SEARCHED] if left else ():
            ids = {segment.get("id") for segment in self._segments(dataset_id, row.dify_id, ticket)} & left
            if ids:
                chunks = self._chunks(info, row.dify_id, request, ticket)
                fetched_chunks += (chunk for chunk in chunks if chunk.chunk_id in ids)
                left -= ids
            if not left:
                return fetched_chunks
        if left and len(rows) > _MOST_SEARCHED:
            problem = f"has {len(rows)} documents: a chunk is found without its document in at most {_MOST_SEARCHED}"
            raise SourceUnavailable(f"{problem}; name its document")
        return fetched_chunks

    def _info(self, dataset_id: str, ticket: Ticket) -> DatasetInfo:
        info, failure = self.workspace.info(
            dataset_id,
            self.access,
            ticket,
            ttl_s=self.settings.lookup_ttl_s,
            attempts=self.settings.attempts,
            needed=True,
        )
        if info is None:
            raise failure or SourceUnavailable("Dify did not describe the dataset")
        if info.external:
            raise SourceForbidden(EXTERNAL)
        if not info.api_enabled:
            raise SourceForbidden("API access to the dataset is switched off: switch it on in the dataset's settings")
        return info

    def _wanted(self, dataset_id: str, info: DatasetInfo, documents: frozenset[str], ticket: Ticket) -> Iterator[str]:
        """Yield Dify's ids of the requested documents.

        If neither this package nor a chunk line names documents, the ids are Dify's and no list is needed.
        """
        if not documents:
            return
        if MARKED not in info.fields and not self.settings.chunk_line:
            yield from sorted(document_id.lower() for document_id in documents if UUID.fullmatch(document_id))
            return
        rows = [row for row in self._rows(dataset_id, ticket) if not row.hidden and row.ready]
        lined = [row for row in rows if row.key is None] if self._may_be_of_lines(documents) else []
        if len(lined) > _MOST_SEARCHED:
            problem = f"has {len(lined)} documents: a document is found by the id in its chunk line in at most"
            raise SourceUnavailable(f"{problem} {_MOST_SEARCHED}")
        for row in rows:
            own = row.dify_id if row.key is None else row.key[1]
            if own in documents or (row in lined and self._named_by_line(dataset_id, row, ticket) in documents):
                yield row.dify_id

    def _may_be_of_lines(self, documents: frozenset[str]) -> bool:
        return self.settings.chunk_line and not all(map(UUID.fullmatch, documents))

    def _named_by_line(self, dataset_id: str, row: DatasetDocument, ticket: Ticket) -> str | None:
        """Return the document id stated by the line of the first chunk."""
        path = f"datasets/{dataset_id}/documents/{row.dify_id}/segments?page=1&limit=1"
        try:
            return line_of_first(self._mapping(path, ticket)).document_id
        except SourceNotFound:
            return None

    def _chunks(self, info: DatasetInfo, dify_id: str, request: FetchRequest, ticket: Ticket) -> list[Chunk]:
        """Return a document's chunks as a search returns them, without scores; none if it does not exist."""
        dataset_id = info.dataset_id
        try:
            document = self._mapping(f"datasets/{dataset_id}/documents/{dify_id}", ticket)
            if document.get("enabled") is False or document.get("archived") is True:
                return []
            if document.get("indexing_status") not in ("completed", None):
                return []
            segments = list(self._segments(dataset_id, dify_id, ticket))
        except SourceNotFound:
            return []
        metadata = _flat(document.get("doc_metadata"), info.fields)
        described = {"id": dify_id, "name": document.get("name"), "doc_metadata": metadata}
        rows = [{"segment": {**segment, "document": described}, "score": None} for segment in segments]
        good, bad = read_records({"records": rows})
        if bad:
            raise SourceProtocolError(f"{bad} chunk(s) of a document cannot be read")
        readable = divided(good, self.spec, self.claims, request.access).readable
        return read_chunks(readable, dataset_id, _NO_METHOD, self.claims, [])

    def _segments(self, dataset_id: str, dify_id: str, ticket: Ticket) -> Iterator[Mapping[str, Any]]:
        """Yield the chunks of a document that a search may find."""
        for row in self._pages(f"datasets/{dataset_id}/documents/{dify_id}/segments", ticket):
            if (
                isinstance(row, Mapping)
                and row.get("enabled") is not False
                and row.get("status") in ("completed", None)
            ):
                yield row

    def _rows(self, dataset_id: str, ticket: Ticket) -> Iterator[DatasetDocument]:
        return map(read_row, self._pages(f"datasets/{dataset_id}/documents", ticket))

    def _pages(self, path: str, ticket: Ticket) -> Iterator[Any]:
        """Yield the rows of a list until its total is reached: `has_more` is wrong in some versions."""
        for number in range(1, _MOST_PAGES):
            body = self._mapping(f"{path}?page={number}&limit={_PAGE}", ticket)
            rows, total = body.get("data"), body.get("total")
            if not isinstance(rows, list):
                raise SourceProtocolError("Dify's list cannot be read")
            yield from rows
            if not rows or not isinstance(total, int) or number * _PAGE >= total:
                return

    def _mapping(self, path: str, ticket: Ticket) -> Mapping[str, Any]:
        call, tries = HttpCall("GET", path), RetryBudget(self.settings.attempts)
        body = retried(lambda: self.workspace.ask(call, self.access, ticket), tries, ticket.left, _BACKOFF).json()
        if not isinstance(body, Mapping):
            raise SourceProtocolError("Dify's answer cannot be read: its version may have changed the format")
        return body


def fetched(
    reader: DatasetFetch, dataset_ids: Sequence[str], request: FetchRequest, left: Callable[[], float]
) -> list[Chunk]:
    """Return the requested chunks: chunks of the named documents, and chunks named by id.

    Args:
        left: returns the seconds until the answer is useless.

    Raises:
        SourceError: a dataset that may hold missing chunks could not be read, or is too large to search for ids.
    """
    chunks: dict[str, Chunk] = {}
    if request.document_ids:
        chunks = _of_all(reader, reader.documents, dataset_ids, request, left)
    missing = tuple(chunk_id for chunk_id in request.chunk_ids if chunk_id not in chunks)
    if missing:
        chunks |= _of_all(
            reader, reader.scattered, dataset_ids, replace(request, chunk_ids=missing, document_ids=()), left
        )
    return list(chunks.values())


def _of_all(
    reader: DatasetFetch,
    read: Callable[[str, FetchRequest, Ticket], list[Chunk]],
    dataset_ids: Sequence[str],
    request: FetchRequest,
    left: Callable[[], float],
) -> dict[str, Chunk]:
    """Read each dataset; a failure is raised unless all chunks were found in other datasets."""
    jobs = [partial(read, dataset_id, request) for dataset_id in dataset_ids]
    results = ask_each(jobs, width=reader.access.connection.max_connections, left=left)
    chunks = {chunk.chunk_id: chunk for result in results if not isinstance(result, SourceError) for chunk in result}
    complete = not request.document_ids and chunks.keys() >= set(request.chunk_ids)
    for dataset_id, result in zip(dataset_ids, results, strict=True):
        if isinstance(result, SourceError) and not complete:
            raise named(result, reader.spec.id, dataset_id)
    return chunks


def _flat(value: Any, fields: Collection[str]) -> dict[str, Any] | None:
    """Return a document's metadata in the form of search results: {name: value}, numbers and times as numbers.

    For one document, Dify always adds its built-in fields; a search has only those among the dataset's `fields`.
    """
    rows = [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []
    kept = [row for row in rows if row.get("id") != "built-in" or row.get("name") in fields]
    return {str(row.get("name")): _value(row) for row in kept} or None


def _value(row: Mapping[str, Any]) -> Any:
    value = row.get("value")
    if row.get("type") not in ("number", "time") or not isinstance(value, str):
        return value
    try:
        number = float(value)
    except ValueError:
        return value
    return number if "." in value else int(value)
