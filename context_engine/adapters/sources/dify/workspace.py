"""One Dify workspace as reached through one connection: what all sources that name the connection share."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Hashable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar

import httpx
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from context_engine.adapters.http.access import Access, Calls
from context_engine.adapters.http.keys import ApiKey
from context_engine.adapters.http.rate import shared_budget, shared_queue
from context_engine.adapters.http.transport import Call, Response, make_client, send
from context_engine.adapters.sources.dify.breaker import Breaker
from context_engine.adapters.sources.dify.cache import AnswerCache, Kept
from context_engine.adapters.sources.dify.dataset import DatasetInfo, read_info
from context_engine.adapters.sources.dify.fanout import Ticket
from context_engine.adapters.sources.dify.reading import Records, read_records
from context_engine.adapters.sources.dify.api import refusal
from context_engine.adapters.sources.dify.versions import stated_version
from context_engine.core.concurrency.forking import forget_in_child
from context_engine.core.protocols import Clock
from context_engine.errors import (
    ConfigError,
    SourceAuthError,
    SourceError,
    SourceProtocolError,
    SourceRateLimited,
    SourceTimeout,
    SourceUnavailable,
)
from context_engine.settings.connections import Connection

__all__ = ["Answered", "Workspace"]

_AGAIN: Final = (SourceUnavailable, SourceTimeout, SourceRateLimited)
_BACKOFF: Final = wait_random_exponential(multiplier=0.2, max=2.0, min=0.05)
_EMPTY_TTL_S: Final = 30.0
"""An empty dataset is asked again soon: documents may be on their way."""

_NOT_AGAIN_S: Final = 10.0
_FOREVER: Final = 10.0**9
_GOOD: Final = (200, 201, 204)

T = TypeVar("T")


class Answered(NamedTuple):
    """Records with the time Dify gave them."""

    records: Records
    at: datetime


class Workspace:
    """Asks Dify. Safe for several threads.

    Args:
        connect: returns the connection, its files read anew.
        clock: the time.
    """

    def __init__(self, connect: Callable[[], Connection], clock: Clock) -> None:
        self._connect, self._clock = connect, clock
        self.forget()
        forget_in_child(self)
        self._breakers: dict[tuple[str, str], Breaker] = {}
        self._answers: AnswerCache[Answered] = AnswerCache(clock.monotonic)
        self._infos: AnswerCache[DatasetInfo] = AnswerCache(clock.monotonic)
        self._lookups: dict[Hashable, tuple[float, SourceError | None]] = {}
        self.version: str | None = None
        """What Dify said last of its version."""

    def forget(self) -> None:
        """Have no connection open: a forked child would share them with its parent."""
        self._lock = threading.Lock()
        self._clients: dict[Connection, httpx.Client] = {}

    def access(self) -> Access:
        """Read the connection.

        Raises:
            ConfigError: it cannot be used.
        """
        connection = self._connect()
        return Access(connection, ApiKey(connection.api_key), self._clock.monotonic())

    def free_calls(self, access: Access) -> int | None:
        """Return how many calls the rate budget covers now; None: any number."""
        budget = shared_budget(access.server, access.key.fingerprint)
        return budget.free(access.limit, self._clock.monotonic())

    def expected_s(self, access: Access, dataset_id: str) -> float:
        """Return the seconds that Dify will take to search a dataset, by what it took; 0 where nothing is known."""
        return shared_queue(access.server).expected(dataset_id)

    def info(
        self, dataset_id: str, access: Access, ticket: Ticket, *, ttl_s: float, attempts: int, needed: bool
    ) -> tuple[DatasetInfo | None, SourceError | None]:
        """Return what Dify says of a dataset, or said last, and why it does not say so now.

        Where something else can stand in, Dify is asked once, for at most half the time there is, and not again at
        once.

        Args:
            ttl_s: how long its word is good.
            attempts: most tries.
            needed: whether nothing but Dify's word will do.

        Raises:
            SourceError: a definite refusal: wrong key, no such dataset, no access.
        """
        key = (access.server, access.key.fingerprint, dataset_id)
        hasty = not needed or self._infos.last(key) is not None

        def make() -> Kept[DatasetInfo]:
            now = self._clock.monotonic()
            until, failure = self._lookups.get(key, (now, None))
            if failure is not None and hasty and now < until:
                raise copy.copy(failure)
            if not hasty:
                return self._look_up(dataset_id, access, ticket, ttl_s, attempts)
            due = now + ticket.left() / 2
            brief = Ticket(lambda: due - self._clock.monotonic(), ticket.flow)
            try:
                return self._look_up(dataset_id, access, brief, ttl_s, 1)
            except SourceError as error:
                self._lookups[key] = (self._clock.monotonic() + _NOT_AGAIN_S, error)
                raise

        try:
            kept, stale = self._infos.get(key, make, ttl_s=ttl_s, stale_s=_FOREVER, left=ticket.left)
            return kept.value, stale
        except (*_AGAIN, SourceProtocolError) as error:
            return None, error

    def _look_up(
        self, dataset_id: str, access: Access, ticket: Ticket, ttl_s: float, attempts: int
    ) -> Kept[DatasetInfo]:
        call = Call("GET", f"datasets/{dataset_id}")
        response = self._retried(lambda: self._ask(call, access, ticket), ticket, Calls(attempts, attempts))
        info = read_info(response.json())
        early = max(ttl_s - _EMPTY_TTL_S, 0.0) if info.documents == 0 else 0.0
        return Kept(info, 2048, True, self._clock.monotonic() - early)

    def retrieve(
        self,
        dataset_id: str,
        body: Mapping[str, Any],
        access: Access,
        ticket: Ticket,
        calls: Calls,
        *,
        ttl_s: float,
        stale_s: float,
    ) -> tuple[Answered, float, SourceError | None]:
        """Return the records of a search, their age in seconds, and the outage that old ones stand in for.

        Raises:
            SourceError: Dify gave no usable answer.
        """
        key = (access.server, dataset_id, _frozen(body))

        def make() -> Kept[Answered]:
            call = Call("POST", f"datasets/{dataset_id}/retrieve", body)
            return self._retried(lambda: self._retrieve(call, dataset_id, access, ticket), ticket, calls)

        kept, stale = self._answers.get(key, make, ttl_s=ttl_s, stale_s=stale_s, left=ticket.left)
        return kept.value, self._clock.monotonic() - kept.made, stale

    def page(self, number: int, access: Access, ticket: Ticket, *, attempts: int) -> Any:
        """Return the body of one page of the list of datasets, at most 100 of them.

        Raises:
            SourceError: Dify gave no answer.
        """
        call = Call("GET", f"datasets?page={number}&limit=100")
        return self._retried(lambda: self._ask(call, access, ticket), ticket, Calls(attempts, attempts)).json()

    def ask(self, call: Call, access: Access, ticket: Ticket, *, most_s: float = 0.0) -> Response:
        """Make one call of any kind and return the good answer.

        Args:
            most_s: the longest silence borne, where it is longer than the connection's own.

        Raises:
            SourceError: Dify gave no good answer.
        """
        return self._ask(call, access, ticket, most_s)

    def close(self) -> None:
        """Close the clients; a later search opens new ones."""
        with self._lock:
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()

    def _retried(self, call: Callable[[], T], ticket: Ticket, calls: Calls) -> T:
        """Call again, after a pause with jitter or as long as Dify says, while an outage lasts and time is left."""
        return Retrying(
            retry=retry_if_exception(lambda error: isinstance(error, _AGAIN) and error.retryable),
            wait=_pause,
            stop=lambda state: (
                stop_after_attempt(calls.attempts)(state) or state.upcoming_sleep >= ticket.left() or not calls.more()
            ),
            reraise=True,
        )(call)

    def _retrieve(self, call: Call, dataset_id: str, access: Access, ticket: Ticket) -> Kept[Answered]:
        breaker = self._breaker(access, dataset_id)
        breaker.check(self._clock.monotonic())
        failure: SourceError | None = None
        try:
            response = self._ask(call, access, ticket, dataset_id=dataset_id)
            answered = Answered(read_records(response.json()), self._clock.now())
            return Kept(answered, len(response.body) + 1024, not answered.records.bad, self._clock.monotonic())
        except SourceError as error:
            failure = error
            raise
        finally:
            breaker.note(failure, self._clock.monotonic())

    def _ask(
        self, call: Call, access: Access, ticket: Ticket, most_s: float = 0.0, dataset_id: str | None = None
    ) -> Response:
        """Make one call; after a refused key read the connection again, and ask once more if the key has changed."""
        refused: SourceAuthError
        try:
            return self._answer(call, access, ticket, most_s, dataset_id)
        except SourceAuthError as error:
            refused = error
        fresh = self._fresh(access, refused)
        access.connection, access.key = fresh.connection, fresh.key
        return self._answer(call, access, ticket, most_s, dataset_id)

    def _fresh(self, access: Access, refused: SourceAuthError) -> Access:
        try:
            fresh = self.access()
        except ConfigError as error:
            raise SourceAuthError(f"the API key was refused, and reading it again failed: {error}") from None
        if fresh.key == access.key:
            raise refused
        return fresh

    def _answer(self, call: Call, access: Access, ticket: Ticket, most_s: float, dataset_id: str | None) -> Response:
        """Make one call when its turn has come; of a search, how long it took is remembered."""
        connection, key, queue = access.connection, access.key, shared_queue(access.server)
        slot = queue.enter(connection.max_connections, ticket.flow, ticket.left(), dataset_id)
        ticket.hold(slot)
        started = self._clock.monotonic()
        try:
            budget = shared_budget(access.server, key.fingerprint)
            if call.method != "GET":
                budget.take(access.limit, self._clock.monotonic(), access.since)
            response = send(self._client(connection), call, key, ticket.left, max(connection.timeout_s, most_s))
            if dataset_id is not None and response.status == 200:
                queue.measured(dataset_id, self._clock.monotonic() - started)
        finally:
            slot.release()
        self.version = stated_version(response.headers) or self.version
        if response.status in _GOOD:
            return response
        error = refusal(response, key, self._clock.now())
        if isinstance(error, SourceRateLimited) and response.status == 403:
            budget.refused(self._clock.monotonic())
        raise error

    def _client(self, connection: Connection) -> httpx.Client:
        """Return the client of a connection; a new key needs no new one."""
        keyless = connection.model_copy(update={"api_key": None})
        with self._lock:
            if keyless not in self._clients:
                try:
                    self._clients[keyless] = make_client(keyless)
                except ConfigError as error:
                    raise SourceUnavailable(f"its connection cannot be used: {error}") from None
            return self._clients[keyless]

    def _breaker(self, access: Access, dataset_id: str) -> Breaker:
        with self._lock:
            return self._breakers.setdefault((access.server, dataset_id), Breaker())


def _pause(state: Any) -> float:
    error = state.outcome.exception() if state.outcome else None
    after = error.retry_after_s if isinstance(error, SourceError) else None
    return max(after or 0.0, _BACKOFF(state))


def _frozen(value: Any) -> Any:
    """Return a value that can be a dictionary key."""
    if isinstance(value, Mapping):
        return tuple((name, _frozen(one)) for name, one in sorted(value.items()))
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value
