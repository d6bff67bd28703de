"""A witness that others wrote cosigns our checkpoints, and refuses a log that was forked.

TLOG_PEER_PYTHON names a Python 3.12 that has `aics-witness` too; the project's own check makes one.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from context_engine.adapters.witnesses import TlogWitness, open_witnesses
from context_engine.audit.formats.checkpoint import parse_note, verify_note
from context_engine.audit.formats.keys import Keyring, SigningKey, VerifierKey
from context_engine.audit.ledger.key_change import enter_key
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.publish import Published, Rhythm, publish
from context_engine.audit.values import Composed, Draft
from context_engine.core.engine.search_plan import SystemClock
from context_engine.settings.connections import Connection

PYTHON = os.environ.get("TLOG_PEER_PYTHON", "")
HAS_WITNESS = bool(PYTHON) and not subprocess.run([PYTHON, "-c", "import aics_witness"], capture_output=True).returncode

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not HAS_WITNESS, reason="TLOG_PEER_PYTHON names no Python with aics-witness"),
]

KEY = SigningKey("audit.bank.example/retrieval", bytes(range(32)))
CLOCK = SystemClock()


def command(folder: Path, *arguments: str) -> str:
    ran = subprocess.run(
        [PYTHON, "-m", "aics_witness", *arguments, "--config", str(folder / "witness.json")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, TlogWitness]]:
    """The folder of a running witness that trusts our key, and our client for it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = tmp_path / "witness"
    folder.mkdir()
    said = command(folder, "init", "--name", "witness.example/w1", "--listen", f"127.0.0.1:{port}")
    vkey = next(word for word in said.split() if word.startswith("witness.example/w1+"))
    command(folder, "add-log", "--origin", KEY.name, "--vkey", KEY.verifier.text)
    serving = subprocess.Popen(
        [PYTHON, "-m", "aics_witness", "serve", "--config", str(folder / "witness.json")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _await(port, serving)
        connection = Connection.model_validate({"base_url": f"http://127.0.0.1:{port}"})
        (witness,) = open_witnesses([f"outside={vkey}"], lambda _name: connection, CLOCK)
        yield folder, witness
        witness.close()
    finally:
        serving.terminate()
        serving.wait(30)


def _await(port: int, serving: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        assert serving.poll() is None, "the witness ended"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("the witness does not listen")


def opened(place: Path) -> Ledger:
    keyring = Keyring(KEY)
    ledger = Ledger.open(str(place), origin=KEY.name, keyring=keyring, clock=CLOCK)
    enter_key(ledger, keyring, CLOCK)
    return ledger


def grown(ledger: Ledger, name: str, count: int, witness: TlogWitness) -> Published:
    def draft(record_id: str) -> Draft:
        def compose(_: Mapping[bytes, bytes]) -> Composed:
            return Composed(json.dumps({"v": 1, "kind": "search", "id": record_id}).encode())

        return Draft(record_id=record_id, contents=(), compose=compose)

    ledger.append([draft(f"{name}-{number}") for number in range(count)])
    found = publish(ledger, Rhythm(records=1, seconds=60.0, witnesses=(witness,)), CLOCK, at_once=True)
    assert found is not None
    return found


def test_it_cosigns_growth_and_refuses_a_fork(served: tuple[Path, TlogWitness], tmp_path: Path) -> None:
    folder, witness = served
    keys = (KEY.verifier, VerifierKey.parse(witness.vkey))
    place, old = tmp_path / "ledger.db", tmp_path / "old.db"
    ledger = opened(place)
    for number, count in enumerate((1, 254, 1, 700)):
        found = grown(ledger, f"s{number}", count, witness)
        assert found.problems == () and len(verify_note(parse_note(found.note), keys)) == 2
        if number == 1:
            ledger.close()
            for suffix in ("", "-wal"):
                shutil.copy(f"{place}{suffix}", f"{old}{suffix}")
            ledger = opened(place)
    (status,) = json.loads(command(folder, "status", "--json"))["logs"]
    assert status["size"] == ledger.size == 957

    forked = opened(old)
    behind = grown(forked, "x", 5, witness)
    assert "cut off or rolled back" in behind.problems[0]
    ahead = grown(forked, "y", 900, witness)
    assert "does not grow into this one (422)" in ahead.problems[0]
    assert json.loads(command(folder, "evidence"))
    assert grown(ledger, "z", 3, witness).problems == ()
    for one in (ledger, forked):
        one.close()
