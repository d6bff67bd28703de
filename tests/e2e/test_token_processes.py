"""Processes that share the tokens of one deployment."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from context_engine.settings.principals import token_hash
from context_engine.settings.token_store import TokenStore

PROGRAM = Path(__file__).with_name("token_process.py")
PROCESSES, TIMES = 8, 6


@pytest.mark.slow
def test_eight_at_once_lose_nothing(tmp_path: Path) -> None:
    running = [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), str(tmp_path / "data"), f"p{number}", str(TIMES)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    said = [one.communicate(timeout=120) for one in running]
    assert [one.returncode for one in running] == [0] * PROCESSES, "\n".join(error for _, error in said)
    store, now = TokenStore(tmp_path / "data"), datetime.now(UTC)
    assert len(store.all()) == PROCESSES * TIMES and all(one.used is not None for one in store.all())
    for out, _ in said:
        for state, tokens in json.loads(out).items():
            held = [store.matching(token[3:13], token_hash(token)) for token in tokens]
            assert {one is not None and one.opens(now) for one in held} == {state == "kept"}
    store.close()
