"""`context-engine audit prove`: files by which an outsider checks a record, and that the log only grew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from context_engine.apps.cli.audit_head import head_facts
from context_engine.apps.cli.audit_ledger import LedgerLocation, opened_ledger, say_unproved, unproved, with_ledger
from context_engine.apps.cli.console import note, print_json
from context_engine.apps.cli.exact_file import read_exactly, written_exactly
from context_engine.errors import ConfigError

if TYPE_CHECKING:
    from context_engine.audit.formats.checkpoint import Checkpoint


SCHEMA_VERSION: Final = 1
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
        print_json(json.dumps({"schema_version": SCHEMA_VERSION, **facts}, ensure_ascii=False))
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
