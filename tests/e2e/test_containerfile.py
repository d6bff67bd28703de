"""The Containerfile's own steps, carried out: the wheel is built, and the service is ready under a read-only root."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containerfile import Machine, Stage, can_run, parsed

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "manifests/deploy/Containerfile"
USER = 10001

needs_root = pytest.mark.skipif(not can_run(), reason="mounting an overlay needs root on Linux")
MANIFEST = """
version: 1
domain: HANDBOOK
sources:
  - {id: policies, type: bank_sop, documents: [{include: "**/*.md", doc_type: sop_document}]}
"""
READY = """
import sys, time
from urllib.request import urlopen
for _ in range(240):
    try:
        print(urlopen('http://127.0.0.1:8000/readyz', timeout=2).read().decode())
        sys.exit(0)
    except OSError:
        time.sleep(0.25)
sys.exit('never ready')
"""


@pytest.fixture(scope="module")
def stages() -> list[Stage]:
    return parsed(FILE)


def test_the_image_is_pinned_runs_as_nobody_and_keeps_no_cache(stages: list[Stage]) -> None:
    build, image = stages
    assert build.base == image.base and ":" in image.base and not image.base.endswith(":latest")
    assert image.last("USER") == f"{USER}:{USER}"
    assert image.command("ENTRYPOINT") == ["context-engine"] and image.command("CMD")[0] == "serve"
    assert "/readyz" in image.command("HEALTHCHECK")[-1]
    for name, text in [instruction for stage in stages for instruction in stage.instructions]:
        assert name != "RUN" or "pip " not in text or "--no-cache-dir" in text
    assert not [text for name, text in image.instructions if name == "COPY" and not text.startswith("--from=build")]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, stages: list[Stage]) -> Iterator[Machine]:
    work = tmp_path_factory.mktemp("container")
    context = work / "context"
    context.mkdir()
    packed = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(context)], input=packed.stdout, check=True)
    machine = Machine(work, context, stages)
    built = machine.build()
    assert built.returncode == 0, built.stderr[-3000:]
    yield machine


@pytest.fixture(scope="module")
def mounts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A configuration, documents and secrets that the user may read, and a data folder of its own."""
    folder = tmp_path_factory.mktemp("deployment")
    for name in ("configuration/manifests", "documents", "secrets", "data"):
        (folder / name).mkdir(parents=True)
    (folder / "configuration/manifests/handbook.yaml").write_text(MANIFEST)
    (folder / "documents/hotels.md").write_text("# Hotels\n\n## 1 Limit\n\nA night costs at most 200.\n")
    (folder / "secrets/api_token").write_text("fictitious-token-of-a-container-0123456789")
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    subprocess.run(["chown", f"{USER}:{USER}", str(folder / "data")], check=True)
    places = {"/etc/context-engine": "configuration", "/documents": "documents", "/run/secrets": "secrets"}
    return {place: folder / name for place, name in {**places, "/var/lib/context-engine": "data"}.items()}


@needs_root
@pytest.mark.slow
def test_the_service_of_the_image_is_ready_with_a_read_only_root(
    machine: Machine, mounts: dict[str, Path], stages: list[Stage]
) -> None:
    image = stages[-1]
    serve = shlex.join([*image.command("ENTRYPOINT"), *image.command("CMD")])
    health = shlex.join(image.command("HEALTHCHECK"))
    ran = machine.run(
        "id -u",
        "! touch /opt/context-engine/written 2>/dev/null",
        "touch /var/lib/context-engine/written /tmp/written",
        "context-engine ingest /documents --domain HANDBOOK --json > /tmp/ingested.json",
        "export CONTEXT_ENGINE_API_TOKEN='${file:/run/secrets/api_token}'",
        f"({serve} 2> /tmp/log & echo $! > /tmp/pid)",
        f"(python -c {shlex.quote(READY)} || (cat /tmp/log >&2; false))",
        f"http_proxy=http://127.0.0.1:9 {health}",  # an engine may hand its own proxy to every container
        "kill -TERM $(cat /tmp/pid)",
        "while kill -0 $(cat /tmp/pid) 2>/dev/null; do sleep 0.1; done",
        "grep -c . /tmp/log",
        mounts=mounts,
    )
    assert ran.returncode == 0, (ran.stdout, ran.stderr[-3000:])
    user, ready, _ = ran.stdout.splitlines()
    assert user == str(USER) and json.loads(ready)["state"] == "ready"


@needs_root
@pytest.mark.slow
def test_the_image_holds_the_program_and_no_source_or_cache(machine: Machine) -> None:
    upper = machine.work / str(len(machine.stages) - 1) / "upper"
    assert (upper / "opt/context-engine/bin/context-engine").is_file()
    assert not list(upper.rglob("*.whl")) and not (upper / "root/.cache").exists() and not (upper / "build").exists()
    (package,) = upper.glob("opt/context-engine/lib/python*/site-packages/context_engine")
    assert package.parents[1].name == f"python{sys.version_info[0]}.{sys.version_info[1]}"
