"""`kb conflicts` over the demo bank: what it shows, its exit code, and settling."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from context_engine.apps.cli import main

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


def run(data: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["kb", "conflicts", "--data-dir", str(data), *options])


def test_contradictions_are_listed_with_who_yields_and_settled_with_a_reason(data: Path) -> None:
    result = run(data, "--domain", "DCE", "--json")
    report = json.loads(result.stdout)
    assert result.exit_code == 1
    pairs = {
        (row["first"]["document_id"], row["second"]["document_id"]): row["differences"][0] for row in report["findings"]
    }
    assert pairs["DCE-SOP-002", "FCAA-N659"] == {"code": "currency", "first": "usd 500,000", "second": "eur 500,000"}
    assert {row["yields"] for row in report["findings"]} == {"second"}
    for row in report["findings"]:
        assert run(data, "--domain", "DCE", "--settle", row["id"], "--reason", "for other banks").exit_code == 0
    after = run(data, "--domain", "DCE")
    assert after.exit_code == 0 and "0 contradictions" in after.output
    shown = run(data, "--domain", "DCE", "--all").output
    assert "for other banks" in shown and "less authority" in shown


def test_without_the_extra_audit_the_answers_are_not_counted(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("context_engine.wiring.audit.find_spec", lambda name: None)
    findings = json.loads(run(data, "--domain", "DCE", "--all", "--json").stdout)["findings"]
    assert {row["answers_that_showed_it"] for row in findings} == {None}


def test_parallel_mandates_are_shown_on_request(data: Path) -> None:
    plain = json.loads(run(data, "--domain", "DESK", "--json").stdout)["findings"]
    assert {row["parallel"] for row in plain} == {False}
    assert "DESK-SOP-003" in run(data, "--domain", "DESK", "--parallel").output


def test_a_value_for_the_same_thing_in_other_words_is_found(data: Path) -> None:
    findings = json.loads(run(data, "--domain", "DESK", "--json").stdout)["findings"]
    pairs = {(row["first"]["document_id"], row["second"]["document_id"]) for row in findings if row["basis"] == "rule"}
    assert ("DESK-SOP-005", "FCAA-N674") in pairs  # a holding period of 30 and of 14 calendar days


def test_what_was_read_is_kept_and_a_damaged_file_is_told(data: Path) -> None:
    first = run(data, "--domain", "DCE", "--all", "--json")
    file = next(data.rglob("radar-DCE.json.gz"))
    kept = file.read_bytes()
    assert run(data, "--domain", "DCE", "--all", "--json").stdout == first.stdout
    file.write_bytes(kept[: len(kept) // 2])
    again = run(data, "--domain", "DCE", "--all", "--json")
    assert again.stdout == first.stdout and file.read_bytes() == kept
    assert "radar-DCE.json.gz" in again.stderr


def test_since_a_day_only_newer_ones(data: Path) -> None:
    assert json.loads(run(data, "--domain", "ORM", "--since", "2099-01-01", "--json").stdout)["findings"] == []


def test_an_unknown_id_and_a_missing_reason_are_usage(data: Path) -> None:
    assert run(data, "--domain", "DCE", "--settle", "none", "--reason", "r").exit_code == 2
    assert run(data, "--domain", "DCE", "--settle", "none").exit_code == 2
