"""`audit quality`: what it says of a quiet ledger and of one with a fall, and its exit code."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from context_engine.apps.cli import main
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.values import Composed, Draft
from context_engine.core.engine import SystemClock
from context_engine.core.models import utc_text

NOW = datetime.now(UTC)
Run = Callable[..., Result]


def draft(number: int, status: str) -> Draft:
    time = utc_text(NOW - timedelta(days=5) + timedelta(minutes=number))
    entry = {"v": 1, "kind": "search", "id": f"s{number}", "time": time, "domain": "NPA", "status": status}
    entry |= {"decision": "answered", "notices": [], "addenda": {}}

    def compose(_: Mapping[bytes, bytes]) -> Composed:
        return Composed(json.dumps(entry).encode(), ())

    return Draft(record_id=f"s{number}", contents=(), compose=compose)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    place = str(tmp_path / "ledger.db")

    def call(statuses: list[str], *arguments: str) -> Result:
        with Ledger.open(place, origin="bank", keyring=None, clock=SystemClock()) as ledger:
            ledger.append([draft(number, status) for number, status in enumerate(statuses)])
        return CliRunner().invoke(main, ["audit", "quality", *arguments, "--ledger", place])

    return call


def test_a_quiet_domain_is_as_before(run: Run) -> None:
    done = run(["complete"] * 600, "--domain", "NPA")
    assert done.exit_code == 0, done.output
    assert "as before" in done.stdout and "above its past" not in done.stdout


def test_a_fall_is_told_with_its_begin_and_searches_and_the_exit_code_of_degraded(run: Run) -> None:
    done = run(["complete"] * 600 + ["degraded"] * 20)
    assert done.exit_code == 3, done.output
    assert "first s600" in done.stdout and "100.0 %, before 0.0 %" in done.stdout


def test_the_json_form(run: Run) -> None:
    done = run(["complete"] * 600 + ["degraded"] * 20, "--json", "--days", "30", "--run-length", "1000")
    told = json.loads(done.stdout)
    line = next(each for each in told["figures"] if each["figure"] == "degraded")
    assert (told["schema_version"], told["run_length"], line["alarmed"], line["domain"]) == (1, 1000, True, "NPA")
    assert line["excursions"][0]["first_id"] == "s600"
    assert sum(day["total"] for day in line["days"]) == 620


def test_a_short_past_is_not_compared(run: Run) -> None:
    done = run(["complete"] * 50 + ["degraded"] * 50)
    assert done.exit_code == 0
    assert "short past" in done.stdout


def test_an_unknown_domain_is_refused(run: Run) -> None:
    assert run(["complete"], "--domain", "NPB").exit_code == 2
