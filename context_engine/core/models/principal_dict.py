"""Principals as dicts, as `context_engine.rag` takes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from context_engine.core.models.access import Principal
from context_engine.core.models.enums import Classification
from context_engine.errors import InvalidRequest, nearest

__all__ = ["principal_from_dict"]

_KEYS: Final = ("id", "roles", "groups", "clearance")


def principal_from_dict(given: Mapping[str, Any]) -> Principal:
    """Read a principal, named by a program that knows who asks.

    Args:
        given: `id`, `roles`, `groups` (lists, or one name) and `clearance`; without a clearance it is cleared for what
            is internal.

    Raises:
        InvalidRequest: another key, or a value that cannot be used.
    """
    for key in given:
        if key not in _KEYS:
            raise InvalidRequest(f"principal has no {key!r}.{nearest(str(key), _KEYS)}")
    name = given.get("id", "")
    if not isinstance(name, str):
        raise InvalidRequest(f"the id of a principal must be text, got {type(name).__name__}")
    roles, groups = _names(given, "roles"), _names(given, "groups")
    return Principal(id=name, roles=roles, groups=groups, clearance=_clearance(given))


def _names(given: Mapping[str, Any], key: str) -> frozenset[str]:
    value = given.get(key, ())
    listed = (value,) if isinstance(value, str) else value
    names = list(listed) if isinstance(listed, Iterable) and not isinstance(listed, Mapping | bytes) else [None]
    if not all(isinstance(one, str) and one for one in names):
        raise InvalidRequest(f"the {key} of a principal must be a list of names, got {value!r}")
    return frozenset(names)


def _clearance(given: Mapping[str, Any]) -> Classification:
    value = given.get("clearance", Classification.INTERNAL)
    try:
        return Classification(value)
    except ValueError:
        raise InvalidRequest(f"clearance must be one of {', '.join(Classification)}, got {value!r}") from None
