"""A place without any configuration: `context_engine.rag` reads files and variables."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty current directory and home, and no variable of ours."""
    for name in list(os.environ):
        if name.startswith(("CONTEXT_ENGINE_", "RAG_", "HYBRID_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
