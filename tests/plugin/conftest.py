"""The real process: the plugin unpacked, in a Python 3.12 environment made of its requirements alone."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from context_engine import demo
from context_engine.apps.dify.settings_line import SettingsLine, write_line
from context_engine.testing import FakeDataset, FakeDify, FakeDocument

ROOT = Path(__file__).resolve().parents[2]
BIG = "npa_big"
BIG_DOMAIN = "BIG"
PATIENT = {"deadline_s": 120, "source_timeout_s": 100}
"""Times that a busy machine keeps too; an endpoint has its own."""


def load_beside(name: str) -> Any:
    """A module beside this file; test folders are no packages."""
    spec = importlib.util.spec_from_file_location(f"plugin_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def find_python312() -> str | None:
    """A Python 3.12 that runs: on the PATH, or one of pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = ["python3.12", *(str(path) for path in sorted(pyenv.glob("3.12*/bin/python3.12")))]
    for candidate in candidates:
        try:
            asked = [candidate, "-c", "import sys; print(sys.version_info[:2] == (3, 12))"]
            if subprocess.run(asked, capture_output=True, text=True, timeout=30).stdout.strip() == "True":
                return candidate
        except OSError:
            continue
    return None


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """One process at a time: each worker of a parallel run wants the environment, and one makes it."""
    import fcntl  # here, for Windows has none and collects these tests too

    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def driver() -> Any:
    return load_beside("driver")


@pytest.fixture(scope="session")
def workflow() -> Any:
    return load_beside("workflow")


@pytest.fixture(scope="session")
def chat_model() -> Any:
    return load_beside("chat_model")


@pytest.fixture(scope="session")
def plugin_python(plugin_folder: Path, given_environment: Mapping[str, str]) -> Path:
    """The interpreter of an environment that holds the package's requirements and nothing else."""
    python = find_python312()
    if python is None:
        pytest.skip("Dify runs plugins on Python 3.12, and there is none here")
    requirements = plugin_folder / "requirements.txt"
    name = hashlib.sha256(requirements.read_bytes()).hexdigest()[:16]
    place = Path(tempfile.gettempdir()) / f"context-engine-plugin-{name}"
    with alone(place.with_suffix(".lock")):
        if not (place / "ready").is_file():
            shutil.rmtree(place, ignore_errors=True)
            subprocess.run([python, "-m", "venv", str(place)], check=True)
            pip = [str(place / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, "-r", str(requirements)], check=True, env=given_environment)
            (place / "ready").write_text("")
    return place / "bin/python"


@pytest.fixture(scope="session")
def plugin_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as `plugin pack` writes it, unpacked into an empty folder."""
    place = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "context_engine", "plugin", "pack", "--out", str(place / "dist")]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (package,) = (place / "dist").glob("*.difypkg")
    with zipfile.ZipFile(package) as archive:
        archive.extractall(place / "plugin")
    return place / "plugin"


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def plugin(driver: Any, plugin_python: Path, plugin_folder: Path, home: Path) -> Iterator[Any]:
    """One process for all tests, as in Dify."""
    with driver.PluginProcess(plugin_python, plugin_folder, {"HOME": str(home)}) as process:
        yield process


def big_dataset() -> FakeDataset:
    """Eight passages of 800 KB each that match a question."""
    words = "The settlement ledger of desk {n} keeps row {row} for reconciliation of the nostro account. "
    texts = ["".join(words.format(n=n, row=row) for row in range(10_000))[:800_000] for n in range(8)]
    return FakeDataset(BIG, "economy", [FakeDocument(f"Ledger {n}", [text]) for n, text in enumerate(texts)])


@pytest.fixture(scope="session")
def fake_dify() -> Iterator[FakeDify]:
    """A Dify that holds the demo bank, and a dataset of very long passages."""
    with FakeDify.demo() as dify:
        dify.put(big_dataset())
        yield dify


@pytest.fixture
def dify(fake_dify: FakeDify) -> Iterator[FakeDify]:
    """The same, healed after the test."""
    yield fake_dify
    fake_dify.heal()


def dify_manifests(dify: FakeDify) -> list[dict[str, Any]]:
    """The demo bank's manifests with Dify datasets in the place of files; answers are not kept between searches."""
    manifests = []
    for path in sorted(demo.MANIFESTS.glob("*.yaml")):
        manifest = yaml.safe_load(path.read_text("utf-8"))
        for source in manifest["sources"]:
            del source["documents"]
            source |= {"adapter": "dify", "connection": "dify", "dataset_ids": [dify.dataset_id(source["id"])]}
            source["settings"] = {"cache_ttl_s": 0, "attempts": 1, "lookup_ttl_s": 1}
        manifests.append({**manifest, "settings": {**manifest.get("settings", {}), **PATIENT}})
    source = {"id": BIG, "type": "bank_sop", "adapter": "dify", "connection": "dify", "title": "Ledgers"}
    source["dataset_ids"] = [dify.dataset_id(BIG)]
    manifests.append({"version": 1, "domain": BIG_DOMAIN, "sources": [source], "settings": PATIENT})
    return manifests


@pytest.fixture
def credentials(dify: FakeDify) -> dict[str, Any]:
    """A form as a bank fills it in; another one for each test, so that no circuit breaker is open from the last."""
    return {
        "variables": json.dumps({"TEST": uuid4().hex}),
        "dify_base_url": dify.base_url,
        "dify_api_key": dify.api_key,
        "domains": write_line(SettingsLine(manifests=dify_manifests(dify))),
        "demo_bank": False,
    }


@pytest.fixture
def with_manifests(dify: FakeDify) -> Any:
    """Return credentials whose manifests a function has changed."""

    def made(change: Any) -> dict[str, Any]:
        manifests = json.loads(json.dumps(dify_manifests(dify)))
        change(manifests)
        line = write_line(SettingsLine(manifests=manifests))
        return {"dify_base_url": dify.base_url, "dify_api_key": dify.api_key, "domains": line}

    return made
