"""`context-engine compare` over the demo bank: a question, a saved answer, a recorded one; and what it refuses."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from context_engine.apps.cli import main

QUERY = "NPA classification criteria"


@pytest.fixture(scope="module")
def data(demo_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(demo_data, tmp_path_factory.mktemp("data"), dirs_exist_ok=True)


@pytest.fixture(autouse=True)
def empty_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data: Path) -> Iterator[None]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(data))
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.chdir(tmp_path)
    yield


def run(*args: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, list(args), input=stdin)


def test_a_question_needs_no_ledger_and_a_record_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("context_engine.wiring.audit.find_spec", lambda name: None)  # the extra `audit` is missing
    assert run("compare", QUERY, "-d", "NPA").exit_code == 0
    missing = run("compare", "--record", "a")
    assert missing.exit_code == 2 and "dify-context-engine[audit]" in missing.stderr


def test_the_table_has_every_chunk_once_with_its_reason() -> None:
    shown = run("compare", QUERY, "-d", "NPA")
    found = json.loads(run("compare", "-", "-d", "NPA", "--json", stdin=QUERY).stdout)["data"]
    assert shown.exit_code == 0
    difference = found["difference"]
    for turn in ("moved", "entered", "left"):
        assert difference[turn], turn
        assert sum(f" {turn} " in line for line in shown.stdout.splitlines()) >= len(difference[turn])
        for one in difference[turn]:
            assert one["reason"] in shown.stdout
    assert {one["chunk_id"]: one["code"] for one in difference["left"]}["NPA-SOP-003@2.4#3.4"] == "merged"
    assert re.search(r"context: baseline \d+ tokens, answer \d+ tokens", shown.stdout)


def test_a_saved_answer_compares_as_the_question_did(tmp_path: Path) -> None:
    saved = run("search", QUERY, "-d", "NPA", "--json", "--full")
    (tmp_path / "answer.json").write_text(saved.stdout, "utf-8")
    found = json.loads(run("compare", "--file", "answer.json", "--json").stdout)["data"]
    live = json.loads(run("compare", QUERY, "-d", "NPA", "--json").stdout)["data"]
    assert found["search_id"] == json.loads(saved.stdout)["search_id"]
    assert found["difference"] == live["difference"]


def test_a_recorded_answer_compares_as_the_question_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sqlalchemy")
    monkeypatch.setenv("CONTEXT_ENGINE_AUDIT_LEDGER", str(tmp_path / "ledger.db"))
    live = json.loads(run("compare", QUERY, "-d", "NPA", "--json").stdout)["data"]
    again = run("compare", "--record", live["search_id"], "--json")
    assert again.exit_code == 0, again.stderr
    assert json.loads(again.stdout)["data"]["difference"] == live["difference"]
    assert run("compare", "--record", "none", "--json").exit_code != 0


def test_exit_codes_are_those_of_search() -> None:
    assert run("compare", "how long is sourdough proofed", "-d", "NPA").exit_code == 4


@pytest.mark.parametrize(
    "args",
    [
        (),
        (QUERY, "--record", "x"),
        ("--record", "x", "--domain", "NPA"),
        ("--record", "x", "--set", "min_chunks=2"),
        (QUERY, "-d", "NPA", "--question", "x"),
        (QUERY, "-d", "NPA", "--ledger", "x"),
        (QUERY, "-d", "NPA", "--set", "reranker=x"),
        (QUERY, "-d", "NPA", "--persona", "nobody"),
    ],
)
def test_what_makes_no_sense_together_is_refused(args: tuple[str, ...]) -> None:
    assert run("compare", *args).exit_code == 2


def test_comparisons_are_appended(tmp_path: Path) -> None:
    for _ in range(2):
        run("compare", QUERY, "-d", "NPA", "--save", "deep/comparisons.jsonl")
    lines = (tmp_path / "deep/comparisons.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["success"] for line in lines] == [True, True]
    assert all(json.loads(line)["data"]["baseline"]["context"]["text"] for line in lines)
