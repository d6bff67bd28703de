from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.adapters.model_access import ModelContext
from context_engine.settings.connections import Connection
from context_engine.testing import FixedClock


@pytest.fixture
def context(tmp_path: Path) -> ModelContext:
    """What adapters are opened with; every connection leads to https://models.example."""
    held = Connection.model_validate({"base_url": "https://models.example", "api_key": "sk-very-secret"})
    return ModelContext(connection=lambda _name: held, clock=FixedClock(), data_dir=lambda: tmp_path)
