"""The demo bank: where its documents are, and the building of its knowledge base."""

from __future__ import annotations

import hashlib
import json
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from context_engine import __version__
from context_engine.adapters.sources.writer_lock import WriterLock
from context_engine.core.models import Registry
from context_engine.core.ranking.scope import SIGNAL_VERSION
from context_engine.core.text import ANALYSER_VERSION
from context_engine.errors import ConfigError, StoreLocked
from context_engine.wiring.embedded_base import base_path, create_base, schema_version
from context_engine.wiring.setup import access_policy

if TYPE_CHECKING:
    from context_engine.ingest.run import Progress

__all__ = ["BANK", "MANIFESTS", "QUESTIONS", "data_dir", "ensure_base", "fingerprint", "is_built"]

_HERE: Final = Path(__file__).resolve().parent
BANK: Final = _HERE / "bank"
MANIFESTS: Final = _HERE / "manifests"
QUESTIONS: Final = _HERE / "questions.jsonl"
_CUTTING: Final = tuple(
    (_HERE.parent / folder, pattern)
    for folder, pattern in (
        ("core/chunking", "*.py"),
        ("ingest", "*.py"),
        ("core/context", "tokens.py"),
        ("core/ranking", "calibration.py"),
        ("learning", "calibration.py"),
    )
)

_READY: Final = "ready.json"
_PATIENCE_S: Final = 120.0
_PAUSE_S: Final = 0.1


@cache
def fingerprint() -> str:
    """Return a fingerprint of everything that a base of this bank depends on, in 12 hex digits.

    That is documents, manifests, analyser, schema, signal, and the code that reads and cuts documents and calibrates: a
    number that somebody has to raise when chunks come out otherwise would be forgotten.
    """
    digest = hashlib.sha256(f"{ANALYSER_VERSION}\n{schema_version()}\n{SIGNAL_VERSION}\n".encode())
    for folder, pattern in ((BANK, "*"), (MANIFESTS, "*.yaml"), *_CUTTING):
        for file in sorted(folder.rglob(pattern)):
            if file.is_file():
                name = f"{folder.name}/{file.relative_to(folder).as_posix()}"
                digest.update(f"{name}\n{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:12]


def data_dir(folder: Path) -> Path:
    """Return the demo's folder below the user's data folder; each version of the package has its own."""
    return folder / f"demo-{__version__}-{fingerprint()}"


def is_built(place: Path) -> bool:
    """Return whether the demo's data folder holds a complete base."""
    return (place / _READY).is_file()


def ensure_base(folder: Path, registry: Registry, progress: Progress | None = None) -> Path:
    """Return the demo's data folder, building its base if it does not exist yet.

    Of several processes that start at once, one builds and the others wait for it. An interrupted build is continued.

    Args:
        folder: the user's data folder.
        registry: the domains of the demo's manifests.
        progress: told of each file while the base is built.

    Raises:
        ConfigError: the folder cannot be written to.
        StoreLocked: another process builds it and does not finish.
    """
    place = data_dir(folder)
    if is_built(place):
        return place
    try:
        place.mkdir(parents=True, exist_ok=True)
        lock = _locked(place)
        if lock is not None:
            with lock:
                _build(place, registry, progress)
    except OSError as error:
        raise ConfigError(
            f"the demo bank's knowledge base cannot be written to {place}: {error.strerror or error}. "
            "Name a folder that can be written to with --data-dir or CONTEXT_ENGINE_DATA_DIR."
        ) from error
    return place


def _locked(place: Path) -> WriterLock | None:
    """Return the writer lock, or None if another process has built the base meanwhile."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            lock = WriterLock(place)
        except StoreLocked:
            if time.monotonic() > until:
                raise
            time.sleep(_PAUSE_S)
            continue
        if not is_built(place):
            return lock
        lock.release()
        return None


def _build(place: Path, registry: Registry, progress: Progress | None) -> None:
    from context_engine.ingest.files import IngestedFolders  # only here: a search of a built base needs none of it
    from context_engine.ingest.run import ingest
    from context_engine.learning.calibration import calibrate

    specs = [source for name in registry.names for source in registry.domain(name).sources]
    rules_of = access_policy({name: registry.domain(name) for name in registry.names}).rules_of
    with create_base(base_path(place), specs, rules_of) as base:
        with base.writer() as writer:
            report = ingest(BANK, specs, writer, progress=progress)
        IngestedFolders(base.path).add([spec.id for spec in specs], BANK)
        for name in registry.names:
            calibrate(base, registry.domain(name))
    ready = place / _READY
    part = ready.with_suffix(".part")
    part.write_text(json.dumps({"documents": report.documents, "chunks": report.chunks}), "utf-8")
    part.replace(ready)
