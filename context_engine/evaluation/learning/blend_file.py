"""Write a learnt blend into a domain's manifest; everything else in the file stays as written."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent
from typing import Any, Final

import yaml

from context_engine.core.models import LearntBlend
from context_engine.errors import ConfigError

_SETTINGS: Final = re.compile(r"^settings:[ \t]*(#.*)?\n", re.MULTILINE)
_BLEND: Final = re.compile(r"^([ \t]+)learnt_blend:.*\n((\1[ \t]+.*|[ \t]*)\n)*", re.MULTILINE)
_INDENT: Final = re.compile(r"(?:[ \t]*(?:#.*)?\n)*([ \t]+)\S")


def check_manifest(path: Path, domain: str) -> tuple[str, dict[str, Any]]:
    """Return the text of a domain's manifest and its parsed content.

    Raises:
        ConfigError: the file cannot be read, or is the manifest of another domain.
    """
    try:
        text = path.read_text("utf-8-sig")
        content = yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot be added to: {error}", file=str(path)) from None
    if not isinstance(content, dict) or content.get("domain") != domain:
        raise ConfigError(f"is not the manifest of {domain}: a blend belongs to one domain", file=str(path))
    return text, content


def manifest_with_blend(path: Path, domain: str, blend: LearntBlend) -> str:
    """Return the text of a domain's manifest with the blend as its setting `learnt_blend`; an old blend is replaced.

    Raises:
        ConfigError: see `check_manifest`; or the settings are not written one per line.
    """
    text, content = check_manifest(path, domain)
    value = blend.model_dump(mode="json", exclude_none=True)
    written = _inserted(text if text.endswith("\n") else f"{text}\n", value)
    if yaml.safe_load(written) != {**content, "settings": {**(content.get("settings") or {}), "learnt_blend": value}}:
        raise ConfigError(
            "learnt_blend cannot be added to it: write 'settings:' on a separate line, each setting on a line below",
            file=str(path),
        )
    return written


def _inserted(text: str, value: dict[str, Any]) -> str:
    block = yaml.safe_dump({"learnt_blend": value}, sort_keys=False, allow_unicode=True, width=120)
    settings = _SETTINGS.search(text)
    if settings is None:
        return f"{text}settings:\n{indent(block, '  ')}"
    head, rest = text[: settings.end()], text[settings.end() :]
    known = _INDENT.match(rest)
    block = indent(block, known[1] if known else "  ")
    before = _BLEND.search(rest)
    if before is None:
        return head + block + rest
    return head + rest[: before.start()] + block + rest[before.end() :]
