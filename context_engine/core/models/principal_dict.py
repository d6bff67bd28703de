"""Principals as dicts, as `context_engine.rag` takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from context_engine.core.models.access import Principal
from context_engine.core.models.enums import Classification
from context_engine.errors import InvalidRequest, nearest

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
    several = {key: [given[key]] if isinstance(given[key], str) else given[key] for key in _KEYS[1:3] if key in given}
    return Principal(**{"clearance": Classification.INTERNAL, **given, **several})
