"""The checks of a plugin: rules that the SDK does not apply when it loads a plugin, and that load itself.

Faults that the SDK misses (tested with 0.10.2 on a broken copy for each rule), and where they show later:

| rule | fault | shows otherwise in |
|---|---|---|
| pattern, length, range | malformed versions, authors, names and times; texts too long | Dify's daemon |
| type, choice | 1 or "yes" for true; an unknown runner, method, tag or output type | Dify's daemon and API |
| required | nothing under `tools`, `endpoints`, `arch`, `storage.size`; no text for the model | Dify's daemon |
| path, icon, file | a named or needed file that does not exist | Dify's daemon |
| tags | a tag that the provider inherits and must not have | Dify's API |
| duplicate, default, options, scope | a field twice; a default of the wrong type | Dify's API |
| default | a parameter's default that is a list or an object | the first turn of an agent with the tool |
| language | a text in a language that Dify does not read | its reader |
| required (texts) | a text without zh_Hans, or without a language of the manifest's own texts | its reader |
| permission, plugins, one-provider | rights without effect; kinds that exclude each other | nowhere |
| output-schema | variables that overwrite Dify's own or cannot be picked | the workflow's editor |
| stem, credentials, no-init | files and keys that the SDK passes over | nowhere |
| no-print, no-event-loop, python | code that breaks protocol or runtime; a broken `main.py` | the running plugin |
| readme, privacy, ignore | texts in the wrong place or not written, lines without effect | its review |
| readme | a picture that Dify's page of the plugin cannot show | its reader |
| marketplace | with `--marketplace` only: what the marketplace refuses and a bank's own Dify takes | its review |
| engine | a package without the engine, as Dify's own packer makes it of the folder | the installation |
| never-ships, size | keys and passwords; more than 50 MiB | nowhere; at the upload |
| requirements, version, toml | requirements or a version unlike the carried package's | the installation |
| yaml | an unreadable file, or a key twice | Dify's daemon |"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from context_engine.apps.packaging.documents import PRIVACY, README, check_documents
from context_engine.apps.packaging.files import Files, read_folder, read_package
from context_engine.apps.packaging.findings import Node, PluginFinding, PluginReport
from context_engine.apps.packaging.manifest import check_manifest
from context_engine.apps.packaging.provider import check_datasource_provider, check_group, check_provider
from context_engine.apps.packaging.requirements import (
    REQUIREMENTS,
    check_requirements,
    check_versions,
    read_requirements,
)
from context_engine.apps.packaging.vendor import Project, find_project, vendor_project
from context_engine.errors import ConfigError

_LOOPS: Final = ("asyncio", "anyio")
_OWN_FOLDERS: Final = ("provider", "tools", "endpoints", "group", "datasources")
_ENGINE: Final = "context_engine"
RULE: Final = "marketplace"
_HOSTS: Final = ("github.com", "gitlab.com", "bitbucket.org", "gitee.com", "codeberg.org", "git.sr.ht")
_SOURCE: Final = re.compile(rf"https?://(?:www\.)?(?:{'|'.join(map(re.escape, _HOSTS))})/[^\s)>\"]+", re.IGNORECASE)
_EMAIL: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_OUT_FOLDERS: Final = frozenset({"env", "venv", ".tox", ".nox", ".idea", ".vscode", "pycache"})
_OUT_NAMES: Final = frozenset({".gitconfig", "Thumbs.db", "desktop.ini"})
_OUT_SUFFIXES: Final = frozenset({".pem", ".log", ".tmp", ".swp", ".swo", ".bak"})
_BINARY_SUFFIXES: Final = frozenset({".dll", ".dylib", ".exe", ".node", ".pyd", ".so"})
_BINARY_STARTS: Final = (
    b"\x7fELF",
    b"MZ",
    *(bytes.fromhex(start) for start in ("feedface", "feedfacf", "cefaedfe", "cffaedfe")),
)
_MOST_FILES: Final = 5000


def check_code(report: PluginReport) -> None:
    """Check that no file of the plugin itself prints or starts an event loop, and that the engine they use is there."""
    without_engine: list[str] = []
    for path in filter(_is_own, report.files):
        tree = _parsed(report, path)
        if tree is not None:
            _check_calls(report, path, tree)
            if _ENGINE in _imported(tree) and not _has_engine(report.files):
                without_engine.append(path)
    for path in without_engine[:1]:
        message = f"imports {_ENGINE}, which is not in the package: pack it with 'context-engine plugin pack'"
        report.add(path, "", "engine", message)


def _has_engine(files: Files) -> bool:
    return f"{_ENGINE}/__init__.py" in files or any(
        "context_engine-" in path for path in files if path.endswith(".whl")
    )


def _imported(tree: ast.Module) -> set[str]:
    """Return the top-level packages that a file imports."""
    return {name.split(".")[0] for node in ast.walk(tree) for name in _names(node)}


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []


def _is_own(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return path.endswith(".py") and (len(parts) == 1 or parts[0] in _OWN_FOLDERS)


def _parsed(report: PluginReport, path: str) -> ast.Module | None:
    try:
        return ast.parse(report.files[path])
    except (SyntaxError, ValueError) as error:
        report.add(path, "", "python", f"cannot be read as Python: {error}")
        return None


def _check_calls(report: PluginReport, path: str, tree: ast.Module) -> None:
    for node in ast.walk(tree):
        line = f"line {getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            report.add(path, line, "no-print", "standard output carries the protocol: use logging")
        for name in _names(node):
            if name.split(".")[0] in _LOOPS:
                report.add(path, line, "no-event-loop", f"{name} fails under load in the plugin's runtime: use threads")


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
    out["datasources"] = sorted(
        source.identity.name for provider in found.datasource_configuration for source in provider.datasources
    )
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
    """The result of loading a plugin with the SDK.

    Attributes:
        version: of the SDK.
        tools, endpoints, datasources: that were loaded.
        problem: the reason of a failure, or None.
    """

    version: str | None
    tools: tuple[str, ...] = ()
    endpoints: tuple[str, ...] = ()
    datasources: tuple[str, ...] = ()
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, ready for JSON."""
        loaded = {"tools": self.tools, "endpoints": self.endpoints, "datasources": self.datasources}
        fields = {"version": self.version, **{kind: list(names) for kind, names in loaded.items()}}
        return {"status": "failed" if self.problem else "passed", **fields, "problem": self.problem}


def write_files(files: Files, folder: Path) -> None:
    """Write the files of a package into a folder."""
    for path, content in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)


def load_with_sdk(files: Files, python: Path) -> SdkRun:
    """Load a plugin as Dify does at its start, and return the result.

    Args:
        python: an interpreter with Dify's SDK and the plugin's requirements.

    Raises:
        ConfigError: the interpreter does not start.
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
            report = json.loads(line.removeprefix(_MARK))
            return SdkRun(
                version=report["sdk"],
                tools=tuple(report.get("tools", ())),
                endpoints=tuple(report.get("endpoints", ())),
                datasources=tuple(report.get("datasources", ())),
                problem=report["problem"],
            )
    last = stderr.strip().splitlines()[-1:] or ["it ended without a word"]
    return SdkRun(version=None, problem=last[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The findings of a check.

    Attributes:
        files: that were checked.
        findings: broken rules.
        sdk: the result of the load by Dify's SDK; None if not run.
    """

    files: Files
    findings: tuple[PluginFinding, ...]
    sdk: SdkRun | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


def check(place: Path, *, sdk_python: Path | None = None, marketplace: bool = False) -> CheckResult:
    """Check a plugin's folder or a `.difypkg`; a folder in a checkout is checked in the form in which it would be
    packed.

    Args:
        sdk_python: a Python 3.12 with Dify's SDK; with it the SDK loads the plugin too.
        marketplace: apply the rules of Dify's marketplace too.

    Raises:
        ConfigError: no readable plugin there.
    """
    project = find_project(place) if place.is_dir() else None
    if place.is_dir():
        files = read_folder(place)
        if project is not None and "context_engine/__init__.py" not in files:
            files |= vendor_project(project, [files]).files
    elif place.is_file():
        files = read_package(place)
    else:
        raise ConfigError(f"there is no plugin at {place}: name its folder or a .difypkg")
    findings = check_files(files, project, marketplace=marketplace)
    run = load_with_sdk(files, sdk_python) if sdk_python is not None else None
    failed = [PluginFinding("", "", "sdk-load", run.problem)] if run is not None and run.problem is not None else []
    return CheckResult(files=files, findings=(*findings, *failed), sdk=run)


def check_files(
    files: Files, project: Project | None = None, *, marketplace: bool = False
) -> tuple[PluginFinding, ...]:
    """Return the broken rules of a package.

    Args:
        project: the checkout of the package; its versions must equal the manifest's.
        marketplace: apply the rules of Dify's marketplace too.
    """
    report = PluginReport(files)
    manifest = check_manifest(report)
    if manifest is not None:
        for provider in manifest.at("plugins").at("tools").items():
            if isinstance(provider.value, str) and provider.value in files:
                check_provider(report, provider.value, manifest)
        for provider in manifest.at("plugins").at("datasources").items():
            if isinstance(provider.value, str) and provider.value in files:
                check_datasource_provider(report, provider.value)
        for group in manifest.at("plugins").at("endpoints").items():
            if isinstance(group.value, str) and group.value in files:
                check_group(report, group.value)
        check_code(report)
        check_versions(
            report,
            manifest.at("version").value,
            project.changelog if project else None,
            project.version if project else None,
        )
        if marketplace:
            check_marketplace(report, manifest)
    check_documents(report)
    check_requirements(report)
    return tuple(dict.fromkeys(report.findings))


def check_marketplace(report: PluginReport, manifest: Node) -> None:
    """Check what only the marketplace asks for: the manifest's contacts, files, and requirements.

    Rules that need the marketplace itself, such as a version that is already there, are not checked.
    """
    _check_contacts(manifest)
    _check_readme(report)
    _check_contents(report)
    _check_ranges(report)


def _check_contacts(manifest: Node) -> None:
    hosts = ", ".join(_HOSTS)
    repo, contact, privacy = (manifest.at(name) for name in ("repo", "contact", "privacy"))
    if not isinstance(repo.value, str) or not _SOURCE.fullmatch(repo.value):
        repo.fail(RULE, f"must be the address of the source, at one of {hosts}")
    if not isinstance(contact.value, str) or not _EMAIL.fullmatch(contact.value):
        contact.fail(RULE, "must be an e-mail address, e.g. plugins@bank.example")
    if not privacy.value:
        privacy.fail(RULE, f"must name the privacy policy, e.g. {PRIVACY}")


def _check_readme(report: PluginReport) -> None:
    if README in report.files and not _SOURCE.search(report.files[README].decode("utf-8", "replace")):
        report.add(README, "", RULE, f"must name the address of the source, at one of {', '.join(_HOSTS)}")


def _check_contents(report: PluginReport) -> None:
    if len(report.files) > _MOST_FILES:
        report.add("", "", RULE, f"the package has {len(report.files)} files: at most {_MOST_FILES} are accepted")
    for path, why in _not_accepted(report):
        report.add(path, "", RULE, f"{why}: leave it out with .difyignore")


def _not_accepted(report: PluginReport) -> Iterator[tuple[str, str]]:
    for path, content in report.files.items():
        parts, suffix = PurePosixPath(path).parts, PurePosixPath(path).suffix.lower()
        if folders := _OUT_FOLDERS.intersection(parts[:-1]):
            yield path, f"files of the folder {min(folders)}/ belong to the developer's machine"
        elif parts[-1] in _OUT_NAMES or suffix in _OUT_SUFFIXES:
            yield path, "files of this name are refused"
        elif suffix in _BINARY_SUFFIXES or (suffix != ".whl" and content.startswith(_BINARY_STARTS)):
            yield path, "programs and compiled libraries are refused outside of wheels"


def _check_ranges(report: PluginReport) -> None:
    lines = report.files.get(REQUIREMENTS, b"").decode("utf-8", "replace").splitlines()
    for requirement in read_requirements(lines)[0]:
        if requirement.url:
            report.add(REQUIREMENTS, requirement.name, RULE, "is fetched from an address: require a published version")
        elif not requirement.specifier:
            report.add(REQUIREMENTS, requirement.name, RULE, "has no version range: add one, e.g. >=1.2,<2")
