"""The other commands, on a configuration of one's own."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner, Result

from context_engine.apps.cli import main

pytestmark = pytest.mark.slow

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
"""


@pytest.fixture(autouse=True)
def bank(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder with one domain and three documents, as the current directory."""
    for name in ("CONTEXT_ENGINE_CONFIG_DIR", "CONTEXT_ENGINE_STAGE", "COLUMNS", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "manifests/orm.yaml": MANIFEST,
        "documents/a.md": "# 1 Losses\n\nA loss event must be reported within 24 hours.\n",
        "documents/b.md": "# 1 Incidents\n\nAn incident is an event without a loss.\n",
        "documents/web/c.txt": "Somebody on the web says that losses need no report.\n",
        "documents/photo.xyz": "?",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    yield tmp_path


def run(*args: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(main, list(args), input=stdin)


def ok(*args: str, stdin: str | bytes | None = None) -> Any:
    result = run(*args, stdin=stdin)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout) if "--json" in args else result.stdout


def test_ingest_then_search_is_not_the_demo() -> None:
    report = ok("ingest", "documents", "-d", "ORM", "--json")
    assert (report["documents"], report["added"], report["unchanged"]) == (3, 3, 0)
    assert [one["path"] for one in report["skipped"]] == ["photo.xyz"]
    found = ok("search", "report a loss event", "-d", "ORM", "--json")
    assert found["demo"] is False
    assert found["chunks"][0]["source_id"] == "sops"


def test_ingest_again_replaces_what_changed_and_prune_removes_what_is_gone(bank: Path) -> None:
    ok("ingest", "documents", "-d", "ORM")
    (bank / "documents/a.md").write_text("# 1 Losses\n\nA loss event must be reported within 12 hours.\n")
    (bank / "documents/b.md").unlink()
    dry = ok("ingest", "documents", "-d", "ORM", "--prune", "--dry-run", "--json")
    wet = ok("ingest", "documents", "-d", "ORM", "--prune", "--json")
    for report in (dry, wet):
        assert (report["replaced"], report["unchanged"], report["removed"]) == (1, 1, 1)
    assert "12 hours" in ok("search", "loss event report", "-d", "ORM", "--json")["chunks"][0]["content"]


def test_a_deleted_document_is_said_with_the_command_that_removes_it_and_is_not_found_after(bank: Path) -> None:
    for number in (1, 2):
        (bank / f"documents/p{number}.md").write_text(f"# Policy {number}\n\nThe pigeonhole rule number {number}.\n")
    ok("ingest", "documents", "-d", "ORM")
    (bank / "documents/p1.md").unlink()
    (bank / "documents/p2.md").write_text("")
    (bank / "documents/bad.md").write_bytes(b"a\nb\x00")
    result = run("ingest", "documents", "-d", "ORM")
    assert "gone, but kept 2" in " ".join(result.stdout.split())
    command = "context-engine ingest documents --domain ORM --prune"
    assert f"  {command}\n" in result.stdout
    assert "pigeonhole" in ok("search", "pigeonhole rule", "-d", "ORM", "--json")["chunks"][0]["content"]
    result = run(*command.split()[1:], "--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["removed"], report["kept"], report["commands"]) == (3, 2, [], [])
    assert [one["path"] for one in report["skipped"] if one["error"]] == ["bad.md"]
    found = json.loads(run("search", "pigeonhole rule", "-d", "ORM", "--json").stdout)
    assert not any("pigeonhole" in chunk["content"] for chunk in found["chunks"])


def test_a_moved_configuration_folder_keeps_its_base_and_a_copy_gets_its_own(
    bank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CONTEXT_ENGINE_DATA_DIR", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(bank / "home"))
    old, new, copy = bank / "old", bank / "new", bank / "copy"
    old.mkdir()
    for name in ("manifests", "documents"):
        (bank / name).rename(old / name)
    monkeypatch.chdir(old)
    ok("ingest", "documents", "-d", "ORM", "--dry-run")
    assert not (old / "manifests/.context-engine-id").exists(), "a dry run writes nothing"
    ok("ingest", "documents", "-d", "ORM")
    monkeypatch.chdir(bank)
    old.rename(new)
    monkeypatch.chdir(new)
    assert ok("search", "report a loss event", "-d", "ORM", "--json")["decision"] == "answered"
    assert ok("config", "check", "--json")["ok"] is True
    shutil.copytree(new, copy)
    monkeypatch.chdir(copy)
    assert run("search", "report a loss event", "-d", "ORM").exit_code == 1, "nothing was ingested for the copy"
    monkeypatch.chdir(new)
    (new / "manifests/.context-engine-id").unlink()
    (copy / "manifests/.context-engine-id").unlink()
    monkeypatch.chdir(bank)
    new.rename(bank / "newest")
    monkeypatch.chdir(bank / "newest")
    result = run("search", "report a loss event", "-d", "ORM")
    assert result.exit_code == 1
    (command,) = re.findall(r"run 'context-engine (kb adopt \S+)'", result.stderr)
    assert str(new) in result.stderr
    ok(*command.split())
    assert ok("search", "report a loss event", "-d", "ORM", "--json")["decision"] == "answered"


def test_a_broken_manifest_is_named_by_every_command_and_stops_no_other_domain(bank: Path) -> None:
    ok("ingest", "documents", "-d", "ORM")
    (bank / "manifests/npa.yaml").write_text("version: 1\ndomain: NPA\nsources: [\n")
    (bank / "manifests/lost.yaml").write_text("version: 1\nsources: [\n")
    bad = ("manifests/lost.yaml", "manifests/npa.yaml")
    found = ok("search", "report a loss event", "-d", "ORM", "--json")
    assert found["decision"] == "answered"
    for command in (("search", "report a loss event", "-d", "ORM"), ("domains",)):
        words = " ".join(ok(*command).split())
        assert all(f"{file} cannot be used" in words or f"{file}: is not valid YAML" in words for file in bad)
    assert [sum(file in one for one in found["warnings"]) for file in bad] == [1, 1]
    listed = ok("domains", "--json")
    assert [(one["domain"], one["problem"] is None) for one in listed["domains"]] == [("NPA", False), ("ORM", True)]
    assert [one.split(":")[0] for one in listed["problems"]] == ["manifests/lost.yaml"]
    result = run("doctor", "--no-query", "--json")
    doctor = json.loads(result.stdout)
    assert (result.exit_code, doctor["ok"]) == (1, False)
    assert [(one["domain"], one["ok"]) for one in doctor["sources"]][:2] == [("", False), ("NPA", False)]
    result = run("search", "report a loss event", "-d", "NPA")
    assert (result.exit_code, "manifests/npa.yaml: is not valid YAML" in result.stderr) == (2, True)
    result = run("config", "check", "--json")
    check = json.loads(result.stdout)
    assert (result.exit_code, check["domains"], check["unusable"]) == (2, ["ORM"], ["NPA"])
    assert tuple(one["file"] for one in check["problems"]) == bad


def test_where_the_only_manifest_is_broken_nobody_says_that_there_is_no_domain(bank: Path) -> None:
    for file in (bank / "manifests").glob("*.yaml"):
        file.write_text("version: 1\ndomian: ORM\nsources: [\n")
    for command in (("domains",), ("doctor",), ("config", "check"), ("search", "loss", "-d", "ORM")):
        result = run(*command)
        said = " ".join((result.stdout + result.stderr).split())
        assert "is not valid YAML" in said
        assert "o domain is registered" not in said
        assert "demo" not in said


def test_all_that_is_wrong_with_the_configuration_is_counted_where_it_stops_a_command(bank: Path) -> None:
    (bank / "config").mkdir(exist_ok=True)
    (bank / "config/rag-pipeline.json").write_text('{"stage1_top_k": 0, "min_chunk": 1}')
    result = run("search", "loss", "-d", "ORM")
    assert (result.exit_code, "(and 1 more: 'context-engine config check' names all)" in result.stderr) == (2, True)
    assert run("config", "check").stdout.count("error: config/rag-pipeline.json: ") == 2


def test_a_dry_run_writes_nothing(bank: Path) -> None:
    text = ok("ingest", "documents", "-d", "ORM", "--dry-run")
    assert "documents" in text
    assert not (bank / "data").exists()


def test_the_report_is_a_table_with_the_reasons(bank: Path) -> None:
    (bank / "documents/bad.md").write_bytes(b"\xff\xfe\xff")
    result = run("ingest", "documents", "-d", "ORM")
    words = " ".join(result.stdout.split())
    assert result.exit_code == 3
    assert "documents 3 new 3 replaced 0 unchanged 0 removed 0" in words
    assert "could not be read: bad.md" in words
    assert "photo.xyz skipped: no rule" in words


def test_a_folder_that_cannot_be_listed_is_an_error_and_nothing_is_removed(
    monkeypatch: pytest.MonkeyPatch, bank: Path
) -> None:
    ok("ingest", "documents", "-d", "ORM")
    scandir = os.scandir

    def closed(place: Any) -> Any:
        if not isinstance(place, int) and Path(place) == Path("documents/web"):
            raise PermissionError(errno.EACCES, "Permission denied", str(place))
        return scandir(place)

    monkeypatch.setattr(os, "scandir", closed)
    result = run("ingest", "documents", "-d", "ORM", "--prune", "--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["removed"]) == (3, 0)
    assert {"path": "web", "reason": "the folder cannot be read: Permission denied", "line": None, "error": True} in (
        report["skipped"]
    )
    assert ok("kb", "stats", "--json")["sources"]["web"] == {"documents": 1, "chunks": 1}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["nowhere", "-d", "ORM"], "does not exist"),
        (["documents", "-d", "OMR"], "Did you mean 'ORM'?"),
        (["documents", "-d", "ORM", "--source", "sop"], "sops"),
        (["documents/a.md", "-d", "ORM", "--prune"], "folder"),
    ],
)
def test_ingest_says_what_is_wrong(args: list[str], said: str) -> None:
    result = run("ingest", *args)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_domains_lists_sources_and_what_the_base_holds() -> None:
    before = ok("domains", "--json")
    assert before["domains"][0]["sources"][0]["documents"] is None
    ok("ingest", "documents", "-d", "ORM")
    after = ok("domains", "--json")
    assert after["demo"] is False
    sources = {one["id"]: one for one in after["domains"][0]["sources"]}
    assert sources["sops"] == {
        "id": "sops", "namespace": "sops", "title": "", "type": "bank_sop", "tier": 2, "adapter": "local",
        "documents": 2, "chunks": 2,
    }  # fmt: skip
    assert "sops 2 SOP local 2 2" in " ".join(ok("domains").split())


def test_config_show_lists_the_settings_of_a_group_below_its_name(bank: Path) -> None:
    (bank / "config").mkdir(exist_ok=True)
    (bank / "config/rag-pipeline.json").write_text('{"stage2_top_k": 4, "models": {"rrf_k": 9}}')
    first = [line.split()[0] for line in ok("config", "show").splitlines() if line.strip() and not line[0].isspace()]
    groups = ["search", "index", "limits", "models", "ingest"]
    assert [word for word in first if word in groups] == groups
    places = [first.index(word) for word in ("search", "stage2_top_k", "index", "token_counter", "models", "rrf_k")]
    assert places == sorted(places)
    settings = ok("config", "show", "--json")["settings"]
    file = "config/rag-pipeline.json"
    assert settings["rrf_k"] == {"value": 9, "origin": file, "default": 60}
    assert settings["stage2_top_k"] == {"value": 4, "origin": file, "default": 8}


def test_a_domain_that_lacks_a_variable_is_listed_with_the_reason(bank: Path) -> None:
    (bank / "manifests/dce.yaml").write_text(MANIFEST.replace("ORM", "DCE").replace("sops", "${NOT_SET}"))
    listed = {one["domain"]: one["problem"] for one in ok("domains", "--json")["domains"]}
    assert "NOT_SET" in listed["DCE"]
    assert listed["ORM"] is None
    result = run("search", "x", "-d", "DCE")
    assert result.exit_code == 2
    assert "NOT_SET" in result.stderr


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("manifests/dce.yaml", "domain: [", "not valid YAML"),
        ("manifests/dce.yaml", MANIFEST.replace("ORM", "DCE").replace("documents", "dokuments"), "dokuments"),
        ("manifests/dce.yaml", MANIFEST.replace("ORM", "DCE").replace("bank_sop", "bank_shop"), "bank_sop"),
        ("manifests/dce.yaml", MANIFEST.replace("ORM", "DCE").replace("ttl_seconds", "ttl"), "'ttl_seconds'?"),
        ("config/rag-pipeline.json", '{"stage2_topk": 3}', "stage2_top_k"),
        ("config/rag-pipeline.json", '{"stage2_top_k": ', "is not JSON"),
        ("config/rag-pipeline.json", '{"stage2_top_k": 0}', "stage2_top_k"),
    ],
)
def test_a_broken_file_is_named_by_search_and_by_check(bank: Path, file: str, text: str, said: str) -> None:
    (bank / file).parent.mkdir(exist_ok=True)
    (bank / file).write_text(text)
    for args in (("search", "x", "-d", "DCE" if "dce" in file else "ORM"), ("config", "check")):
        result = run(*args)
        assert result.exit_code == 2, args
        assert file in result.output
        assert said in result.output
        assert "Traceback" not in result.output


def test_config_check_says_what_is_there() -> None:
    text = ok("config", "check")
    assert "✓ manifests/orm.yaml" in text
    assert "1 domain can be searched: ORM" in text
    assert ok("config", "check", "--json")["domains"] == ["ORM"]


def test_config_check_calls_no_domain_searchable_that_is_not(bank: Path) -> None:
    (bank / "manifests/dce.yaml").write_text(MANIFEST.replace("ORM", "DCE").replace("sops", "${NOT_SET}"))
    result = run("config", "check")
    assert result.exit_code == 2
    assert "1 domain can be searched: ORM\ncannot be searched: DCE\n" in result.stdout
    (bank / "manifests/dce.yaml").write_text("domain: [")
    assert "1 domain can be searched: ORM\n" in run("config", "check").stdout
    found = json.loads(run("config", "check", "--json").stdout)
    assert (found["ok"], found["domains"], found["unusable"]) == (False, ["ORM"], [])
    (bank / "manifests/dce.yaml").write_text("domain: DCE\nsources: [")
    assert "1 domain can be searched: ORM\ncannot be searched: DCE\n" in run("config", "check").stdout


@pytest.mark.parametrize(
    ("args", "code"), [(("search", "x", "-d", "NPA"), 2), (("config", "check"), 2), (("domains",), 0)]
)
def test_a_folder_named_like_a_manifest_is_said(bank: Path, args: tuple[str, ...], code: int) -> None:
    (bank / "manifests/npa.yaml").mkdir()
    result = run(*args)
    assert result.exit_code == code
    assert "manifests/npa.yaml: is a folder where a file is expected: rename it or move it away" in result.output


def test_config_show_gives_each_value_with_its_origin(bank: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bank / "config").mkdir()
    (bank / "config/rag-pipeline.json").write_text('{"stage2_top_k": 5}')
    monkeypatch.setenv("CONTEXT_ENGINE_MIN_CHUNKS", "1")
    shown = ok("config", "show", "--json")
    assert shown["settings"]["stage2_top_k"] == {"value": 5, "origin": "config/rag-pipeline.json", "default": 8}
    assert shown["settings"]["min_chunks"]["origin"] == "CONTEXT_ENGINE_MIN_CHUNKS"
    assert shown["found"]["origin"] == "current directory"
    words = " ".join(ok("config", "show").split())
    assert "stage2_top_k 5 config/rag-pipeline.json" in words
    assert "stage1_top_k 40 default" in words
    assert {row["key"] for row in ok("config", "diff", "--json")} == {"stage2_top_k", "min_chunks"}


def test_config_show_masks_secrets(bank: Path) -> None:
    (bank / "config").mkdir()
    (bank / "config/connections.yaml").write_text("dify: {base_url: https://d.example/v1, api_key: top-secret}\n")
    for args in (("config", "show"), ("config", "show", "--json")):
        text = run(*args).output
        assert "top-secret" not in text
        assert "d.example" in text


def test_config_diff_compares_stages(bank: Path) -> None:
    (bank / "manifests/stages").mkdir()
    for stage in ("uat", "prod"):
        (bank / f"manifests/stages/{stage}.yaml").write_text(
            f"connections: {{dify: {{base_url: 'https://{stage}.example/v1'}}}}\n"
        )
    (row,) = ok("config", "diff", "uat", "prod", "--json")
    assert row == {
        "key": "connections.dify.base_url", "uat": "https://uat.example/v1", "prod": "https://prod.example/v1"
    }  # fmt: skip
    assert "https://uat.example/v1" in ok("config", "diff", "uat", "prod")
    assert ok("config", "diff", "uat", "uat").strip() == "No difference."
    assert run("config", "diff", "a", "b", "c").exit_code == 2


def test_kb_looks_after_the_base(bank: Path) -> None:
    ok("ingest", "documents", "-d", "ORM")
    stats = ok("kb", "stats", "--json")
    assert (stats["documents"], stats["chunks"], stats["lag"]) == (3, 3, 0)
    assert stats["sources"]["sops"] == {"documents": 2, "chunks": 2}
    assert "documents 3 chunks 3" in " ".join(ok("kb", "stats").split())
    assert ok("kb", "verify", "--json")["ok"] is True
    assert ok("kb", "verify").startswith("sound: 3 documents")
    assert ok("kb", "rebuild").startswith("rebuilt: 3 documents")
    assert ok("search", "loss event report", "-d", "ORM", "--json")["chunks"]


def test_kb_repartition_moves_documents_to_where_the_rules_say(bank: Path) -> None:
    ok("ingest", "documents", "-d", "ORM")
    assert [one["documents"] for one in ok("kb", "stats", "--json")["partitions"]] == [3]
    assert "clearance" not in ok("kb", "stats")
    rule = "    classification: CONFIDENTIAL\n    access: {roles: [auditor]}\n"
    (bank / "manifests/orm.yaml").write_text(MANIFEST + rule, "utf-8")
    assert ok("kb", "repartition").startswith("repartitioned: 1 document moved")
    assert ok("kb", "repartition").startswith("nothing to do: every document is where the rules require")
    _, web = ok("kb", "stats", "--json")["partitions"]
    assert "auditor" in web.pop("rules") and web.pop("key") == 2
    assert web == {"classification": "confidential", "sources": ["web"], "documents": 1, "chunks": 1}
    assert "those the rules admit confidential web 1 1" in " ".join(ok("kb", "stats").split())
    (bank / "manifests/orm.yaml").write_text(MANIFEST, "utf-8")
    failed = json.loads(run("search", "losses", "-d", "ORM", "--json").stdout)
    (problem,) = (one["error"] for one in failed["sources"] if one["source_id"] == "web")
    assert problem["code"] == "repartition" and "context-engine kb repartition" in problem["message"]
    ok("ingest", "documents", "-d", "ORM")
    assert [one["documents"] for one in ok("kb", "stats", "--json")["partitions"]] == [3]


def test_kb_without_a_base_says_how_to_make_one() -> None:
    for command in (("stats",), ("verify",), ("rebuild",), ("repartition",), ("glossary", "-d", "ORM")):
        result = run("kb", *command)
        assert result.exit_code == 2
        assert "context-engine ingest" in result.stderr


def test_kb_glossary_drafts_what_trusted_texts_define(bank: Path) -> None:
    import yaml

    texts = {
        "a.md": "# 1 Losses\n\nThe Operational Risk Officer (ORO) reports to the Loss Event Board (LEB).\n",
        "b.md": "# 1 Incidents\n\nThe Operational Risk Officer (ORO) keeps the Long Event Book (LEB).\n",
        "web/c.txt": "The Web Trick Authority (WTA) says that losses need no report.\n",
    }
    for name, text in texts.items():
        (bank / "documents" / name).write_text(text, "utf-8")
    ok("ingest", "documents", "-d", "ORM")
    drafted = ok("kb", "glossary", "--domain", "ORM")
    read = yaml.safe_load(drafted)
    assert read["glossary"]["ORO"] == "Operational Risk Officer"
    assert sorted(read["glossary"]["LEB"]) == ["Long Event Book", "Loss Event Board"]
    assert "WTA" not in read["glossary"]
    assert "  ORO: Operational Risk Officer  # sops" in drafted.splitlines()
    (bank / "manifests/orm.yaml").write_text(MANIFEST + drafted, "utf-8")
    ok("config", "check")
    assert ok("kb", "glossary", "-d", "ORM", "--json") == {"domain": "ORM", "glossary": {}}
    result = run("kb", "glossary", "-d", "ORM")
    assert result.stdout == "glossary: {}\n"
    assert "not read, because untrusted or not in the embedded base: web" in result.stderr


def test_a_base_with_rows_that_were_changed_is_reported_damaged(bank: Path) -> None:
    import sqlite3

    ok("ingest", "documents", "-d", "ORM")
    (file,) = [path for path in (bank / "data").rglob("*") if path.suffix in (".db", ".sqlite", ".sqlite3")]
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE chunks SET content = 'changed' WHERE rid = 1")
    result = run("kb", "verify")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1].startswith("damaged")
    assert "run 'context-engine kb rebuild', then 'context-engine ingest'" in " ".join(result.stdout.split())
    rebuilt = run("kb", "rebuild")
    assert rebuilt.exit_code == 0
    assert "1 document with damaged rows: run 'context-engine ingest' now" in rebuilt.stderr
    assert ok("ingest", "documents", "-d", "ORM", "--json")["replaced"] == 1
    assert ok("kb", "verify", "--json")["ok"] is True


def test_init_then_check_then_ingest_then_search(bank: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ok("init", "mine")
    monkeypatch.chdir(bank / "mine")
    ok("config", "check")
    domain = ok("domains", "--json")["domains"][0]["domain"]
    assert ok("ingest", "documents", "-d", domain, "--json")["added"] > 0
    assert ok("search", "hotel limit", "-d", domain, "--json")["chunks"]


def test_two_configurations_share_no_base(bank: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONTEXT_ENGINE_DATA_DIR")
    monkeypatch.setenv("XDG_DATA_HOME", str(bank / "home"))
    found = {}
    for name, word in (("a", "walrus"), ("b", "narwhal")):
        monkeypatch.chdir(bank)
        ok("init", name)
        monkeypatch.chdir(bank / name)
        (domain,) = (one["domain"] for one in ok("domains", "--json")["domains"])
        sample = min((bank / name / "documents").rglob("*.md"))
        sample.write_text(sample.read_text("utf-8") + f"\n## Word\n\nThe {word} is the word.\n", "utf-8")
        ok("ingest", "documents", "-d", domain)
        found[name] = ok("config", "show", "--json")["found"]["data_dir"]
        assert ok("kb", "stats", "--json")["path"].startswith(found[name])
        assert f"knowledge base: {found[name]}" in run("domains").stderr.replace("\n", "")
    assert "narwhal" in ok("search", "narwhal", "-d", domain, "--json")["chunks"][0]["content"]
    assert json.loads(run("search", "walrus", "-d", domain, "--json").stdout)["chunks"] == []
    assert found["a"] != found["b"]


@pytest.mark.wording
def test_a_source_of_two_domains_is_a_warning_of_the_check(bank: Path) -> None:
    assert not any("stands in" in warning for warning in ok("config", "check", "--json")["warnings"])
    (bank / "manifests/two.yaml").write_text(MANIFEST.replace("ORM", "TWO").replace("id: web", "id: web2"))
    warnings = ok("config", "check", "--json")["warnings"]
    assert "source 'sops' is in ORM and TWO: they share its documents" in warnings


class TestTags:
    saved: ClassVar[dict[str, str]] = {}

    @pytest.fixture(autouse=True)
    def answer(self, bank: Path) -> None:
        """answer.json and answer.jsonl, searched for once."""
        if not self.saved:
            ok("ingest", "documents", "-d", "ORM")
            for form in ("json", "jsonl"):
                self.saved[form] = run("search", "loss event", "-d", "ORM", f"--{form}").stdout
        for form, text in self.saved.items():
            (bank / f"answer.{form}").write_text(text, "utf-8")

    @pytest.mark.parametrize("form", ["json", "jsonl"])
    def test_what_search_wrote_is_good(self, form: str) -> None:
        assert "good" in ok("tags", "check", f"answer.{form}")

    def test_utf_16_is_read_too(self, bank: Path) -> None:
        """The shell of Windows writes it."""
        (bank / "wide.json").write_text((bank / "answer.json").read_text("utf-8"), "utf-16")
        assert "good" in ok("tags", "check", "wide.json")

    def test_stdin_and_json(self, bank: Path) -> None:
        report = ok("tags", "check", "-", "--json", stdin=(bank / "answer.json").read_bytes())
        assert report["ok"] is True
        assert report["settings_known"] is True
        assert set(report["chunks"][0]["checks"]) == {"tag", "text", "authority", "score", "fresh", "order"}

    def test_a_workflow_nodes_output_is_checked(self, bank: Path) -> None:
        chunks = json.loads((bank / "answer.json").read_text())["chunks"]
        items = [
            {"content": one["content"], "title": "t", "metadata": {"doc_metadata": {"_provenance": one["_provenance"]}}}
            for one in chunks
        ]
        (bank / "node.json").write_text(json.dumps({"result": items}))
        result = run("tags", "check", "node.json")
        assert result.exit_code == 0
        assert "default weights" in result.stderr

    def test_a_changed_text_is_exit_code_4(self, bank: Path) -> None:
        text = (bank / "answer.jsonl").read_text().replace("24 hours", "48 hours")
        (bank / "answer.jsonl").write_text(text)
        result = run("tags", "check", "answer.jsonl")
        assert result.exit_code == 4
        assert "the text is not the one the tag was made for" in " ".join(result.stdout.split())
        assert "fail" in result.stdout.splitlines()[-1]

    def test_expired_is_told_with_exit_code_0(self) -> None:
        result = run("tags", "check", "answer.json", "--at", "2099-01-01")
        assert result.exit_code == 0
        assert "expired" in result.stdout

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"", "is empty"),
            (b"{", "is not JSON"),
            (b"{}\n{", "line 2"),
            (b"{}", "holds no chunks"),
            (b"\xff", "not UTF-8"),
            (b"[" * 100_000, "nested too deep"),
        ],
    )
    def test_what_cannot_be_read_is_exit_code_2(self, bank: Path, content: bytes, said: str) -> None:
        (bank / "bad.json").write_bytes(content)
        result = run("tags", "check", "bad.json")
        assert result.exit_code == 2
        assert result.stderr.startswith("error: bad.json: ")
        assert said in result.stderr
        assert "Traceback" not in result.stderr

    def test_a_bad_moment_is_exit_code_2(self) -> None:
        assert run("tags", "check", "answer.json", "--at", "soon").exit_code == 2


def test_help_version_and_the_way_in(bank: Path) -> None:
    import context_engine

    assert ok("--version").strip() == f"context-engine {context_engine.__version__}"
    text = ok("--help")
    for name in ("search", "domains", "config", "init", "ingest", "kb", "tags"):
        assert name in text
