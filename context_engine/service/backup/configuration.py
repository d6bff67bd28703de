"""The configuration in a backup: the files that are read, without those that hold a key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from context_engine.errors import BackupError
from context_engine.secrecy import hide
from context_engine.settings import ConfigPaths
from context_engine.settings.data_dir import ID_FILE
from context_engine.settings.paths import CONFIG_FILES

_OTHERS: Final = ("judgements.jsonl",)
_SECRET: Final = re.compile(
    r"\b(api_key|client_secret|proxy)[\"']?[ \t]*:[ \t]*(?:\"([^\"]*)\"|'([^']*)'|([^\s,}#][^\s,]*))"
)
"""A key of connections.yaml or of a stage with its value, also in a comment."""

HOLDS_KEY: Final = (
    "holds a key or password in plain text: write ${NAME} or ${file:/run/secrets/NAME} instead, and it is backed up"
)


def configuration_files(paths: ConfigPaths) -> Iterator[tuple[str, Path]]:
    """Yield the configuration's files with their names in an archive: `config/...` and `manifests/...`."""
    for name in (*CONFIG_FILES, *_OTHERS):
        file = paths.config_file(name)
        if file is not None:
            yield f"config/{name}", file
    for manifest in paths.manifests():
        yield f"manifests/{manifest.name}", manifest
    for stage in paths.stages().values():
        yield f"manifests/stages/{stage.name}", stage
    if paths.manifest_dir is not None and (paths.manifest_dir / ID_FILE).is_file():
        yield f"manifests/{ID_FILE}", paths.manifest_dir / ID_FILE


def holds_secret(file: Path) -> bool:
    """Return whether a file holds a key or password itself, not the name of its variable or file.

    Raises:
        BackupError: the file cannot be read.
    """
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeError) as error:
        raise BackupError(f"{file} cannot be read: {getattr(error, 'strerror', None) or 'no UTF-8'}") from error
    return hide(text) != text or any(_is_secret(match) for match in _SECRET.finditer(text))


def _is_secret(match: re.Match[str]) -> bool:
    key, value = match[1], next((group for group in match.groups()[1:] if group), "").strip()
    if key == "proxy":
        value = value.rpartition("@")[0].partition("://")[2].partition(":")[2]
    return bool(value) and not value.startswith("${") and value.rstrip("}") not in ("null", "~")
