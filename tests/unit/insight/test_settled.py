"""Settled contradictions: kept with reason and name, and a damaged file is told."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from context_engine.errors import ConfigError
from context_engine.insight.settled import Settled, settle, settled_conflicts

NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)


def test_the_last_decision_counts(tmp_path: Path) -> None:
    file = tmp_path / "data" / "settled.jsonl"
    assert settled_conflicts(file) == {}
    settle(file, "a1", reason="other banks", by="analyst", now=NOW)
    settle(file, "a1", reason="mended in v4", by="owner", now=NOW)
    assert settled_conflicts(file) == {"a1": Settled("a1", "mended in v4", "owner", "2026-03-02T10:00:00+00:00")}


@pytest.mark.parametrize("line", ["{", "[]", '{"finding_id": "a"}', '"a"'])
@pytest.mark.wording
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "settled.jsonl"
    settle(file, "a1", reason="r", by="b", now=NOW)
    file.write_text(file.read_text("utf-8") + line + "\n", "utf-8")
    with pytest.raises(ConfigError, match="line 2 is no settled contradiction"):
        settled_conflicts(file)


def test_a_file_that_cannot_be_written_or_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match="folder"):
        settle(tmp_path / "folder", "a1", reason="r", by="b", now=NOW)
    with pytest.raises(ConfigError, match="folder"):
        settled_conflicts(tmp_path / "folder")
