"""Reads JSON strictly: a duplicate key or NaN is an error, where Python's parser keeps the last value or accepts it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, NoReturn


class RefusedJson(ValueError):
    """Well-formed JSON that is not accepted."""


class DuplicateKey(RefusedJson):
    """An object has a key twice.

    Attributes:
        key: the first such key.
    """

    def __init__(self, key: str) -> None:
        super().__init__(f"the key {key[:60]!r} appears twice: keep one")
        self.key = key


def read_strict(
    text: str,
    *,
    members: Callable[[list[tuple[str, Any]]], dict[str, Any]] | None = None,
    whole: Callable[[str], int] = int,
    real: Callable[[str], float] = float,
    control_characters: bool = False,
) -> Any:
    """Return the value of a JSON text.

    Args:
        members: makes an object of its keys and values; default: `unique_members`.
        whole, real: read a number.
        control_characters: accept line ends and tabs inside strings.

    Raises:
        json.JSONDecodeError: not JSON.
        RefusedJson: a duplicate key, NaN or Infinity.
        RecursionError: nested too deep for the parser.
    """
    return json.loads(
        text,
        object_pairs_hook=members or unique_members,
        parse_constant=_refuse_constant,
        parse_int=whole,
        parse_float=real,
        strict=not control_characters,
    )


def unique_members(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of an object.

    Raises:
        DuplicateKey: a key appears twice.
    """
    pairs = list(pairs)
    members = dict(pairs)
    if len(members) < len(pairs):
        seen = set[str]()
        raise DuplicateKey(next(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise RefusedJson(f"{name} is not a JSON number: give a finite one, or null")
