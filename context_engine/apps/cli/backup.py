"""`context-engine backup` and `context-engine restore`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from context_engine.apps.cli.console import note, outcome, publish
from context_engine.apps.cli.context import ConfigLocation, os_user, require_operator, with_location
from context_engine.apps.cli.options import OLD_FILE, PLACE, with_json
from context_engine.apps.cli.progress import progress_bar
from context_engine.core.engine import SystemClock
from context_engine.core.text import counted

if TYPE_CHECKING:
    from context_engine.service.backup.archive import Manifest
    from context_engine.service.backup.restoring import RestoredBackup
    from context_engine.wiring.setup import Setup

_PARTS: Final = ("base", "ledger", "tokens", "judgements")

BACKUP: Final = """\b
Examples:
  context-engine backup /mnt/backups
  context-engine backup /mnt/backups/before-upgrade.zip --json
"""


@click.command(epilog=BACKUP)
@click.argument("target", metavar="FILE_OR_DIR", type=PLACE)
@with_json
@with_location
def backup(location: ConfigLocation, target: Path, as_json: bool) -> None:
    """Write the base, the ledger, the tokens, the judgements and the configuration to one archive.

    The service may run and documents may be ingested meanwhile: each part is a snapshot. The archive appears under its
    name when it is complete and has been read back; it never overwrites a file. In a folder it is named by the time.

    Keys are never in it, nor a configuration file that holds one; what is left out is named. The archive holds the
    texts of the documents and of the record of searches, so protect it as you protect them.
    """
    from context_engine.service.backup.taking import take_backup

    setup = _setup(location)
    with progress_bar("Writing the backup …") as progress:
        made = take_backup(setup, setup.data_dir(location.data_dir), target, clock=SystemClock(), progress=progress)
    size = made.path.stat().st_size
    if as_json:
        publish({"archive": str(made.path), "bytes": size, **_facts(made.manifest)})
        return
    outcome("backed up", f"{made.path}, {size / 1e6:.1f} MB: {_contents(made.manifest)}")
    for left_out in made.manifest.left_out:
        note(f"not in it: {left_out.name}: {left_out.reason}")


RESTORE: Final = """\b
Examples:
  context-engine restore /mnt/backups/context-engine-20260302T020000Z.zip --dry-run
  context-engine restore backup.zip --config-to /etc/context-engine
  context-engine restore backup.zip --config-dir /etc/context-engine --data-dir /var/lib/context-engine
  context-engine restore backup.zip --only base --replace
"""


@click.command(epilog=RESTORE)
@click.argument("archive", metavar="FILE", type=OLD_FILE)
@click.option("--only", type=click.Choice(_PARTS), multiple=True, help="Restore this part alone; may be repeated.")
@click.option("--replace", is_flag=True, help="Move what is in place aside, under a name with the time.")
@click.option("--dry-run", is_flag=True, help="Do all the checks, and put nothing in place.")
@click.option(
    "--erasures",
    multiple=True,
    metavar="LEDGER",
    help="Repeat the erasures of a newer ledger: its file, its DSN, or its export in jsonl; may be repeated.",
)
@click.option("--config-to", type=PLACE, metavar="DIR", help="Write the configuration alone, to a new folder.")
@with_json
@with_location
def restore(
    location: ConfigLocation,
    archive: Path,
    only: tuple[str, ...],
    replace: bool,
    dry_run: bool,
    erasures: tuple[str, ...],
    config_to: Path | None,
    as_json: bool,
) -> None:
    """Check an archive of 'backup', and put its base, ledger, tokens and judgements in place. Stop the service first.

    Every file is compared with its digest. The base is upgraded, indexed and verified. The ledger is verified with the
    checkpoint and the head of the backup. Then all is moved to its place; nothing is ever overwritten or deleted.

    What was erased from the ledger after the backup is in the archive still. It is erased again if the present ledger
    or one named with --erasures shows the erasure; this needs the key of a signed ledger.
    """
    if config_to is not None:
        _restore_configuration(archive, config_to, as_json)
        return
    from context_engine.service.backup.restoring import RestoreWanted
    from context_engine.service.backup.restoring import restore as restore_parts

    setup = _setup(location)
    wanted = RestoreWanted(only or _PARTS, replace, dry_run, erasures, os_user())
    with progress_bar("Reading the backup …") as progress:
        data_dir = setup.data_dir(location.data_dir)
        restored = restore_parts(setup, data_dir, archive, wanted, clock=SystemClock(), progress=progress)
    if as_json:
        publish(_published(archive, restored, dry_run=dry_run))
    else:
        _report(restored, dry_run=dry_run)
    for sentence in restored.notes:
        note(sentence, style="yellow")


def _setup(location: ConfigLocation) -> Setup:
    """Return the configuration, for an operator only.

    Raises:
        InvalidRequest: the user is no operator.
    """
    setup = location.load()
    require_operator(setup.config.principals)
    return setup


def _restore_configuration(archive: Path, target: Path, as_json: bool) -> None:
    from context_engine.service.backup.restoring import restore_configuration

    with progress_bar("Reading the backup …") as progress:
        files = [str(file) for file in restore_configuration(archive, target, progress=progress)]
    if as_json:
        publish({"archive": str(archive), "configuration": files})
    else:
        outcome("restored", f"{counted(len(files), 'file')} of the configuration in {target}")
        note("Set its variables and secret files, then restore the rest with --config-dir.")


def _report(restored: RestoredBackup, *, dry_run: bool) -> None:
    manifest = restored.manifest
    outcome(
        "could be restored" if dry_run else "restored",
        f"{', '.join(_placed(restored)) or 'nothing'}; made at {manifest.made_at:%Y-%m-%d %H:%M} UTC",
    )
    if _configuration(manifest):
        note("Configuration files stay as they are: 'restore FILE --config-to DIR' writes those of the backup.")
    for name, place in restored.placed.items():
        note(f"{name}: {place}")
    for place in restored.set_aside:
        note(f"set aside: {place} (delete it when nobody needs it)")
    if restored.verdict is not None:
        note(
            f"The ledger is {restored.verdict}. 'context-engine audit verify --against FILE', with a checkpoint kept "
            "elsewhere, shows whether records were made after the backup."
        )
        note(f"Erased again: {restored.erased} questions and texts.")
    if restored.kept_tokens:
        note("The present tokens stay; those of the backup were left out.")
    elif "tokens" in restored.placed:
        note(
            "Tokens that were revoked after the backup open again: look at 'context-engine token list'.", style="yellow"
        )


def _published(archive: Path, restored: RestoredBackup, *, dry_run: bool) -> dict[str, Any]:
    return {
        "archive": str(archive),
        "dry_run": dry_run,
        **_facts(restored.manifest),
        "placed": {name: str(place) for name, place in restored.placed.items()},
        "set_aside": [str(place) for place in restored.set_aside],
        "ledger_verdict": restored.verdict,
        "erased_again": restored.erased,
        "kept_tokens": restored.kept_tokens,
        "notes": list(restored.notes),
    }


def _facts(manifest: Manifest) -> dict[str, Any]:
    facts: dict[str, Any] = manifest.model_dump(mode="json", exclude={"format"})
    return facts


def _contents(manifest: Manifest) -> str:
    return ", ".join((*_sizes(manifest).values(), counted(_configuration(manifest), "configuration file")))


def _placed(restored: RestoredBackup) -> list[str]:
    """Return what was put into its place, in words."""
    sizes = _sizes(restored.manifest)
    return [sizes.get(part, part) for part in restored.placed]


def _sizes(manifest: Manifest) -> dict[str, str]:
    """Return the sizes of base and ledger, as far as they are in the backup."""
    sizes = {}
    if manifest.base is not None:
        sizes["base"] = counted(manifest.base.documents, "document")
    if manifest.ledger is not None:
        sizes["ledger"] = counted(manifest.ledger.size + manifest.ledger.pending, "record")
    return sizes


def _configuration(manifest: Manifest) -> int:
    return len(manifest.below("config")) + len(manifest.below("manifests"))
