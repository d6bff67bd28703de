"""The data folder of the embedded base, and how a moved or renamed configuration finds it again.

Each manifest folder has a data folder below the user's data folder, named after its path. A writer leaves two marker
files: `configuration.json` in the data folder, which names the owner, and `.context-engine-id` beside the manifests,
which moves with them. A configuration uses

1. the folder whose marker names its path;
2. else the one folder whose marker has its id and names a path where that id is gone: the configuration was moved, and
   the marker is corrected;
3. else the folder named after its path, or the next free name if another configuration owns that one.

A copy has the same id, but the original is still in place, so the copy gets a folder of its own. If no id could be
written (a read-only folder) or it did not move along, a notice names the orphaned folders of the same domains, which
`kb adopt` takes over.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import uuid
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from context_engine.core.models import Notice, NoticeCode
from context_engine.errors import ConfigError, nearest
from context_engine.presence import is_there
from context_engine.settings.paths import ConfigPaths, named_folder, user_folder

logger = logging.getLogger(__name__)
DATA_DIR_VARIABLE: Final = "CONTEXT_ENGINE_DATA_DIR"
_DATA_HOMES: Final = ("XDG_DATA_HOME", "LOCALAPPDATA", ".local/share")
ID_FILE: Final = ".context-engine-id"
RECORD: Final = "configuration.json"
JOBS: Final = "jobs"
"""The folder of the jobs below a data folder."""
SUBSCRIPTIONS: Final = "subscriptions.jsonl"
"""The file of the subscriptions in a data folder."""

_ID_TEXT: Final = "# This id finds the knowledge base of these manifests again when their folder is moved.\n"
_MOST_NAME: Final = 40
_MOST_BYTES: Final = 100_000


class DataFolder(NamedTuple):
    """A data folder and the configuration that owns it.

    Attributes:
        path: the folder.
        manifest_dir: the manifest folder of the configuration that wrote to it last.
        config_id: the id beside these manifests; None if none could be written.
        domains: the domain names at that time.
    """

    path: Path
    manifest_dir: Path
    config_id: str | None
    domains: tuple[str, ...]

    @property
    def is_orphaned(self) -> bool:
        """Whether its configuration is no longer where it was."""
        if self.config_id is None:
            return not self.manifest_dir.is_dir()
        return _read_id(self.manifest_dir) != self.config_id

    def notice(self) -> Notice:
        """Return the notice about data that a moved configuration left behind."""
        names, was = ", ".join(self.domains), self.manifest_dir.parent
        message = (
            f"nothing was ingested for this configuration yet, but {self.path} holds data of {names}, and their "
            f"configuration in {was} is gone. If it was moved here, run 'context-engine kb adopt {self.path.name}'"
        )
        detail = {"path": str(self.path), "manifest_dir": str(self.manifest_dir), "domains": list(self.domains)}
        return Notice(NoticeCode.DATA_LEFT_BEHIND, self.path.name, message, detail)


def find_data_dir(
    data_dir: str | Path | None = None, *, env: Mapping[str, str], cwd: Path, paths: ConfigPaths | None = None
) -> Path:
    """Return the folder of the embedded base: `--data-dir`, `CONTEXT_ENGINE_DATA_DIR`, else in the user's data folder.

    Args:
        data_dir: the value of `--data-dir`, relative to `cwd` or absolute.
        paths: the configuration, which has a data folder of its own; None: the user's data folder itself.

    Raises:
        ConfigError: none is named and the environment names no home, or this user may not enter it.
    """
    named = data_dir or env.get(DATA_DIR_VARIABLE)
    if named:
        return _entered(named_folder(named, env, cwd))
    home = _entered(_home(env))
    return _own_folder(home, paths.manifest_dir.resolve()) if paths and paths.manifest_dir else home


def _entered(folder: Path) -> Path:
    """Return the folder, which need not exist; raise ConfigError if this user may not enter it."""
    try:
        is_there(folder / RECORD)
    except OSError as error:
        problem = f"the data folder {folder} cannot be reached ({error.strerror})"
        mend = f"let the user who runs this enter it and those above it, or name another in {DATA_DIR_VARIABLE}"
        raise ConfigError(f"{problem}: {mend}") from error
    return folder


def claim_data_dir(folder: Path, paths: ConfigPaths, domains: Collection[str], *, env: Mapping[str, str]) -> None:
    """Record the owner of a data folder before it is written to; explicitly configured folders are left alone."""
    if paths.manifest_dir is None or not _is_by_default(folder, env):
        return
    place = paths.manifest_dir.resolve()
    record = _read(folder)
    _write_record(DataFolder(folder, place, _made_id(place, record), tuple(sorted(domains))))


def orphaned_data_dirs(
    folder: Path, paths: ConfigPaths, domains: Collection[str], *, env: Mapping[str, str]
) -> Sequence[DataFolder]:
    """Return the orphaned data folders that share a domain with a configuration; () if it has data of its own.

    Args:
        folder: from `find_data_dir`; an explicitly configured folder is never questioned.
        paths: the configuration.
    """
    if paths.manifest_dir is None or not _is_by_default(folder, env) or folder.is_dir():
        return ()
    return [
        candidate
        for candidate in _folders(folder.parent)
        if candidate.is_orphaned and set(candidate.domains) & set(domains)
    ]


def adopt_data_dir(name: str, paths: ConfigPaths, domains: Collection[str], *, env: Mapping[str, str]) -> Path:
    """Assign a data folder to a configuration and return it.

    Raises:
        ConfigError: no such folder, it belongs to another configuration, or there are no manifests.
    """
    if paths.manifest_dir is None:
        raise ConfigError(
            "there are no manifests to assign these data to: run it in their folder, or give --config-dir"
        )
    home, place = _home(env), paths.manifest_dir.resolve()
    folder = home / name
    if not name or folder.parent != home or folder.name == ".." or not folder.is_dir():
        names = [folder.path.name for folder in _folders(home) if folder.is_orphaned]
        raise ConfigError(
            f"{name!r} is no folder in {home}.{nearest(name, names)} One elsewhere is used with --data-dir."
        )
    record = _read(folder)
    if record is not None and not record.is_orphaned and record.manifest_dir != place:
        raise ConfigError(f"{folder} belongs to the configuration in {record.manifest_dir.parent}, which is there")
    own = next(
        (
            candidate.path
            for candidate in _folders(home)
            if candidate.manifest_dir == place and candidate.path != folder
        ),
        None,
    )
    if own is not None:
        raise ConfigError(f"this configuration has data of its own in {own}: move that folder away first")
    _write_record(DataFolder(folder, place, _made_id(place, record), tuple(sorted(domains))))
    if _read(folder) is None:
        raise ConfigError(f"{folder} cannot be written to: let this user write there, or use --data-dir {folder}")
    return folder


def _own_folder(home: Path, place: Path) -> Path:
    """Return the data folder of the manifests at a path."""
    folders = _folders(home)
    own = home / _name(place)
    here = [folder.path for folder in folders if folder.manifest_dir == place]
    if here:
        return own if own in here else here[0]
    config_id = _read_id(place)
    moved = [
        folder for folder in folders if config_id is not None and folder.config_id == config_id and folder.is_orphaned
    ]
    if len(moved) == 1:
        _write_record(moved[0]._replace(manifest_dir=place))  # at once: a copy made later must not count as moved
        return moved[0].path
    taken = {folder.path for folder in folders}
    names = (own if number == 1 else own.with_name(f"{own.name}-{number}") for number in count(1))
    return next(name for name in names if name not in taken)


def _name(manifest_dir: Path) -> str:
    """Return the default name: the folder above the manifests, and a hash of the manifests' path."""
    digest = hashlib.sha256(os.fsencode(manifest_dir)).hexdigest()
    return f"{manifest_dir.parent.name[:_MOST_NAME] or 'root'}-{digest[:8]}"


def _is_by_default(folder: Path, env: Mapping[str, str]) -> bool:
    """Whether a folder lies below the user's data folder and was not configured explicitly."""
    return not env.get(DATA_DIR_VARIABLE) and folder.parent == user_folder(env, *_DATA_HOMES)


def _home(env: Mapping[str, str]) -> Path:
    home = user_folder(env, *_DATA_HOMES)
    if home is None:
        raise ConfigError(f"there is no home folder to keep data in: set {DATA_DIR_VARIABLE} or pass --data-dir")
    return home


def _folders(home: Path) -> list[DataFolder]:
    """Return the data folders that name their owner, sorted by name."""
    try:
        records = [_read(path) for path in sorted(home.iterdir())]
    except OSError:
        return []
    return [record for record in records if record is not None]


def _read(folder: Path) -> DataFolder | None:
    """Return the folder's marker, or None if it cannot be read."""
    try:
        with (folder / RECORD).open(encoding="utf-8") as file:
            record = json.loads(file.read(_MOST_BYTES))
        config_id = record["id"]
        domains = tuple(str(name) for name in record["domains"])
        return DataFolder(folder, Path(record["manifest_dir"]), None if config_id is None else str(config_id), domains)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _write_record(record: DataFolder) -> None:
    """Record the owner of a folder. If this fails, the folder is not found again after the configuration is moved."""
    if _read(record.path) == record:
        return
    value = {"id": record.config_id, "manifest_dir": str(record.manifest_dir), "domains": list(record.domains)}
    try:
        replace_file(record.path / RECORD, json.dumps(value, indent=1).encode())
    except OSError as error:
        logger.info("the owner of %s was not recorded: %s", record.path, error)


def replace_file(file: Path, content: bytes, *, private: bool = False) -> None:
    """Put a content in place of a file's, so that nobody meets a part of it; the folders of the file are made.

    Args:
        private: only its owner may read it, and it is on the disk afterwards.

    Raises:
        OSError: it cannot be written; the former content stays.
    """
    unfinished = file.with_name(f"{file.name}.{os.getpid()}.new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600 if private else 0o666), "wb") as out:
            out.write(content)
            if private:
                out.flush()
                os.fsync(out.fileno())
        unfinished.replace(file)
    except OSError:
        with suppress(OSError):
            unfinished.unlink()
        raise


def _read_id(manifest_dir: Path) -> str | None:
    """Return the id beside the manifests, or None."""
    try:
        with (manifest_dir / ID_FILE).open(encoding="utf-8") as file:
            lines = file.read(_MOST_BYTES).splitlines()
    except (OSError, ValueError):
        return None
    return next((line.strip() for line in lines if line.strip() and not line.startswith("#")), None)


def _made_id(manifest_dir: Path, record: DataFolder | None) -> str | None:
    """Return the id beside the manifests; if missing, write the id of their data or a new one. None if that fails."""
    known_id = _read_id(manifest_dir)
    if known_id is not None:
        return known_id
    made = record.config_id if record is not None and record.config_id else uuid.uuid4().hex
    try:
        (manifest_dir / ID_FILE).write_text(f"{_ID_TEXT}{made}\n", "utf-8")
    except OSError as error:
        logger.info("%s got no id: %s", manifest_dir, error)
        return None
    return made
