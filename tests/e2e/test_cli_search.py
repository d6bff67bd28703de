"""`context-engine search` over the demo bank: forms, exit codes, mistakes."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from context_engine import demo
from context_engine.apps.cli import main

QUERY = "NPA classification criteria"


@pytest.fixture(scope="module")
def data(demo_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(demo_data, tmp_path_factory.mktemp("data"), dirs_exist_ok=True)


@pytest.fixture(autouse=True)
def empty_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data: Path) -> Iterator[None]:
    """A current directory and a home without any configuration; one data folder for the module."""
    for name in ("CONTEXT_ENGINE_CONFIG_DIR", "CONTEXT_ENGINE_STAGE", "COLUMNS", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(data))
    monkeypatch.chdir(tmp_path)
    yield


def run(*args: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(main, list(args), input=stdin)


def search(*args: str, stdin: str | bytes | None = None) -> Result:
    return run("search", *args, stdin=stdin)


def test_the_demo_is_not_built_for_a_domain_it_does_not_have(tmp_path: Path) -> None:
    result = search("x", "-d", "NAP", "--data-dir", str(tmp_path / "other"))
    assert (result.exit_code, "Did you mean 'NPA'?" in result.stderr) == (2, True)
    assert not (tmp_path / "other").exists()


def test_the_readme_command_gives_a_ranked_table() -> None:
    result = search(QUERY, "--domain", "NPA")
    assert result.exit_code == 0
    row = re.compile(r" *\d+ +[▪·]{3} (strong|fair|weak) ")
    rows = [line.split() for line in result.stdout.splitlines() if row.match(line)]
    assert [int(row[0]) for row in rows] == list(range(1, len(rows) + 1))
    assert 1 <= len(rows) <= 8
    assert rows[0][1:3] == ["▪▪▪", "strong"]
    assert re.search(r"NPA-SOP-001 v3\.2 §4", result.stdout)
    assert "complete · answered" in result.stdout
    assert "demo bank" in result.stderr
    assert "demo bank" not in result.stdout


def test_json_is_one_object_that_says_it_is_the_demo() -> None:
    result = search(QUERY, "-d", "NPA", "--json", "--request-id", "r-7", "--principal", "auditor")
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert found["demo"] is True
    assert (found["request_id"], found["caller"]["principal"]) == ("r-7", "auditor")
    assert 1 <= len(found["chunks"]) <= 8
    assert all(chunk["_provenance"]["fetched_at"].endswith("Z") for chunk in found["chunks"])


def test_jsonl_is_one_chunk_a_line() -> None:
    result = search(QUERY, "-d", "NPA", "--jsonl", "-k", "3")
    chunks = [json.loads(line) for line in result.stdout.splitlines()]
    assert [chunk["rank"] for chunk in chunks] == [1, 2, 3]


def test_the_context_keeps_to_its_budget_and_form() -> None:
    result = search("material change", "-d", "NPA", "--context", "--budget", "300", "--form", "text")
    assert result.exit_code == 0
    used, budget = re.search(r"(\d+) of (\d+) tokens", result.stderr).groups()  # type: ignore[union-attr]
    assert int(used) <= int(budget) == 300
    assert "[1]" in result.stdout
    assert result.stdout.splitlines()[0] == "Context"


def test_the_query_is_read_from_stdin() -> None:
    result = search("-", "-d", "NPA", "--json", stdin=f"{QUERY}\n")
    assert json.loads(result.stdout)["query"] == QUERY


def test_filters_are_joined_by_and() -> None:
    result = search("limit", "-d", "DESK", "--json", "-f", "doc_type=sop_document", "-f", '{"tier_lte": 2}')
    chunks = json.loads(result.stdout)["chunks"]
    assert chunks
    assert {(chunk["doc_type"], chunk["authority_tier"]) for chunk in chunks} == {("sop_document", 2)}


def test_as_of_answers_with_the_version_of_that_day() -> None:
    args = ("notional threshold for a material change", "-d", "NPA", "--json", "-k", "20")
    then = json.loads(search(*args, "--as-of", "2024-06-30").stdout)
    now = json.loads(search(*args).stdout)

    def versions(found: dict[str, list[dict[str, str]]]) -> set[str]:
        return {one["document_version"] for one in found["chunks"] if one.get("document_id") == "NPA-SOP-001"}

    assert (versions(then), versions(now)) == ({"3.1"}, {"3.2"})


def test_settings_of_the_call_stand_with_their_origin() -> None:
    found = json.loads(search(QUERY, "-d", "NPA", "--json", "--set", "stage1_top_k=5", "--min-relevance", "0.3").stdout)
    assert found["settings"]["stage1_top_k"] == {"value": 5, "origin": "call"}
    assert found["settings"]["min_relevance_score"] == {"value": 0.3, "origin": "call"}
    assert all(source["chunks"] <= 5 for source in found["sources"])


def test_nothing_relevant_is_said_plainly_with_exit_code_4() -> None:
    result = search("wiegenlied zwetschgenkuchen", "-d", "NPA")
    assert result.exit_code == 4
    assert result.stdout.startswith("No relevant information found. Use other words")


def test_missing_evidence_is_exit_code_4_and_strict_fails_with_the_object() -> None:
    args = (QUERY, "-d", "NPA", "-k", "1", "--require-source", "npa_external_official")
    lax, strict = search(*args, "--json"), search(*args, "--json", "--strict")
    assert lax.exit_code == strict.exit_code == 4
    assert json.loads(lax.stdout)["decision"] == json.loads(strict.stdout)["decision"] == "incomplete"
    assert strict.stderr.splitlines()[-1].startswith("error: search ")


def test_the_explanation_follows_the_table() -> None:
    text = search(QUERY, "-d", "NPA", "--explain").stdout
    assert text.index("complete · answered") < text.index("Funnel") < text.index("Sources") < text.index("Scores")


@pytest.mark.parametrize("columns", [40, 80, 140])
def test_the_table_keeps_to_the_width(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = search(QUERY, "-d", "NPA").stdout.splitlines()
    table = [line for line in lines[:-1] if not re.match(r"\d+  https://", line)]
    assert len(table) < len(lines) - 1, "an address is on a line of its own, whole"
    assert max(map(len, table)) <= columns


MISTAKES: dict[str, Sequence[str]] = {
    "unknown domain": ["search", "x", "-d", "NPX"],
    "no domain": ["search", "x"],
    "bad filter": ["search", "x", "-d", "NPA", "-f", "a ! b"],
    "top_k 0": ["search", "x", "-d", "NPA", "-k", "0"],
    "top_k -1": ["search", "x", "-d", "NPA", "-k", "-1"],
    "top_k x": ["search", "x", "-d", "NPA", "-k", "x"],
    "empty query": ["search", "", "-d", "NPA"],
    "blank query": ["search", "  ", "-d", "NPA"],
    "long query": ["search", "x" * 100_000, "-d", "NPA"],
    "binary query": ["search", "\udcff", "-d", "NPA"],
    "bad date": ["search", "x", "-d", "NPA", "--as-of", "30.6.2025"],
    "unknown persona": ["search", "x", "-d", "NPA", "--persona", "nobody"],
    "unknown key": ["search", "x", "-d", "NPA", "--set", "top_kk=3"],
    "key without value": ["search", "x", "-d", "NPA", "--set", "top_k"],
    "value out of range": ["search", "x", "-d", "NPA", "--set", "dedup_threshold=7"],
    "key given twice": ["search", "x", "-d", "NPA", "--set", "top_k=3", "--top-k", "3"],
    "relevance out of range": ["search", "x", "-d", "NPA", "--min-relevance", "7"],
    "relevance not a number": ["search", "x", "-d", "NPA", "--min-relevance", "nan"],
    "tier 9": ["search", "x", "-d", "NPA", "--require-tier", "9"],
    "unknown source": ["search", "x", "-d", "NPA", "--require-source", "nope"],
    "two forms": ["search", "x", "-d", "NPA", "--context", "--jsonl"],
    "budget without context": ["search", "x", "-d", "NPA", "--budget", "100"],
    "missing folder": ["search", "x", "-d", "NPA", "--config-dir", "nowhere"],
    "unknown stage": ["search", "x", "-d", "NPA", "--stage", "moon"],
    "missing file": ["tags", "check", "nowhere.json"],
    "unknown command": ["seach", "x"],
    "unknown option": ["search", "x", "--dommain", "NPA"],
    "ingest without a domain of one's own": ["ingest", ".", "-d", "NPA"],
    "init twice": ["init", "twice"],
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_gives_one_line_and_exit_code_2(name: str) -> None:
    if name == "init twice":
        assert run("init", "twice").exit_code == 0
    result = run(*MISTAKES[name])
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert result.stderr.splitlines()[-1] == errors[0]


@pytest.mark.parametrize("place", ["file/below", "file"])
def test_a_data_folder_that_cannot_be_written_names_the_option(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    result = search("x", "-d", "NPA", "--data-dir", str(tmp_path / place))
    assert result.exit_code == 2
    assert "--data-dir or CONTEXT_ENGINE_DATA_DIR" in result.stderr


def test_no_home_names_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "USERPROFILE", "XDG_DATA_HOME", "LOCALAPPDATA", "CONTEXT_ENGINE_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    result = search("x", "-d", "NPA")
    assert result.exit_code == 2
    assert "--data-dir" in result.stderr


def test_debug_shows_where_an_error_arose() -> None:
    result = search("x", "-d", "NPX", "--debug")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert "UnknownDomain" in result.stderr


def test_stdin_that_is_not_text_is_refused() -> None:
    result = search("-", "-d", "NPA", stdin=b"\xff\xfe")
    assert result.exit_code == 2
    assert "not UTF-8" in result.stderr


def test_the_base_is_built_once_under_a_name_of_its_own(data: Path) -> None:
    first, second = search(QUERY, "-d", "NPA"), search(QUERY, "-d", "NPA")
    assert first.exit_code == second.exit_code == 0
    assert "Building" not in second.stderr
    assert [path.name for path in data.iterdir()] == [demo.data_dir(data).name]
    assert json.loads((demo.data_dir(data) / "ready.json").read_text())["documents"] >= 60


def test_a_configuration_that_is_named_never_falls_back_to_the_demo(tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare/rag-pipeline.json").write_text("{}")
    result = search(QUERY, "-d", "NPA", "--config-dir", "bare")
    assert result.exit_code == 2
    assert "No domain is registered" in result.stderr
    assert "demo" not in result.stderr


def test_settings_beside_no_manifest_are_used_with_the_demo(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config/rag-pipeline.json").write_text('{"stage2_top_k": 2}')
    found = json.loads(search(QUERY, "-d", "NPA", "--json").stdout)
    assert found["demo"] is True
    assert found["settings"]["stage2_top_k"] == {"value": 2, "origin": "config/rag-pipeline.json"}
    assert len(found["chunks"]) == 2


@pytest.mark.parametrize("path", [["search"], ["domains"], ["ingest"], ["init"], ["tags", "check"], ["kb", "stats"]])
def test_help_has_examples(path: list[str]) -> None:
    text = run(*path, "--help").stdout
    assert "Example" in text
    assert "context-engine " in text


def test_every_command_and_option_has_help() -> None:
    def walk(command: object, path: str) -> Iterator[tuple[str, object]]:
        yield path, command
        for name, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, f"{path} {name}")

    for path, command in walk(main, "context-engine"):
        assert getattr(command, "help", None), path
        for parameter in getattr(command, "params", []):
            if parameter.param_type_name == "option":
                assert parameter.help, f"{path} {parameter.name}"


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("search", "x", "-d", "NPA", "--top-k", "0", "--json"), "usage", "0 is not in the range"),
        (("search", "--json"), "usage", "Missing argument 'QUERY'."),
        (("search", "x", "-d", "NAP", "--json"), "unknown_domain", "Did you mean 'NPA'?"),
        (("config", "show", "--json", "--persona", "p"), "invalid_request", "unknown persona 'p'"),
    ],
)
def test_what_is_asked_wrongly_is_one_json_object_too(args: tuple[str, ...], code: str, said: str) -> None:
    result = run(*args)
    found = json.loads(result.stdout)
    assert (result.exit_code, list(found), list(found["error"])) == (2, ["error"], ["code", "message"])
    assert found["error"]["code"] == code
    assert said in found["error"]["message"] and said.rstrip(".") in result.stderr


def test_a_failure_is_one_json_object_too() -> None:
    result = run("audit", "list", "--ledger", "/nowhere/ledger.db", "--json")
    assert (result.exit_code, json.loads(result.stdout)["error"]["code"]) == (1, "ledger_not_found")


@pytest.mark.parametrize("args", [("search", "x", "-d", "NAP"), ("init", "--json"), ("serch", "--json")])
def test_what_has_no_json_or_was_not_asked_for_it_writes_nothing_to_stdout(args: tuple[str, ...]) -> None:
    result = run(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "?." not in result.stderr


@pytest.mark.wording
def test_another_programs_connections_do_not_stop_the_demo(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config/connections.yaml").write_text("host: db.example\nport: 5432\n")
    result = search(QUERY, "-d", "NPA", "--json")
    assert (result.exit_code, json.loads(result.stdout)["demo"]) == (0, True)
    assert "warning: config/connections.yaml: host: " in result.stderr
    assert run("config", "check").exit_code == 2
