from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from context_engine.settings import ConfigPaths, find_config

Write = Callable[[Mapping[str, Any]], ConfigPaths]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write files below an empty folder (text as it is, else as JSON) and find the configuration from there."""

    def put(files: Mapping[str, Any]) -> ConfigPaths:
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        return find_config(env={}, cwd=tmp_path)

    return put
