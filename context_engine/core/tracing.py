"""The trace of a request: a span for each piece of its work, in the threads that do it.

The core opens spans and tells them facts; what becomes of them, a tracer decides. Without a tracer nothing is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, TypeVar

T = TypeVar("T")


class Step(StrEnum):
    """The kind of work that a span shows."""

    REQUEST = "request"
    SEARCH = "search"
    SOURCE = "source"
    STAGE = "stage"
    ANSWER = "answer"
    CHAT = "chat"


class Span(Protocol):
    """A piece of work in a trace. Its methods neither raise nor wait."""

    def child(self, step: Step, name: str) -> Span:
        """Begin a part of this work; it may run in another thread and end after this span."""
        ...

    def tell(self, fact: object) -> None:
        """Add what is known of the work: a query, an answer, a result. Unknown kinds of facts are ignored."""
        ...

    def headers(self) -> Mapping[str, str]:
        """Return the headers that continue the trace in another server (W3C Trace Context)."""
        ...

    def active(self) -> AbstractContextManager[object]:
        """Return a block in which the libraries that a source or model uses add their spans to this one."""
        ...

    def end(self, error: BaseException | None = None) -> None:
        """End the work, which failed if there is an error."""
        ...


class Tracer(Protocol):
    """Begins traces. Thread-safe; does not raise or wait."""

    def begin(self, step: Step, name: str, headers: Mapping[str, str]) -> Span:
        """Begin a trace, or continue the one that the headers of a request name in lower case."""
        ...


class HttpAnswered(NamedTuple):
    """A fact of a request: its method, its route (not its address), and the status of the answer."""

    method: str
    route: str
    status: int
    request_id: str


class ChatAsked(NamedTuple):
    """A fact of a call of a chat model: the roles and texts of its messages, and the parameters."""

    model: str
    messages: Sequence[tuple[str, str]]
    max_tokens: int
    temperature: float


class _NoSpan:
    def child(self, step: Step, name: str) -> Span:
        return self

    def tell(self, fact: object) -> None:
        pass

    def headers(self) -> Mapping[str, str]:
        return _NO_HEADERS

    def active(self) -> AbstractContextManager[object]:
        return nullcontext()

    def end(self, error: BaseException | None = None) -> None:
        pass


_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
NO_SPAN: Final[Span] = _NoSpan()
_CURRENT: Final[ContextVar[Span | None]] = ContextVar("context_engine_span", default=None)


def current_span() -> Span:
    """Return the span of the work that this thread or task is doing; `NO_SPAN` outside of a trace."""
    return _CURRENT.get() or NO_SPAN


@contextmanager
def span(
    step: Step, name: str, tracer: Tracer | None = None, headers: Mapping[str, str] = _NO_HEADERS
) -> Iterator[Span]:
    """Show the work of a block in the current trace.

    Args:
        tracer: begins a trace if there is none; None: then nothing is shown.
        headers: of the request that the work is for.
    """
    opened = _opened(step, name, tracer, headers)
    if opened is None:
        yield NO_SPAN
        return
    try:
        with _within(opened):
            yield opened
    except BaseException as error:
        opened.end(error)
        raise
    opened.end()


def spanned(
    items: Generator[T], step: Step, name: str, fact: object = None, tracer: Tracer | None = None
) -> Generator[T]:
    """Show the work of a generator in the current trace, and tell its span a fact and every item.

    The span is current while the generator works, not while its consumer does.

    Args:
        tracer: as in `span`.
    """
    opened = _opened(step, name, tracer, _NO_HEADERS)
    if opened is None:
        yield from items
        return
    opened.tell(fact)
    try:
        while True:
            try:
                with _within(opened):
                    item = next(items)
            except StopIteration:
                break
            opened.tell(item)
            yield item
    except GeneratorExit:  # the consumer needs no more: no failure
        with _within(opened):
            items.close()
        opened.end()
        raise
    except BaseException as error:
        opened.end(error)
        raise
    opened.end()


def carried(call: Callable[[], T]) -> Callable[[], T]:
    """Return the call bound to the current span, to be run in another thread."""
    opened = _CURRENT.get()
    if opened is None:
        return call

    def within_span() -> T:
        with _within(opened):
            return call()

    return within_span


def _opened(step: Step, name: str, tracer: Tracer | None, headers: Mapping[str, str]) -> Span | None:
    parent = _CURRENT.get()
    if parent is not None:
        return parent.child(step, name)
    return None if tracer is None else tracer.begin(step, name, headers)


@contextmanager
def _within(opened: Span) -> Iterator[None]:
    before = _CURRENT.set(opened)
    try:
        with opened.active():
            yield
    finally:
        with suppress(ValueError):  # a generator may be closed in another context than it was begun in
            _CURRENT.reset(before)
