"""The scope threshold of a bank's own base: calibrated by `ingest`, shown, and obeyed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from context_engine import build_engine
from context_engine.apps.cli import main
from context_engine.apps.cli.app import NOT_ANSWERED
from context_engine.core.models import SearchRequest

pytestmark = pytest.mark.slow

OFF_TOPIC = "Best pizza dough recipe for a stone oven"
ASKED = "Which manager approves a payment above the daily limit?"
_AREAS = ("payments", "custody", "lending", "trade finance", "treasury", "settlement", "brokerage", "deposits")
_RULES = """# Rules of {area}

## 1 Limits

A transaction in {area} above the daily limit needs the approval of the duty officer and of the risk department.

## 2 Records

Records of {area} are kept for seven years. They are destroyed after that in the presence of two employees.

## 3 Incidents

An outage of the systems of {area} is reported to the supervisor within four hours, by telephone and in writing.
"""
_MANIFEST = """version: 1
domain: RULES
sources:
  - id: rules
    type: bank_sop
    documents:
      - include: "**/*.md"
        doc_type: sop_document
{settings}"""


@pytest.fixture(autouse=True)
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A configuration of one domain, and a document for each area of a bank that does not exist."""
    for name in ("CONTEXT_ENGINE_CONFIG_DIR", "CONTEXT_ENGINE_STAGE", "CONTEXT_ENGINE_SCOPE_THRESHOLD", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    Path("manifests").mkdir()
    configure()
    Path("docs").mkdir()
    for area in _AREAS:
        write(area)
    yield tmp_path


def configure(settings: str = "") -> None:
    Path("manifests/rules.yaml").write_text(_MANIFEST.format(settings=settings), "utf-8")


def write(area: str) -> None:
    Path("docs", f"{area.replace(' ', '-')}.md").write_text(_RULES.format(area=area), "utf-8")


def run(*args: str, **env: str) -> Result:
    return CliRunner().invoke(main, args, env=env)


def ok(*args: str, **env: str) -> Any:
    result = run(*args, "--json", **env)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def ingest(*args: str) -> Any:
    return ok("ingest", "docs", "--domain", "RULES", *args)


def scope_of(*args: str, **env: str) -> Any:
    return ok("config", "show", "--domain", "RULES", *args, **env)["settings"]["scope_threshold"]


def decision(query: str, *args: str, **env: str) -> tuple[str, int]:
    result = run("search", query, "--domain", "RULES", "--json", *args, **env)
    return json.loads(result.stdout)["decision"], result.exit_code


def test_off_topic_questions_are_turned_away_without_a_line_of_configuration():
    assert scope_of() == {"value": 0.25, "origin": "measured default", "default": "auto"}
    (report,) = ingest()["calibrations"]
    (found,) = report["found"]
    assert (report["domain"], report["problem"], found["own"] >= 10, found["outside"]) == ("RULES", None, True, 40)
    assert scope_of() == {"value": found["threshold"], "origin": "calibrated", "default": "auto"}
    assert decision(OFF_TOPIC) in (("out_of_scope", NOT_ANSWERED), ("no_match", NOT_ANSWERED))
    assert decision(ASKED) == ("answered", 0)


def test_it_is_shown_by_kb_stats_config_show_doctor_and_the_search():
    assert "scope threshold of RULES:" in run("ingest", "docs", "--domain", "RULES").stderr
    (stored,) = ok("kb", "stats")["calibrations"]
    threshold = stored["threshold"]
    assert stored["domain"] == "RULES"
    assert f"{threshold:.2f} by text, from" in run("kb", "stats").stdout
    assert f"{threshold:.2f} (calibrated)" in run("config", "show").stdout
    assert ok("config", "show")["scope"]["RULES"]["value"] == threshold
    assert ok("doctor")["scope"]["RULES"]["origin"] == "calibrated"
    assert f"scope threshold of RULES: {threshold:.2f}, calibrated" in run("doctor").stdout
    shown = json.loads(run("search", ASKED, "--domain", "RULES", "--json").stdout)["settings"]["scope_threshold"]
    assert shown == {"value": threshold, "origin": "calibrated"}
    assert "calibrated" in run("search", ASKED, "--domain", "RULES", "--explain").stdout


def test_a_base_that_is_not_calibrated_says_so_and_how_to_do_it():
    ingest()
    with sqlite3.connect("data/base/base.sqlite3") as connection:
        connection.execute("DELETE FROM calibrations")  # as in a base that an earlier version wrote
    assert "not calibrated, a measured default is used: run 'kb calibrate'" in run("kb", "stats").stdout
    assert scope_of()["origin"] == "measured default"
    assert decision(ASKED) == ("answered", 0)
    assert run("kb", "calibrate").exit_code == 0
    assert scope_of()["origin"] == "calibrated"


def test_a_dry_run_calibrates_nothing():
    assert "calibrations" not in ingest("--dry-run")


def test_a_run_that_changes_little_leaves_it_and_a_fifth_makes_it_anew():
    ingest()
    before = ok("kb", "stats")["calibrations"]
    write("leasing")
    ingest()
    assert ok("kb", "stats")["calibrations"] == before
    write("factoring")
    ingest()
    (after,) = ok("kb", "stats")["calibrations"]
    assert after["chunks"] == ok("kb", "stats")["chunks"] > before[0]["chunks"]


def test_a_rebuild_calibrates_anew():
    ingest()
    with sqlite3.connect("data/base/base.sqlite3") as connection:
        connection.execute("UPDATE calibrations SET threshold = 0.99")
    assert decision(ASKED)[0] == "out_of_scope"
    assert "scope threshold of RULES" in run("kb", "rebuild").stderr
    assert decision(ASKED)[0] == "answered"


def test_moved_documents_are_calibrated_where_they_stand_now():
    ingest()
    (before,) = ok("kb", "stats")["calibrations"]
    configure("access:\n  roles: [desk]\n")
    moved = run("kb", "repartition")
    assert moved.exit_code == 0 and "scope threshold of RULES" in moved.stderr
    (after,) = ok("kb", "stats")["calibrations"]
    assert (before["partition"], after["partition"]) == (1, 2)
    assert {**after, "partition": 1} == before


def test_a_calibration_that_fails_is_said_and_the_documents_are_there(monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("context_engine.adapters.sources.local.partitions.replace", full)
    result = run("ingest", "docs", "--domain", "RULES")
    assert result.exit_code == 0
    said = " ".join(result.stderr.split())
    assert "could not be calibrated, a measured default is used: database or disk is full" in said
    assert scope_of()["origin"] == "measured default"
    assert decision(ASKED) == ("answered", 0)


@pytest.mark.parametrize(("text", "value"), [("0.99", 0.99), ("null", None)])
def test_a_number_or_null_stays_what_it_is(text: str, value: float | None):
    ingest()
    configure(f"settings:\n  scope_threshold: {text}\n")
    assert scope_of()["value"] == value
    assert decision(OFF_TOPIC)[1] == NOT_ANSWERED
    assert decision(ASKED)[0] == ("out_of_scope" if value else "answered")


def test_the_environment_sets_it_and_sets_it_back():
    ingest()
    assert scope_of(CONTEXT_ENGINE_SCOPE_THRESHOLD="0.4")["origin"] == "CONTEXT_ENGINE_SCOPE_THRESHOLD"
    assert decision(ASKED, CONTEXT_ENGINE_SCOPE_THRESHOLD="0.99")[0] == "out_of_scope"
    assert scope_of(CONTEXT_ENGINE_SCOPE_THRESHOLD="auto")["origin"] == "calibrated"
    assert decision(ASKED, "--set", "scope_threshold=auto", CONTEXT_ENGINE_SCOPE_THRESHOLD="0.99")[0] == "answered"
    refused = run("search", ASKED, "--domain", "RULES", "--set", "scope_threshold=automatic")
    assert refused.exit_code == 2
    assert "auto" in refused.stderr


def test_the_library_searches_with_it_too():
    ingest()
    with build_engine() as engine:
        result = engine.search(SearchRequest(query=ASKED, domain="RULES"))
    assert result.scope is not None and result.scope.origin == "calibrated"
    assert result.decision == "answered"


def test_eval_scope_shows_the_calibrated_one_as_the_one_in_force():
    ingest()
    Path("mine.jsonl").write_text(json.dumps({"id": "q1", "query": ASKED}) + "\n", "utf-8")
    found = ok("eval", "scope", "--in", "mine.jsonl", "--domain", "RULES")
    assert found["current"]["threshold"] == scope_of()["value"]


def test_what_was_judged_to_have_an_answer_is_not_turned_away():
    """The question shares one word with the rules; `eval judge` writes such lines."""
    ingest()
    faint = "Whose telephone rings at midnight on a rainy Sunday?"
    before = scope_of()["value"]
    assert decision(faint)[0] != "answered"
    Path("config").mkdir()
    Path("config/rag-pipeline.json").write_text("{}", "utf-8")
    row = {"query_id": "q1", "query": faint, "domain": "RULES", "chunk_id": "payments#3", "grade": 2}
    Path("config/judgements.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    assert "1 judged question" in run("kb", "calibrate").stderr
    assert scope_of()["value"] < before
    assert decision(faint)[0] != "out_of_scope"


def test_judgements_that_cannot_be_read_are_said_and_the_documents_are_there():
    Path("config").mkdir()
    Path("config/rag-pipeline.json").write_text("{}", "utf-8")
    Path("config/judgements.jsonl").write_text("{not json\n", "utf-8")
    result = run("ingest", "docs", "--domain", "RULES")
    assert result.exit_code == 0
    assert "judgements.jsonl" in result.stderr
    assert run("kb", "calibrate").exit_code == 2
    assert decision(ASKED) == ("answered", 0)


def test_a_base_of_a_few_sentences_keeps_the_measured_default_and_says_so():
    for file in Path("docs").iterdir():
        if file.stem != "payments":
            file.unlink()
    (report,) = ingest()["calibrations"]
    assert report == {"domain": "RULES", "found": [], "problem": None}
    assert "too few sentences to calibrate it" in run("kb", "calibrate").stderr
    assert scope_of()["origin"] == "measured default"
