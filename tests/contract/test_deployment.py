"""The files under manifests/deploy: valid by the schemas of their readers, and in agreement with the settings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from context_engine.core.models import Settings
from context_engine.settings import find_config
from context_engine.settings.environment_secrets import AUDIT_KEY, AUDIT_LEDGER
from context_engine.settings.load import load_config
from context_engine.settings.registry import load_registry

DEPLOY = Path(__file__).resolve().parents[2] / "manifests/deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
KUBERNETES = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text("utf-8")))
SECRET_FILE = re.compile(r"\$\{file:(/run/secrets/[\w/-]+)\}")
VERSIONS = ("1.29", "1.33", "1.37")


def of_kind(kind: str) -> Any:
    (resource,) = (one for one in KUBERNETES if one["kind"] == kind)
    return resource


POD = of_kind("Deployment")["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
SERVICE = COMPOSE["services"]["context-engine"]


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_accepts_every_resource(version: str) -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="CI installs kubernetes-validate")
    for resource in KUBERNETES:
        validator.validate(resource, version, strict=True)
    misspelt = {**of_kind("Service"), "sepc": {}}
    with pytest.raises(validator.ValidationError):
        validator.validate(misspelt, version, strict=True)


@pytest.mark.slow
def test_the_compose_specification_accepts_the_file() -> None:
    compose_spec = pytest.importorskip("compose_spec", reason="CI installs compose-spec")
    text = (DEPLOY / "compose.yaml").read_text("utf-8")
    assert set(compose_spec.PyCompose.from_yaml(text).service_names()) == {"context-engine", "postgres", "redis"}
    with pytest.raises(ValueError, match="read_onyl"):
        compose_spec.PyCompose.from_yaml(text.replace("read_only", "read_onyl"))


def test_nobody_takes_these_files_for_domains() -> None:
    root = DEPLOY.parents[1]
    paths = find_config(env={}, cwd=root)
    assert not [path for path in paths.manifests() if DEPLOY in path.parents]
    named = find_config(root, env={}, cwd=root)
    assert not named.manifests() and not named.stages()


def test_no_secret_is_written_into_the_files() -> None:
    mounted = {f"/run/secrets/{name}" for name in SERVICE["secrets"]}
    assert set(SERVICE["secrets"]) <= set(COMPOSE["secrets"])
    (projected,) = (volume["projected"] for volume in POD["volumes"] if "projected" in volume)
    items = {item["path"] for source in projected["sources"] for item in source["secret"]["items"]}
    texts = {name: value.replace("$$", "$") for name, value in SERVICE["environment"].items()}
    environment = {row["name"]: row["value"] for row in CONTAINER["env"]}
    for values, places in ((texts, mounted), (environment, {f"/run/secrets/context-engine/{item}" for item in items})):
        assert {"CONTEXT_ENGINE_API_TOKEN", AUDIT_LEDGER, AUDIT_KEY} <= set(values)
        for name in ("CONTEXT_ENGINE_API_TOKEN", AUDIT_LEDGER, AUDIT_KEY):
            match = SECRET_FILE.fullmatch(values[name])
            assert match is not None and match[1] in places, name
    assert all(
        SERVICE_KEY.endswith("_FILE")
        for SERVICE_KEY in COMPOSE["services"]["postgres"]["environment"]
        if "PASSWORD" in SERVICE_KEY
    )
    assert not [resource for resource in KUBERNETES if resource["kind"] == "Secret"]


def test_every_container_of_compose_may_read_its_secrets() -> None:
    users = {name: service["user"] for name, service in COMPOSE["services"].items() if service.get("secrets")}
    assert set(users) == {"context-engine", "postgres", "redis"}
    assert {user.partition(":")[2] for user in users.values()} == {"10001"}, "the group of the files"


def test_postgresql_of_compose_speaks_tls_with_the_certificate_that_the_service_checks() -> None:
    server = COMPOSE["services"]["postgres"]
    named = dict(re.findall(r"-c (ssl\w*)=(\S+)", server["command"]))
    assert named.pop("ssl") == "on"
    assert {Path(file).name for file in named.values()} <= set(server["secrets"])
    assert Path(named["ssl_cert_file"]).name in SERVICE["secrets"]
    assert Path(named["ssl_key_file"]).name not in SERVICE["secrets"]


def test_the_grace_period_is_longer_than_an_orderly_stop() -> None:
    environment, configured = SERVICE["environment"], Settings.model_validate_json(config_map("rag-pipeline.json"))
    drain_s, stop_s = (float(environment[f"CONTEXT_ENGINE_SERVER_{name}_S"]) for name in ("DRAIN", "STOP"))
    assert float(SERVICE["stop_grace_period"].removesuffix("s")) > drain_s + stop_s
    assert POD["terminationGracePeriodSeconds"] > configured.server_drain_s + configured.server_stop_s
    probe = CONTAINER["readinessProbe"]
    assert configured.server_drain_s >= probe["periodSeconds"], (
        "the load balancer looks once more before the port closes"
    )


def test_containers_run_as_nobody_with_a_read_only_root() -> None:
    assert (
        POD["securityContext"]["runAsNonRoot"] and POD["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
    )
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not POD["automountServiceAccountToken"]
    assert (SERVICE["read_only"], SERVICE["cap_drop"], SERVICE["user"]) == (True, ["ALL"], "10001:10001")
    for service in COMPOSE["services"].values():
        assert re.search(r":\d", service["image"]), "images are pinned"


def test_the_probes_ask_what_the_service_answers() -> None:
    assert CONTAINER["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert {CONTAINER[probe]["httpGet"]["path"] for probe in ("livenessProbe", "startupProbe")} == {"/healthz"}
    assert of_kind("Deployment")["spec"]["replicas"] == 2
    assert of_kind("PodDisruptionBudget")["spec"]["minAvailable"] == 1
    labels = {"app.kubernetes.io/name": "context-engine"}
    assert (
        of_kind("Service")["spec"]["selector"]
        == of_kind("NetworkPolicy")["spec"]["podSelector"]["matchLabels"]
        == labels
    )


def test_the_configuration_of_the_config_map_is_valid(tmp_path: Path) -> None:
    (volume,) = (volume["configMap"] for volume in POD["volumes"] if "configMap" in volume)
    for item in volume["items"]:
        file = tmp_path / item["path"]
        file.parent.mkdir(exist_ok=True)
        file.write_text(config_map(item["key"]))
    paths = find_config(tmp_path, env={}, cwd=tmp_path)
    config = load_config(paths, env={})
    registry = load_registry(paths, env={}, connections=config.connections.names, doc_types=config.chunking)
    assert list(registry.names) == ["HANDBOOK"] and not registry.problems
    assert config.resolver().base().values.audit_mode == "required"


def config_map(key: str) -> str:
    text: str = of_kind("ConfigMap")["data"][key]
    return text
