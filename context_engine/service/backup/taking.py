"""Take a backup: a snapshot of every part while the service runs, then one archive that is read back."""

from __future__ import annotations

import logging
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from context_engine import __version__
from context_engine.core.protocols import Clock
from context_engine.errors import AuditError, BackupError, InvalidRequest, LedgerCorrupt
from context_engine.secrecy import hide
from context_engine.service.backup.archive import (
    ArchiveContents,
    BackedUpBase,
    LedgerFacts,
    LeftOutPart,
    Manifest,
    Progress,
    opened_archive,
    staging,
    write_archive,
)
from context_engine.service.judgements import FOLDER as JUDGEMENTS
from context_engine.settings import ConfigPaths
from context_engine.settings.data_dir import ID_FILE, JOBS, SUBSCRIPTIONS
from context_engine.settings.paths import CONFIG_FILES
from context_engine.settings.sqlite_copy import copy_database
from context_engine.settings.token_store import TOKEN_FILE
from context_engine.wiring.audit import ledger_place, open_ledger
from context_engine.wiring.embedded_base import base_as_it_is, base_path, in_embedded_base
from context_engine.wiring.setup import Setup

logger = logging.getLogger(__name__)
BASE: Final = "base"
LEDGER: Final = "ledger"
LEDGER_FILE: Final = "ledger.db"
TOKENS: Final = "tokens"
_BESIDE: Final = ("folders.json", "ingests.json")  # files of the base beside its database
_SUFFIX: Final = ".zip"
_STAGING: Final = ".context-engine-backup"
_KEYS: Final = LeftOutPart(
    name="keys",
    reason="keep CONTEXT_ENGINE_AUDIT_KEY, CONTEXT_ENGINE_AUDIT_FORMER_KEYS, CONTEXT_ENGINE_PRIVACY_KEY and the keys "
    "of connections where secrets are kept",
)


class Backup(NamedTuple):
    """A finished backup."""

    path: Path
    manifest: Manifest


def take_backup(setup: Setup, data_dir: Path, target: Path, *, clock: Clock, progress: Progress) -> Backup:
    """Write a backup of a deployment, which may be searched, recorded and ingested into meanwhile.

    The archive appears under its name only when it is complete and has been read back.

    Args:
        data_dir: holds the base and the tokens, and by default the ledger.
        target: the archive, which must not exist; or an existing folder for it, where it is named by the time.

    Raises:
        InvalidRequest: the archive exists already or is not named *.zip, or there is nothing to back up.
        BackupError, StoreError, AuditError: a part cannot be read.
        StoreLocked: another backup is being written in the same folder.
    """
    made_at = clock.now()
    path = target / f"context-engine-{made_at:%Y%m%dT%H%M%SZ}{_SUFFIX}" if target.is_dir() else target
    if path.suffix != _SUFFIX:
        raise InvalidRequest(f"{path} is neither an existing folder nor named *{_SUFFIX}: name one of the two")
    _require_new(path)
    with staging(path.parent / _STAGING) as folder:
        progress(0, 1, "the copy of base and ledger")
        contents = _snapshots(setup, data_dir, folder, clock)
        part = folder / "archive.zip"
        manifest = write_archive(part, contents, program=__version__, made_at=made_at, progress=progress)
        with opened_archive(part) as archive:
            archive.check(progress)
        _require_new(path)
        part.replace(path)
    return Backup(path, manifest)


def _require_new(path: Path) -> None:
    if path.exists():
        raise InvalidRequest(f"{path} exists already: a backup never overwrites a file; name another")


def _snapshots(setup: Setup, data_dir: Path, folder: Path, clock: Clock) -> ArchiveContents:
    """Copy every part into a folder.

    Raises:
        InvalidRequest: there is neither a base nor a ledger.
    """
    files: list[tuple[str, Path]] = []
    left_out = [_KEYS, *_jobs(data_dir), *_subscriptions(data_dir), *_elsewhere(setup)]
    base = _base(data_dir, folder, files)
    ledger = _ledger(setup, data_dir, folder, files, clock)
    if isinstance(ledger, LeftOutPart):
        left_out.append(ledger)
    if base is None and ledger is None:
        elsewhere = "".join(f"; {row.name}: {row.reason}" for row in left_out[1:])
        raise InvalidRequest(
            f"there is neither a base nor a ledger in {data_dir}: name their folder with --data-dir{elsewhere}"
        )
    _tokens(data_dir, folder, files)
    for judged in sorted((data_dir / JUDGEMENTS).glob("*.jsonl")):
        name = f"{JUDGEMENTS}/{judged.name}"
        files.append((name, _copied(judged, folder / name)))
    for name, file in configuration_files(setup.config.paths):
        if holds_secret(file):
            left_out.append(LeftOutPart(name=name, reason=HOLDS_KEY))
        else:
            files.append((name, _copied(file, folder / name)))
    return ArchiveContents(files, base, ledger if isinstance(ledger, LedgerFacts) else None, left_out)


def _base(data_dir: Path, folder: Path, files: list[tuple[str, Path]]) -> BackedUpBase | None:
    path = base_path(data_dir)
    with base_as_it_is(path) as base:
        if not base.exists():
            return None
        base.copy_to(folder)
    copy = base_path(folder)
    with base_as_it_is(copy) as copied:
        facts = BackedUpBase(**copied.contents()._asdict())
    for name in _BESIDE:
        if (path / name).is_file():
            shutil.copyfile(path / name, copy / name)
    files += [(f"{BASE}/{file.name}", file) for file in sorted(copy.iterdir()) if file.suffix in (".sqlite3", ".json")]
    return facts


def _ledger(
    setup: Setup, data_dir: Path, folder: Path, files: list[tuple[str, Path]], clock: Clock
) -> LedgerFacts | LeftOutPart | None:
    place = ledger_place(setup, data_dir)
    if place.file is None:
        return LeftOutPart(
            name=f"ledger {place.shown}", reason=_in_server("pg_dump --format=custom --file=ledger.dump")
        )
    if not place.file.is_file():
        return None
    from context_engine.audit.ledger.copies import copy_ledger, opened_copy, read_contents
    from context_engine.audit.ledger.key_change import present_checkpoint

    with closing(open_ledger(setup, data_dir, create=False)) as ledger:
        try:
            present_checkpoint(ledger)
        except AuditError as error:
            if isinstance(error, LedgerCorrupt):
                raise
            logger.info("the backup has no checkpoint: %s", error)
    copy = folder / LEDGER_FILE
    copy_ledger(place.file, copy)
    with closing(opened_copy(copy, clock)) as copied:
        facts = LedgerFacts(**read_contents(copied)._asdict())
    files.append((f"{LEDGER}/{LEDGER_FILE}", copy))
    return facts


def _tokens(data_dir: Path, folder: Path, files: list[tuple[str, Path]]) -> None:
    path, copy = data_dir / TOKEN_FILE, folder / TOKEN_FILE
    if not path.is_file():
        return
    try:
        copy_database(path, copy)
    except sqlite3.Error as error:
        raise BackupError(f"{path} cannot be copied ({error}): let this user read it") from error
    files.append((f"{TOKENS}/{TOKEN_FILE}", copy))


def _jobs(data_dir: Path) -> Iterator[LeftOutPart]:
    """Yield the jobs, if there are any."""
    if (data_dir / JOBS).is_dir():
        yield LeftOutPart(name="jobs", reason="a deleted job would come back with them: 'job export ID' keeps a memory")


def _subscriptions(data_dir: Path) -> Iterator[LeftOutPart]:
    """Yield the subscriptions, if there are any."""
    if (data_dir / SUBSCRIPTIONS).is_file():
        yield LeftOutPart(name=SUBSCRIPTIONS, reason="they compare with the base of their last look: subscribe again")


def _elsewhere(setup: Setup) -> Iterator[LeftOutPart]:
    """Yield the stores of sources that are not in the embedded base."""
    specs = [spec for domain in setup.registry.domains.values() for spec in domain.sources]
    for adapter, connection in sorted({(s.adapter, s.connection or "") for s in specs if not in_embedded_base(s)}):
        how = _in_server("pg_dump --schema=...") if adapter == "postgres" else "it is backed up where it is"
        yield LeftOutPart(name=f"sources of adapter {adapter}{f' in {connection}' if connection else ''}", reason=how)


def _in_server(command: str) -> str:
    return f"it is in a PostgreSQL server: back it up there, with '{command}' or the server's own backup"


def _copied(file: Path, to: Path) -> Path:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, to)
    return to


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
