"""A caller's own adapter as a source: a function, an object with a search method, or a class."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sized
from itertools import islice
from typing import Any, Final

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
    """Chunk dicts with what is missing from them: a function may return this in place of a plain list.

    Attributes:
        failures: what parts of the source could not get.
    """

    def __init__(self, chunks: Iterable[dict[str, Any]] = (), *, failures: tuple[SourceError, ...] = ()) -> None:
        super().__init__(chunks)
        self.failures = failures


class CallableSource:
    """Asks a function of three positional arguments (query, domain, top_k) for chunk dicts or chunks.

    Args:
        adapter: the function; called from several threads at once.
        source_id: the id of the source it stands for.
        score_kinds: the kinds of score it may give; all of them where left out.
    """

    def __init__(
        self, adapter: Adapter, source_id: str = "adapter", score_kinds: frozenset[ScoreKind] = frozenset(ScoreKind)
    ) -> None:
        self.source_id, self.score_kinds = source_id, score_kinds
        self._adapter = adapter

    def search(self, query: SourceQuery) -> SourceAnswer:
        """Return what the function gives. A chunk that cannot be read is left out, and a notice says so.

        Raises:
            SourceProtocolError: the function gave something else than a list of chunks.
        """
        given: Any = self._adapter(query.text, query.domain, query.top_k)
        if given is None or isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
            problem = (
                f"the adapter returned {type(given).__name__} instead of a list of chunks{_where_the_list_is(given)}"
            )
            raise SourceProtocolError(problem, source_id=self.source_id)
        taken = list(islice(given, query.top_k))
        chunks: list[Chunk] = []
        notices = advice_on_dicts(taken)
        unreadable: list[str] = []
        for one in taken:
            try:
                chunks.append(one if isinstance(one, Chunk) else chunk_from_dict(one, notices))
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
        more = len(given) - query.top_k if isinstance(given, Sized) else 0
        failures = given.failures if isinstance(given, ChunkDicts) else ()
        return SourceAnswer(chunks=chunks, notes=tuple(notices), cut=max(more, 0), failures=failures)

    def close(self) -> None:
        """Nothing to release: the function belongs to its maker."""


def _where_the_list_is(value: Any) -> str:
    """Return which key of a mapping holds a list, as a clause; "" where none does."""
    keys = [key for key, one in value.items() if isinstance(one, list)] if isinstance(value, Mapping) else []
    return f": return the list that is in its {str(keys[0])[:40]!r}" if keys else ""


_ARGUMENTS: Final = ("query", "domain", "top_k")


def source_of(adapter: Any, source_id: str) -> Source:
    """Return the source that an adapter is, in whichever form it is written.

    Args:
        adapter: a function of three arguments; an object with such a method `search`, or its class, if that takes no
            arguments; or a `Source`, whose `search` takes a SourceQuery.
        source_id: the id of the source it stands for.

    Raises:
        InvalidRequest: it is none of them; says what it takes and what it is called with.
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
    if inspect.iscoroutinefunction(function):
        raise InvalidRequest(
            f"adapter {name} is an async function: give a plain one, e.g. lambda query, domain, top_k: "
            f"asyncio.run({name}(query, domain, top_k))"
        )
    if not _takes(function, _ARGUMENTS):
        raise InvalidRequest(
            f"adapter {name}{inspect.signature(function)} cannot be called with the three arguments it is given: "
            "query, domain, top_k"
        )
    return function  # type: ignore[no-any-return]


def _takes(function: Any, arguments: tuple[str, ...]) -> bool:
    """Return whether a function can be called with so many positional arguments; True where that is not known."""
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    except ValueError:
        return True
    return True
