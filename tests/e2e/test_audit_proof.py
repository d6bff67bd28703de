"""From a search to a proof that an outsider checks, each step a process, on the demo bank."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ORIGIN = "audit.bank.example/retrieval"


class Desk:
    """A folder in which commands are run as processes, with a data folder of its own."""

    def __init__(self, place: Path) -> None:
        self.place = place
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CONTEXT_ENGINE", "COLUMNS"))}
        self.env = {
            **kept,
            "HOME": str(place),
            "XDG_CONFIG_HOME": str(place),
            "CONTEXT_ENGINE_DATA_DIR": str(place / "d"),
        }

    def call(self, *args: str) -> str:
        """Return what a command of ours writes to stdout; it must succeed."""
        ran = self.run("-m", "context_engine", *args)
        assert ran.returncode == 0, ran.stderr.decode()
        return ran.stdout.decode()

    def search(self, question: str) -> str:
        """Return the id of a search."""
        return str(json.loads(self.call("search", question, "--domain", "NPA", "--json"))["search_id"])

    def run(self, *args: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, *args], env=self.env, cwd=self.place, capture_output=True, check=False, timeout=120
        )


def test_an_answer_is_proved_to_somebody_who_has_a_file_and_a_key(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    key = json.loads(desk.call("audit", "keygen", ORIGIN, "--out", "audit.key", "--json"))["verifier_key"]
    desk.env |= {
        "CONTEXT_ENGINE_AUDIT_KEY": f"${{file:{tmp_path / 'audit.key'}}}",
        "CONTEXT_ENGINE_AUDIT_MODE": "required",
    }
    first = desk.search("NPA classification criteria")
    desk.call("audit", "head", "--out", "old.checkpoint")
    desk.search("Who approves a new product?")
    desk.call("audit", "prove", first, "--since", "old.checkpoint", "--verifier", "check_proof.py")

    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("check_proof.py", f"{first}.tlog-proof", f"{first}.tlog-consistency", "old.checkpoint"):
        (tmp_path / name).rename(outside / name)
    there = Desk(outside)
    proved = there.run("-I", "check_proof.py", f"{first}.tlog-proof", "--key", key)
    assert proved.returncode == 0
    assert json.loads(proved.stdout.splitlines()[0])["id"] == first
    grown = there.run("-I", "check_proof.py", f"{first}.tlog-consistency", "--since", "old.checkpoint", "--key", key)
    assert grown.returncode == 0

    proof = outside / f"{first}.tlog-proof"
    proof.write_bytes(proof.read_bytes().replace(b"\nindex ", b"\nindex 1"))
    refused = there.run("-I", "check_proof.py", proof.name, "--key", key)
    assert (refused.returncode, refused.stdout[:12]) == (1, b"NOT PROVED: ")


def test_without_a_key_every_step_says_what_is_not_proved(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.env["CONTEXT_ENGINE_AUDIT_MODE"] = "required"
    first = desk.search("NPA classification criteria")
    for command in (["head"], ["prove", first, "--verifier", "check_proof.py"]):
        ran = desk.run("-m", "context_engine", "audit", *command)
        assert ran.returncode == 0 and b"No key is set (CONTEXT_ENGINE_AUDIT_KEY)" in ran.stderr
    checked = desk.run("-I", "check_proof.py", f"{first}.tlog-proof")
    assert checked.returncode == 1 and b"NOT PROVED: who says so." in checked.stdout
