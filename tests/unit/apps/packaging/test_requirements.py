"""Wheels for another platform, from an index in a folder."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from context_engine.apps.packaging import PackOptions, check, pack
from context_engine.apps.packaging.check import write_files
from context_engine.apps.packaging.requirements import WheelTarget, download_wheels
from context_engine.errors import ConfigError


def wheel(folder: Path, name: str, version: str, requires: tuple[str, ...] = (), tag: str = "py3-none-any") -> None:
    """Write a wheel of one module."""
    info = f"{name}-{version}.dist-info"
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {name}",
        f"Version: {version}",
        *(f"Requires-Dist: {one}" for one in requires),
    ]
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": "\n".join(lines) + "\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-{tag}.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all pip sees."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    wheel(folder, "httpx", "0.28.1", ("certs", "only_old; python_version < '3.12'", "late; python_version >= '3.12'"))
    wheel(folder, "certs", "1.0", ("absent; extra == 'more'",))
    wheel(folder, "only_old", "1.0")
    wheel(folder, "late", "1.0", ("only_other; sys_platform == 'win32'",))
    wheel(folder, "PyYAML", "6.0.3", tag="cp312-cp312-manylinux_2_17_x86_64")
    wheel(folder, "PyYAML", "6.0.3", tag="cp311-cp311-manylinux_2_17_x86_64")
    wheel(folder, "dify_plugin", "0.10.2")
    wheel(folder, "dify_plugin", "0.11.0")
    return folder


@pytest.mark.slow
@pytest.mark.usefixtures("index")
def test_wheels_are_those_of_the_target_and_not_of_the_python_that_packs() -> None:
    names = set(download_wheels(["httpx>=0.28,<1", "PyYAML>=6"], WheelTarget()))
    assert {"httpx-0.28.1-py3-none-any.whl", "late-1.0-py3-none-any.whl", "certs-1.0-py3-none-any.whl"} <= names
    assert "PyYAML-6.0.3-cp312-cp312-manylinux_2_17_x86_64.whl" in names
    assert not [name for name in names if "cp311" in name or name.startswith(("absent", "only_other"))]


@pytest.mark.slow
@pytest.mark.usefixtures("index")
def test_a_requirement_without_a_wheel_is_named() -> None:
    with pytest.raises(ConfigError, match=r"--with-wheels: pip download failed: .*PyYAML"):
        download_wheels(["PyYAML>=6"], WheelTarget(platform="manylinux_2_28_aarch64"))


def test_a_newer_manylinux_takes_the_wheels_of_an_older_one() -> None:
    assert WheelTarget(platform="manylinux_2_19_aarch64").platforms() == [
        "manylinux_2_19_aarch64",
        "manylinux_2_18_aarch64",
        "manylinux_2_17_aarch64",
        "manylinux2014_aarch64",
    ]
    assert WheelTarget(platform="manylinux2014_x86_64").platforms()[0] == "manylinux_2_17_x86_64"
    assert WheelTarget(platform="macosx_11_0_arm64").platforms() == ["macosx_11_0_arm64"]


@pytest.mark.parametrize(("fields", "key"), [({"python": "3"}, "--python"), ({"platform": "a b"}, "--platform")])
def test_a_target_that_cannot_be_is_refused(fields: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        WheelTarget(**fields)


@pytest.mark.slow
@pytest.mark.usefixtures("index")
def test_a_package_with_wheels_installs_without_an_index(
    plugin_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plugin_dir / "pyproject.toml").write_text(
        '[project]\nname = "x"\ndependencies = ["dify_plugin>=0.10,<0.11", "httpx>=0.28,<1", "PyYAML>=6.0.2,<7"]\n'
    )
    packed = pack(plugin_dir, tmp_path / "dist", PackOptions(wheels=WheelTarget(), extras=()), env={})
    lines = packed.files["requirements.txt"].decode().splitlines()
    assert "./wheels/dify_plugin-0.10.2-py3-none-any.whl" in lines
    assert all(line.removeprefix("./") in packed.files for line in lines)
    assert "pyproject.toml" not in packed.files
    assert check(packed.path).ok

    unpacked = tmp_path / "unpacked"
    write_files(packed.files, unpacked)
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--target", str(tmp_path / "site")]
    command += ["--platform", "manylinux_2_17_x86_64", "--python-version", "3.12", "--only-binary", ":all:"]
    subprocess.run([*command, "-r", "requirements.txt"], cwd=unpacked, check=True)
    modules = {path.stem for path in (tmp_path / "site").glob("*.py")}
    assert {"httpx", "PyYAML", "dify_plugin", "certs", "late"} <= modules
