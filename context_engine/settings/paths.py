"""Finds the configuration, and files that are ignored because of a misspelt name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from context_engine.core.models import Notice, NoticeCode
from context_engine.errors import ConfigError, closest
from context_engine.settings.files import unreadable

CONFIG_FILES: Final = (
    *("rag-pipeline.json", "chunking.json", "authority.json", "personas.json", "ingest.json"),
    *("connections.yaml", "access.yaml"),
)

CONFIG_DIR_VARIABLE: Final = "CONTEXT_ENGINE_CONFIG_DIR"
_APP: Final = "context-engine"
_MANIFEST_LINE: Final = re.compile(r"^(?:domain|sources)\s*:", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigPaths:
    """The folders of the configuration.

    Attributes:
        origin: how they were chosen: "--config-dir", the variable's name, "current directory", "user's folder" or
            "built-in".
        config_dir, manifest_dir: None if missing.
        cwd: file names in messages are relative to it.
    """

    origin: str
    config_dir: Path | None
    manifest_dir: Path | None
    cwd: Path

    def config_file(self, name: str) -> Path | None:
        """Return the path of a configuration file, or None if missing."""
        path = self.config_dir / name if self.config_dir else None
        return path if path and _exists(path) else None

    def manifests(self) -> tuple[Path, ...]:
        """Return the manifest files, sorted by name."""
        return _yaml_files(self.manifest_dir) if self.manifest_dir else ()

    def stages(self) -> Mapping[str, Path]:
        """Return the stage overlays by name: `manifests/stages/<name>.yaml`."""
        return {path.stem: path for path in _yaml_files(self.manifest_dir / "stages")} if self.manifest_dir else {}

    def label(self, path: Path) -> str:
        """Return a file's name for messages and origins: relative to the current directory if it lies in it."""
        return path.relative_to(self.cwd).as_posix() if path.is_relative_to(self.cwd) else str(path)


def find_config(config_dir: str | Path | None = None, *, env: Mapping[str, str], cwd: Path) -> ConfigPaths:
    """Return the folders of the first place that holds a configuration or a manifest.

    Args:
        config_dir: the value of `--config-dir`, relative to `cwd` or absolute.

    Raises:
        ConfigError: a named folder is missing or holds no configuration.
    """
    named = ((config_dir, "--config-dir"), (env.get(CONFIG_DIR_VARIABLE), CONFIG_DIR_VARIABLE))
    for folder, origin in named:
        if folder:
            return _named(named_folder(folder, env, cwd), origin, cwd)
    here = _in_current_directory(cwd)
    if any(here):
        return ConfigPaths(origin="current directory", config_dir=here[0], manifest_dir=here[1], cwd=cwd)
    home = user_folder(env, "XDG_CONFIG_HOME", "APPDATA", ".config")
    if home and _is_folder(home):
        config, manifests = _layout(home)
        if config or manifests:
            return ConfigPaths(origin="user's folder", config_dir=config, manifest_dir=manifests, cwd=cwd)
    return ConfigPaths(origin="built-in", config_dir=None, manifest_dir=None, cwd=cwd)


def _named(folder: Path, origin: str, cwd: Path) -> ConfigPaths:
    if not _is_folder(folder):
        raise ConfigError(f"{folder} is not a folder: name one that holds config/ and manifests/", key=origin)
    config, manifests = _layout(folder)
    if not (config or manifests):
        raise ConfigError(
            f"{folder} holds neither a configuration file ({', '.join(CONFIG_FILES)}) nor a manifests/ folder. "
            "Write a first one with 'context-engine init DIR'.",
            key=origin,
        )
    return ConfigPaths(origin=origin, config_dir=config, manifest_dir=manifests, cwd=cwd)


def _layout(folder: Path) -> tuple[Path | None, Path | None]:
    """Return the configuration and manifest folders below a root, or the root itself if it holds the files."""
    inner = folder / "config"
    config = inner if _is_folder(inner) else folder
    manifests = folder / "manifests"
    if not _is_folder(manifests) and folder.name == "config":
        manifests = folder.parent / "manifests"
    return (config if _holds_config(config) else None, manifests if _is_folder(manifests) else None)


def _in_current_directory(cwd: Path) -> tuple[Path | None, Path | None]:
    """Return `config/` and `manifests/` if they are ours: other tools keep folders of these names too."""
    config, manifests = cwd / "config", cwd / "manifests"
    return (config if _holds_config(config) else None, manifests if _holds_manifest(manifests) else None)


def _holds_config(folder: Path) -> bool:
    return any(_exists(folder / name) for name in CONFIG_FILES)


def _is_folder(path: Path) -> bool:
    """Whether a folder exists, as far as permissions let us see."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _exists(path: Path) -> bool:
    """Whether a name exists, dangling links included; a folder without permission to look into is an error."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise unreadable(error, str(path)) from None
    return True


def _holds_manifest(folder: Path) -> bool:
    return any(map(_may_be_manifest, _yaml_files(folder)))


def _may_be_manifest(path: Path) -> bool:
    """Whether a file may be a manifest; an unreadable one counts, since reading it reports why."""
    try:
        return _MANIFEST_LINE.search(path.read_text("utf-8", errors="replace")) is not None
    except OSError:
        return True


def _yaml_files(folder: Path) -> tuple[Path, ...]:
    if not _is_folder(folder):
        return ()
    try:
        files = [path for path in folder.iterdir() if path.suffix in (".yaml", ".yml")]
    except OSError as error:
        raise unreadable(error, str(folder)) from None
    return tuple(sorted(path for path in files if not path.stem.endswith(".example") and path.name[0] != "."))


def named_folder(folder: str | Path, env: Mapping[str, str], cwd: Path) -> Path:
    """Return a named folder, resolved from the current directory or the home folder ("~/")."""
    text, home = str(folder), _home(env)
    return home / text[2:] if text.startswith("~/") and home else cwd / text


def _home(env: Mapping[str, str]) -> Path | None:
    home = env.get("HOME") or env.get("USERPROFILE")
    return Path(home) if home else None


def user_folder(env: Mapping[str, str], xdg: str, windows: str, below_home: str) -> Path | None:
    """Return our folder below a folder of the user; None if the environment names no home.

    Args:
        xdg, windows: variables that may name the user's folder.
        below_home: the user's folder if none of them is set.
    """
    for name in (xdg, windows):
        base = env.get(name)
        if base and Path(base).is_absolute():
            return Path(base) / _APP
    home = _home(env)
    return home / below_home / _APP if home else None


_STEMS: Final = {name.partition(".")[0]: name for name in CONFIG_FILES}
_SUFFIXES: Final = ("json", "yaml", "yml")
_LIKE: Final = 0.83
"""Similarity from which a name counts as misspelt: `injest.json` does, an evaluation's `collections.yaml` does not."""


def misnamed_notices(paths: ConfigPaths) -> Iterator[Notice]:
    """Yield a notice for each file that is ignored, but whose name is close to that of a configuration file.

    Hidden files and names with a further dot, such as `access.old.yaml`, are ignored on purpose.
    """
    config, manifests = paths.config_dir, paths.manifest_dir
    for path, stem in _unread(config or (manifests and manifests.parent / "config")):
        for like in get_close_matches(stem.casefold(), _STEMS, n=1, cutoff=_LIKE):
            yield from _notice(paths, path, _STEMS[like])
    for path, stem in _unread(manifests or (config and config.parent / "manifests")):
        if path.suffix not in (".yaml", ".yml", ".json"):
            yield from _notice(paths, path, f"{stem}.yaml")


def _unread(folder: Path | None) -> Iterator[tuple[Path, str]]:
    """Yield the files of a folder whose only suffix is one of ours or a near miss, with their stems."""
    try:
        files = sorted(path for path in folder.iterdir() if path.is_file()) if folder else []
    except OSError:  # reported when the folder is read
        return
    for path in files:
        stem, _, suffix = path.name.removesuffix(".txt").partition(".")
        if stem and (suffix in _SUFFIXES or ("." not in suffix and closest(suffix, _SUFFIXES) is not None)):
            yield path, stem


def _notice(paths: ConfigPaths, path: Path, name: str) -> Iterator[Notice]:
    meant = path.with_name(name)
    if meant.exists() and meant.samefile(path):  # the right name already, on a file system that ignores case
        return
    label = paths.label(path)
    message = f"{label} is not read, because of its name: did you mean {name!r}? Rename it, or move it away"
    yield Notice(NoticeCode.FILE_MISNAMED, label, message, {"name": name})
