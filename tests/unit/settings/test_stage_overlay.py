from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from context_engine.errors import ConfigError
from context_engine.settings import ConfigPaths, load_config
from context_engine.settings.registry import load_registry

Write = Callable[[Mapping[str, Any]], ConfigPaths]

MANIFEST = """
version: 1
domain: NPA
sources:
  - {id: sops, type: bank_sop, connection: dify, dataset_ids: ["${DEV_DATASET}"]}
  - {id: web, type: general_web, connection: dify, dataset_ids: [w-1]}
"""
CONNECTIONS = "dify: {base_url: 'https://dev.example', api_key: '${DEV_KEY}', timeout_s: 5}\n"
UAT = """
connections:
  dify: {base_url: 'https://uat.example', api_key: '${UAT_KEY}'}
dataset_ids:
  sops: ['${UAT_DATASET:-uat-1}', uat-2]
"""


def files(stage: str = UAT) -> dict[str, str]:
    return {"config/connections.yaml": CONNECTIONS, "manifests/npa.yaml": MANIFEST, "manifests/stages/uat.yaml": stage}


@pytest.mark.parametrize(("name", "env"), [("uat", {}), (None, {"CONTEXT_ENGINE_STAGE": "uat"})])
def test_a_stage_changes_connections_and_dataset_ids_key_by_key(
    write: Write, name: str | None, env: dict[str, str]
) -> None:
    """What the stage replaces is not asked of the environment any more."""
    paths, env = write(files()), {**env, "UAT_KEY": "k"}
    config = load_config(paths, env=env, stage=name)
    dify = config.connections.get("dify")
    assert (dify.base_url, dify.timeout_s) == ("https://uat.example", 5.0)
    registry = load_registry(paths, env=env, stage=config.stage, connections=config.connections.names)
    sops, web = registry.domain("NPA").sources
    assert (sops.dataset_ids, web.dataset_ids) == (("uat-1", "uat-2"), ("w-1",))


def test_the_argument_wins_over_the_variable(write: Write) -> None:
    config = load_config(write(files()), env={"CONTEXT_ENGINE_STAGE": "prod"}, stage="uat")
    assert (config.stage.name, config.stage.file) == ("uat", "manifests/stages/uat.yaml")


def test_a_missing_variable_of_the_stage_fails_only_who_uses_it(write: Write) -> None:
    paths = write(files(UAT.replace(":-uat-1", "")))
    config = load_config(paths, env={}, stage="uat")
    registry = load_registry(paths, env={}, stage=config.stage, connections=config.connections.names)
    assert registry.names == ("NPA",)
    missing = registry.broken["NPA"]
    assert (missing.file, missing.key) == ("manifests/stages/uat.yaml", "dataset_ids.sops.0")
    assert config.connections.problems()[0].file == "manifests/stages/uat.yaml"


@pytest.mark.parametrize(
    ("stage", "key", "problem"),
    [
        ("settings: {min_chunks: 1}", "settings", "a stage changes only 'connections' and 'dataset_ids'"),
        ("domains: {}", "domains", "a stage changes only"),
        ("dataset_ids: [a]", "dataset_ids", "must be a mapping"),
        ("dataset_ids: {sops: uat-1}", "dataset_ids.sops", "must be a list of dataset ids in quotes"),
        ("dataset_ids: {sops: [1]}", "dataset_ids.sops", "must be a list of dataset ids in quotes"),
        ("connections: {dify: {base_uri: x}}", "connections.dify.base_uri", "unknown key. Did you mean 'base_url'?"),
    ],
)
def test_a_stage_that_cannot_be_used(write: Write, stage: str, key: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_config(write(files(stage)), env={}, stage="uat")
    assert (raised.value.file, raised.value.key) == ("manifests/stages/uat.yaml", key)
    assert problem in str(raised.value)


def test_a_dataset_of_a_source_that_is_nowhere(write: Write) -> None:
    paths = write(files("dataset_ids: {sop: [x]}"))
    stage = load_config(paths, env={}, stage="uat").stage
    with pytest.raises(ConfigError, match=r"stages/uat.yaml: dataset_ids.sop: unknown source\. Did you mean 'sops'"):
        load_registry(paths, env={"DEV_DATASET": "d"}, stage=stage, connections=["dify"])


def test_an_unknown_stage_lists_those_that_are_there(write: Write) -> None:
    paths = write({**files(), "manifests/stages/prod.yaml": "{}"})
    with pytest.raises(ConfigError, match=r"unknown stage 'test'\. Valid: prod, uat\."):
        load_config(paths, env={}, stage="test")
    with pytest.raises(ConfigError, match=r"CONTEXT_ENGINE_STAGE: unknown stage 'uta'\. Did you mean 'uat'"):
        load_config(paths, env={"CONTEXT_ENGINE_STAGE": "uta"})
    nowhere = ConfigPaths(origin="built-in", config_dir=None, manifest_dir=None, cwd=paths.cwd)
    with pytest.raises(ConfigError, match="There is none"):
        load_config(nowhere, env={}, stage="uat")
