"""The keys of a provider, fetched beside the requests: none of them ever waits for the network."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from context_engine.adapters.http import ApiClient, HttpCall
from context_engine.adapters.http.api import Api
from context_engine.adapters.http.client import PHASES
from context_engine.adapters.identity.key_set import KeySet, read_key_set
from context_engine.core.concurrency.forking import forget_in_child
from context_engine.core.protocols import Clock
from context_engine.errors import ContextEngineError
from context_engine.settings.connections import Connection, sends_unencrypted

logger = logging.getLogger(__name__)

_API: Final = Api(max_bytes=1024 * 1024)
_CLOSE_S: Final = 1.0
_MOST_DOUBLINGS: Final = 16


def fetch_keys(connection: Connection, path: str, clock: Clock) -> Any:
    """Return the document that a provider publishes its keys in.

    Args:
        connection: how the server is reached.
        path: of the document, below the connection's base URL.
        clock: the time.

    Raises:
        ContextEngineError: the server gave no good answer, or is not to be asked in plain text.
    """
    client = ApiClient(_API, lambda: connection, clock)
    try:
        if sends_unencrypted(connection.base_url):
            raise ContextEngineError("the keys are not fetched in plain text: use https")
        due = clock.monotonic() + PHASES * connection.timeout_s
        return client.call(HttpCall("GET", path), client.access(), lambda: due - clock.monotonic()).json()
    finally:
        client.close()


class RemoteKeys:
    """Keeps the keys of a provider fresh in a thread of its own. Safe for many threads.

    What was fetched last stays where the provider cannot be asked, or answers without one usable key.

    Args:
        fetch: returns the provider's document.
        refresh_s: seconds after which it is fetched again.
        min_refresh_s: never sooner than this after the last time, whoever wants it.
    """

    def __init__(self, fetch: Callable[[], Any], *, refresh_s: float, min_refresh_s: float) -> None:
        self._fetch, self._refresh_s, self._min_refresh_s = fetch, refresh_s, min_refresh_s
        self._current: KeySet | None = None
        self._document: Any = None
        self._problem = "they were not fetched yet"
        self._closed = False
        self.forget()
        forget_in_child(self)
        self._start()

    def forget(self) -> None:
        """Have no thread: a forked child has none of its parent's; the keys stay until one is unknown."""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._wanted = False

    @property
    def current(self) -> KeySet | None:
        """The keys as they were fetched last, the same object as long as they are the same; None: none ever were."""
        return self._current

    @property
    def problem(self) -> str:
        """Why they could not be fetched the last time; "" where they were."""
        return self._problem

    def want(self) -> None:
        """Have them fetched, as soon as they may be: a token names a key that is not among them."""
        with self._changed:
            self._wanted = True
            self._changed.notify_all()
        self._start()

    def close(self) -> None:
        """End the thread; may be called twice. A call to the provider is left to end by itself."""
        with self._changed:
            self._closed, thread = True, self._thread
            self._changed.notify_all()
        if thread is not None:
            thread.join(_CLOSE_S)

    def _start(self) -> None:
        with self._changed:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="identity keys", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        failures = 0
        while True:
            with self._changed:
                if self._closed:
                    return
                self._wanted = False
            failures = 0 if self._refresh() else failures + 1
            self._wait(self._pause(failures))

    def _pause(self, failures: int) -> float:
        """Return the seconds to the next time: twice as many after each failure, few as long as there are no keys."""
        if self._current is None:
            return self._min_refresh_s
        soon = self._min_refresh_s * 2.0 ** min(failures - 1, _MOST_DOUBLINGS) if failures else self._refresh_s
        return min(soon, self._refresh_s)

    def _wait(self, seconds: float) -> None:
        """Wait so long; when they are wanted, only until they may be fetched."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed, min(self._min_refresh_s, seconds))
            left = seconds - self._min_refresh_s
            self._changed.wait_for(lambda: self._closed or self._wanted, max(left, 0.0))

    def _refresh(self) -> bool:
        try:
            document = self._fetch()
            if document != self._document:
                self._current, self._document = read_key_set(document), document
        except Exception as error:  # noqa: BLE001  whatever it is: the thread goes on, and the keys stay
            known = isinstance(error, ContextEngineError | ValueError)
            self._problem = str(error) if known else f"failed with {type(error).__name__}"
            kept = "the ones fetched before stay" if self._current else "there are none yet"
            logger.warning("the keys of the identity provider could not be fetched (%s): %s", kept, self._problem)
            return False
        self._problem = ""
        return True
