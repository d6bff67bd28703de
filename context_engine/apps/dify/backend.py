"""The backends of the plugin, shared by calls with the same credentials, and the retrieval endpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

from cachetools import LRUCache

from context_engine.adapters.sources.dify.api import EXTERNAL_TRY_S
from context_engine.apps.dify.answer import ToolOutput
from context_engine.apps.dify.answering import Answering
from context_engine.apps.dify.chat_model import AskChat
from context_engine.apps.dify.credentials import Credentials
from context_engine.apps.dify.external import ExternalAnswer, authorised, has_bearer
from context_engine.apps.dify.failure import ToolFailure, guarded
from context_engine.apps.dify.form import flag_field, text_field
from context_engine.apps.dify.plugin_settings import load_plugin
from context_engine.apps.dify.remote import open_remote
from context_engine.apps.dify.reranking import Ask
from context_engine.apps.dify.retrieval import (
    Retrieval,
    read_retrieval,
    unanswered,
    unauthorised,
)
from context_engine.apps.dify.tools import ToolName, open_engine
from context_engine.core.concurrency.forking import Lock
from context_engine.core.models import Caller
from context_engine.errors import InvalidRequest
from context_engine.service.deployment import Closable, Shared

T = TypeVar("T", bound=Closable)
_MOST_KEPT: Final = 8


class Backend(Protocol):
    """Answers the plugin's calls. Safe for many threads."""

    def call(self, tool: ToolName, fields: Mapping[str, Any], caller: Caller, ask: Ask) -> ToolOutput:
        """Return a tool's output.

        Args:
            caller: the app and the user as named by Dify's runtime.
            ask: calls a rerank model that is set up in Dify.

        Raises:
            ContextEngineError: an invalid field, or any other failure.
        """
        ...

    def answer(self, fields: Mapping[str, Any], caller: Caller, ask: AskChat) -> Answering:
        """Yield the text of an answer as its sentences are checked, then the output of the tool `answer`.

        Args:
            caller: as for `call`.
            ask: calls a chat model that is set up in Dify.

        Raises:
            ContextEngineError: as `call`.
        """
        ...

    def check(self) -> None:
        """Try the form's settings with real calls.

        Raises:
            ContextEngineError: the problem and how to fix it.
        """
        ...

    def retrieve(self, asked: Retrieval, token: str) -> ExternalAnswer:
        """Answer a request of the External Knowledge API that carries an endpoint's access token.

        Raises:
            ContextEngineError: the request failed.
        """
        ...

    def close(self) -> None:
        """Release all resources; called once."""
        ...


def open_backend(credentials: Credentials, *, root: Path, env: Mapping[str, str] | None = None) -> Backend:
    """Return the backend of a form: the server it names, else an engine in the plugin's process.

    Args:
        env: the environment; None for that of the process.

    Raises:
        ConfigError: the form has an invalid value.
    """
    remote = open_remote(credentials)
    return remote or open_engine(load_plugin(credentials, root=root, env=env))


class Engines(Generic[T]):
    """Backends kept open by their credentials, so that calls share them. Safe for many threads.

    Args:
        make: opens a backend; called once for each set of credentials, and again after a failure.
        most: maximum number kept; the least recently used one is dropped first.
    """

    def __init__(self, make: Callable[[Credentials], T], *, most: int = _MOST_KEPT) -> None:
        self._make, self._most = make, most
        self._lock = Lock()
        self._kept: LRUCache[str, Shared[T]] = LRUCache(most + 1)

    @contextmanager
    def use(self, credentials: Credentials) -> Iterator[T]:
        """Yield the backend of these credentials; it stays open at least until the end of the block.

        Raises:
            ConfigError: invalid credentials.
        """
        shared, dropped = self._joined(credentials)
        try:
            for surplus in dropped:
                surplus.retire()
            yield shared.value()
        finally:
            shared.leave()

    def _joined(self, credentials: Credentials) -> tuple[Shared[T], list[Shared[T]]]:
        """Return the backend, and those dropped for it, to be closed outside the lock because closing waits."""
        key = credentials.fingerprint
        with self._lock:
            if key not in self._kept:
                self._kept[key] = Shared(partial(self._make, credentials))
            shared = self._kept[key]
            shared.join()
            return shared, [self._kept.popitem()[1]] if len(self._kept) > self._most else []


Use = Callable[[Credentials], AbstractContextManager[Backend]]
_NO_TOKEN: Final = "the access token is missing or wrong; in the endpoint's settings it has at least 32 characters"


def answer_retrieval(settings: Mapping[str, Any], header: str | None, body: bytes, use: Use) -> ExternalAnswer:
    """Answer a request as the principal of its access token.

    A wrong token gives a 403, an invalid request a 400. An unknown domain (a domain that the principal may not know
    counts as unknown) and a failed search give a 200 with one record that reports it, or without notice records a 400
    and a 424. Dify does not repeat a request after any of these.

    Args:
        settings: of the endpoint: the plugin's fields, `access_token`, `notice_records`, `persona`.
        use: opens the backend for these settings.
    """
    due = time.monotonic() + EXTERNAL_TRY_S
    if not authorised(settings.get("access_token"), header):
        return unauthorised(_NO_TOKEN, missing=not has_bearer(header))
    request = read_retrieval(body)
    if isinstance(request, ExternalAnswer):
        return request
    try:
        notices = flag_field(settings, "notice_records", True)
        persona = text_field(settings, "persona")
    except InvalidRequest as error:
        return unanswered(error, notice_records=True, question=request.query)
    asked = request

    def search(credentials: Credentials) -> ExternalAnswer:
        retrieval = Retrieval(
            request=asked,
            due=due,
            notice_records=notices,
            persona=persona,
            hide=credentials.redactor.hide,
        )
        with use(credentials) as backend:
            return backend.retrieve(retrieval, credentials.access_token or "")

    try:
        return guarded(settings, search)
    except ToolFailure as error:
        return unanswered(error, notice_records=notices, question=asked.query)
