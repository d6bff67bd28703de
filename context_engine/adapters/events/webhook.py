"""Events sent to a web hook: a signed POST each, repeated until the receiver takes it.

The signature is that of Standard Webhooks (https://www.standardwebhooks.com): HMAC-SHA256 of id, time and body.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import urlsplit

from pydantic import Field

from context_engine.adapters.events import EventContext, event_json
from context_engine.adapters.http import Api, ApiClient, Backoff, HttpCall, RetryBudget, retried
from context_engine.adapters.http.client import PHASES
from context_engine.adapters.model_access import Options, read_options
from context_engine.core.concurrency.forking import forget_in_child
from context_engine.core.models import Event
from context_engine.core.protocols import Clock
from context_engine.errors import ConfigError, SourceError, SourceProtocolError
from context_engine.settings.connections import Connection, sends_unencrypted
from context_engine.settings.data_dir import replace_file
from context_engine.settings.environment_secrets import WEBHOOK_KEY

OUTBOX: Final = "events-outbox"
"""Name of the outbox in the data folder."""

MOST_WAITING: Final = 10_000
_SUFFIX: Final = ".json"


class WaitingEvent(NamedTuple):
    """An event in the outbox: its id, its envelope as JSON, and its file."""

    event_id: str
    body: str
    file: Path


class Outbox:
    """A folder of waiting events that only its owner may read. Several threads and processes may use it.

    Args:
        most: how many events may wait; beyond that the oldest are dropped, with an error in the log.
    """

    def __init__(self, folder: Path, most: int = MOST_WAITING) -> None:
        self._folder, self._most = folder, most

    def put(self, event: Event, body: str) -> int:
        """Keep an event durably; return how many older ones were dropped to make room.

        Raises:
            ConfigError: it cannot be written.
        """
        name = f"{event.time:%Y%m%dT%H%M%S%f}-{hashlib.sha256(event.event_id.encode()).hexdigest()[:32]}"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self._folder / f"{name}{_SUFFIX}", f"{event.event_id}\n{body}".encode(), private=True)
        except OSError as error:
            problem = f"events cannot be kept for their delivery: {error.strerror}"
            raise ConfigError(problem, file=str(self._folder)) from None
        return self._make_room()

    def waiting(self) -> Iterator[WaitingEvent]:
        """Yield the waiting events, the oldest first."""
        for file in self._files():
            with suppress(OSError):  # delivered by another process meanwhile
                event_id, _, body = file.read_text("utf-8").partition("\n")
                yield WaitingEvent(event_id, body, file)

    def __len__(self) -> int:
        return len(self._files())

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob(f"*{_SUFFIX}"))

    def _make_room(self) -> int:
        oldest = self._files()[: -self._most]
        for file in oldest:
            file.unlink(missing_ok=True)
        if oldest:
            logger.error("%d events were dropped: more than %d wait in %s", len(oldest), self._most, self._folder)
        return len(oldest)


logger = logging.getLogger(__name__)
_TRIES: Final = 3
_BACKOFF: Final = Backoff(first_s=0.5, most_s=5.0)
_PAUSES_S: Final = (30.0, 120.0, 600.0, 3600.0)
_LONGEST_CLOSE_S: Final = 10.0
_CONTENT_TYPE: Final = "application/cloudevents+json; charset=utf-8"


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


_API: Final = Api(root=_origin, good=frozenset({200, 201, 202, 204}), max_bytes=64 * 1024)


class WebHookOptions(Options):
    """The options of the sink `webhook`.

    Attributes:
        connection: name of the connection; its base_url is the whole address of the hook.
        most_waiting: events that may wait for their delivery; beyond that the oldest are dropped.
    """

    connection: Annotated[str, Field(min_length=1)]
    most_waiting: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = MOST_WAITING


class EventCounts(NamedTuple):
    """What a web hook did in this process.

    Attributes:
        delivered, failures, dropped: how many events, tries and events.
        waiting: events in the outbox.
        problem: of the last try; "" if it succeeded.
    """

    delivered: int = 0
    failures: int = 0
    dropped: int = 0
    waiting: int = 0
    problem: str = ""


def open_webhook(options: Mapping[str, Any], context: EventContext) -> WebHook:
    """Return the sink `webhook`, which delivers what still waits from before.

    Raises:
        ConfigError: an unusable option or connection, no key, or an address that would send events unencrypted.
    """
    read = read_options(WebHookOptions, options)
    key = context.webhook_key()
    if key is None:
        raise ConfigError(
            "events are signed, and there is no key: set it, e.g. with 'openssl rand -base64 32'", key=WEBHOOK_KEY
        )
    connection = context.connection(read.connection)
    if sends_unencrypted(connection.base_url):
        raise ConfigError(f"{connection.shown_url} would receive events over plain http: use https", key="connection")
    outbox = Outbox(Path(context.data_dir) / OUTBOX, read.most_waiting)
    hook = WebHook(lambda: context.connection(read.connection), key, context.source, outbox, context.clock)
    hook.resume()
    return hook


def signature(key: bytes, event_id: str, timestamp: int, body: str) -> str:
    """Return the header `webhook-signature` of a message.

    Args:
        timestamp: seconds since 1970, as in the header `webhook-timestamp`.
    """
    digest = hmac.digest(key, f"{event_id}.{timestamp}.{body}".encode(), hashlib.sha256)
    return f"v1,{base64.b64encode(digest).decode()}"


class WebHook:
    """Delivers events in a thread of its own, the oldest first; a receiver that fails is asked again later.

    Thread-safe; a forked child starts a thread of its own.

    Args:
        connect: returns the connection of the hook, read anew.
        key: signs the events.
        outbox: keeps them until they are delivered.
    """

    def __init__(
        self, connect: Callable[[], Connection], key: bytes, source: str, outbox: Outbox, clock: Clock
    ) -> None:
        self._client = ApiClient(_API, connect, clock)
        self._key, self._source, self._outbox, self._clock = key, source, outbox, clock
        self._counts = EventCounts()
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Reset thread and lock, which a forked child does not inherit."""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._due = self._closing = False

    @property
    def counts(self) -> EventCounts:
        """What it did so far."""
        return self._counts._replace(waiting=len(self._outbox))

    def send(self, event: Event) -> None:
        dropped = self._outbox.put(event, event_json(event, self._source))
        self._counts = self._counts._replace(dropped=self._counts.dropped + dropped)
        self._wake()

    def resume(self) -> None:
        """Deliver what waits."""
        if len(self._outbox):
            self._wake()

    def close(self, timeout_s: float = _LONGEST_CLOSE_S) -> None:
        """Deliver what can be delivered at once; the rest waits for the next process.

        Args:
            timeout_s: seconds to wait at most.
        """
        with self._changed:
            self._closing, thread = True, self._thread
            self._changed.notify_all()
        if thread is not None:
            thread.join(timeout_s)

    def _wake(self) -> None:
        with self._changed:
            self._due = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="events", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _run(self) -> None:
        failed = 0
        while self._wait(_PAUSES_S[min(failed, len(_PAUSES_S)) - 1] if failed else None):
            failed = 0 if self._deliver_all() else failed + 1
        self._client.close()

    def _wait(self, pause_s: float | None) -> bool:
        """Wait until there is something to deliver; return False at the end.

        Args:
            pause_s: after a failure: seconds until the next try, if no new event comes; None: there was none.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._due or self._closing, pause_s)
            due, self._due = self._due or (pause_s is not None and not self._closing), False
            return due

    def _deliver_all(self) -> bool:
        """Deliver the waiting events; return whether none is left to be tried again."""
        refused = 0
        for event in self._outbox.waiting():
            try:
                self._deliver(event)
                event.file.unlink(missing_ok=True)
            except SourceProtocolError as error:  # this event alone is refused: the next may be taken
                refused += 1
                self._failed(error)
                continue
            except (SourceError, ConfigError, OSError) as error:
                self._failed(error)
                return False
            self._counts = self._counts._replace(delivered=self._counts.delivered + 1, problem="")
        return not refused

    def _deliver(self, event: WaitingEvent) -> None:
        access = self._client.access()
        due = self._clock.monotonic() + _TRIES * (PHASES * access.connection.timeout_s + _BACKOFF.most_s)

        def left() -> float:
            return due - self._clock.monotonic()

        def post() -> None:
            path = urlsplit(access.connection.base_url).path.removeprefix("/")
            call = HttpCall("POST", path, event.body, self._headers(event))
            self._client.call(call, access, left)

        retried(post, RetryBudget(_TRIES), left, _BACKOFF)

    def _headers(self, event: WaitingEvent) -> dict[str, str]:
        timestamp = int(self._clock.now().timestamp())
        return {
            "Content-Type": _CONTENT_TYPE,
            "webhook-id": event.event_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(self._key, event.event_id, timestamp, event.body),
        }

    def _failed(self, error: Exception) -> None:
        self._counts = self._counts._replace(failures=self._counts.failures + 1, problem=str(error))
        logger.warning("the web hook did not take an event: %s; %d events wait", error, len(self._outbox))
