"""`job run`: what it says when it cannot go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from context_engine.apps.cli import main
from context_engine.apps.cli.job import work
from context_engine.errors import AllSourcesFailed


def test_a_run_without_an_answering_source_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_args: Any, **_options: Any) -> None:
        raise AllSourcesFailed("no source of domain 'NPA' answered: source 'sops': the server cannot be reached")

    @contextmanager
    def jobs(_location: Any, **_options: Any) -> Iterator[Any]:
        yield SimpleNamespace(run=failing)

    monkeypatch.setattr(work, "owned_jobs", jobs)
    done = CliRunner().invoke(main, ["job", "run", "job-1", "--question", "Who decides?"])
    assert done.exit_code == 1
    assert "What was read before is kept: 'context-engine job run job-1' goes on." in done.stderr
    assert "the server cannot be reached" in done.stderr
