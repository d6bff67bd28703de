"""A search result as one JSON object with all that stage 2 was computed from, and back again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from context_engine.audit.record.exact import Unreadable
from context_engine.audit.record.parts import join, split
from context_engine.core.models import SearchResult
from context_engine.errors import InvalidRequest

_FORMAT: Final = "context-engine/saved-result"
_VERSION: Final = 1
_NAMES: Final = frozenset(("format", "version", "code", "question", "candidates", "contents"))


def save_result(result: SearchResult, *, code_version: str) -> dict[str, Any]:
    """Return a result as an object that JSON holds, whatever it is written by, and that `load_result` reads.

    Args:
        code_version: of this package.
    """
    parts = split(result)
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "code": code_version,
        "question": parts.question,
        "candidates": parts.candidates,
        "contents": [one.data.decode("utf-8", "surrogatepass") for one in parts.contents],
    }


def load_result(saved: Mapping[str, Any]) -> SearchResult:
    """Return a result that was saved; it equals the one that was but for the errors of its sources.

    Args:
        saved: as `save_result` returned it, or a published result that holds it as its `record`.

    Raises:
        InvalidRequest: it is neither, or a newer version of this package wrote it.
    """
    record = saved.get("record", saved) if isinstance(saved, Mapping) else None
    if not isinstance(record, Mapping) or record.get("format") != _FORMAT:
        raise InvalidRequest(
            "this is no saved result: write one with 'context-engine search ... --json --full', or save_result"
        )
    unknown = sorted(record.keys() - _NAMES)
    if record.get("version") != _VERSION or unknown:
        what = f"it holds {unknown[0]!r}" if unknown else f"its version is {record.get('version')!r}"
        raise InvalidRequest(
            f"this result was saved by another version of the package ({record.get('code')}): {what}, and this one "
            f"reads version {_VERSION}"
        )
    try:
        contents = [str(one).encode("utf-8", "surrogatepass") for one in record["contents"]]
        return join(record["candidates"], record["question"], contents)
    except (Unreadable, KeyError, TypeError, AttributeError) as error:
        raise InvalidRequest(f"this saved result cannot be read: {error}") from None


def code_of(saved: Mapping[str, Any]) -> str | None:
    """Return the version of the package that saved a result, None where it does not say."""
    record = saved.get("record", saved)
    code = record.get("code") if isinstance(record, Mapping) else None
    return code if isinstance(code, str) else None
