"""Packages carried along: their files, entry points and requirements."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from context_engine.apps.packaging import PackOptions, pack
from context_engine.apps.packaging.check import write_files
from context_engine.apps.packaging.vendor import reachable
from context_engine.errors import ConfigError

pytestmark = pytest.mark.slow

Tree = Callable[[Path, dict[str, str]], Path]

ADAPTER = {
    "acme_vault/__init__.py": "def open_vault(spec, context):\n    return 'vault'\n",
    "acme_vault/data.json": "{}",
    "acme_vault/tests/test_it.py": "x",
    "acme_vault-2.1.dist-info/METADATA": (
        "Metadata-Version: 2.1\nName: acme-vault\nVersion: 2.1\nRequires-Dist: dify-context-engine>=0.1\n"
        "Requires-Dist: acme-wire<3,>=2\nRequires-Dist: pytest; extra == 'test'\n"
    ),
    "acme_vault-2.1.dist-info/entry_points.txt": (
        "[console_scripts]\nvault = acme_vault:main\n\n[context_engine.sources]\nvault = acme_vault:open_vault\n"
    ),
    "acme_vault-2.1.dist-info/top_level.txt": "acme_vault\n",
    "acme_vault-2.1.dist-info/RECORD": "acme_vault/__init__.py,,\n",
}

LISTED = """
import json, sys
from importlib.metadata import entry_points, version
points = {point.name: (point.value, point.load().__name__) for point in entry_points(group="context_engine.sources")}
sys.stdout.write(json.dumps([points, version("acme-vault"), version("dify-context-engine")]))
"""


@pytest.fixture
def adapter(tmp_path: Path, write_tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(write_tree(tmp_path / "site", ADAPTER)))


@pytest.mark.usefixtures("adapter")
def test_an_adapter_is_carried_along_with_its_entry_points_and_requirements(plugin_dir: Path, tmp_path: Path) -> None:
    files = pack(plugin_dir, tmp_path, PackOptions(include=("acme_vault",), extras=()), env={}).files
    assert {path for path in files if path.startswith("acme")} == {
        "acme_vault/__init__.py",
        "acme_vault/data.json",
        "acme_vault-2.1.dist-info/METADATA",
        "acme_vault-2.1.dist-info/entry_points.txt",
    }
    assert (
        files["acme_vault-2.1.dist-info/entry_points.txt"]
        == b"[context_engine.sources]\nvault = acme_vault:open_vault\n"
    )
    assert files["requirements.txt"].decode().splitlines()[-1] == "acme-wire<3,>=2"


@pytest.mark.usefixtures("adapter")
def test_what_a_package_carried_along_imports_of_the_engine_is_carried_too(
    plugin_dir: Path, checkout: Path, tmp_path: Path
) -> None:
    (checkout / "context_engine/extra.py").write_text("")
    assert "context_engine/extra.py" not in pack(plugin_dir, tmp_path, env={}).files
    (tmp_path / "site/acme_vault/__init__.py").write_text("def open_vault():\n    import context_engine.extra\n")
    files = pack(plugin_dir, tmp_path, PackOptions(include=("acme_vault",)), env={}).files
    assert "context_engine/extra.py" in files


def test_requirements_and_adapters_that_the_plugin_cannot_use_are_not_named(
    plugin_dir: Path, checkout: Path, tmp_path: Path
) -> None:
    (checkout / "context_engine/models.py").write_text("def open_onnx():\n    return 1\n")
    with (checkout / "pyproject.toml").open("a") as project:
        project.write('[project.entry-points."context_engine.embedders"]\nonnx = "context_engine.models:open_onnx"\n')
        project.write('[project.entry-points."console_scripts"]\ncli = "context_engine.models:open_onnx"\n')
    text = (checkout / "pyproject.toml").read_text()
    (checkout / "pyproject.toml").write_text(text.replace('["httpx', '["click>=8.1,<9", "rich>=13.9", "httpx'))
    files = pack(plugin_dir, tmp_path, PackOptions(extras=()), env={}).files
    points = files["dify_context_engine-0.1.0.dist-info/entry_points.txt"].decode()
    assert points.split() == ["[context_engine.sources]", "local", "=", "context_engine.local:open_local"]
    assert "context_engine/models.py" not in files
    metadata = files["dify_context_engine-0.1.0.dist-info/METADATA"].decode()
    assert [line for line in metadata.splitlines() if line.startswith("Requires-Dist")] == [
        "Requires-Dist: httpx>=0.28,<1",
        "Requires-Dist: PyYAML>=6.0.2,<7",
    ]


def test_loaders_are_carried_though_they_are_imported_by_name(plugin_dir: Path, checkout: Path, tmp_path: Path) -> None:
    loaders = checkout / "context_engine/ingest/loaders"
    loaders.mkdir(parents=True)
    (loaders.parent / "__init__.py").write_text("")
    (loaders / "__init__.py").write_text("")
    (loaders / "docx_file.py").write_text("import context_engine.ingest.word\n")
    (loaders.parent / "word.py").write_text("")
    files = pack(plugin_dir, tmp_path, env={}).files
    assert {"context_engine/ingest/loaders/docx_file.py", "context_engine/ingest/word.py"} <= set(files)


@pytest.mark.usefixtures("adapter")
def test_python_finds_the_entry_points_in_the_unpacked_folder(plugin_dir: Path, tmp_path: Path) -> None:
    packed = pack(plugin_dir, tmp_path, PackOptions(include=("acme_vault",)), env={})
    write_files(packed.files, tmp_path / "unpacked")
    command = [sys.executable, "-S", "-c", LISTED]  # -S: without the packages of this environment
    run = subprocess.run(command, cwd=tmp_path / "unpacked", capture_output=True, text=True, check=True)
    local, vault = ["context_engine.local:open_local", "open_local"], ["acme_vault:open_vault", "open_vault"]
    assert run.stdout == f'[{{"vault": {_json(vault)}, "local": {_json(local)}}}, "2.1", "0.1.0"]' or run.stdout == (
        f'[{{"local": {_json(local)}, "vault": {_json(vault)}}}, "2.1", "0.1.0"]'
    )


@pytest.mark.usefixtures("adapter")
def test_an_editable_installation_is_known_by_its_entry_points(plugin_dir: Path, tmp_path: Path) -> None:
    for name in ("top_level.txt", "RECORD"):
        (tmp_path / "site/acme_vault-2.1.dist-info" / name).unlink()
    assert "acme_vault/data.json" in pack(plugin_dir, tmp_path, PackOptions(include=("acme_vault",)), env={}).files


@pytest.mark.usefixtures("adapter")
def test_requirements_that_contradict_are_refused(plugin_dir: Path, tmp_path: Path) -> None:
    metadata = tmp_path / "site/acme_vault-2.1.dist-info/METADATA"
    metadata.write_text(metadata.read_text().replace("acme-wire<3,>=2", "httpx<0.28"))
    with pytest.raises(ConfigError, match=r"needs httpx<0\.28, and the plugin httpx<1,>=0\.28"):
        pack(plugin_dir, tmp_path, PackOptions(include=("acme_vault",)), env={})


@pytest.mark.usefixtures("adapter")
def test_a_compiled_package_is_refused(plugin_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "site/acme_vault/fast.so").write_bytes(b"x")
    with pytest.raises(ConfigError, match=r"acme_vault/fast\.so is compiled"):
        pack(plugin_dir, tmp_path, PackOptions(include=("acme_vault",)), env={})


def test_a_package_that_is_not_installed_is_refused(plugin_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no installed distribution provides 'acme_nowhere'"):
        pack(plugin_dir, tmp_path, PackOptions(include=("acme_nowhere",)), env={})


def _json(pair: list[str]) -> str:
    return f'["{pair[0]}", "{pair[1]}"]'


PACKAGE = {
    "bank/__init__.py": b"",
    "bank/py.typed": b"",
    "bank/search.py": b"from bank.text import words\n\ndef later():\n    import bank.late.engine\n",
    "bank/text.py": b"from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from bank.screen import Screen\n",
    "bank/screen.py": b"",
    "bank/late/__init__.py": b"",
    "bank/late/engine.py": b"",
    "bank/late/words/stop.txt": b"the",
    "bank/adapter.py": b"from bank import other\n",
    "bank/other.py": b"",
    "bank/tuning/__init__.py": b"",
    "bank/tuning/data.json": b"{}",
}


def reached(*sources: bytes, modules: tuple[str, ...] = ()) -> set[str]:
    return set(reachable(PACKAGE, sources, modules))


def test_imports_are_followed_into_functions_and_bring_the_packages_around_them() -> None:
    assert reached(b"from bank.search import search\n") == {
        "bank/__init__.py",
        "bank/py.typed",
        "bank/search.py",
        "bank/text.py",
        "bank/late/__init__.py",
        "bank/late/engine.py",
        "bank/late/words/stop.txt",
    }


def test_an_import_for_type_checkers_alone_is_none() -> None:
    assert "bank/screen.py" not in reached(b"import bank.text\n")
    assert "bank/screen.py" in reached(b"from bank import screen\n")


def test_what_is_imported_by_name_is_given() -> None:
    assert "bank/other.py" not in reached(b"import bank\n")
    assert {"bank/adapter.py", "bank/other.py"} <= reached(b"import bank\n", modules=("bank.adapter",))


def test_data_goes_with_the_package_it_lies_in() -> None:
    assert not [path for path in reached(b"import bank.search\n") if path.startswith("bank/tuning/")]
    assert "bank/tuning/data.json" in reached(b"import bank.tuning\n")


def test_a_file_that_is_no_python_reaches_nothing() -> None:
    assert reached(b"def (\n") == set()
