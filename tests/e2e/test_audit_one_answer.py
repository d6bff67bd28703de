"""`audit show`, `audit replay` and `search --json --full`, on a bank of three documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from context_engine.apps.cli import main

MANIFEST = """
version: 1
domain: ORM
sources:
  - id: sops
    type: bank_sop
    ttl_seconds: 86400
    documents: [{include: "*.md", doc_type: sop_document}]
  - id: web
    type: general_web
    documents: [{include: "web/*.txt"}]
settings: SETTINGS
"""
pytestmark = pytest.mark.slow
QUERY = "report a loss event"
SCHEMA = json.loads((Path(__file__).parents[2] / "config/schemas/search-result-v1.1.json").read_text("utf-8"))
LEDGER = "data/audit/ledger.db"


@pytest.fixture(autouse=True)
def bank(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder with one domain whose searches are recorded, as the current directory."""
    for name in ("CONTEXT_ENGINE_CONFIG_DIR", "CONTEXT_ENGINE_STAGE", "COLUMNS", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name in ("CONTEXT_ENGINE_AUDIT_KEY", "CONTEXT_ENGINE_AUDIT_FORMER_KEYS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("CONTEXT_ENGINE_AUDIT_LEDGER", str(tmp_path / LEDGER))
    monkeypatch.setenv("CONTEXT_ENGINE_AUDIT_MODE", "required")
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "manifests/orm.yaml": MANIFEST.replace("SETTINGS", "{}"),
        "documents/a.md": "# 1 Losses\n\nA loss event must be reported within 24 hours.\n",
        "documents/b.md": "# 1 Incidents\n\nAn incident is an event without a loss.\n",
        "documents/web/c.txt": "Somebody on the web says that losses need no report.\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    ok("ingest", "documents", "-d", "ORM")
    yield tmp_path


def run(*args: str) -> Result:
    return CliRunner().invoke(main, list(args))


def ok(*args: str) -> Any:
    result = run(*args)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout) if "--json" in args else result.stdout


def searched(*args: str) -> str:
    """The id of a search."""
    return str(ok("search", QUERY, "-d", "ORM", "--json", *args)["search_id"])


def test_a_record_tells_everything_of_its_answer() -> None:
    record_id = searched("--principal", "clerk-7", "--top-k", "1")
    shown = ok("audit", "show", record_id, "--json")
    assert (shown["schema_version"], shown["index"], shown["entry"]["kind"]) == (1, 0, "search")
    assert shown["entry"]["chunks"][0]["document"] == "a"
    assert shown["entry"]["caller"]["pseudonym"]
    assert "clerk-7" not in json.dumps(shown["entry"])
    assert shown["question"]["result"]["request"]["caller"]["principal"] == "clerk-7"
    assert {one["outcome"] for one in shown["fates"]} == {"returned", "dropped"}
    assert shown["settings"]["stage2_top_k"] == {"value": 1, "origin": "call"}
    assert shown["proof"]["signed"] is False
    assert "No key is set" in shown["proof"]["not_proved"][0]
    text = run("audit", "show", record_id)
    assert text.exit_code == 0
    for part in (QUERY, "clerk-7", "sops", "Shown", "beyond the number asked for", "stage2_top_k: 1 (call)"):
        assert part in text.stdout
    ok("audit", "head", "--out", "head.txt")
    assert ok("audit", "show", record_id, "--json")["proof"]["checkpoint"] == 1


def test_the_passages_are_read_as_they_were_shown_until_they_are_erased() -> None:
    answer = ok("search", QUERY, "-d", "ORM", "--json", "--top-k", "1")
    (chunk,), record_id = answer["chunks"], answer["search_id"]
    (kept,) = ok("audit", "show", record_id, "--texts", "--json")["texts"]
    assert kept["text"] == chunk["content"] and sha256(kept["text"].encode()).hexdigest() == kept["sha256"]
    assert chunk["content"].splitlines()[0] in run("audit", "show", record_id, "--texts").stdout
    assert "texts" not in ok("audit", "show", record_id, "--json")
    assert run("audit", "erase", "--text", kept["sha256"], "--reason", "asked for", "--yes").exit_code == 0
    assert ok("audit", "show", record_id, "--texts", "--json")["texts"][0]["text"] is None
    assert "ledger no longer has" in run("audit", "show", record_id, "--texts").stdout
    erasure = ok("audit", "list", "--kind", "erasure", "--json")["records"][0]["record_id"]
    assert run("audit", "show", erasure, "--texts").exit_code == 2


def test_a_context_is_shown_with_its_search_and_made_again() -> None:
    assert run("search", QUERY, "-d", "ORM", "--context").exit_code == 0
    record_id = newest_search()
    shown = ok("audit", "show", record_id, "--json")
    (context,) = shown["contexts"]
    assert context["search"] == record_id
    assert [one["label"] for one in context["chunks"]][:1] == ["[1]"]
    replayed = ok("audit", "replay", record_id, "--json")
    assert replayed["identical"] is True
    assert replayed["contexts"] == [{"record_id": context["id"], "identical": True, "reason": ""}]
    text = run("audit", "show", context["id"])
    assert (text.exit_code, f"of search {record_id}" in text.stdout) == (0, True)


def newest_search() -> str:
    from context_engine.audit.ledger.ledger import Ledger
    from context_engine.audit.ledger.look_up import Criteria
    from context_engine.core.engine import SystemClock

    with Ledger.open(str(Path(LEDGER).absolute()), origin="x", keyring=None, clock=SystemClock()) as ledger:
        ledger.integrate()
        return ledger.rows(Criteria(kind="search", limit=1))[0].record_id


def test_a_changed_setting_is_named_with_what_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    record_id = searched()
    same = ok("audit", "replay", record_id, "--json")
    assert (same["identical"], same["changed_settings"], same["difference"]) == (True, [], None)
    monkeypatch.setenv("CONTEXT_ENGINE_STAGE2_TOP_K", "1")
    replayed = ok("audit", "replay", record_id, "--json")
    assert [(one["key"], one["was"], one["now"]) for one in replayed["changed_settings"]] == [("stage2_top_k", 8, 1)]
    assert replayed["answer_now"]["path"] == "chunks[1]"
    text = run("audit", "replay", record_id)
    assert "stage2_top_k: 8, now 1 (CONTEXT_ENGINE_STAGE2_TOP_K)" in text.stdout


def test_a_saved_answer_is_replayed_without_a_ledger(bank: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXT_ENGINE_AUDIT_MODE", "off")
    saved = run("search", QUERY, "-d", "ORM", "--json", "--full")
    (bank / "saved.json").write_text(saved.stdout, "utf-8")
    assert ok("audit", "replay", "--file", "saved.json", "--json")["identical"] is True
    jsonschema.validate(json.loads(saved.stdout), SCHEMA)
    changed = json.loads(saved.stdout)
    changed["record"]["candidates"]["returned"][0]["final"] = 0.9
    (bank / "changed.json").write_text(json.dumps(changed), "utf-8")
    replayed = run("audit", "replay", "--file", "changed.json")
    assert replayed.exit_code == 1
    assert "chunks[0]._rag_score: recorded 0.9, computed" in replayed.stdout
    (bank / "other.json").write_text(json.dumps({"chunks": []}), "utf-8")
    assert run("audit", "replay", "--file", "other.json").exit_code == 2


def test_a_question_that_was_not_kept_ends_with_code_4(bank: Path) -> None:
    keep(bank, "digest")
    record_id = searched()
    refused = run("audit", "replay", record_id)
    assert (refused.exit_code, "give the question itself" in refused.stderr) == (4, True)
    assert run("audit", "replay", record_id, "--query", "report a loss").exit_code == 4
    assert run("audit", "replay", record_id, "--query", QUERY).exit_code == 0
    assert QUERY not in run("audit", "show", record_id).stdout
    assert QUERY in run("audit", "show", record_id, "--query", QUERY).stdout
    keep(bank, "none")
    record_id = searched()
    assert run("audit", "replay", record_id, "--query", QUERY).exit_code == 4
    assert ok("audit", "show", record_id, "--json")["question_missing"] == "was not recorded"
    assert QUERY.encode() not in (bank / LEDGER).read_bytes()


def keep(bank: Path, form: str) -> None:
    (bank / "manifests/orm.yaml").write_text(MANIFEST.replace("SETTINGS", f"{{audit_query: {form}}}"), "utf-8")


def test_a_refused_request_is_shown() -> None:
    assert run("search", QUERY, "-d", "ORM", "--set", "similarity_threshold=0.5", "--set", "strict_thresholds=true")
    from context_engine.audit.ledger.ledger import Ledger
    from context_engine.audit.ledger.look_up import Criteria
    from context_engine.core.engine import SystemClock

    with Ledger.open(str(Path(LEDGER).absolute()), origin="x", keyring=None, clock=SystemClock()) as ledger:
        ledger.integrate()
        (row,) = ledger.rows(Criteria(kind="refusal"))
    text = run("audit", "show", row.record_id)
    assert (text.exit_code, "refused: invalid_request" in text.stdout) == (0, True)
    assert "similarity_threshold" in text.stdout
    replayed = run("audit", "replay", row.record_id)
    assert (replayed.exit_code, "'refusal'" in replayed.stderr) == (2, True)


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("replay",), "ID of a record, or --file"),
        (("replay", "x"), "no record 'x'"),
        (("show", "x"), "no record 'x'"),
        (("replay", "x", "--file", "manifests/orm.yaml"), "ID of a record, or --file"),
        (("replay", "--file", "manifests/orm.yaml", "--query", "x"), "--query is for one record"),
        (("replay", "--file", "manifests/orm.yaml"), "holds no JSON"),
    ],
)
def test_what_is_called_wrongly_is_said_in_one_line(args: tuple[str, ...], problem: str) -> None:
    searched()
    result = run("audit", *args)
    assert (result.exit_code, problem in result.stderr) == (2, True)


def test_full_is_for_json() -> None:
    result = run("search", QUERY, "-d", "ORM", "--full")
    assert (result.exit_code, "--full is for --json" in result.stderr) == (2, True)
