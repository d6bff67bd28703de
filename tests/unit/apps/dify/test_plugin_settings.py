"""From the form to a configuration: where domains come from, what the connection is made of."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any

import certifi
import pytest

from context_engine.apps.dify.credentials import Credentials
from context_engine.apps.dify.plugin_settings import load_plugin
from context_engine.errors import ConfigError, MissingVariable

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


def test_the_demo_bank_alone(tmp_path: Path) -> None:
    plugin = load(tmp_path, demo_bank=True)
    assert plugin.demo and plugin.setup.registry.names == ("DCE", "DESK", "NPA", "ORM")
    assert plugin.data_dir.is_relative_to(tmp_path)


def test_the_demo_bank_where_the_home_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    plugin = load(tmp_path, {"HOME": str(tmp_path / "file")}, demo_bank=True)
    assert plugin.data_dir.is_dir() and "context-engine-" in str(plugin.data_dir)


def test_the_demo_bank_is_never_mixed_with_a_real_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="demo_bank: the demo bank is ticked and domains are configured"):
        load(tmp_path, **FORM, demo_bank=True)
    packed(tmp_path)
    with pytest.raises(ConfigError, match="untick it"):
        load(tmp_path, demo_bank=True)


def test_no_domain_at_all(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"domains: no domain is configured.*or tick 'Demo bank'"):
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
