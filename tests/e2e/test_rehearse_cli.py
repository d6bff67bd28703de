"""`audit rehearse`: what a draft would change, and that the change, once made, is what was told."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from context_engine.apps.cli import main

pytestmark = pytest.mark.slow
QUESTIONS = ("Who approves travel?", "How are expenses claimed?", "What is the weather on Mars?", "hotel rates")


class Bank:
    """A bank of its own with recorded questions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "bank"
        self.run("init", str(self.folder))
        self.run("ingest", str(self.folder / "documents"))
        for question in QUESTIONS:
            self.run("search", question, codes=(0, 4))

    def run(self, *arguments: str, codes: tuple[int, ...] = (0,)) -> Result:
        places = (
            [] if arguments[0] == "init" else ["--config-dir", str(self.folder), "--data-dir", str(self.folder / "d")]
        )
        env = {"CONTEXT_ENGINE_AUDIT_MODE": "best_effort"}
        result = CliRunner().invoke(main, [*arguments, *places], env=env)
        assert result.exit_code in codes, result.output
        return result

    def changes(self, *draft: str) -> list[str]:
        out = self.run("audit", "rehearse", "--domain", "HANDBOOK", "--json", *draft, codes=(0, 3)).stdout
        return [row["change"] for row in json.loads(out)["searches"]]


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Bank:
    return Bank(tmp_path_factory.mktemp("rehearsal"))


def test_a_manifest_that_was_rehearsed_changes_what_was_told(bank: Bank, tmp_path: Path) -> None:
    file = bank.folder / "manifests/handbook.yaml"
    before = file.read_text("utf-8")
    draft = tmp_path / "handbook.yaml"
    draft.write_text(before.replace("type: bank_sop", "type: external_official"), "utf-8")
    assert set(bank.changes("--manifest", str(draft))) <= {"scores", "order", "same"}
    assert "scores" in bank.changes("--manifest", str(draft))
    file.write_text(draft.read_text("utf-8"), "utf-8")
    assert set(bank.changes("--manifest", str(draft))) == {"same"}  # the change is made
    file.write_text(before, "utf-8")


def test_settings_and_a_whole_draft_configuration(bank: Bank, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"stage2_top_k": 1}', "utf-8")
    assert "lost" in bank.changes("--settings", str(tmp_path / "settings.json"))
    draft = tmp_path / "draft"
    shutil.copytree(bank.folder, draft, ignore=shutil.ignore_patterns("d", "documents"))
    assert set(bank.changes("--draft", str(draft))) == {"same"}
    manifest = draft / "manifests/handbook.yaml"
    manifest.write_text(manifest.read_text("utf-8").replace("stage2_top_k: 5", "stage2_top_k: 1"), "utf-8")
    assert "lost" in bank.changes("--draft", str(draft))


def test_documents_are_ingested_into_a_copy(bank: Bank, tmp_path: Path) -> None:
    policies = tmp_path / "documents/policies"
    shutil.copytree(bank.folder / "documents/policies", policies)
    for file in policies.iterdir():
        file.write_text(file.read_text("utf-8").replace("approv", "reject"), "utf-8")
    changes = bank.changes("--documents", str(tmp_path / "documents"))
    assert "lost" in changes and len(changes) == len(QUESTIONS)
    assert set(bank.changes("--documents", str(bank.folder / "documents"))) == {"same"}  # the live base was not touched
    bank.run("ingest", str(tmp_path / "documents"), codes=(0, 3))
    assert set(bank.changes("--documents", str(tmp_path / "documents"))) == {"same"}  # the change is made


def test_a_draft_of_one_document_asks_nobody_to_remove_the_others(bank: Bank, tmp_path: Path) -> None:
    """The command would remove them from the base in force."""
    policy = next((bank.folder / "documents/policies").iterdir())
    shutil.copytree(policy.parent, tmp_path / "draft/policies")
    (tmp_path / "draft/policies" / policy.name).write_text("# Leave\n\nLeave is approved by the manager.\n", "utf-8")
    done = bank.run("audit", "rehearse", "--domain", "HANDBOOK", "--documents", str(tmp_path / "draft"), codes=(0, 3))
    assert "gone, but kept" not in done.stderr and "--prune" not in done.stderr


def test_a_page_quotes_what_is_lost_and_gained(bank: Bank, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"stage2_top_k": 1}', "utf-8")
    page = tmp_path / "pages/rehearsal.html"
    settings = ("--settings", str(tmp_path / "settings.json"), "--html", str(page))
    bank.run("audit", "rehearse", "--domain", "HANDBOOK", *settings, codes=(3,))
    html = page.read_text("utf-8")
    assert "Who approves travel?" in html and "lose a text" in html
    assert re.search(r"<h3>Lost</h3>\s*<blockquote><p><b>\w.*?<div class=\"text\">\s*<p", html, re.S)
    assert not re.search(r'(href|src|action)="(?!#)|<form|<script|<link', html)


def test_a_gate_for_releases(bank: Bank, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text("{}", "utf-8")
    same = ("audit", "rehearse", "--domain", "HANDBOOK", "--settings", str(tmp_path / "settings.json"))
    assert bank.run(*same).exit_code == 0
    assert bank.run("audit", "rehearse", codes=(2,)).exit_code == 2
    (tmp_path / "settings.json").write_text('{"stage2_top_k": "many"}', "utf-8")
    assert bank.run(*same, codes=(2,)).exit_code == 2


def test_gaps_of_the_recorded_questions(bank: Bank) -> None:
    report = json.loads(bank.run("kb", "gaps", "--domain", "HANDBOOK", "--json").stdout)
    assert [group["question"] for group in report["unanswered"]] == ["What is the weather on Mars?"]
    assert report["searches"] == len(QUESTIONS)
    assert "weather on Mars" in bank.run("kb", "gaps", "--domain", "HANDBOOK").output
