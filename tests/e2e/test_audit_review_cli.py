"""An auditor at the command line: what became of what an answer showed, and which answers used a document."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from context_engine.apps.cli import main

MANIFEST = """
version: 1
domain: DESK
title: Desk
sources:
  - id: sops
    type: bank_sop
    documents: [{include: "*.md", doc_type: sop_document}]
"""
HEAD = "---\ndocument_id: LIMITS\nversion: '1'\n---\n# Limits\n\n"
LIMIT = "## 1 Desk\n\nThe approval limit of the desk is {} million a day, and its head may not raise it.\n\n"
REVIEW = "## 2 Review\n\nThe approval limit of each desk is reviewed by the risk officer in May.\n"
OTHER = "---\ndocument_id: LEAVE\nversion: '7'\n---\n# Leave\n\n## 1 Days\n\nStaff of the desk may take 25 days.\n"


class Desk:
    """A configuration with its documents; commands run in this process, in its folder."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self.folder, self.env = folder, {"HOME": str(folder), "CONTEXT_ENGINE_AUDIT_MODE": "required", **env}
        for name in ("manifests", "config", "documents"):
            (folder / name).mkdir()
        (folder / "manifests" / "desk.yaml").write_text(MANIFEST)
        (folder / "documents" / "limits.md").write_text(HEAD + LIMIT.format(5) + REVIEW)
        (folder / "documents" / "leave.md").write_text(OTHER)

    def run(self, *args: str, code: int = 0) -> Result:
        result = CliRunner().invoke(main, [*args, "--config-dir", str(self.folder)], env=self.env)
        assert result.exit_code == code, result.output
        return result

    def json(self, *args: str, code: int = 0) -> Any:
        return json.loads(self.run(*args, "--json", code=code).stdout)

    def ingest(self) -> None:
        self.run("ingest", str(self.folder / "documents"), "--domain", "DESK", "--prune")

    def ask(self, query: str = "approval limit of the desk") -> str:
        found = self.json("search", query, "--domain", "DESK")
        return str(found["search_id"])


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Desk]]:
    monkeypatch.delenv("CONTEXT_ENGINE_AUDIT_LEDGER", raising=False)

    def make(**env: str) -> Desk:
        made = Desk(tmp_path, env)
        made.ingest()
        return made

    yield make


@pytest.mark.slow
@pytest.mark.parametrize("kept", ["text", "none"])
def test_an_edit_is_found_whether_or_not_the_question_was_kept(kept: str, desk: Callable[..., Desk]) -> None:
    bank = desk(CONTEXT_ENGINE_AUDIT_QUERY=kept)
    asked = bank.ask()
    same = bank.json("audit", "drift", asked)
    assert same["counts"] == {"unchanged": 3, "changed": 0, "gone": 0, "superseded": 0, "cannot_check": 0}
    assert (same["search_id"], same["domain"], same["not_listed"]) == (asked, "DESK", 0)
    (bank.folder / "documents" / "limits.md").write_text(HEAD + LIMIT.format(7) + REVIEW)
    (bank.folder / "documents" / "leave.md").unlink()
    bank.ingest()
    found = bank.json("audit", "drift", asked, code=3)
    by_chunk = {one["chunk_id"]: one for one in found["chunks"]}
    assert {name: one["state"] for name, one in by_chunk.items()} == {
        "LIMITS@1#1": "changed", "LIMITS@1#2": "unchanged", "LEAVE@7#1": "gone",
    }  # fmt: skip
    assert by_chunk["LIMITS@1#1"]["text"] == [{"before": "of the desk is", "was": "5", "now": "7"}]
    shown = bank.run("audit", "drift", asked, code=3).stdout
    assert "[-5-]{+7+}" in shown and "its document no longer exists" in shown


@pytest.mark.slow
def test_the_answers_that_used_a_document(desk: Callable[..., Desk]) -> None:
    bank = desk()
    first, second = bank.ask(), bank.ask("days of leave of staff")
    found = bank.json("audit", "impact", "--document", "LIMITS")
    assert [one["search_id"] for one in found["answers"]] == [first, second]
    assert found["answers"][0]["rank"] == 1 and found["asked"] == {"document": "LIMITS"}
    shown = bank.json("audit", "impact", "--document", "LEAVE", "--version", "v7", "--shown")
    assert second in [one["search_id"] for one in shown["answers"]]
    assert {one["fate"] for one in shown["answers"]} == {"returned"}
    assert bank.json("audit", "impact", "--document", "LEAVE", "--version", "8")["answers"] == []
    sha256 = found["answers"][0]["chunks"][0]["content_sha256"]
    by_content = bank.json("audit", "impact", "--content", sha256.upper())
    assert [one["search_id"] for one in by_content["answers"]] == [first, second]
    by_chunk = bank.json("audit", "impact", "--chunk", "sops/LIMITS@1#1", "--source", "sops")
    assert [one["search_id"] for one in by_chunk["answers"]] == [first, second]
    rows = list(csv.DictReader(io.StringIO(bank.run("audit", "impact", "--document", "LIMITS", "--csv").stdout)))
    assert {(row["search_id"], row["document_id"], row["document_version"]) for row in rows} == {
        (first, "LIMITS", "1"), (second, "LIMITS", "1"),
    }  # fmt: skip
    assert first in bank.run("audit", "impact", "--document", "LIMITS").stdout
    assert "No answer used it" in bank.run("audit", "impact", "--document", "NONE").stderr


@pytest.mark.slow
def test_what_cannot_be_asked_is_refused(desk: Callable[..., Desk]) -> None:
    bank = desk()
    bank.ask()
    assert "one of --document" in bank.run("audit", "impact", code=2).stderr
    assert "one of --document" in bank.run("audit", "impact", "--document", "A", "--content", "b", code=2).stderr
    assert "goes with --document" in bank.run("audit", "impact", "--chunk", "a/b", "--version", "1", code=2).stderr
    assert "64 hexadecimal" in bank.run("audit", "impact", "--content", "abc", code=2).stderr
    assert "SOURCE/CHUNK" in bank.run("audit", "impact", "--chunk", "abc", code=2).stderr
    assert "'sops'" in bank.run("audit", "impact", "--chunk", "sops/a", "--source", "web", code=2).stderr
    assert "no record 'nothing'" in bank.run("audit", "drift", "nothing", code=2).stderr
    refused = bank.run("search", "limit", "--domain", "DESK", "--top-k", "0", code=2)
    assert refused.stderr


@pytest.mark.slow
def test_a_source_that_left_the_configuration_cannot_be_checked(desk: Callable[..., Desk]) -> None:
    bank = desk()
    asked = bank.ask()
    manifest = bank.folder / "manifests" / "desk.yaml"
    manifest.write_text(MANIFEST.replace("id: sops", "id: rules"))
    found = bank.json("audit", "drift", asked, code=3)
    assert found["counts"]["cannot_check"] == 3
    why = "it was removed, or you may not know of it (--as names another reader)"
    assert {one["why"] for one in found["chunks"]} == {f"source 'sops': domain 'DESK' has no such source: {why}"}
    manifest.write_text(MANIFEST.replace("DESK", "OTHER"))
    assert "DESK" in bank.json("audit", "drift", asked, code=3)["chunks"][0]["why"]


RULED = MANIFEST + "    access: {roles: [desk]}\n"
ACCESS = """
version: 1
principals:
  clerk: {roles: [desk], clearance: INTERNAL}
  auditor: {os_users: [an.auditor], operator: true, roles: [audit], may_act_as: [clerk]}
  nobody-much: {os_users: [a.clerk], roles: [desk]}
"""


@pytest.mark.slow
def test_an_operator_sees_the_drift_of_what_they_may_search(
    desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = desk()
    (bank.folder / "manifests" / "desk.yaml").write_text(RULED)
    (bank.folder / "config" / "access.yaml").write_text(ACCESS)
    monkeypatch.setattr("context_engine.apps.cli.context.os_user", lambda: "an.auditor")
    bank.run("kb", "repartition")
    asked = str(bank.json("search", "approval limit", "--domain", "DESK", "--as", "clerk")["search_id"])
    own = bank.json("audit", "drift", asked, code=3)
    assert (own["principal"], own["counts"]["cannot_check"]) == ("auditor", 2)
    as_clerk = bank.json("audit", "drift", asked, "--as", "clerk")
    assert (as_clerk["principal"], as_clerk["counts"]["unchanged"]) == ("clerk", 2)
    assert bank.json("audit", "impact", "--document", "LIMITS")["answers"][0]["caller"]
    monkeypatch.setattr("context_engine.apps.cli.context.os_user", lambda: "a.clerk")
    for command in (("drift", asked), ("impact", "--document", "LIMITS")):
        assert "operator" in bank.run("audit", *command, code=2).stderr
