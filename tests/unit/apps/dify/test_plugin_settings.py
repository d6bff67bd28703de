"""From the form to a configuration: where domains come from, what the connection is made of."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any

import certifi
import pytest

from context_engine import demo
from context_engine.apps.dify import plugin_settings as audit
from context_engine.apps.dify.chunk_document import chunk_document
from context_engine.apps.dify.credentials import Credentials
from context_engine.apps.dify.failure import ToolFailure, guarded
from context_engine.apps.dify.file_documents import FileNotRead
from context_engine.apps.dify.plugin_settings import (
    FileReading,
    PluginSetup,
    load_plugin,
    plugin_audit,
    plugin_recorder,
    reading_of,
)
from context_engine.apps.dify.tools import open_engine
from context_engine.core.models import Caller, SearchRequest
from context_engine.errors import ConfigError, MissingExtra, MissingVariable

DATASET = "00000000-0000-4000-8000-000000000001"

SOURCE = {"id": "npa_sops", "type": "bank_sop", "adapter": "dify", "connection": "dify", "dataset_ids": [DATASET]}

MANIFEST = {"version": 1, "domain": "NPA", "sources": [SOURCE]}

FORM = {"dify_base_url": "https://dify.example/v1", "dify_api_key": "dataset-1", "domains": json.dumps(MANIFEST)}


def load(tmp_path: Path, env: dict[str, str] | None = None, **form: Any) -> Any:
    return load_plugin(Credentials.read(form), root=tmp_path, env=env or {"HOME": str(tmp_path)})


def packed(tmp_path: Path, manifest: dict[str, Any] = MANIFEST, stage: str = "") -> None:
    (tmp_path / "manifests/stages").mkdir(parents=True)
    (tmp_path / "config").mkdir()
    (tmp_path / "manifests/npa.yaml").write_text(json.dumps(manifest))
    (tmp_path / "config/connections.yaml").write_text("dify: {base_url: 'https://packed.example', timeout_s: 3}")
    if stage:
        (tmp_path / "manifests/stages/prod.yaml").write_text(stage)


def test_the_form_makes_up_the_connection(tmp_path: Path) -> None:
    plugin = load(tmp_path, **FORM, proxy="http://user:pw@proxy.example:3128")
    connection = plugin.setup.config.connections.get("dify")
    assert connection.base_url == "https://dify.example/v1"
    assert connection.api_key.get_secret_value() == "dataset-1"
    assert connection.proxy.get_secret_value() == "http://user:pw@proxy.example:3128"
    assert "dataset-1" not in json.dumps(plugin.setup.config.connections.shown("dify"))
    assert (plugin.demo, plugin.setup.registry.names) == (False, ("NPA",))


def test_the_forms_parallel_calls_win_over_what_is_packed_and_over_the_line(tmp_path: Path) -> None:
    assert load(tmp_path, **FORM).setup.config.connections.get("dify").max_connections == 4
    line = {"manifests": [MANIFEST], "connections": {"dify": {"base_url": "https://x.example", "max_connections": 8}}}
    given = {**FORM, "domains": json.dumps(line)}
    assert load(tmp_path, **given).setup.config.connections.get("dify").max_connections == 8
    assert load(tmp_path, **given, max_connections="60").setup.config.connections.get("dify").max_connections == 60


def test_a_certificate_becomes_a_file_of_the_connection(tmp_path: Path) -> None:
    pem = Path(certifi.where()).read_text("utf-8")
    one = pem[pem.index("-----BEGIN") : pem.index("-----END CERTIFICATE-----")] + "-----END CERTIFICATE-----"
    plugin = load(tmp_path, **FORM, ca_certificate=one.replace("\n", ""))
    bundle = plugin.setup.config.connections.get("dify").ca_bundle
    assert ssl.PEM_cert_to_DER_cert(bundle.read_text()) == ssl.PEM_cert_to_DER_cert(one)
    plugin.folder.cleanup()
    assert not bundle.exists()


def test_the_form_lies_over_what_is_packed(tmp_path: Path) -> None:
    packed(tmp_path)
    plugin = load(tmp_path, dify_base_url="https://typed.example", dify_api_key="dataset-2")
    connection = plugin.setup.config.connections.get("dify")
    assert (connection.base_url, connection.timeout_s) == ("https://typed.example", 3.0)
    assert load(tmp_path).setup.config.connections.get("dify").base_url == "https://packed.example"


def test_a_line_wins_over_what_is_packed(tmp_path: Path) -> None:
    packed(tmp_path)
    line = json.dumps({**MANIFEST, "domain": "ORM"})
    assert load(tmp_path, **{**FORM, "domains": line}).setup.registry.names == ("ORM",)


def test_connections_of_a_line(tmp_path: Path) -> None:
    other = {**SOURCE, "connection": "kb"}
    line = {"manifests": [{**MANIFEST, "sources": [other]}], "connections": {"kb": {"base_url": "${KB_URL}"}}}
    given = {"domains": json.dumps(line), "variables": '{"KB_URL": "https://kb.example"}'}
    plugin = load(tmp_path, **given)
    assert plugin.setup.config.connections.get("kb").base_url == "https://kb.example"


def test_a_variable_comes_from_the_form_then_from_the_environment(tmp_path: Path) -> None:
    line = json.dumps({**MANIFEST, "sources": [{**SOURCE, "dataset_ids": ["${KB_ID}"]}]})
    env = {"HOME": str(tmp_path), "KB_ID": DATASET}
    assert load(tmp_path, env, **{**FORM, "domains": line}).setup.registry.domain("NPA")
    other = DATASET.replace("1", "2")
    plugin = load(tmp_path, env, **{**FORM, "domains": line}, variables=json.dumps({"KB_ID": other}))
    assert plugin.setup.registry.domain("NPA").sources[0].dataset_ids == (other,)
    plugin = load(tmp_path, **{**FORM, "domains": line})
    with pytest.raises(MissingVariable, match="the variable KB_ID is not set"):
        plugin.setup.registry.domain("NPA")


def test_a_stage_of_a_packed_plugin_is_chosen_by_its_variable(tmp_path: Path) -> None:
    packed(tmp_path, stage="connections: {dify: {base_url: 'https://prod.example'}}")
    plugin = load(tmp_path, variables='{"CONTEXT_ENGINE_STAGE": "prod"}')
    assert plugin.setup.config.connections.get("dify").base_url == "https://prod.example"


def test_a_line_knows_no_stage(tmp_path: Path) -> None:
    assert load(tmp_path, {"HOME": str(tmp_path), "CONTEXT_ENGINE_STAGE": "prod"}, **FORM).setup.registry.names


def test_many_may_ask_one_source_unless_the_configuration_says_otherwise(tmp_path: Path) -> None:
    plugin = load(tmp_path, **FORM)
    assert plugin.setup.resolver.base().values.source_concurrency == 64
    line = {"manifests": [MANIFEST], "config": {"rag-pipeline.json": {"source_concurrency": 3}}}
    plugin = load(tmp_path, **{**FORM, "domains": json.dumps(line)})
    assert plugin.setup.resolver.base().values.source_concurrency == 3


def test_the_demo_bank_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_build", lambda *_: None)
    plugin = load(tmp_path, demo_bank=True)
    assert plugin.demo and plugin.setup.registry.names == ("DCE", "DESK", "NPA", "ORM")
    assert plugin.data_dir.is_relative_to(tmp_path)


def test_the_demo_bank_where_the_home_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(demo, "_build", lambda *_: None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    plugin = load(tmp_path, {"HOME": str(tmp_path / "file")}, demo_bank=True)
    assert plugin.data_dir.is_dir() and "context-engine-" in str(plugin.data_dir)


def test_the_demo_bank_is_never_mixed_with_a_real_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="demo_bank: 'Demo bank' is True and domains are configured"):
        load(tmp_path, **FORM, demo_bank=True)
    packed(tmp_path)
    with pytest.raises(ConfigError, match="set it to False"):
        load(tmp_path, demo_bank=True)


def test_no_domain_at_all(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"domains: no domain is configured.*or set 'Demo bank' to True"):
        load(tmp_path, dify_base_url="https://dify.example", dify_api_key="dataset-1")


def test_a_mistake_in_a_manifest_names_its_place(tmp_path: Path) -> None:
    line = json.dumps({**MANIFEST, "sources": [{**SOURCE, "tier": 1}]})
    registry = load(tmp_path, **{**FORM, "domains": line}).setup.registry
    with pytest.raises(ConfigError, match=r"manifests/npa\.yaml: sources\.npa_sops: type 'bank_sop' is tier 2"):
        registry.domain("NPA")


def test_a_source_without_a_connection_of_that_name(tmp_path: Path) -> None:
    registry = load(tmp_path, domains=json.dumps(MANIFEST)).setup.registry
    with pytest.raises(ConfigError, match="unknown connection 'dify'"):
        registry.domain("NPA")


pytest.importorskip("sqlalchemy")

BANK_MANIFEST = {"version": 1, "domain": "NPA", "sources": [{"id": "sops", "type": "bank_sop"}]}

DSN = "postgresql://ana:s3cret-s3cret@127.0.0.1:1/records"


def plugin(folder: Path, **variables: str) -> PluginSetup:
    form = {"domains": json.dumps(BANK_MANIFEST), "variables": json.dumps(variables)}
    env = {"HOME": str(folder), "CONTEXT_ENGINE_DATA_DIR": str(folder / "data")}
    return load_plugin(Credentials.read(form), root=folder, env=env)


def told(opened_plugin: PluginSetup) -> tuple[str, Any]:
    """Return the last line of what the tool `domains` says, and its JSON."""
    opened = open_engine(opened_plugin)
    with opened.engine:
        answer = opened.call("domains", {"check_health": False}, Caller(), lambda *_: ())
    return answer.text.splitlines()[-1], answer.json["audit"]


def test_without_a_server_nothing_is_recorded_and_it_says_so(tmp_path: Path) -> None:
    made = plugin(tmp_path)
    assert plugin_recorder(made.setup) is None
    assert told(made) == ("audit: off", "off")
    assert not (tmp_path / "data").exists()


def test_best_effort_without_a_server_is_off_and_says_what_to_do(tmp_path: Path) -> None:
    made = plugin(tmp_path, CONTEXT_ENGINE_AUDIT_MODE="best_effort")
    line, mode = told(made)
    assert mode == "off"
    assert line.startswith("audit: off (")
    assert "CONTEXT_ENGINE_AUDIT_LEDGER" in line


def test_records_that_are_required_need_a_server(tmp_path: Path) -> None:
    made = plugin(tmp_path, CONTEXT_ENGINE_AUDIT_MODE="required")
    with pytest.raises(ConfigError, match="replaced on upgrade") as error:
        open_engine(made)
    assert error.value.key == "audit_mode"


def test_a_file_is_refused(tmp_path: Path) -> None:
    made = plugin(tmp_path, CONTEXT_ENGINE_AUDIT_LEDGER=str(tmp_path / "ledger.db"))
    with pytest.raises(ConfigError, match="names a file") as error:
        open_engine(made)
    assert error.value.key == "CONTEXT_ENGINE_AUDIT_LEDGER"


def test_a_server_is_used_and_not_named_to_callers(tmp_path: Path) -> None:
    made = plugin(tmp_path, CONTEXT_ENGINE_AUDIT_LEDGER=DSN)
    assert plugin_audit(made.setup).mode == "best_effort"
    assert plugin_recorder(made.setup) is not None
    assert told(made) == ("audit: best_effort", "best_effort")


def test_a_package_without_the_extra_says_how_to_pack_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise MissingExtra("the audit ledger", "audit")

    monkeypatch.setattr(audit, "open_recorder", missing)
    with pytest.raises(ConfigError, match="plugin pack --audit"):
        open_engine(plugin(tmp_path, CONTEXT_ENGINE_AUDIT_LEDGER=DSN))


def test_an_answer_that_cannot_be_recorded_fails_without_naming_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = plugin(tmp_path, CONTEXT_ENGINE_AUDIT_LEDGER=DSN, CONTEXT_ENGINE_AUDIT_MODE="required")

    def search(_: Credentials) -> None:
        opened = open_engine(made)
        with opened.engine:
            opened.engine.search(SearchRequest(query="limit", domain="NPA"))

    with pytest.raises(ToolFailure, match="unrecorded answers are withheld") as error:
        guarded({}, search)
    assert type(error.value).__name__ == "AuditUnavailable"
    assert "127.0.0.1" not in str(error.value)
    assert "127.0.0.1" in caplog.text
    assert "s3cret" not in caplog.text


TABLE = {"chunking_strategies": {"sop_document": {"chunk_size": 40, "overlap": 0}}}

LOCAL_MANIFEST = {"version": 1, "domain": "NPA", "sources": [{"id": "sops", "type": "bank_sop", "adapter": "local"}]}

TEXT = "# Limits\n\n" + "The head of the desk signs the limit before the first trade of the day. " * 12


def reading(root: Path, **form: Any) -> FileReading:
    return reading_of(Credentials.read(form), root=root, env={"HOME": str(root)})


def packed_with(root: Path, config: dict[str, Any]) -> None:
    (root / "config").mkdir()
    (root / "manifests").mkdir()
    (root / "config/rag-pipeline.json").write_text(json.dumps(config))
    (root / "manifests/npa.yaml").write_text(json.dumps(LOCAL_MANIFEST))


def most_tokens(how: FileReading, **fields: Any) -> int:
    report = chunk_document({"text": TEXT, "document_type": "sop_document", **fields}, how).json
    return int(report["tokens"]["most"])


def line(config: dict[str, Any]) -> str:
    return json.dumps({"manifests": [LOCAL_MANIFEST], "config": {"rag-pipeline.json": config}})


def test_without_a_configuration_the_built_in_table_is_used(tmp_path: Path) -> None:
    assert reading(tmp_path, demo_bank=True).options.strategies is None
    assert most_tokens(reading(tmp_path), chunk_line=False) > 40


def test_the_table_of_a_package_is_used(tmp_path: Path) -> None:
    packed_with(tmp_path, TABLE)
    assert most_tokens(reading(tmp_path), chunk_line=False) <= 40


def test_the_table_of_the_line_goes_before_that_of_the_package(tmp_path: Path) -> None:
    packed_with(tmp_path, TABLE)
    wide = {"chunking_strategies": {"sop_document": {"chunk_size": 120, "overlap": 0}}}
    assert 40 < most_tokens(reading(tmp_path, domains=line(wide)), chunk_line=False) <= 120


def test_sizes_of_the_form_go_before_the_table(tmp_path: Path) -> None:
    packed_with(tmp_path, TABLE)
    assert 40 < most_tokens(reading(tmp_path), chunk_line=False, chunk_size=100, overlap=0) <= 100


def test_the_limit_of_a_chunk_holds_for_the_table(tmp_path: Path) -> None:
    packed_with(tmp_path, {"max_chunk_tokens": 60})
    assert most_tokens(reading(tmp_path), chunk_line=False) <= 60


def test_a_table_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    packed_with(tmp_path, {"chunking_strategies": {"sop_document": {"chunk_size": "large"}}})
    with pytest.raises(ConfigError, match=r"rag-pipeline\.json.*sop_document"):
        reading(tmp_path)


def test_what_a_file_may_cost_is_said_by_an_ingest_json(tmp_path: Path) -> None:
    packed_with(tmp_path, {})
    (tmp_path / "config/ingest.json").write_text(json.dumps({"file_max_chunks": 1, "hidden_cells": "read"}))
    how = reading(tmp_path)
    assert (how.options.settings.hidden_cells, how.options.settings.file_memory_mb) == ("read", 512)
    with pytest.raises(FileNotRead, match=r"gives more than 1 chunks.*file_max_chunks in ingest\.json"):
        chunk_document({"text": TEXT, "document_type": "sop_document", "chunk_size": 40, "overlap": 0}, how)


@pytest.mark.parametrize(("own", "held"), [(5.0, 5.0), (90.0, 30.0)])
def test_a_file_is_not_waited_for_longer_than_dify_waits(own: float, held: float, tmp_path: Path) -> None:
    said = {"manifests": [LOCAL_MANIFEST], "config": {"ingest.json": {"file_timeout_s": own}}}
    assert reading(tmp_path, domains=json.dumps(said)).options.settings.file_timeout_s == held
