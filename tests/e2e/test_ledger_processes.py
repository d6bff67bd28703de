"""Processes that write to one ledger at once, and processes that are killed at any moment."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, text

from context_engine.audit.formats.merkle import leaf_hash, root
from context_engine.audit.formats.tiles import TileTree, tiles_of
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.schema import addendum, record, tile
from context_engine.audit.ledger.signing import row_mac

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="signals")]

PROGRAM = Path(__file__).with_name("ledger_process.py")
PROCESSES, RECORDS = 8, 4_000
KILLS = 24


@pytest.fixture(scope="module")
def process() -> Any:
    spec = importlib.util.spec_from_file_location("ledger_process", PROGRAM)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "audit/ledger.db")
    return str(request.getfixturevalue("postgresql_server").new_database())


def start(place: str, name: str, first: int, count: int, *, batch: int, every: int) -> subprocess.Popen[str]:
    arguments = [place, name, str(first), str(count), str(batch), str(every)]
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def check_sound(ledger: Ledger, keyring: Any, expected: set[str]) -> list[str]:
    """The log has every record expected once, without a gap, under the tree of a naive implementation."""
    ledger.integrate()
    size = ledger.size
    stored = list(ledger.entries(0, size))
    assert [one.index for one in stored] == list(range(size)) and ledger.pending_count() == 0
    entries = [json.loads(one.entry or b"") for one in stored]
    names = [entry["id"] for entry in entries]
    assert len(set(names)) == size and expected <= set(names)
    leaves = [leaf_hash(one.entry or b"") for one in stored]
    key = keyring.mac_key(keyring.key_id)
    for index, one in enumerate(stored):
        assert one.leaf == leaves[index] and one.mac == row_mac(key, index, one.leaf)
    assert ledger.root() == root(leaves) == TileTree(ledger.tile, size).root()
    named = {bytes.fromhex(entry["addenda"]["question"]) for entry in entries}
    named |= {bytes.fromhex(chunk["text"]) for entry in entries for chunk in entry["chunks"]}
    with ledger.database.connect() as connection:
        kept = set(connection.scalars(select(addendum.c.digest)))
        assert dict(connection.execute(select(record.c.record_id, record.c.idx)).all()) == {
            name: index for index, name in enumerate(names)
        }
        assert connection.scalar(select(func.count()).select_from(tile)) == len(list(tiles_of(size)))
        assert connection.scalar(text("SELECT count(*) FROM mention")) == 8 * size
    assert kept == named, "every text that a record names is there, and nothing that none names"
    return names


def test_eight_processes_append_thousands_of_records_together(place: str, process: Any) -> None:
    share = RECORDS // PROCESSES
    began = time.monotonic()
    started = [start(place, f"p{n}", 0, share, batch=1 + n % 3, every=20 * (n % 2)) for n in range(PROCESSES)]
    said = [one.communicate(timeout=500) for one in started]
    seconds = time.monotonic() - began
    assert [(one.returncode, err) for one, (_, err) in zip(started, said, strict=True)] == [(0, "")] * PROCESSES
    with process.open_ledger(place) as ledger:
        expected = {f"p{n}-{number}" for n in range(PROCESSES) for number in range(share)}
        names = check_sound(ledger, process.KEYRING, expected)
        assert len(names) == RECORDS
        for n in range(PROCESSES):  # one process's records stand in the order in which it appended them
            own = [int(name.partition("-")[2]) for name in names if name.startswith(f"p{n}-")]
            assert own == list(range(share))
    print(f"\n{place.partition(':')[0][-10:]}: {seconds * 1000 / RECORDS:.2f} ms a record, started and integrated")


def test_processes_killed_at_any_moment_lose_nothing_that_was_acknowledged(place: str, process: Any) -> None:
    moments = random.Random(16)
    process.open_ledger(place).close()
    acknowledged: set[str] = set()
    killed = 0
    while killed < KILLS:
        writers = [start(place, f"w{killed}-{n}", 0, 100_000, batch=moments.choice((1, 5)), every=3) for n in range(3)]
        running = [*writers, start(place, "integrator", 0, 0, batch=1, every=1)]
        for one in running:
            assert one.stdout is not None and one.stdout.readline() == "ready\n"
        time.sleep(moments.uniform(0.05, 0.4))
        moments.shuffle(running)
        for one in running:
            one.send_signal(signal.SIGKILL)
            time.sleep(moments.uniform(0, 0.05))
        for one in running:
            # not communicate(): it would pass over what readline() has read ahead
            assert one.stdout is not None and one.stderr is not None
            out, err = one.stdout.read(), one.stderr.read()
            one.wait(timeout=60)
            assert err == ""
            lines = out.split("\n")[:-1]  # a line cut off in the middle was not said
            acknowledged |= {name for line in lines for name in line.split()}
            killed += 1
    with process.open_ledger(place) as ledger:
        names = check_sound(ledger, process.KEYRING, acknowledged)
        assert len(acknowledged) > KILLS
        ledger.append([process.draft_of("after", 0)])
        assert ledger.integrate() == 1 and ledger.size == len(names) + 1
