"""The guide to deployment, followed: its secrets, its init container, and its backup, restore and upgrade."""

from __future__ import annotations

import copy
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs/guides/deployment.md").read_text("utf-8")
BLOCKS = dict(re.findall(r"^<!-- ([\w-]+) -->\n```\w+\n(.*?)^```$", GUIDE, flags=re.M | re.S))
DEPLOY = ROOT / "manifests/deploy"


def run(script: str, folder: Path, **more: str) -> str:
    known = {name: value for name, value in os.environ.items() if not name.startswith("CONTEXT_ENGINE_")}
    places = {"PATH": f"{Path(sys.executable).parent}:{known['PATH']}", "XDG_DATA_HOME": str(folder / "data")}
    env = {**known, **places, "XDG_CONFIG_HOME": str(folder / "none"), **more}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=folder, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, (script, done.stdout, done.stderr)
    return done.stdout + done.stderr


def test_every_block_is_run() -> None:
    assert set(BLOCKS) == {"secrets", "connection", "init-container", "backup", "restore", "upgrade"}
    assert len(re.findall(r"^```(?!text)\w", GUIDE, flags=re.M)) == len(BLOCKS), "name every block that is not text"


def test_the_secret_of_kubernetes_is_made_of_what_the_pod_reads() -> None:
    made = set(re.findall(r"--from-file=(\w+)", GUIDE))
    text = (DEPLOY / "kubernetes.yaml").read_text("utf-8")
    assert made == set(re.findall(r"\{key: (\w+), path: \1\}", text))


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="the group of files is changed by root")
def test_the_secrets_are_those_of_compose_and_nobody_else_may_read_them(tmp_path: Path) -> None:
    run(BLOCKS["secrets"], tmp_path)
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    for secret in compose["secrets"].values():
        file = tmp_path / secret["file"]
        assert file.read_text().strip() and (file.stat().st_mode & 0o777, file.stat().st_gid) == (0o640, 10001)
    assert (tmp_path / "secrets").stat().st_mode & 0o007 == 0


def test_the_connection_of_compose_names_its_server_and_secrets() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    secrets = compose["services"]["context-engine"]["secrets"]
    (connection,) = yaml.safe_load(BLOCKS["connection"]).values()
    assert urlsplit(connection["base_url"]).hostname in compose["services"]
    assert connection["ca_bundle"].rpartition("/")[2] in secrets
    assert re.fullmatch(r"\$\{file:/run/secrets/(\w+)\}", connection["api_key"])[1] in secrets  # type: ignore[index]


@pytest.mark.slow
def test_the_init_container_may_run_again(tmp_path: Path) -> None:
    prepare = "context-engine init . && context-engine ingest documents --domain HANDBOOK && mkdir backups"
    run(f"{prepare} && context-engine backup backups", tmp_path)
    (restore,) = yaml.safe_load(BLOCKS["init-container"])["initContainers"]
    command = shlex.join(restore["command"]).replace("/backups", str(tmp_path / "backups"))
    pod = {"CONTEXT_ENGINE_CONFIG_DIR": str(tmp_path), "CONTEXT_ENGINE_DATA_DIR": str(tmp_path / "pod")}
    for _ in range(2):
        assert "restored: 2 documents" in run(command, tmp_path, **pod)


@pytest.mark.slow
def test_the_init_container_fits_into_the_deployment() -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="CI installs kubernetes-validate")
    resources = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text("utf-8"))
    deployment = copy.deepcopy(next(one for one in resources if one["kind"] == "Deployment"))
    pod, added = deployment["spec"]["template"]["spec"], yaml.safe_load(BLOCKS["init-container"])
    pod["initContainers"] = added["initContainers"]
    pod["volumes"] += added["volumes"]
    validator.validate(deployment, "1.33", strict=True)
    names = {volume["name"] for volume in pod["volumes"]}
    (restore,) = pod["initContainers"]
    assert {mount["name"] for mount in restore["volumeMounts"]} <= names
    (container,) = pod["containers"]
    assert restore["securityContext"] == container["securityContext"] and restore["image"] == container["image"]


@pytest.mark.slow
def test_backup_restore_and_upgrade_as_the_guide_does_them(tmp_path: Path) -> None:
    recorded = {"CONTEXT_ENGINE_AUDIT_MODE": "required"}
    search = 'context-engine search "hotel limit" --domain HANDBOOK'
    prepare = f"context-engine init . && context-engine ingest documents --domain HANDBOOK && {search}"
    run(prepare, tmp_path, **recorded)
    assert "not in it: keys" in run(BLOCKS["backup"], tmp_path, **recorded)
    restored = run(BLOCKS["restore"], tmp_path, **recorded)
    assert "could be restored" in restored and "set aside" in restored and "self-consistent" in restored
    assert "answered" in run(search, tmp_path, **recorded)
    assert "rebuilt" in run(BLOCKS["upgrade"], tmp_path, **recorded)
