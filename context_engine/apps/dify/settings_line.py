"""The domains of a plugin as one line of text, for a form field that keeps no line breaks.

The line is JSON, or base64 of that JSON, with the contents of the folders `config/` and `manifests/`:

    {"version": 1, "manifests": [{"version": 1, "domain": "NPA", ...}, ...],
     "connections": {"dify": {...}, ...}, "config": {"rag-pipeline.json": {...}, ...}}

Only `manifests` is required; a single manifest or a list of manifests is accepted too. Variables stay as `${NAME}`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from context_engine.core.text.strict_json import read_strict
from context_engine.errors import ConfigError, nearest
from context_engine.settings.paths import CONFIG_FILES

SETTINGS_VERSION: Final = 1
_KEYS: Final = ("version", "manifests", "connections", "config")
_OTHER_FILES: Final = tuple(name for name in CONFIG_FILES if name != "connections.yaml")
_MOST_CHARACTERS: Final = 1_000_000
_FILE_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsLine:
    """The contents of a settings line.

    Attributes:
        manifests: one mapping per domain, as in its file.
        connections: as in connections.yaml.
        config: file name -> its content; the files of `config/`, as JSON.
    """

    manifests: Sequence[Mapping[str, Any]]
    connections: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)

    def write_files(self, root: Path) -> None:
        """Write `config/` and `manifests/` into a folder, without connections."""
        for name in ("config", "manifests"):
            (root / name).mkdir(parents=True, exist_ok=True)
        for name, content in self.config.items():
            (root / "config" / name).write_text(json.dumps(content), "utf-8")
        for number, manifest in enumerate(self.manifests, start=1):
            stem = _FILE_NAME.sub("-", str(manifest.get("domain", ""))).lower().strip("-")[:64]
            path = root / "manifests" / f"{stem or number}.yaml"
            if path.exists():
                path = path.with_stem(f"{path.stem}-{number}")
            path.write_text(json.dumps(manifest), "utf-8")


def write_line(settings: SettingsLine, *, as_base64: bool = False) -> str:
    """Return the line in ASCII, so that no form changes a character of it."""
    value: dict[str, Any] = {"version": SETTINGS_VERSION, "manifests": list(settings.manifests)}
    value |= {"connections": settings.connections} if settings.connections else {}
    value |= {"config": settings.config} if settings.config else {}
    line = json.dumps(value, separators=(",", ":"))
    return base64.b64encode(line.encode()).decode() if as_base64 else line


def read_line(text: str, *, key: str = "domains") -> SettingsLine:
    """Parse a line pasted into a field.

    Args:
        text: the line; white space and line breaks that a form added or removed do no harm.

    Raises:
        ConfigError: neither JSON nor base64 of JSON, or other content.
    """
    if len(text) > _MOST_CHARACTERS:
        raise ConfigError(f"is longer than {_MOST_CHARACTERS} characters: these are not settings", key=key)
    value = _parsed(_plain_text(text.strip(), key), key)
    if isinstance(value, list):
        value = {"manifests": value}
    elif isinstance(value, Mapping) and "domain" in value:
        value = {"manifests": [value]}
    if not isinstance(value, Mapping):
        raise ConfigError("must be a JSON object with 'manifests', or a list of manifests", key=key)
    return _checked(value, key)


def _plain_text(text: str, key: str) -> str:
    if text[:1] in ("{", "["):
        return text
    try:
        packed = re.sub(r"\s+", "", text).replace("-", "+").replace("_", "/")
        return base64.b64decode(packed + "=" * (-len(packed) % 4), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        problem = "is neither JSON nor base64 of JSON: paste the line of 'context-engine plugin settings' whole"
    raise ConfigError(problem, key=key)


def _parsed(text: str, key: str) -> Any:
    try:
        return read_strict(text, control_characters=True)
    except json.JSONDecodeError as error:
        problem = f"is not JSON: {error.msg}, character {error.pos + 1} of {len(text)}"
        if error.pos >= len(text) - 1:
            problem += " (the end is missing: was it pasted whole?)"
    except ValueError as error:
        problem = str(error)
    except RecursionError:
        problem = "is nested too deep"
    raise ConfigError(problem, key=key)


def _checked(value: Mapping[str, Any], key: str) -> SettingsLine:
    for name in value:
        if name not in _KEYS:
            raise ConfigError(f"unknown key.{nearest(name, _KEYS)}", key=f"{key}.{name}")
    if value.get("version", SETTINGS_VERSION) != SETTINGS_VERSION:
        problem = f"is {value['version']!r}, and this plugin reads {SETTINGS_VERSION}: print the line with its version"
        raise ConfigError(problem, key=f"{key}.version")
    manifests = value.get("manifests")
    if (
        not isinstance(manifests, list)
        or not manifests
        or not all(isinstance(manifest, Mapping) for manifest in manifests)
    ):
        raise ConfigError("must be a list of manifests, at least one", key=f"{key}.manifests")
    connections, config = value.get("connections", {}), value.get("config", {})
    for name, part in (("connections", connections), ("config", config)):
        if not isinstance(part, Mapping):
            raise ConfigError("must be an object", key=f"{key}.{name}")
    for name, content in config.items():
        if name not in _OTHER_FILES:
            raise ConfigError(f"unknown file.{nearest(name, _OTHER_FILES)}", key=f"{key}.config.{name}")
        if not isinstance(content, Mapping):
            raise ConfigError("must be an object", key=f"{key}.config.{name}")
    return SettingsLine(manifests=manifests, connections=connections, config=config)
