"""`audit verify`: check that the ledger is as it was written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from context_engine.apps.cli.app import FAILURE
from context_engine.apps.cli.audit.ledger import (
    KEYS,
    WITNESSES,
    LedgerLocation,
    opened_ledger,
    say_unproved,
    verifier_key,
    with_ledger,
)
from context_engine.apps.cli.console import note, print_line, publish, styled
from context_engine.apps.cli.options import OLD_FILE, with_json
from context_engine.apps.cli.progress import progress_bar
from context_engine.core.text import counted
from context_engine.errors import ConfigError, LedgerCorrupt

if TYPE_CHECKING:
    from context_engine.audit.checks.findings import Verification
    from context_engine.audit.checks.verify import Outside
    from context_engine.audit.ledger.ledger import Ledger


_MOST_WORKERS: Final = 8
_SHOWN: Final = 100

UNANCHORED: Final = (
    "--strict: no checkpoint kept elsewhere matches (--against), and no witness cosigned (--witness): records cut off "
    "at the end, or an older copy, would not be found."
)

VERIFY: Final = """\b
Examples:
  context-engine audit verify --against /mnt/worm/2026-03-02.checkpoint
  context-engine audit verify --strict --against /mnt/worm/2026-03-02.checkpoint --key audit.bank.example/...
  context-engine audit verify --key audit.bank.example/retrieval+1f0a3c55+AVa... --json
"""


@click.command(epilog=VERIFY)
@KEYS
@click.option("--against", "files", multiple=True, type=OLD_FILE, metavar="FILE", help="Checkpoints kept elsewhere.")
@WITNESSES
@click.option(
    "--strict/--no-strict",
    default=None,
    help="Fail without a matching checkpoint kept elsewhere or a witness; default: the setting audit_strict.",
)
@click.option("--log-only", is_flag=True, help="Skip addenda and look-up rows, which takes a fraction of the time.")
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Number of processes; default: one per processor, at most 8.",
)
@with_json
@with_ledger
def verify(
    at: LedgerLocation,
    keys: tuple[str, ...],
    files: tuple[Path, ...],
    witnesses: tuple[str, ...],
    strict: bool | None,
    log_only: bool,
    workers: int | None,
    as_json: bool,
) -> int:
    """Check that the ledger is as it was written; exit code 1 if not.

    The result is "sound" if a key from outside vouches for it (--key, or a witness that cosigned), "self-consistent"
    if nothing contradicts anything and no such key was given.

    Every record, MAC, tile, checkpoint, signature, addendum and look-up row is checked. The check withstands an
    attacker who can write to the database but has neither the key nor a checkpoint kept elsewhere. Pending records are
    integrated first. Each finding names its rows; stderr lists what could not be proved.
    """
    from context_engine.audit.checks.verify import verify as verify_ledger

    with opened_ledger(at) as opened, progress_bar("Verifying …") as progress:
        strict = opened.context.setup.resolver.base().values.audit_strict if strict is None else strict
        _integrate(opened.ledger)
        verification = verify_ledger(
            opened.ledger,
            trusted=[verifier_key(text, "--key") for text in keys],
            outside=[checkpoint for file in files for checkpoint in _outside(file)],
            witnesses=[verifier_key(text, "--witness") for text in witnesses],
            workers=workers or min(os.cpu_count() or 1, _MOST_WORKERS),
            log_alone=log_only,
            progress=lambda done, total: progress(done, total, ""),
        )
    if as_json:
        publish(_published(verification))
    else:
        _report(verification)
    say_unproved(verification.not_proved)
    unanchored = strict and not verification.anchored
    if unanchored:
        note(UNANCHORED, style="red")
    return 0 if verification.consistent and not unanchored else FAILURE


def _integrate(ledger: Ledger) -> None:
    """Integrate the sound pending records; the check reports the others."""
    try:
        ledger.integrate()
    except LedgerCorrupt as error:
        note(f"Pending records were not integrated: {error}", style="yellow")


def _outside(file: Path) -> Iterator[Outside]:
    """Yield the checkpoints of a file; the last of several may have been cut off while it was written.

    Raises:
        ConfigError: the file cannot be read, or has no checkpoint.
    """
    from context_engine.audit.checks.checkpoints import size_of
    from context_engine.audit.checks.verify import Outside
    from context_engine.audit.ledger.outlets import checkpoints_in

    try:
        notes = checkpoints_in(file.read_text("utf-8"))
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"cannot be read: {getattr(error, 'strerror', None) or 'no UTF-8'}", file=str(file)) from None
    if not any(size_of(text) is not None for text in notes):
        raise ConfigError("holds no checkpoint", file=str(file))
    if len(notes) > 1 and size_of(notes[-1]) is None:
        note(f"left out: the last checkpoint of {file} was cut off while it was written", style="yellow")
        notes = notes[:-1]
    yield from (Outside(str(file), text) for text in notes)


def _report(verification: Verification) -> None:
    for finding in verification.findings[:_SHOWN]:
        print_line(styled((f"{finding.where}: ", "bold"), (finding.problem, "red"), (f" [{finding.code}]", "dim")))
    not_kept = sum(count for name, count in verification.counts.items() if name.startswith("more "))
    more = len(verification.findings) - _SHOWN + not_kept
    if more > 0:
        print_line(f"and {counted(more, 'finding')} more; --json has them")
    for sentence in verification.proved:
        print_line(sentence)
    counts = f"{counted(verification.size, 'record')}, {counted(verification.counts['checkpoints'], 'checkpoint')}"
    problems = "" if verification.consistent else f", {counted(len(verification.findings), 'finding')}"
    style = {"sound": "green", "self-consistent": "yellow", "not sound": "red"}[verification.verdict]
    print_line(styled((verification.verdict, style), f": {counts}{problems}"))


def _published(verification: Verification) -> dict[str, Any]:
    findings = [
        {"code": finding.code, **finding.where._asdict(), "problem": finding.problem}
        for finding in verification.findings
    ]
    return {
        "verdict": verification.verdict,
        "sound": verification.verdict == "sound",
        "size": verification.size,
        "findings": findings,
        "proved": verification.proved,
        "not_proved": verification.not_proved,
        "counts": verification.counts,
    }
