"""A workflow from the command line: its searches are shown, recorded and replayed."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from context_engine.apps.cli import main

pytestmark = pytest.mark.slow
QUESTION = "Who declares a default, and how many dealers are asked for a quote on a large customer trade?"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    env = {
        "CONTEXT_ENGINE_DATA_DIR": str(tmp_path_factory.mktemp("data")),
        "CONTEXT_ENGINE_AUDIT_MODE": "required",
        "HOME": str(tmp_path_factory.mktemp("home")),
        "COLUMNS": "200",
    }
    return lambda *args: CliRunner().invoke(main, args, env=env)


def test_the_searches_of_an_answer_are_shown_recorded_and_replayed(run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    asked = run("ask", QUESTION, "-d", "DCE", "--workflow", "agentic", "--json")
    answer = json.loads(asked.stdout)
    assert asked.exit_code == 0
    assert [searched["why"] for searched in answer["workflow"]["rounds"][:3]] == ["question", "part", "part"]
    assert {citation["doc_id"] for citation in answer["citations"]} >= {"DCE-SOP-004", "DCE-SOP-001"}

    shown = run("audit", "show", answer["answer_id"]).stdout
    assert all(searched["search_id"] in shown for searched in answer["workflow"]["rounds"])
    assert "stopped: " in shown
    replayed = run("audit", "replay", answer["answer_id"])
    assert (replayed.exit_code, "identical" in replayed.stdout) == (0, True)


def test_for_people_each_search_has_a_line(run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    text = run("ask", QUESTION, "-d", "DCE", "--workflow", "agentic", "--rounds", "2").stdout
    assert f"search 1 (question): {QUESTION}" in text
    assert "search 2 (part): Who declares a default" in text
    assert "stopped: rounds" in text


@pytest.mark.parametrize("options", [("--rounds", "3"), ("--workflow", "agentic", "--rounds", "7")])
def test_rounds_that_cannot_be_are_a_problem_of_the_command(run, monkeypatch, tmp_path, options):
    monkeypatch.chdir(tmp_path)
    assert run("ask", QUESTION, "-d", "DCE", *options).exit_code == 2
