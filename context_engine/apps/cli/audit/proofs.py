"""`audit keygen`, `audit head`, `audit prove`: signing keys, checkpoints and proof files."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from context_engine.apps.cli.app import FAILURE, with_debug
from context_engine.apps.cli.audit.ledger import (
    LedgerLocation,
    OpenLedger,
    opened_ledger,
    say_unproved,
    unproved,
    with_ledger,
)
from context_engine.apps.cli.console import note, print_json, write_text
from context_engine.apps.cli.words import counted
from context_engine.errors import ConfigError, InvalidRequest, LedgerCorrupt, MissingExtra

if TYPE_CHECKING:
    from context_engine.audit.formats.checkpoint import Checkpoint
    from context_engine.audit.ledger.ledger import Ledger


def read_exactly(path: Path) -> str:
    """Return the text of a file.

    Raises:
        ConfigError: it cannot be read, or is no UTF-8.
    """
    try:
        return path.read_bytes().decode()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=str(path)) from None
    except UnicodeDecodeError:
        raise ConfigError("is no text in UTF-8", file=str(path)) from None


def written_exactly(path: Path, content: str | bytes) -> None:
    """Write a file, and say so.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=str(path)) from None
    note(f"written: {path}")


_OWNER_ALONE: Final = 0o600

KEYGEN: Final = """\b
Examples:
  context-engine audit keygen audit.bank.example/retrieval --out /run/secrets/audit.key
  export CONTEXT_ENGINE_AUDIT_KEY='${file:/run/secrets/audit.key}'
"""


@click.command(epilog=KEYGEN)
@click.argument("name", metavar="NAME")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write the key there, for you alone."
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@with_debug
def keygen(name: str, out: Path | None, as_json: bool) -> None:
    """Make a signing key for the log NAME; its verifier key goes to those who check.

    NAME stands as the origin in every checkpoint and proof: an address without a scheme, such as
    audit.bank.example/retrieval, that no other log has. The signing key is secret and is kept nowhere else.
    """
    try:
        from context_engine.audit.formats.keys import SigningKey
        from context_engine.audit.formats.strict import FormatError
    except ImportError:
        raise MissingExtra("the audit ledger", "audit") from None
    try:
        key = SigningKey.generate(name)
    except FormatError as error:
        raise InvalidRequest(str(error)) from None
    if out is not None:
        _write_secret(out, key.text)
    # Past the filter that hides keys: this one is asked for.
    if as_json:
        secret = {"signing_key": key.text} if out is None else {"file": str(out)}
        click.echo(json.dumps({"name": name, "key_id": key.key_id, "verifier_key": key.verifier.text, **secret}))
        return
    if out is None:
        click.echo(key.text)
    else:
        note(f"written: {out}")
    note(f"verifier key: {key.verifier.text}", style="bold")


def _write_secret(file: Path, text: str) -> None:
    """Write a new file that its owner alone may read.

    Raises:
        ConfigError: it is there already, or cannot be written.
    """
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ALONE)
        with open(handle, "w", encoding="utf-8") as opened:
            opened.write(f"{text}\n")
    except FileExistsError:
        raise ConfigError("is there already: a key is never written over another", file=str(file)) from None
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=str(file)) from None


_PROOF: Final = ".tlog-proof"
_GROWTH: Final = ".tlog-consistency"
_FILE: Final = click.Path(dir_okay=False, path_type=Path)

PROVE: Final = """\b
Examples:
  context-engine audit prove 019cad50-24a0-7afe-8262-0d28d32447a6 --verifier check_proof.py
  python check_proof.py 019cad50-24a0-7afe-8262-0d28d32447a6.tlog-proof --key audit.bank.example/retrieval+...
  context-engine audit prove --since 2026-03-02.checkpoint --out march.tlog-consistency
"""


@click.command(epilog=PROVE)
@click.argument("record_id", metavar="[ID]", required=False)
@click.option("--out", type=_FILE, metavar="FILE", help=f"Write the proof there; else to ID{_PROOF} in this folder.")
@click.option("--since", type=_FILE, metavar="FILE", help="Prove too that the log grew from this checkpoint.")
@click.option("--verifier", type=_FILE, metavar="FILE", help="Write the program that checks proofs there.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@with_ledger
def prove(
    at: LedgerLocation,
    record_id: str | None,
    out: Path | None,
    since: Path | None,
    verifier: Path | None,
    as_json: bool,
) -> None:
    """Write the proof that record ID stands in the log, for somebody who does not trust us.

    The file holds the record's entry, the hashes up to the root and a checkpoint. Whoever has the verifier key checks
    it without this package, this ledger or a network. With --since a second file proves that the log still begins with
    what it held at a checkpoint that somebody kept.
    """
    if record_id is None and since is None and verifier is None:
        raise click.UsageError("Missing argument 'ID' (or --since, or --verifier).")
    facts: dict[str, Any] = {}
    if record_id is not None or since is not None:
        facts = _proofs(at, record_id, out, since)
    if verifier is not None:
        written_exactly(verifier, _verifier())
        facts["verifier"] = str(verifier)
    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, **facts})
    say_unproved(facts.get("not_proved", ()))
    if facts.get("signed_by"):
        made = facts.get("proof") or f"{facts['consistency']} --since {since}"
        note(f"To check it: python {verifier or 'check_proof.py'} {made} --key {facts['signed_by'][0]}")


def _proofs(at: LedgerLocation, record_id: str | None, out: Path | None, since: Path | None) -> dict[str, Any]:
    """Write the proofs that are asked for; return what they say, JSON-ready."""
    proof, growth = _places(record_id, out, since)
    with opened_ledger(at) as opened:
        from context_engine.audit.ledger.key_change import present_checkpoint
        from context_engine.audit.ledger.prove import prove_growth, prove_record

        before = None if since is None else _older(since)
        ledger = opened.ledger
        checkpoint = present_checkpoint(ledger)
        facts = {**head_facts(ledger, checkpoint.note), "not_proved": unproved(ledger, checkpoint)}
        if record_id is not None and proof is not None:
            made = prove_record(ledger, record_id, checkpoint)
            facts |= {"record_id": record_id, "index": made.index, "proof": str(proof)}
            written_exactly(proof, made.text)
        if before is not None and growth is not None:
            grown = prove_growth(ledger, before, checkpoint)
            facts |= {"since": before.size, "consistency": str(growth)}
            written_exactly(growth, grown.text)
    return facts


def _places(record_id: str | None, out: Path | None, since: Path | None) -> tuple[Path | None, Path | None]:
    """Return where the two proofs go: the second stands beside the first, or alone where --out says.

    Raises:
        UsageError: the record's id makes no file's name.
    """
    if record_id is None:
        return None, out or (since.with_suffix(_GROWTH) if since is not None else None)
    if out is None and Path(record_id).name != record_id:
        raise click.UsageError("This id makes no name of a file: say with --out where the proof goes.")
    proof = out or Path(f"{record_id}{_PROOF}")
    return proof, None if since is None else proof.with_suffix(_GROWTH)


def _older(file: Path) -> Checkpoint:
    """Return the checkpoint that somebody kept.

    Raises:
        ConfigError: the file holds none.
    """
    from context_engine.audit.formats.checkpoint import parse_checkpoint
    from context_engine.audit.formats.strict import FormatError

    try:
        return parse_checkpoint(read_exactly(file))
    except FormatError as error:
        raise ConfigError(str(error), file=str(file)) from None


def _verifier() -> bytes:
    """Return the stand-alone verifier, which is not imported here."""
    from importlib.resources import files

    return files("context_engine.audit").joinpath("check_proof.py").read_bytes()


SCHEMA_VERSION: Final = 1
_VERIFY: Final = "run 'context-engine audit verify'"

HEAD: Final = """\b
Examples:
  context-engine audit head > /mnt/worm/$(date +%F).checkpoint
  context-engine audit verify --against /mnt/worm/2026-03-02.checkpoint
"""


@click.command(epilog=HEAD)
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write it there, not to stdout."
)
@click.option(
    "--publish", "hand_out", is_flag=True, help="Hand it to the witnesses, file and program that the settings name."
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@with_ledger
def head(at: LedgerLocation, out: Path | None, hand_out: bool, as_json: bool) -> None:
    """Write a checkpoint of the log as it is now: how many records it has, and their root.

    What waits is integrated first. Against a checkpoint that was kept elsewhere, 'audit verify' finds out whether
    records were cut off or the log was rewritten since. Who may not write to the ledger, or has not the key of one that
    is signed, gets the newest checkpoint there is. Exit code 1 where it could not be handed out to all.
    """
    with opened_ledger(at) as opened:
        from context_engine.audit.ledger.key_change import present_checkpoint

        ledger = opened.ledger
        problems = _handed_out(opened) if hand_out else ()
        checkpoint = present_checkpoint(ledger)
        facts = head_facts(ledger, checkpoint.note)
        missing, newer = unproved(ledger, checkpoint), ledger.size + ledger.pending_count() - checkpoint.size
    if out is not None:
        written_exactly(out, checkpoint.note)
    if as_json:
        report = {"newer_records": newer, "not_proved": missing, "problems": problems}
        print_json({"schema_version": SCHEMA_VERSION, **facts, **report})
    elif out is None:
        write_text(checkpoint.note)
    if newer:
        note(f"{counted(newer, 'newer record')} not in it: they wait, or its log has gone on.", style="yellow")
    say_unproved(missing)
    for problem in problems:
        note(problem, style="red")
    click.get_current_context().exit(FAILURE if problems else 0)


def _handed_out(opened: OpenLedger) -> tuple[str, ...]:
    """Hand a checkpoint out wherever it has not been; return what it could not be handed to, a sentence each."""
    from context_engine.audit.ledger.publish import publish
    from context_engine.core.engine import SystemClock
    from context_engine.wiring.audit import checkpoint_rhythm

    with closing(checkpoint_rhythm(opened.context.setup)) as rhythm:
        published = publish(opened.ledger, rhythm, SystemClock(), at_once=True)
    return () if published is None else published.problems


def head_facts(ledger: Ledger, written: str) -> dict[str, Any]:
    """Return what a checkpoint of the ledger says, JSON-ready, with the keys that are known to have signed it.

    Raises:
        LedgerCorrupt: it is not signed as it says, or of another log than the records make now.
    """
    from context_engine.audit.formats.checkpoint import parse_checkpoint, parse_note, verify_note
    from context_engine.audit.formats.strict import FormatError

    keys = () if ledger.keyring is None else ledger.keyring.verifiers
    try:
        signed_note = parse_note(written)
        checkpoint, signed = parse_checkpoint(signed_note), verify_note(signed_note, keys)
    except FormatError as error:
        raise LedgerCorrupt(f"{error}: {_VERIFY}") from None
    if (checkpoint.origin, checkpoint.root) != (ledger.origin, ledger.root(checkpoint.size)):
        raise LedgerCorrupt(f"the checkpoint of {checkpoint.size} records is of others than are there now: {_VERIFY}")
    return {
        "origin": checkpoint.origin,
        "size": checkpoint.size,
        "root": checkpoint.root.hex(),
        "checkpoint": written,
        "signed_by": [signature.key.text for signature in signed],
    }
