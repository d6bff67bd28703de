"""A configuration as one value, to put into a package or to print on one line for Dify's form.

It has no secrets: they are written as `${NAME}`, and the plugin fills them in.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, Final

import yaml

from context_engine.apps.dify.plugin_settings import CONNECTION
from context_engine.apps.dify.settings_line import SettingsLine
from context_engine.errors import ConfigError, MissingVariable
from context_engine.settings import ConfigPaths
from context_engine.settings.files import read_json, read_yaml
from context_engine.settings.load import StageOverlay, load_overlay
from context_engine.settings.paths import CONFIG_FILES
from context_engine.wiring.check import check

_CONNECTIONS: Final = "connections.yaml"
_SECRET_KEY: Final = re.compile(
    r"(.*[_-])?(api[_-]?key|access[_-]?key|password|passwd|passphrase|secret|token|private[_-]?key)", re.IGNORECASE
)
_VARIABLE: Final = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_FILE: Final = re.compile(r"\$\{file:[^{}]+\}")
_TELLTALE: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY|\b(?:dataset|app|sk)-[A-Za-z0-9_-]{16,}|//[^/\s:@{}$]+:[^/\s@{}$]+@"
)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_FROM_THE_FORM: Final = "https://dify.invalid/v1"
_LOCAL_FILES: Final = ("ca_bundle", "client_certificate", "client_key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Parsed files, the stage's overlay applied.

    Attributes:
        config: file name -> content; written as JSON, which is valid YAML.
        manifests: file name -> content.
        connections: name -> fields.
        labels: file name -> its name in messages.
    """

    config: Mapping[str, dict[str, Any]]
    manifests: Mapping[str, dict[str, Any]]
    connections: Mapping[str, dict[str, Any]]
    labels: Mapping[str, str]

    def files(self) -> dict[str, bytes]:
        """Return the files for a package: `config/` and `manifests/`, without comments."""
        texts = {f"config/{name}": _json(content) for name, content in self.config.items()}
        texts |= {f"manifests/{name}": _yaml(content) for name, content in self.manifests.items()}
        if self.connections:
            texts[f"config/{_CONNECTIONS}"] = _yaml(self.connections)
        return texts

    def local_files(self) -> dict[str, str]:
        """Return the certificate files named in connections, by key; they must exist where the plugin runs."""
        rows = self.connections.items()
        return {f"{name}.{key}": str(row[key]) for name, row in rows for key in _LOCAL_FILES if key in row}


def read_bundle(paths: ConfigPaths, *, env: Mapping[str, str], stage: str | None = None) -> Bundle:
    """Read a configuration, and check that it has no secrets and that the plugin can use it.

    Args:
        env: the environment; names the stage if `stage` is None.
        stage: the overlay whose connections and dataset ids are used.

    Raises:
        ConfigError: no manifest, an invalid file, or a secret in plain text.
    """
    if not paths.manifests():
        raise ConfigError("there is no manifest: a plugin without domains has nothing to search", key="manifests")
    overlay = load_overlay(paths, env=env, name=stage)
    files = {name: path for name in CONFIG_FILES if (path := paths.config_file(name)) is not None}
    if paths.config_dir is not None and not files:
        names = ", ".join(CONFIG_FILES)
        raise ConfigError(f"{paths.config_dir} holds no configuration file ({names})", key=paths.origin)
    manifests = {f"{path.stem}.yaml": path for path in paths.manifests()}
    bundle = Bundle(
        config={name: _read(path, paths.label(path)) for name, path in files.items() if name != _CONNECTIONS},
        manifests={name: _staged(_read(path, paths.label(path)), overlay) for name, path in manifests.items()},
        connections=_connections(paths, overlay),
        labels={name: paths.label(path) for name, path in (files | manifests).items()},
    )
    _refuse_secrets(bundle)
    _refuse_unusable(bundle, env)
    return bundle


def settings_line(bundle: Bundle) -> SettingsLine:
    """Return the value for one line.

    Raises:
        ConfigError: a `${file:...}`, because that file is on this machine and not where the plugin runs.
    """
    for file, key, value in _texts(bundle):
        if _FILE.search(value):
            raise ConfigError("names a file on this machine: write ${NAME} for a line to paste", file=file, key=key)
    return SettingsLine(manifests=list(bundle.manifests.values()), connections=bundle.connections, config=bundle.config)


def _connections(paths: ConfigPaths, overlay: StageOverlay) -> dict[str, dict[str, Any]]:
    path = paths.config_file(_CONNECTIONS)
    rows = _dated(read_yaml(path, paths.label(path), may_be_empty=True)) if path else {}
    upper = {name: {key: value for key, (_, value) in row.items()} for name, row in overlay.connections.items()}
    names = (*rows, *(name for name in upper if name not in rows))
    return {name: {**(rows.get(name) or {}), **upper.get(name, {})} for name in names}


def _staged(manifest: dict[str, Any], overlay: StageOverlay) -> dict[str, Any]:
    sources = manifest.get("sources")
    if not isinstance(sources, list):
        return manifest
    rows = [
        {**row, "dataset_ids": overlay.dataset_ids[row["id"]]}
        if isinstance(row, dict) and row.get("id") in overlay.dataset_ids
        else row
        for row in sources
    ]
    return {**manifest, "sources": rows}


def _read(path: Path, label: str) -> Any:
    return _dated(read_json(path, label) if path.suffix == ".json" else read_yaml(path, label))


def _dated(value: Any) -> Any:
    """Return parsed YAML with dates as text, for JSON."""
    if isinstance(value, dict):
        return {key: _dated(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_dated(child) for child in value]
    return value.isoformat() if isinstance(value, date) else value


def _json(content: Any) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()


def _yaml(content: Any) -> bytes:
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120).encode()


def _texts(bundle: Bundle) -> Iterator[tuple[str, str, str]]:
    """Yield (file, dotted key, text) of every text value."""
    parts = {**bundle.config, **bundle.manifests, _CONNECTIONS: bundle.connections}
    for name, content in parts.items():
        for key, value in _leaves(content, ""):
            yield bundle.labels.get(name, name), key, value


def _leaves(value: Any, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield key, value
    for step, child in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from _leaves(child, f"{key}.{step}" if key else str(step))


def _refuse_secrets(bundle: Bundle) -> None:
    for file, key, value in _texts(bundle):
        bare = _VARIABLE.sub("", _FILE.sub("", value)).strip()
        if (_SECRET_KEY.fullmatch(key.rsplit(".", 1)[-1]) and bare) or _TELLTALE.search(value):
            problem = "holds a secret: write ${NAME} and give NAME in the plugin's credentials or its environment"
            raise ConfigError(problem, file=file, key=key)
        if bare and key.endswith(".sha256") and not _DIGEST.fullmatch(bare):
            problem = (
                "is not a SHA-256 and may be the token itself: write the hash that 'context-engine access token' prints"
            )
            raise ConfigError(problem, file=file, key=key)


def _refuse_unusable(bundle: Bundle, env: Mapping[str, str]) -> None:
    """Check the files as the plugin will read them.

    Variables, certificate files and the connection of the plugin's form may be missing here.
    """
    rows = {
        name: {key: value for key, value in row.items() if key not in _LOCAL_FILES}
        for name, row in {CONNECTION: {}, **bundle.connections}.items()
    }
    rows[CONNECTION].setdefault("base_url", _FROM_THE_FORM)
    with tempfile.TemporaryDirectory(prefix="context-engine-bundle-") as folder:
        root = Path(folder)
        for path, content in replace(bundle, connections=rows).files().items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content)
        paths = ConfigPaths(
            origin="bundle",
            config_dir=root / "config" if (root / "config").is_dir() else None,
            manifest_dir=root / "manifests",
            cwd=root,
        )
        unstaged = {name: value for name, value in env.items() if name != "CONTEXT_ENGINE_STAGE"}
        problems = check(paths, env=unstaged).problems
    for problem in problems:
        if not isinstance(problem, MissingVariable):
            name = (problem.file or "").rsplit("/", 1)[-1]
            raise ConfigError(problem.problem, file=bundle.labels.get(name, problem.file), key=problem.key)
