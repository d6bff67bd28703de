"""An auditor at the command line: the answers of a period, or a sample of them, replayed and compared in one run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.test_audit_review_cli import HEAD, LIMIT, REVIEW, Desk

pytestmark = pytest.mark.slow
QUESTIONS = ("approval limit of the desk", "who reviews the limit", "days of leave", "head of the desk", "risk officer")


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk of which five questions were asked."""
    monkeypatch.chdir(tmp_path)
    desk = Desk(tmp_path, {"CONTEXT_ENGINE_DATA_DIR": str(tmp_path / "data")})
    desk.ingest()
    for question in QUESTIONS:
        desk.run("search", question, "--domain", "DESK", "--json")
    return desk


def _edit(desk: Desk) -> None:
    (desk.folder / "documents" / "limits.md").write_text(HEAD + LIMIT.format(7) + REVIEW)
    desk.ingest()


def test_all_searches_of_a_period_are_replayed_in_one_table(asked: Desk) -> None:
    result = asked.run("audit", "replay", "--since", "2026-01-01")
    assert "identical" in result.stdout and "5 records from" in result.stdout
    published = asked.json("audit", "replay", "--since", "2026-01-01")
    assert published["counts"] == {"identical": 5}
    assert [set(record) for record in published["records"]] == [{"search_id", "time", "result", "why"}] * 5


def test_a_sample_is_the_one_that_the_list_draws(asked: Desk) -> None:
    drawn = asked.json("audit", "list", "--kind", "search", "--sample", "2", "--seed", "84417")["records"]
    replayed = asked.json("audit", "replay", "--sample", "2", "--seed", "84417")["records"]
    assert {record["search_id"] for record in replayed} == {record["record_id"] for record in drawn}


def test_a_run_goes_on_where_it_stopped(asked: Desk) -> None:
    results = asked.folder / "replays.jsonl"
    asked.run("audit", "replay", "--domain", "DESK", "--results", str(results))
    lines = results.read_text().splitlines()
    assert len(lines) == 5
    first = json.loads(lines[0])
    results.write_text(json.dumps({**first, "result": "seen before"}) + "\n" + lines[1] + "\n" + lines[2][:20])
    result = asked.run("audit", "replay", "--domain", "DESK", "--results", str(results), code=1)
    assert "2 records of 5 examined before" in result.stderr
    assert [json.loads(line)["result"] for line in results.read_text().splitlines()].count("identical") == 4
    assert len(results.read_text().splitlines()) == 5, "the line that was cut off is gone"


def test_the_answers_of_a_period_are_compared_with_their_sources(asked: Desk) -> None:
    assert asked.json("audit", "drift", "--since", "2026-01-01")["counts"] == {"unchanged": 5}
    _edit(asked)
    published = asked.json("audit", "drift", "--since", "2026-01-01", code=3)
    assert published["counts"]["not the same"] >= 1
    changed = [record["why"] for record in published["records"] if record["result"] == "not the same"]
    assert all("1 changed" in why for why in changed)


def test_a_record_whose_question_was_erased_is_counted_apart(asked: Desk) -> None:
    (record,) = asked.json("audit", "list", "--kind", "search", "--limit", "1")["records"]
    asked.run("audit", "erase", "--query", record["record_id"], "--reason", "a test", "--yes")
    published = asked.json("audit", "replay", "--domain", "DESK", code=4)
    assert published["counts"] == {"identical": 4, "question not recorded": 1}


def test_a_period_without_searches_says_so(asked: Desk) -> None:
    result = asked.run("audit", "replay", "--until", "2020-01-01")
    assert "No search matches." in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("replay",),
        ("replay", "ID", "--since", "2026-01-01"),
        ("replay", "--sample", "3"),
        ("replay", "--since", "2026-01-01", "--query", "a"),
        ("drift",),
        ("drift", "ID", "--domain", "DESK"),
    ],
)
def test_what_does_not_go_together_is_refused(asked: Desk, arguments: tuple[str, ...]) -> None:
    asked.run("audit", *arguments, code=2)


def test_a_file_that_holds_something_else_is_refused(asked: Desk) -> None:
    results = asked.folder / "replays.jsonl"
    results.write_text("no results\n")
    result = asked.run("audit", "replay", "--domain", "DESK", "--results", str(results), code=2)
    assert "holds no results of an earlier run" in result.stderr
