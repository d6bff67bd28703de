"""A caller's own adapter as a source: a function, an object with a search method, or a class."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sized
from itertools import islice
from typing import Any, Final

from context_engine.core.concurrency.awaiting import awaited
from context_engine.core.models import (
    Chunk,
    Notice,
    NoticeCode,
    ScoreKind,
    SourceAnswer,
    SourceQuery,
    advice_on_dicts,
    chunk_from_dict,
)
from context_engine.core.protocols import Source
from context_engine.errors import InvalidRequest, SourceError, SourceProtocolError

Adapter = Callable[[str, str, int], Iterable[Mapping[str, Any] | Chunk]]


class ChunkDicts(list[dict[str, Any]]):
    """Chunk dicts and the errors of unreadable parts: a function may return this instead of a plain list."""

    def __init__(self, chunks: Iterable[dict[str, Any]] = (), *, failures: tuple[SourceError, ...] = ()) -> None:
        super().__init__(chunks)
        self.failures = failures


class CallableSource:
    """Calls a plain or async function of three positional arguments (query, domain, top_k) for chunk dicts or chunks.

    The function may be called from several threads at once.
    """

    def __init__(
        self, adapter: Adapter, source_id: str = "adapter", score_kinds: frozenset[ScoreKind] = frozenset(ScoreKind)
    ) -> None:
        self.source_id, self.score_kinds = source_id, score_kinds
        self._adapter = adapter

    def search(self, query: SourceQuery) -> SourceAnswer:
        """Return the function's chunks. A chunk that cannot be read is left out with a notice.

        Raises:
            SourceProtocolError: the function returned something other than a list of chunks.
        """
        returned: Any = awaited(self._adapter(query.text, query.domain, query.top_k))
        if returned is None or isinstance(returned, str | bytes | Mapping) or not isinstance(returned, Iterable):
            kind = type(returned).__name__
            problem = f"the adapter returned {kind} instead of a list of chunks{_where_the_list_is(returned)}"
            raise SourceProtocolError(problem, source_id=self.source_id)
        taken = list(islice(returned, query.top_k))
        chunks: list[Chunk] = []
        notices = advice_on_dicts(taken)
        unreadable: list[str] = []
        for item in taken:
            try:
                chunks.append(item if isinstance(item, Chunk) else chunk_from_dict(item, notices))
            except InvalidRequest as error:
                unreadable.append(str(error))
        if unreadable and not chunks:
            raise SourceProtocolError(
                f"none of the {len(unreadable)} chunk(s) that the adapter returned can be read: {unreadable[0]}",
                source_id=self.source_id,
            )
        notices += [
            Notice(NoticeCode.CHUNK_UNREADABLE, self.source_id, f"left out: {problem}", {"problem": problem})
            for problem in unreadable
        ]
        more = len(returned) - query.top_k if isinstance(returned, Sized) else 0
        failures = returned.failures if isinstance(returned, ChunkDicts) else ()
        return SourceAnswer(chunks=chunks, notes=tuple(notices), cut=max(more, 0), failures=failures)

    def close(self) -> None:
        """Release nothing: the function belongs to the caller."""


def _where_the_list_is(value: Any) -> str:
    """Return a clause with the key of a mapping that holds a list; "" if there is none."""
    keys = [key for key, entry in value.items() if isinstance(entry, list)] if isinstance(value, Mapping) else []
    return f": return the list that is in its {str(keys[0])[:40]!r}" if keys else ""


_ARGUMENTS: Final = ("query", "domain", "top_k")


def source_of(adapter: Any, source_id: str) -> Source:
    """Return an adapter of any accepted form as a source.

    Args:
        adapter: a function of three arguments; an object with such a method `search`, or its class, if that takes no
            arguments; or a `Source`, whose `search` takes a SourceQuery. Each may be async.

    Raises:
        InvalidRequest: it is none of these; the message says what is accepted.
    """
    if isinstance(adapter, type):
        adapter = _instance(adapter)
    search = getattr(adapter, "search", None)
    if not callable(adapter) and not callable(search):
        raise InvalidRequest(
            f"adapter must be a function (query, domain, top_k), or an object with such a method 'search', got "
            f"{type(adapter).__name__}"
        )
    if not callable(adapter) and not _takes(search, _ARGUMENTS) and _takes(search, ("query",)):
        return _checked_source(adapter)
    return CallableSource(_checked_function(adapter if callable(adapter) else search), source_id)


def _instance(kind: type) -> Any:
    if not _takes(kind, ()):
        raise InvalidRequest(f"adapter is the class {kind.__name__}, which takes arguments: give an instance of it")
    return kind()


def _checked_source(source: Any) -> Source:
    missing = [name for name in ("score_kinds", "close") if not hasattr(source, name)]
    if missing:
        raise InvalidRequest(
            f"adapter {type(source).__name__} has a search(query) like a Source, but no {' and no '.join(missing)}: "
            "add them, or let search take (query, domain, top_k)"
        )
    return source  # type: ignore[no-any-return]


def _checked_function(function: Any) -> Adapter:
    name = getattr(function, "__name__", type(function).__name__)
    if inspect.isasyncgenfunction(function):
        raise InvalidRequest(f"adapter {name} yields its chunks as an async generator: return them as a list")
    if not _takes(function, _ARGUMENTS):
        raise InvalidRequest(
            f"adapter {name}{inspect.signature(function)} cannot be called with the three arguments it is given: "
            "query, domain, top_k"
        )
    return function  # type: ignore[no-any-return]


def _takes(function: Any, arguments: tuple[str, ...]) -> bool:
    """Return whether a function can be called with these positional arguments; True if unknown."""
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    except ValueError:
        return True
    return True
