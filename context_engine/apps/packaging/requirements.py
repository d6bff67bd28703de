"""The plugin's requirements: checked against the vendored packages, and downloaded as wheels."""

from __future__ import annotations

import ast
import io
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import TYPE_CHECKING, Final

from context_engine.apps.packaging.findings import PluginReport
from context_engine.errors import ConfigError, MissingExtra

if TYPE_CHECKING:
    from packaging.requirements import Requirement


SDK: Final = "dify_plugin>=0.10,<0.11"
"""Dynamic selects of tools need 0.10.0 or later."""

REQUIREMENTS: Final = "requirements.txt"
_READING: Final = "checking or packing a plugin"
_EXTRA: Final = "plugin"
_CHANGELOG: Final = re.compile(r"^## \[?(\d[^\]\s]*)", re.MULTILINE)


def canonical(name: str) -> str:
    """Return a distribution's name, normalised as package indexes do.

    >>> canonical("Dify_Plugin")
    'dify-plugin'

    Raises:
        MissingExtra: `packaging` is not installed.
    """
    try:
        from packaging.utils import canonicalize_name
    except ImportError as error:
        raise MissingExtra(_READING, _EXTRA) from error
    return canonicalize_name(name)


def read_requirements(lines: Iterable[str]) -> tuple[list[Requirement], list[str]]:
    """Return the requirements, and all other lines, such as paths.

    Raises:
        MissingExtra: `packaging` is not installed.
    """
    try:
        from packaging.requirements import InvalidRequirement, Requirement
    except ImportError as error:
        raise MissingExtra(_READING, _EXTRA) from error
    requirements: list[Requirement] = []
    others: list[str] = []
    for raw in lines:
        line = raw.split(" #")[0].strip()
        if not line or line.startswith("#"):
            continue
        try:
            requirements.append(Requirement(line))
        except InvalidRequirement:
            others.append(line)
    return requirements, others


def check_requirements(report: PluginReport) -> None:
    """Check that requirements.txt lists exactly the SDK and the requirements of the vendored packages."""
    if REQUIREMENTS not in report.files:
        report.add(REQUIREMENTS, "", "file", "is missing: Dify installs from it")
        return
    wanted = {canonical(requirement.name): requirement for requirement in _wanted(report)}
    if not wanted:
        return
    required, others = read_requirements(report.files[REQUIREMENTS].decode("utf-8", "replace").splitlines())
    paths = [line for line in others if line.startswith("./")]
    for line in others:
        if line not in paths:
            report.add(REQUIREMENTS, line, "requirements", "is not a requirement")
    if paths:
        _check_wheels(report, wanted, paths, required)
        return
    _compare(report, REQUIREMENTS, wanted, required)
    if "pyproject.toml" in report.files:
        _check_pyproject(report, wanted)


def _wanted(report: PluginReport) -> list[Requirement]:
    """Return the SDK and the requirements of the vendored packages; [] if nothing is vendored."""
    lines: list[str] = []
    metadata = [content for path, content in report.files.items() if re.fullmatch(r"[^/]+\.dist-info/METADATA", path)]
    for content in metadata:
        lines += HeaderParser().parsestr(content.decode("utf-8", "replace")).get_all("Requires-Dist") or []
    return read_requirements([*lines, SDK])[0] if metadata else []


def _compare(report: PluginReport, file: str, wanted: Mapping[str, Requirement], required: list[Requirement]) -> None:
    names = [canonical(requirement.name) for requirement in required]
    for name, requirement in zip(names, required):
        if name not in wanted:
            report.add(file, name, "requirements", "is not needed by the package: remove it")
        elif requirement != wanted[name]:
            report.add(file, name, "requirements", f"{requirement} must be {wanted[name]}, as the package itself says")
        elif names.count(name) > 1:
            report.add(file, name, "requirements", "appears twice")
    for name in sorted(set(wanted) - set(names)):
        report.add(file, name, "requirements", f"is missing: add {wanted[name]}")


def _check_wheels(
    report: PluginReport, wanted: Mapping[str, Requirement], paths: list[str], required: list[Requirement]
) -> None:
    listed = {canonical(path.rsplit("/", 1)[-1].split("-")[0]): path for path in paths}
    for path in paths:
        if path.removeprefix("./") not in report.files:
            report.add(REQUIREMENTS, path, "requirements", "there is no such file in the package")
    for requirement in required:
        report.add(
            REQUIREMENTS,
            canonical(requirement.name),
            "requirements",
            "is not listed by path while others are, so an index is needed",
        )
    for name in sorted(set(wanted) - set(listed)):
        report.add(REQUIREMENTS, name, "requirements", f"is missing: no wheel of {wanted[name]} is listed")
    sdk = listed.get("dify-plugin", "")
    if sdk and not _satisfies(sdk, wanted["dify-plugin"]):
        report.add(REQUIREMENTS, sdk, "requirements", f"is not {SDK}")
    if "pyproject.toml" in report.files:
        report.add("pyproject.toml", "", "requirements", "must not be listed beside wheels: Dify would install from it")


def _satisfies(wheel: str, requirement: Requirement) -> bool:
    try:
        return requirement.specifier.contains(f"{wheel}-".rsplit("/", 1)[-1].split("-")[1])
    except ValueError:  # not a version
        return False


def _check_pyproject(report: PluginReport, wanted: Mapping[str, Requirement]) -> None:
    try:
        project = tomllib.loads(report.files["pyproject.toml"].decode("utf-8")).get("project", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        report.add("pyproject.toml", "", "toml", f"cannot be read: {error}")
        return
    _compare(report, "pyproject.toml", wanted, read_requirements(project.get("dependencies", []))[0])


def package_version(source: bytes) -> str | None:
    """Return `__version__` in a module's source, or None if it is not a literal."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    for node in tree.body:
        names = [target.id for target in getattr(node, "targets", ()) if isinstance(target, ast.Name)]
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and "__version__" in names:
            return str(node.value.value)
    return None


def check_versions(report: PluginReport, version: object, changelog: str | None, pyproject: str | None) -> None:
    """Check that manifest, vendored package, changelog and pyproject.toml have the same version.

    Args:
        changelog: the text of CHANGELOG.md beside the plugin's folder, or None.
        pyproject: the version in pyproject.toml there, or None.
    """
    source = report.files.get("context_engine/__init__.py")
    newest = _CHANGELOG.search(changelog) if changelog is not None else None
    named = [
        ("context_engine/__init__.py", "__version__", package_version(source) if source is not None else None),
        ("CHANGELOG.md", "newest entry", newest.group(1) if newest else None),
        ("pyproject.toml", "project.version", pyproject),
    ]
    for file, key, other in named:
        if other is not None and other != version:
            report.add(file, key, "version", f"is {other!r}, and manifest.yaml says {version!r}: they must be equal")


DEFAULT_PLATFORM: Final = "manylinux_2_28_x86_64"
_MANYLINUX: Final = re.compile(r"manylinux(?:_2_(\d+)|(2014|2010|1))_(\w+)")
_YEARS: Final = {"2014": 17, "2010": 12, "1": 5}
_ROUNDS: Final = 5
_LAST_LINES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelTarget:
    """The platform and Python on which the plugin will run.

    Attributes:
        platform: a wheel's platform tag, e.g. manylinux_2_28_x86_64; older compatible tags are accepted too.
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
        """Return the platform tag and, for manylinux, the compatible older tags."""
        match = _MANYLINUX.fullmatch(self.platform)
        if match is None:
            return [self.platform]
        newest = int(match.group(1) or _YEARS[match.group(2)])
        oldest = 5 if match.group(3) in ("x86_64", "i686") else 17
        return [f"manylinux_2_{minor}_{match.group(3)}" for minor in range(newest, oldest - 1, -1)] + (
            [f"manylinux2014_{match.group(3)}"] if newest >= 17 else []
        )

    def markers(self) -> dict[str, str]:
        """Return the target's environment markers."""
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
    """Return {wheel file name: content} for the requirements and their dependencies.

    pip evaluates environment markers for the Python it runs on, so the wheels' requirements are checked again for the
    target, and missing ones are downloaded.

    Args:
        requirements: lines of a requirements file.
        target: the platform for installation.

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
    """Return the wheels' requirements for the target that no wheel satisfies."""
    have = {canonical(name.split("-")[0]) for name in wheels}
    missing: dict[str, str] = {}
    for content in wheels.values():
        for requirement in read_requirements(_requires(content))[0]:
            holds = requirement.marker is None or requirement.marker.evaluate({**target.markers(), "extra": ""})
            if holds and canonical(requirement.name) not in have:
                missing[canonical(requirement.name)] = f"{requirement.name}{requirement.specifier}"
    return sorted(missing.values())


def _requires(wheel: bytes) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        name = next(member for member in archive.namelist() if member.endswith(".dist-info/METADATA"))
        headers = HeaderParser().parsestr(archive.read(name).decode("utf-8", "replace"))
    return headers.get_all("Requires-Dist") or []
