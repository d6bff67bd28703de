"""Calls to an OpenSearch server, and its failures as errors of this package."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from context_engine.adapters.http import (
    Api,
    ApiClient,
    Backoff,
    HttpAnswer,
    HttpCall,
    Meaning,
    RetryBudget,
    refusal,
    retried,
)
from context_engine.core.protocols import Clock
from context_engine.errors import (
    SourceBusy,
    SourceError,
    SourceForbidden,
    SourceNotFound,
    SourceProtocolError,
    SourceUnavailable,
)
from context_engine.settings.connections import Connection

INGEST: Final = "context-engine ingest PATH --to opensearch"
"""The command that makes, fills and mends the indices."""
NOTHING_WRITTEN: Final = f"nothing was ingested into its indices: run '{INGEST}'"
CONFLICT: Final = 409
_NAME: Final = "OpenSearch"
_DISK_FULL: Final = Meaning(
    SourceUnavailable,
    "the server's disk is nearly full: its indices accept no documents",
    "free space on its disk; the server then lifts the block",
)
_NO_VECTORS: Final = Meaning(
    SourceUnavailable,
    "an embedder is configured, but the server has no plugin 'opensearch-knn' that can keep its vectors",
    "install it, or remove the embedder",
)
_MALFORMED: Final = Meaning(
    SourceProtocolError, "{name} refused the request ({status})", "the debug log holds its words"
)
_DELETED: Final = Meaning(
    SourceNotFound, "somebody has deleted an index of the store", f"write all documents again: '{INGEST} --repair'"
)
_BEING_MADE: Final = Meaning(SourceBusy, "another process is making the store", "ask again", retryable=True)
_BLOCKED: Final = Meaning(SourceUnavailable, "an index is blocked ({status})", "lift the block of the index")
_FORBIDDEN: Final = Meaning(SourceForbidden, "{name} refused access (403)", "grant the user its indices")
_BUSY: Final = Meaning(
    SourceBusy, "{name} refuses further work for now ({status})", "lower the load, or add nodes", retryable=True
)


def _refused(otherwise: Meaning) -> Callable[[str, str], Meaning]:
    """Return what a status means that the server also gives for a blocked index."""

    def meaning(_code: str, message: str) -> Meaning:
        if "read-only-allow-delete" in message:
            return _DISK_FULL
        return _BLOCKED if "cluster_block_exception" in message else otherwise

    return meaning


def _unusable(_code: str, message: str) -> Meaning:
    if "resource_already_exists_exception" in message:
        return _BEING_MADE
    return _NO_VECTORS if "index.knn" in message or "knn_vector" in message else _MALFORMED


def _absent(_code: str, message: str) -> Meaning:
    return _DELETED if "require_alias" in message else Meaning(SourceNotFound, NOTHING_WRITTEN)


_API: Final = Api(
    name=_NAME,
    statuses={
        400: _unusable,
        403: _refused(_FORBIDDEN),
        404: _absent,
        429: _refused(_BUSY),
    },
    good=frozenset({200, 201, CONFLICT}),
    max_bytes=64 * 1024 * 1024,
)
_NDJSON: Final = {"Content-Type": "application/x-ndjson", "Accept": "application/json"}
_WRITE_S: Final = 600.0
_SILENCE_S: Final = 60.0
"""The longest silence of a call that writes."""
_TRIES: Final = RetryBudget(attempts=10)
_PAUSES: Final = Backoff(0.2, 30.0)
"""Up to 80 s in all: a node that merges large segments may refuse writes for a minute. A writer's lease is longer."""
_KEPT: Final = "2m"
"""How long the server keeps a point in time after each page."""
_PAGE: Final = 1_000


class SearchBody(NamedTuple):
    """A search of some indices, as the server reads it."""

    indices: Sequence[str]
    body: Mapping[str, Any]


_EMPTY: Final[Mapping[str, Any]] = {"hits": {"hits": []}}


class OpenSearchServer:
    """A server. Thread-safe.

    Args:
        connect: returns the connection, its variables and files read at the call.
    """

    def __init__(self, connect: Callable[[], Connection], clock: Clock) -> None:
        self._client, self._clock = ApiClient(_API, connect, clock), clock

    def reading(self, timeout_s: float) -> Calls:
        """Return calls that end after a time."""
        return Calls(self._client, self._clock, timeout_s, silence_s=0.0)

    def writing(self) -> Calls:
        """Return calls of a writer, each with a time of its own."""
        return Calls(self._client, self._clock, None, silence_s=_SILENCE_S)

    def close(self) -> None:
        """Close the idle connections; a later call opens others."""
        self._client.close()


class Calls:
    """The calls of one search or of one writer.

    Attributes:
        failures: why an answer lacks a part: shards that failed, or were too slow.
    """

    def __init__(self, client: ApiClient, clock: Clock, timeout_s: float | None, *, silence_s: float) -> None:
        self._client, self._clock, self._silence_s = client, clock, silence_s
        self._access = client.access()
        self._due = None if timeout_s is None else clock.monotonic() + timeout_s
        self.failures: list[SourceError] = []

    def answer(self, method: str, path: str, body: Mapping[str, Any] | str | None = None) -> HttpAnswer:
        """Return a good answer, or one of status CONFLICT.

        Raises:
            SourceError: the server cannot be reached, or refuses.
        """
        due = self._clock.monotonic() + self._left()
        call = HttpCall(method, path, body, _NDJSON if isinstance(body, str) else {})
        return self._client.call(call, self._access, lambda: due - self._clock.monotonic(), silence_s=self._silence_s)

    def _left(self) -> float:
        """Return the seconds left for a call."""
        return _WRITE_S if self._due is None else self._due - self._clock.monotonic()

    def ask(self, method: str, path: str, body: Mapping[str, Any] | str | None = None) -> Any:
        """Return the value of a good answer; raises as `answer` does."""
        return self.answer(method, path, body).json()

    def search(self, searches: Sequence[SearchBody]) -> list[Any]:
        """Return the result of each search, in one call; of one without indices a result without hits.

        Raises:
            SourceError: the server cannot be reached, or one of the searches failed in all shards.
        """
        asked = [search for search in searches if search.indices]
        lines = [
            f"{json.dumps({'index': [*search.indices], 'preference': _NAME})}\n"
            f"{json.dumps({'track_total_hits': False, **search.body})}\n"
            for search in asked
        ]
        results: list[Any] = self.ask("POST", "_msearch", "".join(lines))["responses"] if lines else []
        for result in results:
            if "error" in result:
                raise _failure(result["status"], result["error"], self._clock.now())
            self._note(result)
        answers = iter(results)
        return [next(answers) if search.indices else _EMPTY for search in searches]

    def snapshot(self, indices: Sequence[str], query: Mapping[str, Any], fields: Sequence[str]) -> Iterator[Any]:
        """Yield the rows that match a query at one point in time, in the order of writing.

        Raises:
            SourceError: as `search`.
        """
        if not indices:
            return
        answer = self.ask("POST", f"{','.join(indices)}/_search/point_in_time?keep_alive={_KEPT}")
        self._note(answer)  # later pages do not count a shard that is missing now
        opened = answer["pit_id"]
        try:
            yield from self._pages("_search", {"query": query, "pit": {"id": opened, "keep_alive": _KEPT}}, fields)
        finally:
            self.ask("DELETE", "_search/point_in_time", {"pit_id": [opened]})

    def scan(self, indices: Sequence[str], query: Mapping[str, Any], fields: Sequence[str]) -> Iterator[Any]:
        """Yield the rows that match a query, each with `_id` and `_index`, for a writer, who alone refreshes."""
        return self._pages(f"{','.join(indices)}/_search", {"query": query}, fields) if indices else iter(())

    def _pages(self, path: str, asked: Mapping[str, Any], fields: Sequence[str]) -> Iterator[Any]:
        body = {
            **asked, "size": _PAGE, "_source": list(fields), "track_total_hits": False,
            "sort": [{"row": "asc"}, {"part": "asc"}],
        }  # fmt: skip
        while True:
            result = retried(lambda: self.ask("POST", path, body), _TRIES, self._left, _PAUSES, outages=(SourceBusy,))
            self._note(result)
            if self.failures:
                raise self.failures[0]
            hits = result["hits"]["hits"]
            yield from ({**hit["_source"], "_id": hit["_id"], "_index": hit["_index"]} for hit in hits)
            if len(hits) < _PAGE:
                return
            body["search_after"] = hits[-1]["sort"]

    def refresh(self, indices: Iterable[str]) -> None:
        """Let searches find what was written.

        Raises:
            SourceError: the server failed; or a shard without a copy is missing, now or at an earlier search of this
                writer, so that a commit would lack rows.
        """
        path = ",".join(sorted(indices))
        shards = self.ask("POST", f"{path}/_refresh")["_shards"]
        if shards["successful"] < shards["total"]:  # where only replicas are missing, every shard still answers
            self._note(self.ask("POST", f"{path}/_search", {"size": 0}))
        if self.failures:
            raise self.failures[0]

    def bulk(self, lines: Sequence[tuple[str, ...]]) -> None:
        """Make some changes; those that the server refuses for being busy are sent again.

        Args:
            lines: of each change, as the server reads them.

        Raises:
            SourceError: a change was refused, or the server cannot be reached.
        """
        left = list(lines)

        def send() -> None:
            nonlocal left
            items = self.ask(
                "POST", "_bulk?require_alias=true", "".join(line + "\n" for change in left for line in change)
            )["items"]
            refused = [
                (change, _failure(result["status"], result["error"], self._clock.now()))
                for change, item in zip(left, items, strict=True)
                for result in item.values()
                if "error" in result
            ]
            left = [change for change, _ in refused]
            if refused:
                raise next((error for _, error in refused if not error.retryable), refused[0][1])

        if left:
            retried(send, _TRIES, self._left, _PAUSES, outages=(SourceBusy,))

    def _note(self, result: Mapping[str, Any]) -> None:
        """Remember that a result lacks a part."""
        shards = result.get("_shards", {})
        missing = shards.get("total", 0) - shards.get("successful", 0)  # "failed" omits a shard that no node has
        if self.failures:
            return
        if missing > 0:
            problem = f"{missing} of {shards['total']} shards of its indices are missing: the server's log says why"
            self.failures.append(SourceUnavailable(problem, retryable=True))
        elif result.get("timed_out"):
            self.failures.append(SourceUnavailable("a part of its indices was too slow", retryable=True))


def _failure(status: int, error: Any, now: datetime) -> SourceError:
    """Return the error for a part of an answer."""
    body = json.dumps({"error": error}).encode()
    return refusal(HttpAnswer(status, {}, body), _API.statuses, name=_NAME, now=now)
