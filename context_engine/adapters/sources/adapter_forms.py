"""The forms in which a caller's own adapter is written, each read into a source."""

from __future__ import annotations

import inspect
from typing import Any, Final

from context_engine.adapters.sources.callable import Adapter, CallableSource
from context_engine.core.protocols import Source
from context_engine.errors import InvalidRequest

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
