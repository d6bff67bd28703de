"""The plugin of this repository, packed, checked and signed as an operator does it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import context_engine
from context_engine.apps.cli import main
from context_engine.apps.dify.credentials import Credentials
from context_engine.apps.dify.plugin_settings import load_plugin
from context_engine.apps.dify.settings_line import read_line

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "dify_plugin"
PACKAGE = f"context_engine-{context_engine.__version__}.difypkg"
IMPORTED = """
import importlib, json, sys
from importlib.metadata import entry_points
from pathlib import Path
modules = sorted(".".join(path.with_suffix("").parts) for path in Path().glob("context_engine/**/*.py"))
for name in modules:
    try:
        importlib.import_module(name.removesuffix(".__init__"))
    except ModuleNotFoundError as error:
        optional = ("stdnum", "phonenumbers", "sqlalchemy", "cryptography", "psycopg", "jwt", "neo4j")  # of extras
        if error.name.partition(".")[0] not in optional:
            raise
    except Exception as error:
        if getattr(error, "extra", None) not in ("audit", "server", "aws"):
            raise
groups = ("sources", "rerankers", "embedders", "refiners", "chat_models")
points = [point for group in groups for point in entry_points(group=f"context_engine.{group}")]
for point in points:
    point.load()
extras = sorted({"numpy", "rich", "lxml", "pypdfium2"} & sys.modules.keys())
sys.stdout.write(json.dumps([len(modules), len(points), extras]))
"""
LOOKED_UP = """
import json, sys
import context_engine
from importlib.metadata import entry_points, version
from context_engine.wiring.adapters import RERANKERS, SOURCES, installed
found = {
    "from": context_engine.__file__,
    "version": version("dify-context-engine"),
    "points": sorted({point.name for point in entry_points(group=SOURCES)}),
    "installed": installed(SOURCES),
    "rerankers": installed(RERANKERS),
    "demo": len(list(__import__("pathlib").Path(context_engine.__file__).parent.glob("demo/bank/**/*.md"))),
}
sys.stdout.write(json.dumps(found))
"""


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONTEXT_ENGINE_CONFIG_DIR", "CONTEXT_ENGINE_STAGE", "COLUMNS", "SOURCE_DATE_EPOCH"):
        monkeypatch.delenv(name, raising=False)


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["plugin", *map(str, args)])


def ok(*args: str | Path) -> str:
    result = run(*args)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of the plugin as it is."""
    out = tmp_path_factory.mktemp("dist")
    ok("pack", "--plugin-dir", PLUGIN, "--out", out)
    return out / PACKAGE


@pytest.fixture
def unpacked(package: Path, tmp_path: Path) -> Iterator[Path]:
    with zipfile.ZipFile(package) as archive:
        archive.extractall(tmp_path / "unpacked")
    yield tmp_path / "unpacked"


@pytest.mark.slow
def test_the_plugin_breaks_no_rule() -> None:
    text = ok("check", PLUGIN)
    assert text.endswith("no rule is broken\n")
    assert "load by the SDK: not run" in text


@pytest.mark.slow
def test_the_package_breaks_no_rule_either(package: Path) -> None:
    assert json.loads(ok("check", package, "--json")) == {"ok": True, "findings": [], "sdk": {"status": "not run"}}


@pytest.mark.slow
def test_the_package_holds_plugin_engine_and_demo_and_nothing_else(package: Path) -> None:
    names = zipfile.ZipFile(package).namelist()
    tops = {name.split("/")[0] for name in names if "/" in name}
    assert tops - {"examples", "readme"} == {
        "_assets",
        "context_engine",
        f"dify_context_engine-{context_engine.__version__}.dist-info",
        "endpoints",
        "group",
        "provider",
        "tools",
    }
    assert {"main.py", "manifest.yaml", "requirements.txt", "README.md", "PRIVACY.md"} <= set(names)
    assert "context_engine/demo/manifests/npa.yaml" in names
    assert not [name for name in names if "__pycache__" in name or re.search(r"(^|/)tests?/", name)]


@pytest.mark.slow
def test_packing_again_from_another_folder_gives_the_same_bytes(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    for name in ("dify_plugin", "context_engine"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, copy / name)
    for path in copy.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    monkeypatch.chdir(copy)
    ok("pack")
    assert (copy / "dist" / PACKAGE).read_bytes() == package.read_bytes()


@pytest.mark.slow
def test_size_and_the_largest_files_are_named(tmp_path: Path) -> None:
    text = ok("pack", "--plugin-dir", PLUGIN, "--out", tmp_path)
    assert re.search(r"\d+ files, \d\.\d\d MiB of 50 MiB uncompressed; largest: \S+ \d", text)


@pytest.mark.slow
def test_the_engine_in_the_package_is_found_from_its_folder(unpacked: Path) -> None:
    run = subprocess.run([sys.executable, "-c", LOOKED_UP], cwd=unpacked, capture_output=True, text=True, check=True)
    found = json.loads(run.stdout)
    assert Path(found["from"]).is_relative_to(unpacked)
    assert found["version"] == context_engine.__version__
    assert {"dify", "local"} <= set(found["points"])
    assert {"dify", "local"} <= set(found["installed"])
    assert not {"onnx", "cross_encoder"} & set(found["rerankers"])
    assert {"cohere", "adaptive"} <= set(found["rerankers"])
    assert found["demo"] >= 60


def link_requirements(lines: list[str], site: Path) -> None:
    """Link what the requirements bring, and what that needs, out of this environment into an empty folder."""
    waiting, seen = [Requirement(line) for line in lines], set[str]()
    while waiting:
        one = waiting.pop()
        wanted = one.marker is None or one.marker.evaluate({"extra": ""})
        if not wanted or canonicalize_name(one.name) in seen:
            continue
        seen.add(canonicalize_name(one.name))
        try:
            found = distribution(one.name)
        except PackageNotFoundError:
            continue  # Dify's SDK: the tests of the plugin's process have it
        waiting += [Requirement(line) for line in found.requires or ()]
        tops = {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}
        for top in tops:
            if not (site / top).exists():
                (site / top).symlink_to(str(found.locate_file(top)))


@pytest.mark.slow
def test_every_module_in_the_package_imports_with_its_requirements_alone(unpacked: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    link_requirements((unpacked / "requirements.txt").read_text().splitlines(), site)
    assert not (site / "rich").exists()
    assert not (site / "numpy").exists()
    run = subprocess.run(
        [sys.executable, "-S", "-c", IMPORTED],  # -S: without the packages of this environment
        cwd=unpacked, env={**os.environ, "PYTHONPATH": str(site)}, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    modules, points, extras = json.loads(run.stdout)
    assert modules == len(list(unpacked.glob("context_engine/**/*.py"))) > 100
    assert points >= 8
    assert extras == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "room", ["apps/cli", "apps/server", "apps/mcp", "apps/packaging", "evaluation", "testing", "settings/templates"]
)
def test_what_no_tool_of_the_plugin_needs_stays_out(package: Path, room: str) -> None:
    assert (ROOT / "context_engine" / room).is_dir()
    assert not [name for name in zipfile.ZipFile(package).namelist() if name.startswith(f"context_engine/{room}/")]


@pytest.mark.slow
def test_the_metadata_names_the_adapters_that_are_carried_and_no_others(unpacked: Path) -> None:
    (text,) = [path.read_text() for path in unpacked.glob("dify_context_engine-*.dist-info/entry_points.txt")]
    named = re.findall(r"= ([\w.]+):", text)
    assert "onnx" not in text
    assert "console_scripts" not in text
    for module in named:
        stem = unpacked / module.replace(".", "/")
        assert stem.with_suffix(".py").is_file() or (stem / "__init__.py").is_file()


@pytest.mark.slow
def test_a_package_is_signed_and_verified(package: Path, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import rsa

    keys = [rsa.generate_private_key(public_exponent=65537, key_size=4096) for _ in range(2)]
    pem, plain = form.Encoding.PEM, form.NoEncryption()
    for number, key in enumerate(keys):
        private = key.private_bytes(pem, form.PrivateFormat.TraditionalOpenSSL, plain)
        (tmp_path / f"{number}.pem").write_bytes(private)
        (tmp_path / f"{number}.public.pem").write_bytes(key.public_key().public_bytes(pem, form.PublicFormat.PKCS1))
    ok("pack", "--plugin-dir", PLUGIN, "--out", tmp_path, "--sign", tmp_path / "0.pem")
    assert ok("verify", tmp_path / PACKAGE, "--key", tmp_path / "0.public.pem").startswith("verified: signed 20")
    other = run("verify", tmp_path / PACKAGE, "--key", tmp_path / "1.public.pem")
    assert (other.exit_code, other.stdout.split(":")[0]) == (1, "not verified")
    unsigned = run("verify", package, "--key", tmp_path / "0.public.pem")
    assert (unsigned.exit_code, unsigned.stdout) == (1, "not verified: the package is not signed\n")


def test_settings_are_one_line_that_the_plugin_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {
        "config/connections.yaml": "dify: {base_url: 'https://dify.example/v1', api_key: '${DIFY_KEY}'}\n",
        "manifests/npa.yaml": (
            "version: 1\ndomain: NPA\n"
            "sources: [{id: a, type: bank_sop, adapter: dify, connection: dify, dataset_ids: ['${DATASET}']}]\n"
        ),
        "manifests/stages/prod.yaml": "connections: {dify: {base_url: 'https://prod.example/v1'}}\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    plain, packed = ok("settings", "--stage", "prod"), ok("settings", "--stage", "prod", "--base64")
    for line in (plain, packed):
        assert line.count("\n") == 1
        settings = read_line(line)
        assert settings.connections == {"dify": {"base_url": "https://prod.example/v1", "api_key": "${DIFY_KEY}"}}
        assert [manifest["domain"] for manifest in settings.manifests] == ["NPA"]


@pytest.mark.slow
def test_what_was_baked_in_is_what_the_plugin_runs_with(tmp_path: Path) -> None:
    source = (
        "{id: a, type: bank_sop, adapter: dify, connection: dify, dataset_ids: [6f9619ff-8b86-4d01-b42d-00cf4fc964ff]}"
    )
    for name, text in {
        "config/connections.yaml": "dify: {base_url: 'https://dify.example/v1', api_key: '${DIFY_KEY}'}\n",
        "config/rag-pipeline.json": '{"stage2_top_k": 5}',
        "manifests/npa.yaml": f"version: 1\ndomain: NPA\nsources: [{source}]\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    folders = ("--config", tmp_path / "config", "--manifests", tmp_path / "manifests")
    ok("pack", "--plugin-dir", PLUGIN, "--out", tmp_path, *folders)
    with zipfile.ZipFile(tmp_path / PACKAGE) as archive:
        archive.extractall(tmp_path / "unpacked")
    credentials = Credentials.read({"variables": '{"DIFY_KEY": "dataset-0123456789"}'})
    setup = load_plugin(credentials, root=tmp_path / "unpacked", env={}).setup
    assert setup.registry.names == ("NPA",)
    assert setup.resolver.base().values.stage2_top_k == 5
    key = setup.config.connections.get("dify").api_key
    assert key is not None and key.get_secret_value() == "dataset-0123456789"


@pytest.mark.slow
def test_a_broken_plugin_is_listed_and_not_packed(tmp_path: Path) -> None:
    for name in ("dify_plugin", "context_engine"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    manifest = tmp_path / "dify_plugin/manifest.yaml"
    manifest.write_text(manifest.read_text("utf-8").replace("entrypoint: main", "entrypoint: app"), "utf-8")
    (tmp_path / "dify_plugin/PRIVACY.md").unlink()
    for command in (("check", tmp_path / "dify_plugin"), ("pack", "--plugin-dir", tmp_path / "dify_plugin")):
        result = run(*command)
        assert result.exit_code == 2
        assert "manifest.yaml: meta.runner.entrypoint: 'app' is not accepted. Valid: main. [choice]" in result.stdout
        assert "PRIVACY.md: is missing [file]" in result.stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("pack", "--platform", "manylinux_2_28_x86_64"), "--platform and --python need --with-wheels"),
        (("pack", "--stage", "prod"), "--stage needs --manifests"),
        (("pack", "--plugin-dir", "none"), "run this in the checkout's root"),
        (("pack", "--sign", "none.pem"), "none.pem: --sign: cannot be read"),
        (("check", "none"), "there is no plugin at none"),
        (("verify", "none", "--key", "none"), "cannot be read"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(
    args: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*args)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.slow
def test_a_package_with_wheels_installs_with_the_network_blocked(tmp_path: Path) -> None:
    text = ok("pack", "--plugin-dir", PLUGIN, "--out", tmp_path, "--with-wheels")
    assert "MiB of 50 MiB uncompressed; largest: wheels/" in text
    with zipfile.ZipFile(tmp_path / PACKAGE) as archive:
        archive.extractall(tmp_path / "unpacked")
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    environment = {**os.environ, **nowhere, "PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "NO_PROXY": ""}
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--target", str(tmp_path / "site")]
    command += ["--platform", "manylinux_2_28_x86_64", "--platform", "manylinux_2_17_x86_64"]
    command += ["--platform", "manylinux2014_x86_64", "--python-version", "3.12", "--only-binary", ":all:"]
    command += ["--ignore-requires-python"]  # pip tests a wheel given by path against the Python it runs on
    subprocess.run([*command, "-r", "requirements.txt"], cwd=tmp_path / "unpacked", env=environment, check=True)
    installed = {path.name for path in (tmp_path / "site").iterdir()}
    assert {"dify_plugin", "gevent", "httpx", "pydantic_core", "tantivy", "yaml"} <= installed
