"""No rule of `plugin check` says what the SDK's own load says: the broken copy of each loads there."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

RULES = Path(__file__).resolve().parents[1] / "unit/apps/packaging"
COINCIDENCE = ("plugins.models", "plugins.tools.0")
"""The SDK reads these as files of another kind or misses the file itself; which rule is broken it does not say."""
LOADED = """
import json, os, shutil, sys
from pathlib import Path
from dify_plugin import DifyPluginEnv
from dify_plugin.core.plugin_registration import PluginRegistration
refused, plugin = {}, Path("plugin").resolve()
copies, out = (Path(name).resolve() for name in sys.argv[1:3])
for name, files in json.loads(copies.read_text()).items():
    for path, text in files.items():
        (plugin / path).parent.mkdir(parents=True, exist_ok=True)
        (plugin / path).write_text(text)
    os.chdir(plugin)
    try:
        PluginRegistration(DifyPluginEnv())
    except BaseException as error:
        refused[name] = f"{type(error).__name__}: {error}"
    os.chdir(plugin.parent)
    shutil.rmtree(plugin)
    own = ("provider", "tools", "endpoints", "datasources")
    for module in [one for one in sys.modules if one.split(".")[0] in own]:
        del sys.modules[module]
out.write_text(json.dumps(refused))
os._exit(0)
"""


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"rules_{name}", RULES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_sdk_loads_every_copy_that_a_rule_refuses(plugin_python: Path, tmp_path: Path) -> None:
    plugins, checks = load("conftest"), load("test_check")
    whole = plugins.PLUGIN
    copies = {"whole": whole, "no tool in a file": {**whole, "tools/search.py": "from dify_plugin import Tool\n"}}
    for files, rows in ((whole, checks.ROWS), (plugins.DRIVE, checks.DRIVE_ROWS)):
        for file, old, new, key, rule in rows:
            if key not in COINCIDENCE:
                copies[f"{file}: {key} [{rule}] {new[:40]}"] = {**files, file: files[file].replace(old, new, 1)}
    (tmp_path / "copies.json").write_text(json.dumps(copies))
    places = (str(tmp_path / "copies.json"), str(tmp_path / "refused.json"))
    subprocess.run([str(plugin_python), "-c", LOADED, *places], check=True, cwd=tmp_path, capture_output=True)
    refused = json.loads((tmp_path / "refused.json").read_text())
    assert list(refused) == ["no tool in a file"], refused
    assert len(copies) > 60
