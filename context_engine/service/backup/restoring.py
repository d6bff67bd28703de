"""Restore a backup: everything is extracted and checked beside its place, then moved there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from context_engine.adapters.sources.writer_lock import WriterLock
from context_engine.core.protocols import Clock
from context_engine.errors import AuditError, BackupError, InvalidRequest
from context_engine.service.backup.archive import (
    Archive,
    BackedUpBase,
    LedgerFacts,
    Manifest,
    Progress,
    opened_archive,
    staging,
)
from context_engine.service.backup.taking import BASE, LEDGER, LEDGER_FILE, TOKENS
from context_engine.service.judgements import FOLDER as JUDGEMENTS
from context_engine.service.judgements import Judgement, erase_judgements
from context_engine.settings.sqlite_copy import require_unused
from context_engine.settings.token_store import TOKEN_FILE
from context_engine.wiring.audit import check_installed, ledger_keyring, ledger_place
from context_engine.wiring.embedded_base import base_file, base_path, open_base, schema_version
from context_engine.wiring.setup import Setup

_CONFIGURATION: Final = ("config", "manifests")
_STAGING: Final = ".context-engine-restore"
_BESIDE: Final = ("", "-wal", "-shm")
_REASON: Final = "restored from a backup made before the erasure"
_MOST_WORKERS: Final = 8
_SQLITE: Final = b"SQLite format 3\0"


class RestoreWanted(NamedTuple):
    """What to restore, and how.

    Attributes:
        parts: some of base, ledger, tokens and judgements.
        replace: move what is in place aside; otherwise it must not exist.
        dry_run: check everything and leave nothing behind.
        erasures: newer ledgers (a file, a DSN or a JSONL export), whose erasures are repeated.
        by: who restores; recorded with repeated erasures.
    """

    parts: Sequence[str]
    replace: bool
    dry_run: bool
    erasures: Sequence[str]
    by: str


class RestoredBackup(NamedTuple):
    """A finished restore, or its dry run.

    Attributes:
        placed: the parts and where they are.
        set_aside: what was there before, under its new name.
        verdict: of the check of the ledger; None without a ledger.
        erased: number of questions and texts erased again.
        kept_tokens: whether tokens were present, and those of the backup were left out.
        notes: what could not be done, one sentence each.
    """

    manifest: Manifest
    placed: dict[str, Path]
    set_aside: tuple[Path, ...]
    verdict: str | None
    erased: int
    kept_tokens: bool
    notes: tuple[str, ...]


class _Part(NamedTuple):
    """A checked part beside its place."""

    name: str
    staged: Path
    place: Path


def restore(
    setup: Setup, data_dir: Path, path: Path, wanted: RestoreWanted, *, clock: Clock, progress: Progress
) -> RestoredBackup:
    """Restore the parts of a backup into a deployment that is stopped.

    Every file is compared with the manifest; the base is indexed and verified; the ledger is verified with the
    checkpoint and the head of the backup. Only then are they moved to their places, the base last. A process that is
    killed before leaves nothing in place.

    Raises:
        BackupError: the archive is damaged, does not pass the checks, or something is in use.
        InvalidRequest: something is in the way and `replace` is not set, or the backup has none of the parts.
        AuditError: an erasure cannot be repeated, for want of the key.
    """
    with opened_archive(path) as archive, ExitStack() as stack:
        _require_known(archive.manifest)
        places = _places(setup, data_dir, archive.manifest, wanted)
        erased_since, notes = _erased_since(places.get(LEDGER), wanted, clock)
        verdict, erased = None, 0
        parts: list[_Part] = []
        for name, place in places.items():
            place.parent.mkdir(mode=0o700 if name == LEDGER else 0o777, parents=True, exist_ok=True)
            folder = stack.enter_context(staging(place.parent / f"{_STAGING}-{name}"))
            archive.extract(archive.manifest.below(name), folder, progress, private=name != BASE)
            if name == BASE:
                progress(1, 1, "the index of the base")
                _check_base(setup, base_path(folder), archive, clock)
            elif name == LEDGER:
                progress(1, 1, "the verification of the ledger")
                file = folder / LEDGER / LEDGER_FILE
                verdict, erased = _checked_ledger(setup, file, archive, erased_since, wanted.by, clock)
            elif name == JUDGEMENTS:
                staged = next((part.staged for part in parts if part.name == LEDGER), None)
                erased += 0 if staged is None else _forget_erased(folder, staged, clock)
            progress(1, 1, "")
            whole = name in (BASE, JUDGEMENTS)
            parts.append(_Part(name, folder / name if whole else _only_file(folder / name), place))
        kept_tokens = TOKENS in wanted.parts and bool(archive.manifest.below(TOKENS)) and TOKENS not in places
        set_aside = () if wanted.dry_run else _put_in_place(parts, f"before-{clock.now():%Y%m%dT%H%M%SZ}")
    if not wanted.dry_run:
        setup.claim(data_dir)
    return RestoredBackup(archive.manifest, places, set_aside, verdict, erased, kept_tokens, notes)


def restore_configuration(path: Path, target: Path, *, progress: Progress) -> Sequence[Path]:
    """Write the configuration of a backup to a new folder; return its files.

    Raises:
        BackupError: the archive is damaged.
        InvalidRequest: the folder exists and is not empty, or the backup holds no configuration.
    """
    if target.is_dir() and any(target.iterdir()):
        raise InvalidRequest(f"{target} is not empty: a configuration is restored to a new folder only")
    with opened_archive(path) as archive:
        members = [member for name in _CONFIGURATION for member in archive.manifest.below(name)]
        if not members:
            raise InvalidRequest(f"{path} holds no configuration")
        with staging(target.parent / f"{_STAGING}-config") as folder:
            archive.extract(members, folder, progress)
            target.mkdir(parents=True, exist_ok=True)
            for name in _CONFIGURATION:
                if (folder / name).is_dir():
                    (folder / name).replace(target / name)
    return [target / member.name for member in members]


def _require_known(manifest: Manifest) -> None:
    """Refuse a base or a ledger whose tables this version does not know."""
    known: list[tuple[str, BackedUpBase | LedgerFacts | None, int]] = [(BASE, manifest.base, schema_version())]
    if manifest.ledger is not None:
        check_installed()
        from context_engine.audit.ledger.schema import VERSION

        known.append((LEDGER, manifest.ledger, VERSION))
    for name, facts, version in known:
        if facts is not None and facts.schema_version > version:
            raise BackupError(
                f"the {name} of this backup has tables of version {facts.schema_version}, and this program knows "
                f"{version}: install version {manifest.program} or newer"
            )


def _places(setup: Setup, data_dir: Path, manifest: Manifest, wanted: RestoreWanted) -> dict[str, Path]:
    """Return the place of each part to restore, the base last.

    Raises:
        InvalidRequest: there is none, or something is in the way.
    """
    places = {}
    if TOKENS in wanted.parts and manifest.below(TOKENS) and not (data_dir / TOKEN_FILE).exists():
        places[TOKENS] = data_dir / TOKEN_FILE
    if LEDGER in wanted.parts and manifest.ledger is not None:
        place = ledger_place(setup, data_dir)
        if place.file is None:
            raise InvalidRequest(
                f"the backup holds a ledger in a file, and the configured one is {place.shown}: restore the rest with "
                "--only base, and the ledger where CONTEXT_ENGINE_AUDIT_LEDGER names a file"
            )
        places[LEDGER] = place.file
    if JUDGEMENTS in wanted.parts and manifest.below(JUDGEMENTS) and not (data_dir / JUDGEMENTS).exists():
        places[JUDGEMENTS] = data_dir / JUDGEMENTS
    if BASE in wanted.parts and manifest.base is not None:
        places[BASE] = base_path(data_dir)
    if not places:
        raise InvalidRequest(f"the backup holds nothing to restore of: {', '.join(wanted.parts)}")
    present = [place for name, place in places.items() if name != TOKENS and place.exists()]
    if present and not wanted.replace and not wanted.dry_run:
        raise InvalidRequest(
            f"{present[0]} exists: --replace moves it aside, --only restores one part, --data-dir names another folder"
        )
    return places


def _erased_since(
    present: Path | None, wanted: RestoreWanted, clock: Clock
) -> tuple[frozenset[bytes], tuple[str, ...]]:
    """Return what the present ledger and the named ones have erased, and what could not be learnt."""
    digests: set[bytes] = set()
    notes: list[str] = []
    if present is not None and present.is_file():
        try:
            digests |= _erased_in(present, clock)
        except AuditError as error:
            notes.append(f"The erasures of the present ledger are not known, and were not repeated: {error}")
    for named in wanted.erasures:
        digests |= _erased_in(named if "://" in named else Path(named), clock)
    return frozenset(digests), tuple(notes)


def _erased_in(place: str | Path, clock: Clock) -> frozenset[bytes]:
    from context_engine.audit.ledger.copies import erased_digests, exported_erasures, opened_copy
    from context_engine.audit.ledger.ledger import Ledger

    if isinstance(place, str):
        with closing(Ledger.open(place, origin="", keyring=None, clock=clock, create=False)) as ledger:
            return erased_digests(ledger)
    try:
        with place.open("rb") as file:
            is_ledger = file.read(len(_SQLITE)) == _SQLITE
        if not is_ledger:
            return exported_erasures(place)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BackupError(f"{place} is neither a ledger nor a JSONL export of one ({error})") from error
    with closing(opened_copy(place, clock)) as ledger:
        return erased_digests(ledger)


def _check_base(setup: Setup, path: Path, archive: Archive, clock: Clock) -> None:
    """Upgrade the rows, build the index and verify both.

    Raises:
        BackupError: the base is not as the manifest says, or does not pass its verification.
    """
    facts = archive.manifest.base
    with open_base(path, setup.resolver.base().values, None, clock) as base:
        if BackedUpBase(**base.contents()._asdict()) != facts:
            raise BackupError(f"{archive.path}: the base holds other documents than the manifest says")
        damaged, report = base.rebuild(), base.verify()
    if damaged or not report.ok:
        problem = report.problems[0] if report.problems else f"{damaged} documents have damaged rows"
        raise BackupError(
            f"{archive.path}: the base does not pass its verification ({problem}). Nothing was restored; use an older "
            "backup, or ingest the documents again"
        )


def _checked_ledger(
    setup: Setup, file: Path, archive: Archive, erased_since: frozenset[bytes], by: str, clock: Clock
) -> tuple[str, int]:
    """Verify a ledger, repeat erasures, and leave it in one file; return the verdict and the number of erasures.

    Raises:
        BackupError: the ledger is not as the manifest says, or does not pass its verification.
    """
    from context_engine.audit.checks.verify import Outside, verify
    from context_engine.audit.ledger.copies import opened_copy, read_contents
    from context_engine.audit.ledger.erase import erase_again
    from context_engine.audit.ledger.ledger import Ledger

    facts = archive.manifest.ledger
    with closing(opened_copy(file, clock)) as copied:
        if facts is None or LedgerFacts(**read_contents(copied)._asdict()) != facts:
            raise BackupError(f"{archive.path}: the ledger holds other records than the manifest says")
    head = [] if facts.checkpoint is None else [Outside("the backup's checkpoint", facts.checkpoint)]
    keyring = ledger_keyring(setup)
    with closing(Ledger.open(str(file), origin=facts.origin, keyring=keyring, clock=clock, create=False)) as ledger:
        verification = verify(ledger, outside=head, workers=min(os.cpu_count() or 1, _MOST_WORKERS))
        if not verification.consistent:
            finding = verification.findings[0]
            raise BackupError(
                f"{archive.path}: the ledger does not pass its verification ({finding.where}: {finding.problem}). "
                f"Nothing was restored; extract {LEDGER}/{LEDGER_FILE} from the archive, and examine it with "
                "'context-engine audit verify --ledger FILE'"
            )
        erased = erase_again(ledger, erased_since, reason=_REASON, by=by, clock=clock) if erased_since else None
    require_unused(file)
    return (
        verification.verdict,
        0 if erased is None else erased.questions + erased.answers + erased.texts + erased.cards,
    )


def _forget_erased(folder: Path, ledger_file: Path, clock: Clock) -> int:
    """Take out the judgements of searches whose question was erased; return how many."""
    from context_engine.audit.ledger.copies import opened_copy
    from context_engine.audit.record.entry import read_entry
    from context_engine.audit.record.question import QUESTION

    with closing(opened_copy(ledger_file, clock)) as ledger:

        def is_erased(row: Judgement) -> bool:
            stored = ledger.entry(str(row.get("search_id", "")))
            entry = {} if stored is None or stored.entry is None else read_entry(stored.entry)
            digest = (entry.get("addenda") or {}).get(QUESTION)
            return digest is not None and ledger.erased(bytes.fromhex(digest)) is not None

        return erase_judgements(folder, is_erased)


def _only_file(folder: Path) -> Path:
    return next(folder.iterdir())


def _put_in_place(parts: Sequence[_Part], stamp: str) -> tuple[Path, ...]:
    """Move what is in place aside, the base first, then the checked parts to their places, the base last."""
    with ExitStack() as stack:
        for part in parts:
            if part.place.exists():
                stack.enter_context(_held(part))
        moved = [path for part in reversed(parts) for path in _set_aside(part.place, stamp)]
        for part in parts:
            part.staged.replace(part.place)
    return tuple(moved)


@contextmanager
def _held(part: _Part) -> Iterator[None]:
    """Keep writers out of a part that will be moved aside.

    Raises:
        BackupError, StoreLocked: another process uses it.
    """
    if part.name != BASE:
        require_unused(part.place)
        yield
        return
    with WriterLock(part.place):
        require_unused(base_file(part.place))
        yield


def _set_aside(place: Path, stamp: str) -> Iterator[Path]:
    for suffix in _BESIDE:
        path = place.with_name(place.name + suffix)
        if path.exists():
            aside = place.with_name(f"{place.name}.{stamp}{suffix}")
            path.replace(aside)
            yield aside
