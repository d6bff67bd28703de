"""Recording from the command line over the demo bank: searches and contexts leave records, trials leave none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy")

from click.testing import CliRunner, Result

from context_engine.apps.cli import main
from context_engine.wiring.audit_writers import close_writers

pytestmark = pytest.mark.slow

QUERY = "NPA classification criteria"
NOWHERE = "postgresql://ana:s3cret-s3cret@127.0.0.1:1/records"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data: Path) -> Iterator[Path]:
    """An empty current directory and home, one data folder for the module, a ledger for each test."""
    for name in ("CONTEXT_ENGINE_CONFIG_DIR", "CONTEXT_ENGINE_STAGE", "XDG_CONFIG_HOME", "CONTEXT_ENGINE_AUDIT_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(data))
    monkeypatch.setenv("CONTEXT_ENGINE_AUDIT_LEDGER", str(tmp_path / "ledger.db"))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    close_writers()


def run(*args: str) -> Result:
    return CliRunner().invoke(main, list(args))


def kinds() -> list[str]:
    found = run("audit", "list", "--json")
    assert found.exit_code == 0, found.output
    return [one["kind"] for one in reversed(json.loads(found.stdout)["records"])]


@pytest.mark.parametrize("mode", ["best_effort", "required"])
def test_a_search_and_what_a_model_reads_of_it_are_recorded(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setenv("CONTEXT_ENGINE_AUDIT_MODE", mode)
    assert run("search", QUERY, "-d", "NPA", "--json").exit_code == 0
    assert run("search", QUERY, "-d", "NPA", "--context").exit_code == 0
    assert kinds() == ["search", "search", "context"]


def test_trials_leave_no_record(place: Path) -> None:
    assert run("eval", "run").exit_code == 0
    close_writers()
    assert not (place / "ledger.db").exists()


def test_required_gives_no_answer_where_the_ledger_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXT_ENGINE_AUDIT_MODE", "required")
    monkeypatch.setenv("CONTEXT_ENGINE_AUDIT_LEDGER", NOWHERE)
    found = run("search", QUERY, "-d", "NPA", "--json")
    assert found.exit_code == 1
    assert json.loads(found.stdout)["error"]["code"] == "audit_unavailable"
    assert json.loads(found.stdout).keys() == {"error"}
    assert "no unrecorded answer is returned" in found.stderr
    assert "s3cret" not in found.stdout + found.stderr


def test_best_effort_answers_and_says_what_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXT_ENGINE_AUDIT_LEDGER", NOWHERE)
    found = run("search", QUERY, "-d", "NPA", "--json")
    assert found.exit_code == 0
    assert json.loads(found.stdout)["chunks"]
    assert "1 search is not recorded in postgresql://127.0.0.1:1/records" in found.stderr
    assert "s3cret" not in found.stderr


def test_doctor_tells_and_fails_where_nothing_can_be_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("search", QUERY, "-d", "NPA").exit_code == 0
    found = json.loads(run("doctor", "--no-query", "--json").stdout)
    assert (found["ok"], found["audit"]["state"]["records"], found["audit"]["state"]["pending"]) == (True, 1, 0)
    assert found["audit"]["state"]["checkpoint"]["size"] == 1
    monkeypatch.setenv("CONTEXT_ENGINE_AUDIT_LEDGER", NOWHERE)
    down = run("doctor", "--no-query", "--json")
    assert down.exit_code == 1
    assert json.loads(down.stdout)["audit"]["problem"]
