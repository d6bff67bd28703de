"""Files that are not read because of their names, though they look like ours: `rag_pipeline.json`, `npa.yaml.txt`."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from context_engine.core.models import Notice, NoticeCode
from context_engine.errors import closest
from context_engine.settings.paths import CONFIG_FILES, ConfigPaths

_STEMS: Final = {name.partition(".")[0]: name for name in CONFIG_FILES}
_SUFFIXES: Final = ("json", "yaml", "yml")
_LIKE: Final = 0.83
"""One of six letters may be another: `injest.json` is meant for ours, an evaluation's `collections.yaml` is not."""


def misnamed_notices(paths: ConfigPaths) -> Iterator[Notice]:
    """Yield a notice for each file that is not read, but would be under a name near to its own.

    Hidden files and those with a further dot in their names, such as `access.old.yaml`, were set aside on purpose.
    """
    config, manifests = paths.config_dir, paths.manifest_dir
    for path, stem in _unread(config or (manifests and manifests.parent / "config")):
        for like in get_close_matches(stem.casefold(), _STEMS, n=1, cutoff=_LIKE):
            yield from _notice(paths, path, _STEMS[like])
    for path, stem in _unread(manifests or (config and config.parent / "manifests")):
        if path.suffix not in (".yaml", ".yml", ".json"):
            yield from _notice(paths, path, f"{stem}.yaml")


def _unread(folder: Path | None) -> Iterator[tuple[Path, str]]:
    """Yield the files of a folder, with the stems of their names, whose one suffix is ours or near to it."""
    try:
        files = sorted(path for path in folder.iterdir() if path.is_file()) if folder else []
    except OSError:  # said where the folder is read
        return
    for path in files:
        stem, _, suffix = path.name.removesuffix(".txt").partition(".")
        if stem and "." not in suffix and closest(suffix, _SUFFIXES) is not None:
            yield path, stem


def _notice(paths: ConfigPaths, path: Path, name: str) -> Iterator[Notice]:
    meant = path.with_name(name)
    if meant.exists() and meant.samefile(path):  # its own name, or one where capitals do not count
        return
    label = paths.label(path)
    said = f"{label} is not read, because of its name: did you mean {name!r}? Rename it, or move it away"
    yield Notice(NoticeCode.FILE_MISNAMED, label, said, {"name": name})
