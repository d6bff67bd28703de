"""The pictures of the documentation are taken of the real pages, by one program."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_each_picture_of_the_documentation_can_be_taken_again(tmp_path: Path) -> None:
    pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if shutil.which("chromium") is None:
        pytest.skip("there is no Chromium on the PATH: Debian's package is 'chromium'")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, ROOT / ".ci/pictures.py", tmp_path], env=env, check=True, timeout=180)
    taken = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert set(taken) == {file.name for file in (ROOT / "docs/pictures").iterdir()}
    assert all(content.startswith(b"\x89PNG") and len(content) > 20_000 for content in taken.values())
