"""The load by the SDK, with a small one in its place."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from context_engine.apps.packaging import check
from context_engine.errors import ConfigError

SDK = {
    "dify_plugin/__init__.py": "class DifyPluginEnv: ...\n",
    "dify_plugin/core/__init__.py": "",
    "dify_plugin/core/plugin_registration.py": """
import os
class Named:
    path = "/retrieval"
class Group:
    endpoints = [Named]
class PluginRegistration:
    def __init__(self, env):
        import context_engine
        assert os.path.isfile("manifest.yaml") and os.environ["INSTALL_METHOD"] == "local"
        if "BROKEN" in open("main.py").read():
            raise ValueError("Multiple subclasses of Tool")
        if "GONE" in open("main.py").read():
            os._exit(3)
        self.tools_mapping = {"p": (None, None, {"search": None, "domains": None})}
        self.endpoints_configuration = [Group]
        self.datasource_configuration = []
""",
    "dify_plugin-0.10.9.dist-info/METADATA": "Metadata-Version: 2.1\nName: dify_plugin\nVersion: 0.10.9\n",
}


@pytest.fixture
def sdk_python(tmp_path: Path, write_tree: Callable[[Path, dict[str, str]], Path]) -> Path:
    """An interpreter with the small SDK."""
    site = write_tree(tmp_path / "sdk", SDK)
    script = tmp_path / "python-with-sdk"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{site}" exec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    return script


def test_without_an_interpreter_the_load_is_not_run(plugin_dir: Path) -> None:
    result = check(plugin_dir)
    assert (result.ok, result.sdk) == (True, None)


def test_the_sdk_loads_the_plugin_with_the_engine_beside_it(plugin_dir: Path, sdk_python: Path) -> None:
    result = check(plugin_dir, sdk_python=sdk_python)
    assert result.ok
    assert result.sdk is not None
    assert result.sdk.to_dict() == {
        "status": "passed",
        "version": "0.10.9",
        "tools": ["domains", "search"],
        "endpoints": ["/retrieval"],
        "datasources": [],
        "problem": None,
    }


def test_what_the_sdk_refuses_is_a_finding(plugin_dir: Path, sdk_python: Path) -> None:
    (plugin_dir / "main.py").write_text("BROKEN = 1\n")
    result = check(plugin_dir, sdk_python=sdk_python)
    assert [(one.rule, one.message) for one in result.findings] == [
        ("sdk-load", "ValueError: Multiple subclasses of Tool")
    ]


def test_a_process_that_ends_without_an_answer_is_a_finding(plugin_dir: Path, sdk_python: Path) -> None:
    (plugin_dir / "main.py").write_text("GONE = 1\n")
    assert [one.rule for one in check(plugin_dir, sdk_python=sdk_python).findings] == ["sdk-load"]


def test_an_interpreter_without_the_sdk_is_a_finding(plugin_dir: Path, tmp_path: Path) -> None:
    script = tmp_path / "bare-python"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    script.chmod(0o755)
    found = check(plugin_dir, sdk_python=script).findings
    assert [one.rule for one in found] == ["sdk-load"]
    assert "dify_plugin" in found[0].message


def test_an_interpreter_that_is_not_there_is_an_error(plugin_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be started"):
        check(plugin_dir, sdk_python=tmp_path / "none")
