"""Broken files of every format, through the processes that read files: some of what `fuzz_loaders` does by hand."""

import subprocess
import sys
from pathlib import Path

import pytest

from context_engine.ingest.loaders import LOADERS

FUZZ = Path(__file__).parents[1] / "benchmarks" / "fuzz_loaders.py"
EACH = 15


@pytest.mark.slow
def test_no_broken_file_ends_a_run_or_escapes_its_limits():
    command = [sys.executable, str(FUZZ), "--mutants", str(EACH * len(LOADERS)), "--seed", "20260302"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    lines = found.stdout.splitlines()
    assert [line.split()[:2] for line in lines[: len(LOADERS)]] == [[one, str(EACH)] for one in sorted(LOADERS)]
    assert lines[-1] == "0 escapes"
