"""A configuration as one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from context_engine.apps.dify.credentials import Credentials
from context_engine.apps.dify.plugin_settings import load_plugin
from context_engine.apps.dify.settings_line import read_line, write_line
from context_engine.apps.packaging.bundle import read_bundle, settings_line
from context_engine.core.models import NOBODY
from context_engine.errors import ConfigError
from context_engine.settings import find_config
from context_engine.settings.principals import token_hash

FILES = {
    "config/personas.json": '{"analyst": {"stage2_top_k": 3}}',
    "config/connections.yaml": "dify: {base_url: 'https://uat.example/v1', api_key: '${DIFY_KEY}', timeout_s: 5}\n",
    "manifests/npa.yaml": (
        "version: 1\ndomain: NPA\ntitle: 新产品审批\n"
        "sources: [{id: sops, type: bank_sop, adapter: dify, connection: dify, dataset_ids: ['${DS}']}]\n"
    ),
    "manifests/stages/prod.yaml": (
        "connections: {dify: {base_url: 'https://prod.example/v1'}}\ndataset_ids: {sops: ['${PROD_DS}']}\n"
    ),
}


@pytest.fixture
def root(tmp_path: Path, write_tree: Callable[[Path, dict[str, str]], Path]) -> Path:
    return write_tree(tmp_path, FILES)


def line(root: Path, stage: str | None = None, *, env: dict[str, str] | None = None) -> str:
    paths = find_config(env={}, cwd=root)
    return write_line(settings_line(read_bundle(paths, env=env or {}, stage=stage)))


def test_the_line_holds_manifests_connections_and_config_with_variables_as_written(root: Path) -> None:
    assert json.loads(line(root)) == {
        "version": 1,
        "manifests": [
            {
                "version": 1,
                "domain": "NPA",
                "title": "新产品审批",
                "sources": [
                    {
                        "id": "sops",
                        "type": "bank_sop",
                        "adapter": "dify",
                        "connection": "dify",
                        "dataset_ids": ["${DS}"],
                    }
                ],
            }
        ],
        "connections": {"dify": {"base_url": "https://uat.example/v1", "api_key": "${DIFY_KEY}", "timeout_s": 5}},
        "config": {"personas.json": {"analyst": {"stage2_top_k": 3}}},
    }


def test_a_stage_lays_its_connections_and_dataset_ids_over(root: Path) -> None:
    for found in (json.loads(line(root, "prod")), json.loads(line(root, env={"CONTEXT_ENGINE_STAGE": "prod"}))):
        fields = {"base_url": "https://prod.example/v1", "api_key": "${DIFY_KEY}", "timeout_s": 5}
        assert found["connections"] == {"dify": fields}
        assert found["manifests"][0]["sources"][0]["dataset_ids"] == ["${PROD_DS}"]


def test_the_line_survives_a_field_without_line_breaks(root: Path) -> None:
    text = line(root)
    assert "\n" not in text and text.isascii()
    bundle = settings_line(read_bundle(find_config(env={}, cwd=root), env={}))
    packed = write_line(bundle, as_base64=True)
    wrapped = "\n".join(packed[start : start + 76] for start in range(0, len(packed), 76))
    for pasted in (text, packed, wrapped, wrapped.replace("\n", " ")):
        assert read_line(pasted).manifests == bundle.manifests


def test_dates_are_carried_as_text(root: Path) -> None:
    path = root / "manifests/npa.yaml"
    path.write_text(path.read_text().replace("title: 新产品审批", "settings: {as_of: 2025-01-01}"))
    assert json.loads(line(root))["manifests"][0]["settings"] == {"as_of": "2025-01-01"}


def test_the_connection_of_the_plugins_form_need_not_be_written(root: Path) -> None:
    (root / "config/connections.yaml").unlink()
    (root / "manifests/stages/prod.yaml").unlink()
    assert "connections" not in json.loads(line(root))
    path = root / "manifests/npa.yaml"
    text = path.read_text("utf-8").replace("connection: dify", "connection: other")
    path.write_text(text.replace("${DS}", "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"), "utf-8")
    with pytest.raises(ConfigError, match="unknown connection 'other'"):
        line(root)


def test_a_file_of_this_machine_cannot_be_pasted(root: Path) -> None:
    path = root / "config/connections.yaml"
    path.write_text("dify: {base_url: 'https://x.example', api_key: '${file:/run/secrets/key}'}\n")
    with pytest.raises(ConfigError, match=r"connections\.yaml: dify\.api_key: names a file on this machine"):
        line(root)


def test_a_secret_cannot_be_pasted(root: Path) -> None:
    (root / "config/connections.yaml").write_text("dify: {base_url: 'https://x.example', api_key: abc}\n")
    with pytest.raises(ConfigError, match=r"config/connections\.yaml: dify\.api_key: holds a secret") as caught:
        line(root)
    assert "abc" not in str(caught.value)


def test_without_a_manifest_there_is_nothing_to_print(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no manifest"):
        line(tmp_path)


def test_an_unknown_stage_is_named(root: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown stage 'prd'\. Did you mean 'prod'"):
        line(root, "prd")


ACCESS = """
version: 1
principals:
  intake:
    roles: [npa-reader]
    dify: [{app: "${INTAKE_APP}"}]
    tokens: [{sha256: "%s", expires: 2027-12-31}]
"""


@pytest.mark.parametrize("way", ["line", "package"])
def test_who_may_see_what_travels_with_the_manifests(root: Path, tmp_path: Path, way: str) -> None:
    token = "t" * 32
    manifest = FILES["manifests/npa.yaml"] + "access: {roles: [npa-reader]}\n"
    (root / "manifests/npa.yaml").write_text(manifest.replace("${DS}", str(UUID(int=1))), "utf-8")
    (root / "config/access.yaml").write_text(ACCESS % token_hash(token), "utf-8")
    installed = tmp_path / "installed"
    form = {"variables": json.dumps({"INTAKE_APP": "app-1", "DIFY_KEY": "dataset-1"})}
    if way == "line":
        form["domains"] = line(root)
    else:
        for path, content in read_bundle(find_config(env={}, cwd=root), env={}).files().items():
            (installed / path).parent.mkdir(parents=True, exist_ok=True)
            (installed / path).write_bytes(content)
    setup = load_plugin(Credentials.read(form), root=installed, env={"HOME": str(tmp_path)}).setup
    principals, now = setup.config.principals, datetime(2026, 11, 23, tzinfo=UTC)
    intake = principals.for_dify("app-1", "anybody")
    assert intake.roles == {"npa-reader"} and principals.for_token(token, now=now) == intake
    assert principals.for_dify("${INTAKE_APP}", None) is NOBODY
    assert (setup.visible(intake).names, setup.visible(NOBODY).names) == (("NPA",), ())


def test_a_token_written_out_does_not_travel(root: Path) -> None:
    (root / "config/access.yaml").write_text(ACCESS % ("t" * 32), "utf-8")
    with pytest.raises(ConfigError, match=r"config/access\.yaml: .*may be the token itself") as raised:
        line(root)
    assert "t" * 32 not in str(raised.value)
