"""The guide's files and commands, with a server of this test run in place of the bank's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

GUIDE = (Path(__file__).resolve().parents[3] / "docs/guides/postgres.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(?:bash|yaml)\n(.*?)^```$", GUIDE, flags=re.M | re.S)
_INSTALL, CONNECTION, SOURCES, COMMANDS, COPY, _SEARCH_ROLE, _LEARNING = BLOCKS  # test_commands.py runs the last


@pytest.mark.slow
def test_documents_are_ingested_and_searched_as_the_guide_says(plain_server: Any, tmp_path: Path) -> None:
    bank(tmp_path, plain_server.dsn("postgres"), SOURCES)
    assert "Leave is asked for in writing." in run(tmp_path, COMMANDS)


@pytest.mark.slow
def test_a_base_is_moved_to_the_server_as_the_guide_says(plain_server: Any, tmp_path: Path) -> None:
    local = SOURCES.replace("    adapter: postgres\n    connection: knowledge-db\n", "")
    bank(tmp_path, plain_server.new_database(), local)
    run(tmp_path, f"context-engine ingest my-documents --domain DESK\n{COPY}rm -r data\n", search=False)
    (tmp_path / "manifests/desk.yaml").write_text(f"version: 1\ndomain: DESK\n{SOURCES}", "utf-8")
    assert "Leave is asked for in writing." in run(tmp_path, "")


def bank(folder: Path, dsn: str, sources: str) -> None:
    """Write the files of the guide, with another server."""
    server = urlsplit(dsn)
    lines = {
        "base_url": f"postgresql://{server.hostname}:{server.port}{server.path}",
        "user": server.username,
        "api_key": server.password,
    }
    kept = [line for line in CONNECTION.splitlines() if line.strip().split(":")[0] not in (*lines, "ca_bundle")]
    connection = "\n".join([*kept, *(f"  {key}: {value}" for key, value in lines.items())])
    for name in ("config", "manifests", "my-documents/policies"):
        (folder / name).mkdir(parents=True)
    (folder / "config/connections.yaml").write_text(connection, "utf-8")
    (folder / "manifests/desk.yaml").write_text(f"version: 1\ndomain: DESK\n{sources}", "utf-8")
    (folder / "my-documents/policies/leave.md").write_text("# Leave\n\nLeave is asked for in writing.\n", "utf-8")


def run(folder: Path, commands: str, *, search: bool = True) -> str:
    """Run commands, and then a search."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("CONTEXT_ENGINE_")}
    env |= {"HOME": str(folder), "PATH": f"{Path(sys.executable).parent}:{env['PATH']}", "NO_COLOR": "1"}
    env["CONTEXT_ENGINE_DATA_DIR"] = str(folder / "data")
    asked = "context-engine search 'How is leave asked for?' --domain DESK --json" if search else ""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f"{commands}{asked}"],
        cwd=folder, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
