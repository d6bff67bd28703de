"""Loading a plugin with Dify's own SDK, in a process of its own: the SDK patches the process it is imported in."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from context_engine.apps.packaging.files import Files
from context_engine.errors import ConfigError

_SECONDS: Final = 120
_MARK: Final = "context-engine-plugin-check:"
_CHILD: Final = f"""
import json, sys
from importlib.metadata import version
out = {{"sdk": None, "problem": None}}
try:
    out["sdk"] = version("dify_plugin")
    from dify_plugin import DifyPluginEnv
    from dify_plugin.core.plugin_registration import PluginRegistration
    found = PluginRegistration(DifyPluginEnv())
    out["tools"] = sorted(name for _, _, tools in found.tools_mapping.values() for name in tools)
    out["endpoints"] = sorted(one.path for group in found.endpoints_configuration for one in group.endpoints)
except BaseException as error:
    out["problem"] = f"{{type(error).__name__}}: {{error}}"
sys.stdout.write("\\n{_MARK}" + json.dumps(out) + "\\n")
sys.stdout.flush()
import os
os._exit(0)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkRun:
    """How the SDK's load of a plugin went.

    Attributes:
        version: the SDK's.
        tools, endpoints: what was loaded.
        problem: why it failed; None: it did not.
    """

    version: str | None
    tools: tuple[str, ...] = ()
    endpoints: tuple[str, ...] = ()
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, ready for JSON."""
        fields = {"version": self.version, "tools": list(self.tools), "endpoints": list(self.endpoints)}
        return {"status": "failed" if self.problem else "passed", **fields, "problem": self.problem}


def write_files(files: Files, folder: Path) -> None:
    """Write the files of a package into a folder."""
    for path, content in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)


def load_with_sdk(files: Files, python: Path) -> SdkRun:
    """Load a plugin as Dify does when it starts it, and return how it went.

    Args:
        files: the package.
        python: an interpreter that has Dify's SDK and the plugin's requirements.

    Raises:
        ConfigError: the interpreter cannot be started.
    """
    skipped = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if name not in skipped}
    environment = {**kept, "INSTALL_METHOD": "local", "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryDirectory(prefix="context-engine-sdk-") as folder:
        write_files(files, Path(folder))
        try:
            run = subprocess.run(
                [str(python), "-c", _CHILD],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            return SdkRun(version=None, problem=f"did not load within {_SECONDS} s")
        except OSError as error:
            raise ConfigError(f"{python} cannot be started: {error.strerror}", key="--sdk-python") from None
    return _read(run.stdout, run.stderr)


def _read(stdout: str, stderr: str) -> SdkRun:
    for line in stdout.splitlines():
        if line.startswith(_MARK):
            found = json.loads(line.removeprefix(_MARK))
            return SdkRun(
                version=found["sdk"],
                tools=tuple(found.get("tools", ())),
                endpoints=tuple(found.get("endpoints", ())),
                problem=found["problem"],
            )
    last = stderr.strip().splitlines()[-1:] or ["it ended without a word"]
    return SdkRun(version=None, problem=last[0])
