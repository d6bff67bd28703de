"""Reads JSON and YAML strictly: no duplicate keys, no NaN, text keys only, bounded size."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from context_engine.core.models import is_valid_text
from context_engine.core.text.strict_json import DuplicateKey, read_strict, unique_members
from context_engine.errors import ConfigError

_MAX_BYTES: Final = 1_000_000
_MAX_VALUES: Final = 50_000
_MAX_DEPTH: Final = 20

Location = tuple[str | int, ...]
"""The path from the top of a file to a value: keys and list indices."""


def read_json(path: Path, label: str) -> dict[str, Any]:
    """Return a JSON object without `$schema` and without comments (keys that begin with `//`).

    Raises:
        ConfigError: the file cannot be read, is not JSON, has a key twice or is not an object.
    """
    text = _text(path, label)
    try:
        value = read_strict(text, members=_without_comments)
    except json.JSONDecodeError as error:
        raise ConfigError(f"is not JSON: {error.msg}, line {error.lineno}, column {error.colno}", file=label) from None
    except RecursionError:
        raise ConfigError(f"is nested deeper than {_MAX_DEPTH} levels", file=label) from None
    except DuplicateKey as error:
        raise ConfigError("appears twice: keep one", file=label, key=error.key) from None
    except ValueError as error:
        raise ConfigError(str(error), file=label) from None
    return _mapping(value, label)


def read_yaml(path: Path, label: str, *, may_be_empty: bool = False) -> dict[str, Any]:
    """Return a YAML mapping; anchors and merge keys are allowed. If `may_be_empty`, a file of comments only is {}.

    Raises:
        ConfigError: the file cannot be read, is not YAML, has a key twice or is not a mapping.
    """
    text = _text(path, label)
    try:
        value = yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError(f"is not valid YAML: {error.problem}{where}", file=label) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"is not valid YAML: {str(error).splitlines()[0]}", file=label) from None
    return _mapping({} if value is None and may_be_empty else value, label)


def dotted(location: Location, data: Any) -> str:
    """Return a location for people; a list item that has an id is named by it.

    >>> dotted(("sources", 0, "tier"), {"sources": [{"id": "bank_sops", "tier": 9}]})
    'sources.bank_sops.tier'
    """
    parts: list[str] = []
    for step in location:
        data = _step(data, step)
        name = data.get("id") if isinstance(step, int) and isinstance(data, Mapping) else None
        parts.append(name if isinstance(name, str) else str(step))
    return ".".join(parts)


def _step(data: Any, step: str | int) -> Any:
    try:
        return data[step]
    except (KeyError, IndexError, TypeError):
        return None


def _text(path: Path, label: str) -> str:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ConfigError(f"is larger than {_MAX_BYTES} bytes: this is not a configuration file", file=label)
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not UTF-8 text (byte {error.start})", file=label) from None
    except OSError as error:
        raise unreadable(error, label) from None


def unreadable(error: OSError, label: str) -> ConfigError:
    """Return the error for a file or folder that cannot be read."""
    if isinstance(error, IsADirectoryError):
        return ConfigError("is a folder where a file is expected: rename it or move it away", file=label)
    mend = ": let the user who runs this read it" if isinstance(error, PermissionError) else ""
    return ConfigError(f"cannot be read ({error.strerror}){mend}", file=label)


def _without_comments(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    return unique_members((key, value) for key, value in pairs if not key.startswith("//") and key != "$schema")


class _Loader(yaml.SafeLoader):
    """A safe loader that refuses duplicate keys.

    It checks composed nodes, where merge keys are not yet resolved: overriding a merged key is no duplicate.
    """

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise yaml.MarkedYAMLError(
                        problem=f"the key {key.value!r} appears twice", problem_mark=key.start_mark
                    )
                seen.add((key.tag, key.value))
        return node


def _mapping(value: Any, label: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        problem = "is empty" if value is None else f"holds a {type(value).__name__}"
        raise ConfigError(f"{problem}: it must hold keys with values", file=label)
    _check_shape(value, label)
    return value


def _check_shape(top: dict[str, Any], label: str) -> None:
    """Refuse keys that are not text, aliases that expand to a huge structure, and cycles."""
    pending: list[tuple[Location, Any]] = [((), top)]
    for _ in range(_MAX_VALUES + 1):
        if not pending:
            return
        location, value = pending.pop()
        if len(location) > _MAX_DEPTH:
            raise ConfigError(f"is nested deeper than {_MAX_DEPTH} levels", file=label)
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise ConfigError(
                        f"the key {key!r} is not text: put it in quotes", file=label, key=dotted(location, top) or None
                    )
            pending.extend(((*location, key), child) for key, child in value.items())
        elif isinstance(value, str) and not is_valid_text(value):
            problem = "holds NUL or half a surrogate pair (\\ud800-\\udfff), which is no character: take it out"
            raise ConfigError(problem, file=label, key=dotted(location, top))
        elif isinstance(value, list):
            pending.extend(((*location, index), child) for index, child in enumerate(value))
    raise ConfigError(f"holds more than {_MAX_VALUES} values", file=label)
