"""The guide's files and commands, with a server of this test run in place of the bank's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.neo4j_server import PASSWORD

GUIDE = (Path(__file__).resolve().parents[3] / "docs/guides/neo4j.md").read_text("utf-8")
_, CONNECTION, SOURCES, COMMANDS = re.findall(r"^```(?:bash|yaml)\n(.*?)^```$", GUIDE, flags=re.M | re.S)


@pytest.mark.slow
def test_documents_are_ingested_and_searched_as_the_guide_says(server: Any, tmp_path: Path) -> None:
    lines = {"base_url": server.url, "user": "neo4j", "api_key": PASSWORD}
    kept = [line for line in CONNECTION.splitlines() if line.strip().split(":")[0] not in (*lines, "ca_bundle")]
    connection = "\n".join([*kept, *(f"  {key}: {value}" for key, value in lines.items())])
    for name in ("config", "manifests", "my-documents/policies"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "config/connections.yaml").write_text(connection, "utf-8")
    (tmp_path / "manifests/desk.yaml").write_text(f"version: 1\ndomain: DESK\n{SOURCES}", "utf-8")
    (tmp_path / "my-documents/policies/leave.md").write_text("# Leave\n\nLeave is asked for in writing.\n", "utf-8")
    env = {key: value for key, value in os.environ.items() if not key.startswith("CONTEXT_ENGINE_")}
    env |= {"HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:{env['PATH']}", "NO_COLOR": "1"}
    env |= {"CONTEXT_ENGINE_DEADLINE_S": "120", "CONTEXT_ENGINE_SOURCE_TIMEOUT_S": "90"}  # a new server plans for long
    commands = f"{COMMANDS}context-engine search 'How is leave asked for?' --domain DESK --json"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "Leave is asked for in writing." in done.stdout
