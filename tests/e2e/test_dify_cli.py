"""The command line over a Dify server: search, a domain that mixes Dify and the embedded base, doctor, import."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from context_engine.apps.cli import main
from context_engine.core.models import DomainSpec
from context_engine.testing import FakeDataset, FakeDify, FakeDocument

pytestmark = pytest.mark.slow

KEY = "dataset-commandlinesecret1"
RERANKER = ("acme/rank", "rank-1")
DATASETS = [
    FakeDataset(
        "NPA SOP",
        documents=[FakeDocument("NPA-SOP-001", ["A material change needs a new product approval."], {"tier": "tier2"})],
        reranker=RERANKER,
    ),
    FakeDataset("Regulators", "economy", [FakeDocument("Notice 12", ["A material change is reported in 14 days."])]),
    FakeDataset("Outside", None, provider="external"),
]
CONNECTIONS = "dify:\n  base_url: ${DIFY_BASE_URL}\n  api_key: ${DIFY_API_KEY}\n"
MANIFEST = """
version: 1
domain: NPA
sources:
  - id: npa_sop
    type: bank_sop
    adapter: dify
    connection: dify
    dataset_ids: [{sop}]
    settings: {{metadata: {{authority_tier: tier}}}}
  - id: regulators
    type: external_official
    adapter: dify
    connection: dify
    dataset_ids: [{notices}]
  - id: register
    type: system_of_record
    documents: [{{include: "*.md"}}]
"""


@pytest.fixture
def dify() -> Iterator[FakeDify]:
    with FakeDify(DATASETS, api_key=KEY) as server:
        yield server


@pytest.fixture
def bank(dify: FakeDify, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration folder; Dify's address and key come from the environment."""
    for name, text in {"config/connections.yaml": CONNECTIONS, "manifests/npa.yaml": manifest(dify)}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    for name in ("CONTEXT_ENGINE_CONFIG_DIR", "CONTEXT_ENGINE_STAGE", "COLUMNS", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("DIFY_BASE_URL", dify.base_url)
    monkeypatch.setenv("DIFY_API_KEY", dify.api_key)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def manifest(dify: FakeDify) -> str:
    return MANIFEST.format(sop=dify.dataset_id("NPA SOP"), notices=dify.dataset_id("Regulators"))


def run(*args: str) -> Result:
    result = CliRunner().invoke(main, list(args))
    assert KEY not in result.output
    return result


def ingest_register(bank: Path) -> None:
    (bank / "docs").mkdir()
    (bank / "docs" / "product.md").write_text("# P-7\n\nP-7 had its last material change in May.\n", encoding="utf-8")
    assert run("ingest", "docs", "--domain", "NPA", "--source", "register").exit_code == 0


def searched(*more: str) -> tuple[Result, dict[str, Any]]:
    result = run("search", "material change", "--domain", "NPA", "--json", *more)
    return result, json.loads(result.stdout)


def test_one_domain_mixes_dify_and_the_embedded_base(bank: Path) -> None:
    ingest_register(bank)
    result, found = searched()
    assert (result.exit_code, found["status"], found["decision"]) == (0, "complete", "answered")
    assert {chunk["source_id"]: chunk["authority_tier"] for chunk in found["chunks"]} == {
        "npa_sop": 2,
        "regulators": 4,
        "register": 1,
    }
    sop = next(chunk for chunk in found["chunks"] if chunk["source_id"] == "npa_sop")
    assert sop["_provenance"]["extra"]["dataset_id"] == sop["dataset_id"]
    assert sop["_provenance"]["fetched_at"] == "2026-01-01T00:00:00Z"
    assert sop["_provenance"]["extra"]["fetched_at_basis"] == "indexed"


def test_with_dify_down_the_embedded_base_answers_and_the_exit_code_says_so(bank: Path, dify: FakeDify) -> None:
    ingest_register(bank)
    dify.stop()
    result, found = searched()
    assert (result.exit_code, found["status"]) == (3, "degraded")
    assert [chunk["source_id"] for chunk in found["chunks"]] == ["register"]
    assert [source["state"] for source in found["sources"]] == ["failed", "failed", "ok"]


def test_the_table_names_a_dataset_that_failed_in_part(bank: Path, dify: FakeDify) -> None:
    text = MANIFEST.replace("[{sop}]", "[{sop}, {notices}]").format(
        sop=dify.dataset_id("NPA SOP"), notices=dify.dataset_id("Regulators")
    )
    (bank / "manifests/npa.yaml").write_text(text, encoding="utf-8")
    ingest_register(bank)
    dify.inject("forbidden", dataset="NPA SOP", endpoint="retrieve")
    result = run("search", "material change", "--domain", "NPA")
    assert result.exit_code == 3
    assert "source npa_sop failed in part (tier 2, forbidden)" in result.output


def doctored(*more: str) -> tuple[Result, dict[str, Any]]:
    result = run("doctor", "--json", *more)
    return result, json.loads(result.stdout)


def test_doctor_tells_what_it_found(bank: Path, dify: FakeDify) -> None:
    ingest_register(bank)
    result, found = doctored("--query", "material change")
    assert (result.exit_code, found["ok"]) == (0, True)
    sop, notices, register = found["sources"]
    assert (register["source"], register["records"], register["datasets"]) == ("register", 1, [])
    (dataset,) = sop["datasets"]
    assert {key: dataset[key] for key in ("name", "reachable", "key_valid", "found", "indexing_technique")} == {
        "name": "NPA SOP",
        "reachable": True,
        "key_valid": True,
        "found": True,
        "indexing_technique": "high_quality",
    }
    assert (dataset["documents"], dataset["search_method"], dataset["records"]) == (1, "hybrid_search", 1)
    assert (dataset["metadata"], dataset["missing_metadata"], dataset["warnings"]) == (["tier"], [], [])
    (economy,) = notices["datasets"]
    assert economy["search_method"] == "keyword_search"
    assert any("unranked" in warning for warning in economy["warnings"])
    assert "stores the text of every query" in found["notes"][0]


def test_doctor_says_which_dify_it_met_and_how_many_connections_its_datasets_want(bank: Path, dify: FakeDify) -> None:
    ingest_register(bank)
    _, found = doctored()
    sop, _, register = found["sources"]
    assert (sop["version"], register["version"]) == ("1.12.1", None)
    _, server, advice, served, *_ = found["notes"]
    assert server == "connection dify: Dify 1.12.1"
    assert re.search(
        r"calls a second, 4 at once: \d+ searches at a time are served within 10 s, and \d+ within", served
    )
    assert advice.startswith("connection dify, domain NPA: Dify took ")
    assert "for all 2): with max_connections 4 one search takes about" in advice, "a search asks both datasets"
    text = " ".join(run("doctor").stdout.split())
    assert text.count("Dify 1.12.1") == 1 and text.count("with max_connections 4") == 1, (
        "said once, not for each source"
    )


def test_doctor_says_what_does_not_work_with_the_version(bank: Path, dify: FakeDify) -> None:
    dify._app.how = dify._app.how._replace(drop_filters=True)
    dify._server.headers = tuple(
        (name, "1.13.3" if name == "X-Version" else value) for name, value in dify._server.headers
    )
    _, found = doctored("--no-query")
    assert found["sources"][0]["version"] == "1.13.3"
    assert sum("ignores metadata filters" in note for note in found["notes"]) == 1


def test_doctor_as_a_table(bank: Path) -> None:
    ingest_register(bank)
    result = run("doctor")
    assert result.exit_code == 0
    for text in ("NPA SOP", "hybrid_search", "economy", "3 sources good", "dataset_queries"):
        assert text in result.stdout


def test_doctor_asks_no_query_if_told_so(bank: Path, dify: FakeDify) -> None:
    ingest_register(bank)
    result, found = doctored("--no-query")
    assert result.exit_code == 0
    assert all("retrieve" not in request.path for request in dify.requests)
    assert found["sources"][0]["datasets"][0]["records"] is None


@pytest.mark.parametrize(
    ("break_it", "state", "words"),
    [
        ("unauthorized", (True, False, None), "API key was refused"),
        ("not_found", (True, True, False), "no such dataset"),
        ("forbidden", (True, True, True), "switched off"),
        ("plugin_daemon_down", (False, None, None), "behind Dify is down"),
        ("dropped", (False, None, None), "broke"),
    ],
)
@pytest.mark.wording
def test_doctor_says_what_is_wrong(
    break_it: str, state: tuple[Any, ...], words: str, bank: Path, dify: FakeDify
) -> None:
    dify.inject(break_it, dataset="NPA SOP")
    result, found = doctored()
    (dataset,) = found["sources"][0]["datasets"]
    assert (result.exit_code, found["ok"], dataset["ok"]) == (1, False, False)
    assert (dataset["reachable"], dataset["key_valid"], dataset["found"]) == state
    assert words in dataset["problem"]


def test_doctor_names_external_knowledge_and_missing_metadata(bank: Path, dify: FakeDify) -> None:
    text = manifest(dify).replace(dify.dataset_id("Regulators"), dify.dataset_id("Outside"))
    (bank / "manifests/npa.yaml").write_text(text.replace("authority_tier: tier", "section: clause"), encoding="utf-8")
    result, found = doctored("--domain", "NPA")
    sop, outside, _ = (source["datasets"] for source in found["sources"])
    assert result.exit_code == 1
    assert "external" in outside[0]["problem"]
    assert sop[0]["missing_metadata"] == ["clause"]


def test_doctor_shows_a_variable_that_is_not_set(bank: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DIFY_API_KEY")
    result, found = doctored()
    assert result.exit_code == 1
    assert "DIFY_API_KEY" in found["sources"][0]["problem"]


def test_import_writes_a_manifest_that_loads(bank: Path, dify: FakeDify) -> None:
    result = run("domains", "import", "--connection", "dify", "--domain", "LOANS", "--output", "manifests/loans.yaml")
    assert result.exit_code == 0
    text = (bank / "manifests/loans.yaml").read_text(encoding="utf-8")
    domain = DomainSpec.model_validate(yaml.safe_load(text))
    assert [source.id for source in domain.sources] == ["npa_sop", "regulators"]
    assert {(source.tier, str(source.trust), source.adapter) for source in domain.sources} == {(5, "UNTRUSTED", "dify")}
    assert [source.dataset_ids for source in domain.sources] == [
        (dify.dataset_id("NPA SOP"),),
        (dify.dataset_id("Regulators"),),
    ]
    assert "# NPA SOP (high_quality, 1 document)" in text
    assert f"# Outside ({dify.dataset_id('Outside')}): external knowledge" in text
    assert run("domains", "import", "--connection", "dify", "--output", "manifests/loans.yaml").exit_code == 2


def test_import_lists_every_page_and_odd_names(bank: Path, dify: FakeDify) -> None:
    for number in range(120):
        dify.put(FakeDataset(f'Größe: #{number % 60}\n"x" 新', None, id=f"{number:08d}-0000-4000-8000-000000000000"))
    result = run("domains", "import", "--connection", "dify")
    domain = DomainSpec.model_validate(yaml.safe_load(result.stdout))
    assert len(domain.sources) == 122
    assert len({source.id for source in domain.sources}) == 122


@pytest.mark.parametrize("args", [("--connection", "none"), ("--connection", "dify", "--domain", "no good"), ()])
def test_import_refuses_what_it_cannot_do(args: tuple[str, ...], bank: Path) -> None:
    assert run("domains", "import", *args).exit_code == 2


def test_config_check_reads_the_settings_of_dify_sources(bank: Path, dify: FakeDify) -> None:
    assert run("config", "check").exit_code == 0
    bad = manifest(dify).replace("settings: {metadata: {authority_tier: tier}}", "settings: {max_call: 3}")
    (bank / "manifests/npa.yaml").write_text(bad, encoding="utf-8")
    result = run("config", "check")
    assert result.exit_code == 2
    assert "max_calls" in result.output and "npa_sop" in result.output
