"""`kb gaps` over a bank with recorded searches: every table, as the command, as JSON and as a page."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from context_engine.apps.cli import main
from context_engine.core.models import ANYBODY, SearchRequest
from context_engine.service.deployment import open_deployment
from context_engine.service.judging import judge_answer, judge_passage
from context_engine.wiring.setup import load_setup

pytestmark = pytest.mark.slow
TIPS, MARS, TRAVEL = "nobody asks for receipts below 75", "Which spaceship travels to Mars?", "Who approves travel?"


class Bank:
    """A bank of its own whose web pages are past their lifetime, with a document that nobody asks for."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder / "bank"
        self.run("init", str(self.folder))
        patch.setenv("CONTEXT_ENGINE_AUDIT_MODE", "required")
        manifest = self.folder / "manifests/handbook.yaml"
        manifest.write_text(manifest.read_text("utf-8").replace("ttl_seconds: 604800", "ttl_seconds: 1"), "utf-8")
        tips = self.folder / "documents/web/expense-tips.md"
        tips.write_text(f"---\nfetched_at: 2020-01-01T00:00:00Z\n---\n{tips.read_text('utf-8')}", "utf-8")
        (self.folder / "documents/policies/parking.md").write_text("# Parking\n\nThe garage opens at six.\n", "utf-8")
        self.run("ingest", str(self.folder / "documents"))
        for question in (MARS, MARS, "spaceship that travels to Mars"):
            self.run("search", question, codes=(4,))
        self.run("search", TIPS, "--set", "stage2_top_k=1")
        self.thumb_down(TRAVEL)

    def run(self, *arguments: str, codes: tuple[int, ...] = (0,)) -> Result:
        places = (
            [] if arguments[0] == "init" else ["--config-dir", str(self.folder), "--data-dir", str(self.folder / "d")]
        )
        result = CliRunner().invoke(main, [*arguments, *places])
        assert result.exit_code in codes, result.output
        return result

    def thumb_down(self, question: str) -> None:
        deployment = open_deployment(load_setup(config_dir=self.folder), data_dir=self.folder / "d")
        try:
            result = deployment.engine.search(
                SearchRequest(query=question, domain="HANDBOOK", principal=ANYBODY.principal)
            )
            first = result.chunks[0]
            key = (first.source_id, first.chunk_id)
            judge_passage(deployment, ANYBODY, result, key, "down", datetime.now(UTC))
            judge_answer(deployment, ANYBODY, result, "", "down", datetime.now(UTC))
        finally:
            deployment.close()


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        yield Bank(tmp_path_factory.mktemp("gaps"), patch)


def test_every_gap_is_found(bank: Bank) -> None:
    report = json.loads(bank.run("kb", "gaps", "--json").stdout)
    assert (report["searches"], report["questions_not_kept"]) == (5, 0)
    (mars,) = report["unanswered"]
    assert (mars["question"], mars["searches"]) == (MARS, 3)
    assert "MHB-POL-014" in [each["document_id"] for each in mars["documents"]], "the nearest"
    (weak,) = report["weakly_answered"]
    assert weak["question"] == TIPS and [each["source_id"] for each in weak["documents"]] == ["web_notes"]
    (thumbs,) = report["thumbs_down"]
    assert (thumbs["question"], thumbs["searches"]) == (TRAVEL, 2)
    assert "MHB-POL-014" in [each["document_id"] for each in thumbs["documents"]]
    assert [each["document_id"] for each in report["never_shown"]] == ["parking"]
    (stale,) = report["shown_past_lifetime"]
    assert (stale["source_id"], stale["answers"]) == ("web_notes", 1), "the tips"


def test_the_page_has_the_same_tables_and_loads_nothing(bank: Bank, tmp_path: Path) -> None:
    bank.run("kb", "gaps", "--html", str(tmp_path / "gaps.html"))
    page = (tmp_path / "gaps.html").read_text("utf-8")
    for words in (
        "Asked and not answered",
        "tiers 4 and 5",
        "Thumbs down",
        "Never shown",
        MARS,
        TIPS,
        TRAVEL,
        "parking",
    ):
        assert words in page
    assert not re.search(r"<script|https?://(?!www\.w3)", page)
    shown = bank.run("kb", "gaps").stdout
    assert "Thumbs down: 1 subject" in shown and "Past their lifetime, and shown: 1 document" in shown
