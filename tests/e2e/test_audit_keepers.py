"""While processes record, others erase and prune, and are killed at it: no record is lost, and the ledger is sound."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from context_engine.audit.checks.verify import verify
from context_engine.audit.formats.keys import Keyring, SigningKey
from context_engine.audit.ledger.key_change import enter_key
from context_engine.audit.ledger.ledger import Ledger
from context_engine.core.engine.search_plan import SystemClock

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).with_name("audit_keeper.py")
KEY = SigningKey("audit.bank.example/retrieval", bytes(range(32)))
KILLS = 5
STARTS_S = 60.0


class Working:
    """A process of the script, whose lines go to a file."""

    def __init__(self, what: str, place: str, name: str, folder: Path) -> None:
        self.lines = folder / f"{name}.out"
        self.errors = folder / f"{name}.err"
        with self.lines.open("wb") as out, self.errors.open("wb") as err:
            self.process = subprocess.Popen([sys.executable, str(SCRIPT), what, place, name], stdout=out, stderr=err)

    def started(self) -> Working:
        """Wait until it has said something."""
        until = time.monotonic() + STARTS_S
        while not self.lines.stat().st_size and time.monotonic() < until:
            assert self.process.poll() is None, self.errors.read_text()
            time.sleep(0.02)
        return self

    def kill(self) -> list[str]:
        """End it at once; return what it had said in whole lines."""
        assert self.process.poll() is None, self.errors.read_text()
        self.process.kill()
        self.process.wait(30)
        said = self.lines.read_text()
        return said[: said.rfind("\n") + 1].splitlines()


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "ledger.db")
    return str(request.getfixturevalue("postgresql_server").new_database())


def opened(place: str) -> Ledger:
    keyring, clock = Keyring(KEY), SystemClock()
    ledger = Ledger.open(place, origin=KEY.name, keyring=keyring, clock=clock)
    enter_key(ledger, keyring, clock)
    return ledger


def test_erasing_and_pruning_beside_recording_leaves_a_sound_ledger(place: str, tmp_path: Path) -> None:
    rng, ledger = random.Random(16), opened(place)
    said: list[str] = []
    kept: list[str] = []
    appending = [Working("append", place, f"a{number}", tmp_path) for number in range(2)]
    for number in range(KILLS):
        keeping = Working("keep", place, f"k{number}", tmp_path).started()
        time.sleep(rng.uniform(0.0, 1.5))
        kept += keeping.kill()
        if number == KILLS // 2:
            said += appending.pop(0).started().kill()
            appending.append(Working("append", place, "b", tmp_path))
    for one in appending:
        said += one.started().kill()
    ledger.integrate()
    with ledger:
        _check(ledger, said, kept)


def _check(ledger: Ledger, said: list[str], kept: list[str]) -> None:
    found: Any = verify(ledger)
    assert list(found.findings) == []
    there = sum(1 for one in ledger.entries(ledger.minimum_index, ledger.size) if one.entry is not None)
    assert there == ledger.size - ledger.minimum_index
    assert ledger.size >= len(said) > 100 and ledger.pending_count() == 0
    assert sum(line.startswith("erased") and line != "erased 0" for line in kept) > 3
