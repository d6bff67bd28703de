"""The commands of the guide to tuning that compare are run as they stand, and show what the guide says of them."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from context_engine.apps.cli import main
from context_engine.core.models import Settings

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "tuning.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^<!-- compare -->\n```sh\n(.*?)^```$", GUIDE, flags=re.M | re.S)[0].strip().splitlines()


@pytest.mark.slow
def test_the_comparisons_show_what_the_guide_says(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(tmp_path_factory.mktemp("data")))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)

    def run(line: str, *more: str) -> tuple[int, str]:
        program, *args = shlex.split(line.partition("||")[0])
        assert program == "context-engine"
        found = CliRunner().invoke(main, [*args, *more])
        return found.exit_code, found.stdout

    shown = [run(command) for command in COMMANDS]
    assert [code for code, _ in shown] == [0, 0, 0, 4, 0]
    plain, raised, with_fallback, off_topic, _ = (
        json.loads(run(command.replace(" --json --save comparisons.jsonl", ""), "--json")[1])["data"]
        for command in COMMANDS
    )
    left = {one["code"] for one in raised["difference"]["left"]}
    assert "below_min_relevance" in left
    assert raised["enhanced"]["chunks_used"] < plain["enhanced"]["chunks_used"]
    assert all(one["value"] < 0.4 for one in raised["difference"]["left"] if one["code"] == "below_min_relevance")
    assert with_fallback["enhanced"]["fallback_triggered"]
    assert with_fallback["enhanced"]["chunks_used"] == 5
    assert {one["code"] for one in off_topic["difference"]["left"]} <= {"out_of_scope"}
    assert off_topic["enhanced"]["decision"] in ("out_of_scope", "no_match")
    (saved,) = (tmp_path / "comparisons.jsonl").read_text("utf-8").splitlines()
    assert json.loads(saved)["data"]["persona"] == "front_desk"


def test_settings_of_the_section_are_there() -> None:
    section = GUIDE.split("## An answer beside its baseline")[1].split("\n## ")[0]
    named = set(re.findall(r"`((?:min|compare|stage2|audit|mask)_[a-z_]+)`", section))
    assert named <= set(Settings.model_fields)
    assert {"min_relevance_score", "min_chunks", "compare_mode", "compare_file"} <= named
