"""`audit keygen`, `audit head`, `audit prove`: signing keys, checkpoints and proof files."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from context_engine.apps.cli.app import FAILURE, with_debug
from context_engine.apps.cli.audit.ledger import (
    KEYS,
    WITNESSES,
    LedgerLocation,
    OpenLedger,
    opened_ledger,
    say_unproved,
    unproved,
    verifier_key,
    with_ledger,
)
from context_engine.apps.cli.console import note, publish, read_text, write_text, writing, written
from context_engine.apps.cli.options import FILE, with_json
from context_engine.core.text import counted
from context_engine.errors import ConfigError, InvalidRequest, MissingExtra

if TYPE_CHECKING:
    from context_engine.audit.formats.checkpoint import Checkpoint
    from context_engine.audit.formats.keys import VerifierKey


_OWNER_ALONE: Final = 0o600

KEYGEN: Final = """\b
Examples:
  context-engine audit keygen audit.bank.example/retrieval --out /run/secrets/audit.key
  export CONTEXT_ENGINE_AUDIT_KEY='${file:/run/secrets/audit.key}'
"""


@click.command(epilog=KEYGEN)
@click.argument("name", metavar="NAME")
@click.option("--out", type=FILE, metavar="FILE", help="Write the key to a file that only you may read.")
@with_json
@with_debug
def keygen(name: str, out: Path | None, as_json: bool) -> None:
    """Make a signing key for the log NAME; its verifier key goes to those who check.

    NAME is the origin in every checkpoint and proof: an address without a scheme, such as
    audit.bank.example/retrieval, that is unique to this log. The signing key is secret and is stored nowhere else.
    """
    try:
        from context_engine.audit.formats.keys import SigningKey
        from context_engine.audit.formats.strict import FormatError
    except ImportError:
        raise MissingExtra("the audit ledger", "audit") from None
    if "://" in name:
        raise InvalidRequest(f"the name of a log has no scheme: write {name.partition('://')[2]}")
    try:
        key = SigningKey.generate(name)
    except FormatError as error:
        raise InvalidRequest(str(error)) from None
    if out is not None:
        _write_secret(out, key.text)
    # click.echo, because `note` and `print_json` would hide the key.
    if as_json:
        secret = {"signing_key": key.text} if out is None else {"file": str(out)}
        click.echo(json.dumps({"name": name, "key_id": key.key_id, "verifier_key": key.verifier.text, **secret}))
        return
    if out is None:
        click.echo(key.text)
        note(f"verifier key: {key.verifier.text}", style="bold")
    else:
        note(f"written: {out}; the verifier key:")
        click.echo(key.verifier.text)


def _write_secret(file: Path, text: str) -> None:
    """Write a new file that only its owner may read.

    Raises:
        ConfigError: the file exists already, or cannot be written.
    """
    if file.exists():
        raise ConfigError("exists already: a key never overwrites another", file=str(file))
    with writing(file):
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ALONE)
        with open(handle, "w", encoding="utf-8") as opened:
            opened.write(f"{text}\n")


_PROOF: Final = ".tlog-proof"
_GROWTH: Final = ".tlog-consistency"

PROVE: Final = """\b
Examples:
  context-engine audit prove 019cad50-24a0-7afe-8262-0d28d32447a6 --verifier check_proof.py
  python check_proof.py 019cad50-24a0-7afe-8262-0d28d32447a6.tlog-proof --key audit.bank.example/retrieval+...
  context-engine audit prove --since 2026-03-02.checkpoint --out march.tlog-consistency
"""


@click.command(epilog=PROVE)
@click.argument("record_id", metavar="[ID]", required=False)
@click.option(
    "--out", type=FILE, metavar="FILE", help=f"Write the proof to this file; default: ID{_PROOF} in this folder."
)
@click.option("--since", type=FILE, metavar="FILE", help="Also prove that the log grew from this checkpoint.")
@click.option("--verifier", type=FILE, metavar="FILE", help="Also write the program that checks proofs to this file.")
@KEYS
@WITNESSES
@with_json
@with_ledger
def prove(
    at: LedgerLocation,
    record_id: str | None,
    out: Path | None,
    since: Path | None,
    verifier: Path | None,
    keys: tuple[str, ...],
    witnesses: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write the proof that record ID is in the log, for somebody who does not trust us.

    The file contains the record's entry, the hashes up to the root, and a checkpoint. Anybody with the verifier key can
    check it without this package, this ledger or a network. With --since a second file proves that the log still begins
    with the records of an older checkpoint that somebody kept. With --key and --witness the checkpoint must be signed
    by one of these keys and cosigned by each of these witnesses.
    """
    if record_id is None and since is None and verifier is None:
        raise click.UsageError("Missing argument 'ID' (or --since, or --verifier).")
    facts: dict[str, Any] = {}
    if record_id is not None or since is not None:
        vouching = Vouching(
            tuple(verifier_key(text, "--key") for text in keys),
            tuple(verifier_key(text, "--witness") for text in witnesses),
        )
        facts = _proofs(at, record_id, out, since, vouching)
    if verifier is not None:
        written(verifier, _verifier())
        facts["verifier"] = str(verifier)
    if as_json:
        publish(facts)
    say_unproved(facts.get("not_proved", ()))
    if facts.get("signed_by"):
        made = facts.get("proof") or f"{facts['consistency']} --since {since}"
        note(f"To check it: python {verifier or 'check_proof.py'} {made} --key {facts['signed_by'][0]}")


class Vouching(NamedTuple):
    """The keys and the witnesses that must have signed a checkpoint."""

    keys: Sequence[VerifierKey]
    witnesses: Sequence[VerifierKey]


def _proofs(
    at: LedgerLocation, record_id: str | None, out: Path | None, since: Path | None, vouching: Vouching
) -> dict[str, Any]:
    """Write the requested proofs; return their facts, ready for JSON."""
    proof, growth = _places(record_id, out, since)
    with opened_ledger(at) as opened:
        from context_engine.audit.checks.vouching import check_vouched, head_facts
        from context_engine.audit.ledger.key_change import present_checkpoint
        from context_engine.audit.ledger.prove import prove_growth, prove_record

        before = None if since is None else _older(since)
        ledger = opened.ledger
        checkpoint = present_checkpoint(ledger)
        check_vouched(ledger, checkpoint, *vouching)
        facts = {
            **head_facts(ledger, checkpoint.note, vouching.keys),
            "not_proved": unproved(opened, checkpoint, *vouching),
        }
        if record_id is not None and proof is not None:
            made = prove_record(ledger, record_id, checkpoint)
            facts |= {"record_id": record_id, "index": made.index, "proof": str(proof)}
            written(proof, made.text)
        if before is not None and growth is not None:
            grown = prove_growth(ledger, before, checkpoint)
            facts |= {"since": before.size, "consistency": str(growth)}
            written(growth, grown.text)
    return facts


def _places(record_id: str | None, out: Path | None, since: Path | None) -> tuple[Path | None, Path | None]:
    """Return the paths of the two proofs; the second is beside the first, or alone at --out.

    Raises:
        UsageError: the record's id cannot be a file name.
    """
    if record_id is None:
        return None, out or (since.with_suffix(_GROWTH) if since is not None else None)
    if out is None and Path(record_id).name != record_id:
        raise click.UsageError("This id cannot be a file name: name the file of the proof with --out.")
    proof = out or Path(f"{record_id}{_PROOF}")
    return proof, None if since is None else proof.with_suffix(_GROWTH)


def _older(file: Path) -> Checkpoint:
    """Read a checkpoint that somebody kept.

    Raises:
        ConfigError: the file has no checkpoint.
    """
    from context_engine.audit.formats.checkpoint import parse_checkpoint
    from context_engine.audit.formats.strict import FormatError

    try:
        return parse_checkpoint(read_text(file))
    except FormatError as error:
        raise ConfigError(str(error), file=str(file)) from None


def _verifier() -> bytes:
    """Return the source of the stand-alone verifier."""
    from importlib.resources import files

    return files("context_engine.audit").joinpath("check_proof.py").read_bytes()


HEAD: Final = """\b
Examples:
  context-engine audit head > /mnt/worm/$(date +%F).checkpoint
  context-engine audit verify --against /mnt/worm/2026-03-02.checkpoint
"""


@click.command(epilog=HEAD)
@click.option("--out", type=FILE, metavar="FILE", help="Write the checkpoint to this file instead of stdout.")
@click.option("--publish", "hand_out", is_flag=True, help="Publish it to the configured witnesses, file and program.")
@with_json
@with_ledger
def head(at: LedgerLocation, out: Path | None, hand_out: bool, as_json: bool) -> int:
    """Write a checkpoint of the current log: the number of its records, and their root.

    Pending records are integrated first. Keep checkpoints elsewhere: with one, 'audit verify' detects whether records
    were cut off or the log was rewritten since. A user who may not write to the ledger, or lacks the key of a signed
    log, gets the newest stored checkpoint. Exit code 1: a destination could not be reached.
    """
    with opened_ledger(at) as opened:
        from context_engine.audit.checks.vouching import head_facts
        from context_engine.audit.ledger.key_change import present_checkpoint

        ledger = opened.ledger
        problems = _handed_out(opened) if hand_out else ()
        checkpoint = present_checkpoint(ledger)
        facts = head_facts(ledger, checkpoint.note)
        missing, newer = unproved(opened, checkpoint), ledger.size + ledger.pending_count() - checkpoint.size
    if out is not None:
        written(out, checkpoint.note)
    if as_json:
        report = {"newer_records": newer, "not_proved": missing, "problems": problems}
        publish({**facts, **report})
    elif out is None:
        write_text(checkpoint.note)
    if newer:
        note(f"{counted(newer, 'newer record')} not included: pending, or added since.", style="yellow")
    say_unproved(missing)
    for problem in problems:
        note(problem, style="red")
    return FAILURE if problems else 0


def _handed_out(opened: OpenLedger) -> tuple[str, ...]:
    """Publish a checkpoint to every destination that lacks it; return a sentence for each failed destination."""
    from context_engine.audit.ledger.publish import publish
    from context_engine.core.engine import SystemClock
    from context_engine.wiring.audit import checkpoint_rhythm

    with closing(checkpoint_rhythm(opened.context.setup)) as rhythm:
        published = publish(opened.ledger, rhythm, SystemClock(), at_once=True)
    return () if published is None else published.problems
