"""The calls that write to one Dify workspace; they retry longer than a search, which a user waits for."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, Final, NamedTuple, TypeVar

from context_engine.adapters.http import Backoff, HttpAnswer, HttpCall, RetryBudget, retried
from context_engine.adapters.sources.dify.document_marks import DatasetDocument, read_row
from context_engine.adapters.sources.dify.fair_queue import Ticket
from context_engine.adapters.sources.dify.reading import line_of_first
from context_engine.adapters.sources.dify.workspace import Workspace, list_datasets
from context_engine.core.chunking.chunk_line import ChunkLine
from context_engine.core.protocols import Clock
from context_engine.errors import (
    SourceBusy,
    SourceError,
    SourceNotFound,
    SourceProtocolError,
    SourceRateLimited,
    SourceTimeout,
    SourceUnavailable,
)

logger = logging.getLogger(__name__)
UNCLEAR: Final = (SourceUnavailable, SourceTimeout, SourceBusy)
"""After these errors it is unknown whether a call was carried out."""
_CALL_S: Final = 120.0
_ATTEMPTS: Final = 4
_BACKOFF: Final = Backoff(first_s=0.8, most_s=5.0)
_RATE_ATTEMPTS: Final = 10_000
_RATE_PATIENCE_S: Final = 900.0
_RATE_BACKOFF: Final = Backoff(first_s=1.0, most_s=60.0)
_MOST_PAGES: Final = 100_000
_PAGE: Final = 100
_Made = TypeVar("_Made")


class Field(NamedTuple):
    """A metadata field of a dataset."""

    id: str
    kind: str


class Indexed(NamedTuple):
    """The progress of a document's indexing."""

    state: str
    error: str
    segments: int


class Writes:
    """Calls one workspace; `tell` receives messages about failures that are retried."""

    def __init__(
        self,
        workspace: Workspace,
        clock: Clock,
        sleep: Callable[[float], None] = time.sleep,
        tell: Callable[[str], None] = lambda _problem: None,
    ) -> None:
        self._workspace, self._clock, self._sleep, self.tell = workspace, clock, sleep, tell
        self.calls = 0
        self.waited_s = 0.0

    def dataset(self, dataset_id: str) -> Mapping[str, Any]:
        """Return Dify's description of a dataset."""
        return self._mapping("GET", f"datasets/{dataset_id}")

    def create_dataset(self, body: Mapping[str, Any]) -> str:
        """Create a dataset and return its id; after an unclear failure it is looked for before it is created again."""

        def found() -> str | None:
            named = list_datasets(self._workspace, self._clock)
            return next((info.dataset_id for info in named if info.name == body["name"]), None)

        return self._made(lambda: _id(self._mapping("POST", "datasets", body, again=False)), found)

    def fields(self, dataset_id: str) -> dict[str, Field]:
        """Return the metadata fields of a dataset by name."""
        rows = self._mapping("GET", f"datasets/{dataset_id}/metadata").get("doc_metadata")
        if not isinstance(rows, list):
            raise SourceProtocolError("Dify's list of metadata fields cannot be read")
        return {str(row["name"]): Field(str(row["id"]), str(row.get("type"))) for row in rows}

    def create_field(self, dataset_id: str, name: str, kind: str) -> Field:
        """Create a metadata field; after an unclear failure it is looked for before it is created again."""
        path, body = f"datasets/{dataset_id}/metadata", {"type": kind, "name": name}
        return self._made(
            lambda: Field(_id(self._mapping("POST", path, body, again=False)), kind),
            lambda: self.fields(dataset_id).get(name),
        )

    def documents(self, dataset_id: str) -> Iterator[DatasetDocument]:
        """Yield the documents of a dataset, newest first."""
        for rows in self._pages(f"datasets/{dataset_id}/documents"):
            yield from map(read_row, rows)

    def all_documents(self, dataset_id: str) -> list[DatasetDocument]:
        """Return the documents of a dataset, newest first, although another run may delete some meanwhile.

        Documents that move up a page during the reading are missed: then the list is read again.
        """
        for _ in range(_ATTEMPTS):
            rows, total = dict[str, DatasetDocument](), 0
            for body in self._mappings(f"datasets/{dataset_id}/documents"):
                rows |= {row.dify_id: row for row in map(read_row, _rows(body))}
                total = body["total"] if isinstance(body.get("total"), int) else len(rows)
            if len(rows) >= total:
                break
        return list(rows.values())

    def contents(self, dataset_id: str, document_id: str) -> list[str]:
        """Return the chunks of a document as Dify holds them, in order, without those it could not index."""
        pages = self._pages(f"datasets/{dataset_id}/documents/{document_id}/segments")
        rows = {str(row.get("id")): row for page in pages for row in page if isinstance(row, Mapping)}
        return [str(row.get("content")) for row in rows.values() if row.get("status") in ("completed", None)]

    def first_line(self, dataset_id: str, document_id: str) -> ChunkLine:
        """Return the parsed line of a document's first chunk, empty if it has no line."""
        path = f"datasets/{dataset_id}/documents/{document_id}/segments?page=1&limit=1"
        return line_of_first(self._mapping("GET", path))

    def create_document(self, dataset_id: str, name: str, technique: str) -> tuple[str, str]:
        """Create a document without text, so that Dify cuts nothing; return its id and its batch."""
        body = {
            "name": name,
            "text": "",
            "indexing_technique": technique,
            "doc_form": "text_model",
            "process_rule": {"mode": "automatic"},
        }
        answer = self._mapping("POST", f"datasets/{dataset_id}/document/create-by-text", body, again=False)
        return _id(answer.get("document")), str(answer.get("batch"))

    def indexed(self, dataset_id: str, batch: str, document_id: str) -> Indexed:
        """Return the progress of a document's indexing."""
        rows = self._mapping("GET", f"datasets/{dataset_id}/documents/{batch}/indexing-status").get("data")
        matching = [row for row in rows if row.get("id") == document_id] if isinstance(rows, list) else []
        if not matching:
            raise SourceProtocolError("Dify does not report the progress of the indexing")
        row = matching[0]
        return Indexed(
            str(row.get("indexing_status")), str(row.get("error") or ""), int(row.get("total_segments") or 0)
        )

    def create_segments(
        self, dataset_id: str, document_id: str, segments: Sequence[Mapping[str, Any]]
    ) -> list[Mapping[str, Any]]:
        """Add chunks to a document and return Dify's rows for them.

        Each segment has its `content`, and `keywords` unless Dify is to choose them.
        """
        body = {"segments": list(segments)}
        path = f"datasets/{dataset_id}/documents/{document_id}/segments"
        rows = self._mapping("POST", path, body, again=False).get("data")
        if not isinstance(rows, list):
            raise SourceProtocolError("Dify's answer to the chunks cannot be read")
        return rows

    def assign(self, dataset_id: str, values: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        """Set all metadata of documents: {document id: [{"id", "name", "value"}]}."""
        rows = [
            {"document_id": document, "metadata_list": list(fields), "partial_update": False}
            for document, fields in values.items()
        ]
        self._asked("POST", f"datasets/{dataset_id}/documents/metadata", {"operation_data": rows})

    def delete_document(self, dataset_id: str, document_id: str) -> None:
        """Delete a document; a missing one counts as deleted."""
        try:
            self._asked("DELETE", f"datasets/{dataset_id}/documents/{document_id}")
        except SourceNotFound:
            logger.debug("document %s was gone already", document_id)

    def pause(self, seconds: float) -> None:
        self.waited_s += seconds
        self._sleep(seconds)

    def pause_after(self, failed: SourceError, seconds: float) -> None:
        """Report a failure and wait for the next try."""
        self.tell(str(failed))
        self.pause(seconds)

    def _pages(self, path: str) -> Iterator[list[Any]]:
        return map(_rows, self._mappings(path))

    def _mappings(self, path: str) -> Iterator[Mapping[str, Any]]:
        """Yield the pages of a list until its total is reached: `has_more` is wrong in some versions."""
        for number in range(1, _MOST_PAGES):
            body = self._mapping("GET", f"{path}?page={number}&limit={_PAGE}")
            yield body
            total = body.get("total")
            if not _rows(body) or not isinstance(total, int) or number * _PAGE >= total:
                return

    def _made(self, make: Callable[[], _Made], find: Callable[[], _Made | None]) -> _Made:
        """Make something that must not be made twice."""

        def make_or_find() -> _Made:
            try:
                return make()
            except (*UNCLEAR, SourceProtocolError):
                existing = find()
                if existing is not None:
                    return existing
                raise

        outages = (*UNCLEAR, SourceProtocolError)
        return retried(make_or_find, RetryBudget(_ATTEMPTS), _patient, _BACKOFF, self.pause, outages, self.tell)

    def _mapping(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, again: bool = True
    ) -> Mapping[str, Any]:
        response = self._asked(method, path, body, again=again)
        try:
            value = response.json()
        except SourceProtocolError as error:
            raise SourceUnavailable(str(error), retryable=True) from None
        if not isinstance(value, Mapping):
            raise SourceProtocolError("Dify's answer cannot be read: its version may have changed its form")
        return value

    def _asked(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, again: bool = True
    ) -> HttpAnswer:
        """Make a call; wait out the rate limit, and repeat a repeatable call through an outage."""
        call, tries = HttpCall(method, path, body), RetryBudget(_ATTEMPTS if again else 1)
        return retried(lambda: self._in_rate(call), tries, _patient, _BACKOFF, self.pause, UNCLEAR, self.tell)

    def _in_rate(self, call: HttpCall) -> HttpAnswer:
        """Make a call, waiting as long as the rate limit lasts."""
        begun_s = self.waited_s

        def left() -> float:
            return _RATE_PATIENCE_S - (self.waited_s - begun_s)

        def wait(seconds: float) -> None:
            logger.info("the rate limit of Dify is reached, waiting %.0f s", seconds)
            self.pause(seconds)

        tries, outages = RetryBudget(_RATE_ATTEMPTS), (SourceRateLimited,)
        return retried(lambda: self._once(call), tries, left, _RATE_BACKOFF, wait, outages, self.tell)

    def _once(self, call: HttpCall) -> HttpAnswer:
        due = self._clock.monotonic() + _CALL_S
        self.calls += 1
        ticket = Ticket(lambda: due - self._clock.monotonic())
        return self._workspace.ask(call, self._workspace.access(), ticket, most_s=_CALL_S)


def _patient() -> float:
    """Return infinite seconds: no user waits."""
    return inf


def _rows(body: Mapping[str, Any]) -> list[Any]:
    rows = body.get("data")
    if not isinstance(rows, list):
        raise SourceProtocolError("Dify's list cannot be read")
    return rows


def after(attempt: int) -> float:
    """Return the seconds to wait after a failed attempt."""
    return min(0.2 * 4.0**attempt, 5.0)


def _id(value: Any) -> str:
    identity = value.get("id") if isinstance(value, Mapping) else None
    if not isinstance(identity, str):
        raise SourceProtocolError("Dify's answer has no id: its version may have changed the format")
    return identity
