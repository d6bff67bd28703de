"""The names of domains, personas and sources for completion, read from the files alone where no access rule stands."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

_PACKAGE: Final = Path(__file__).resolve().parents[2]
_RULES: Final = "access.yaml"
Rows = Iterable[Mapping[str, Any]]


def configured_names(kind: str, config_dir: str | None, domain: str | None) -> list[str]:
    """Return the names that the user may know, sorted; none if the configuration cannot be read.

    Args:
        kind: "domain", "persona" or "source".
        config_dir: the value of `--config-dir`.
        domain: only the sources of this domain.
    """
    try:
        folder = _folder(config_dir)
        if kind == "persona":
            return sorted(_personas(folder))
        manifests = list(_manifests(folder))
        if _has_rules(folder, manifests):
            manifests = _known(config_dir)
    except Exception:  # noqa: BLE001  whoever completes sees nothing; the command itself says what is wrong
        return []
    if kind == "domain":
        return sorted(str(row["domain"]) for row in manifests)
    chosen = [row for row in manifests if domain in (None, row["domain"])]
    return sorted(str(source["id"]) for row in chosen for source in row["sources"])


def _folder(config_dir: str | None) -> Path | None:
    """Return the folder that holds config/ and manifests/, in the order of `find_config`; None for the demo bank."""
    named = config_dir or os.environ.get("CONTEXT_ENGINE_CONFIG_DIR")
    if named:
        folder = Path(named).expanduser()
        return folder.parent if folder.name == "config" else folder
    user = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "context-engine"
    return next((place for place in (Path.cwd(), user) if (place / "manifests").is_dir()), None)


def _files(folder: Path | None, name: str) -> Iterator[Path]:
    """Yield the places of a configuration file that exist."""
    for place in () if folder is None else (folder / "config" / name, folder / name):
        if place.is_file():
            yield place


def _personas(folder: Path | None) -> Iterator[str]:
    path = next(_files(folder, "personas.json"), _PACKAGE / "settings" / "personas.json")
    yield from (name for name, row in json.loads(path.read_text("utf-8")).items() if isinstance(row, dict))


def _manifests(folder: Path | None) -> Iterator[Mapping[str, Any]]:
    import yaml

    place = _PACKAGE / "demo" if folder is None else folder
    for path in sorted((place / "manifests").glob("*.y*ml")):
        if ".example." not in path.name:
            row = yaml.load(path.read_text("utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            if isinstance(row, dict) and {"domain", "sources"} <= row.keys():
                yield row


def _has_rules(folder: Path | None, manifests: Rows) -> bool:
    ruled = any("access" in row or any("access" in source for source in row["sources"]) for row in manifests)
    return ruled or any(_files(folder, _RULES))


def _known(config_dir: str | None) -> list[Mapping[str, Any]]:
    """Return the domains and sources that the user may know, by the whole configuration."""
    from context_engine.apps.cli.context import acting_principal
    from context_engine.wiring.setup import load_setup

    setup = load_setup(config_dir=config_dir)
    known = setup.visible(acting_principal(setup.config.principals, None))
    return [
        {"domain": spec.domain, "sources": [{"id": source.id} for source in spec.sources]}
        for spec in known.domains.values()
    ]
