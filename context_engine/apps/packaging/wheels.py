"""The wheels of every requirement, for an installation that reaches no index."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import Final

from context_engine.apps.packaging.requirements import canonical, read_requirements
from context_engine.errors import ConfigError

DEFAULT_PLATFORM: Final = "manylinux_2_28_x86_64"
_MANYLINUX: Final = re.compile(r"manylinux(?:_2_(\d+)|(2014|2010|1))_(\w+)")
_YEARS: Final = {"2014": 17, "2010": 12, "1": 5}
_ROUNDS: Final = 5
_LAST_LINES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelTarget:
    """Where the plugin will run.

    Attributes:
        platform: a wheel's platform tag, e.g. manylinux_2_28_x86_64; older ones of its kind serve too.
        python: major.minor.
    """

    platform: str = DEFAULT_PLATFORM
    python: str = "3.12"

    def __post_init__(self) -> None:
        if not re.fullmatch(r"3\.\d+", self.python):
            raise ConfigError(f"must be like 3.12, got {self.python!r}", key="--python")
        if not re.fullmatch(r"\w+", self.platform):
            raise ConfigError(f"must be like {DEFAULT_PLATFORM}, got {self.platform!r}", key="--platform")

    def platforms(self) -> list[str]:
        """Return the tag and, for a manylinux one, the older tags that run there too."""
        match = _MANYLINUX.fullmatch(self.platform)
        if match is None:
            return [self.platform]
        newest = int(match.group(1) or _YEARS[match.group(2)])
        oldest = 5 if match.group(3) in ("x86_64", "i686") else 17
        return [f"manylinux_2_{minor}_{match.group(3)}" for minor in range(newest, oldest - 1, -1)] + (
            [f"manylinux2014_{match.group(3)}"] if newest >= 17 else []
        )

    def markers(self) -> dict[str, str]:
        """Return what environment markers read there."""
        linux = "linux" in self.platform
        machine = next((part for part in ("x86_64", "aarch64", "arm64") if self.platform.endswith(part)), "")
        return {
            "python_version": self.python,
            "python_full_version": f"{self.python}.0",
            "implementation_name": "cpython",
            "platform_python_implementation": "CPython",
            "platform_machine": machine,
            **({"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"} if linux else {}),
        }


def download_wheels(requirements: Sequence[str], target: WheelTarget) -> dict[str, bytes]:
    """Return wheel file name -> content for the requirements and all they need.

    pip reads environment markers for the Python it runs on, so what the wheels themselves ask for is checked again for
    the target, and fetched where it is missing.

    Args:
        requirements: lines of a requirements file.
        target: where they must install.

    Raises:
        ConfigError: pip is missing, or a requirement has no wheel for the target.
    """
    wanted = list(requirements)
    with tempfile.TemporaryDirectory(prefix="context-engine-wheels-") as folder:
        for _ in range(_ROUNDS):
            _pip_download(wanted, target, Path(folder))
            wheels = {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
            missing = _missing(wheels, target)
            if not missing:
                return wheels
            wanted += missing
    raise ConfigError(f"no wheel of {', '.join(missing)} was found", key="--with-wheels")


def _pip_download(requirements: Sequence[str], target: WheelTarget, folder: Path) -> None:
    platforms = [part for tag in target.platforms() for part in ("--platform", tag)]
    number = target.python.replace(".", "")
    where = ["--python-version", target.python, "--implementation", "cp", "--abi", f"cp{number}", "--abi", "abi3"]
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--only-binary",
        ":all:",
    ]
    command += ["--dest", str(folder), *platforms, *where, "--abi", "none", *requirements]
    run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PIP_NO_INPUT": "1"})
    if run.returncode:
        errors = [line for line in run.stderr.splitlines() if not line.startswith(("WARNING", "[notice]"))]
        raise ConfigError(f"pip download failed: {' '.join(errors[-_LAST_LINES:])}", key="--with-wheels")


def _missing(wheels: Mapping[str, bytes], target: WheelTarget) -> list[str]:
    """Return the requirements of the wheels that hold for the target and that no wheel is there for."""
    have = {canonical(name.split("-")[0]) for name in wheels}
    missing: dict[str, str] = {}
    for content in wheels.values():
        for one in read_requirements(_requires(content))[0]:
            holds = one.marker is None or one.marker.evaluate({**target.markers(), "extra": ""})
            if holds and canonical(one.name) not in have:
                missing[canonical(one.name)] = f"{one.name}{one.specifier}"
    return sorted(missing.values())


def _requires(wheel: bytes) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        name = next(one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        headers = HeaderParser().parsestr(archive.read(name).decode("utf-8", "replace"))
    return headers.get_all("Requires-Dist") or []
