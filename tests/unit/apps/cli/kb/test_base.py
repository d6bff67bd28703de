"""The base that `kb` looks after: one that is not there is told apart from one that no source is in."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from context_engine.apps.cli import main

MANIFEST = "version: 1\ndomain: DESK\nsources: [{{id: policies, type: bank_sop, {store}}}]\n"
CONNECTIONS = "graph: {base_url: 'bolt://127.0.0.1:9', user: neo4j, api_key: not-a-secret}\n"


@pytest.mark.wording
@pytest.mark.parametrize(
    ("store", "words"),
    [
        ("adapter: local", "create one with 'context-engine ingest PATH'"),
        ("adapter: neo4j, connection: graph", "all are in neo4j. 'context-engine doctor' examines them"),
    ],
)
@pytest.mark.parametrize("command", ["stats", "verify"])
def test_a_base_that_is_not_there(tmp_path: Path, store: str, words: str, command: str) -> None:
    for folder in ("config", "manifests"):
        (tmp_path / folder).mkdir()
    (tmp_path / "config/connections.yaml").write_text(CONNECTIONS)
    (tmp_path / "manifests/desk.yaml").write_text(MANIFEST.format(store=store))
    folders = ["--config-dir", str(tmp_path), "--data-dir", str(tmp_path / "data")]
    result = CliRunner().invoke(main, ["kb", command, *folders])
    assert result.exit_code == 2 and words in result.stderr, result.output
