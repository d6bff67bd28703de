"""The rules of a plugin that the SDK's own load (`sdk`) does not apply; what it refuses stands here no second time.

What the SDK misses, tried with 0.10.2 on a broken copy for each rule, and who refuses it later:

| rule | what it finds | where it is found otherwise |
|---|---|---|
| pattern, length, range | versions, authors, names, times of another form; texts too long | Dify's daemon |
| type, choice | 1 or "yes" for true; a runner, method, tag or type of output not known | Dify's daemon and API |
| required | nothing under `tools`, `endpoints`, `arch`, `storage.size`; no text for the model | Dify's daemon |
| path, icon, file | a file that is named and not there, or needed and not there | Dify's daemon |
| tags | a tag that the provider inherits and must not have | Dify's API |
| duplicate, default, options, scope | a field twice; a default that is no value of its field | Dify's API |
| language | a label without zh_Hans, or in a language that Dify does not read | by its reader |
| permission, plugins, one-provider | rights that do nothing; kinds that exclude each other | nowhere |
| output-schema | variables that overwrite Dify's own or cannot be picked | the workflow's editor |
| stem, credentials, no-init | files and keys that the SDK passes over | nowhere |
| no-print, no-event-loop, python | what breaks the protocol or the runtime; a broken `main.py` | the running plugin |
| readme, privacy, ignore | what the marketplace asks for | its review |
| never-ships, size | keys and passwords; more than 50 MiB | nowhere; at the upload |
| requirements, version, toml | requirements or a version unlike the carried package's | the installation |
| yaml | a file that cannot be read or holds a key twice | Dify's daemon |
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from context_engine.apps.packaging.code import check_code
from context_engine.apps.packaging.documents import check_documents
from context_engine.apps.packaging.files import Files, read_folder, read_package
from context_engine.apps.packaging.findings import PluginFinding, PluginReport
from context_engine.apps.packaging.manifest import check_manifest
from context_engine.apps.packaging.provider import check_group, check_provider
from context_engine.apps.packaging.requirements import check_requirements, check_versions
from context_engine.apps.packaging.sdk import SdkRun, load_with_sdk
from context_engine.apps.packaging.vendor import Project, find_project, vendor_project
from context_engine.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """What a check found.

    Attributes:
        files: what was checked.
        findings: what breaks a rule.
        sdk: how the load by Dify's SDK went; None: not run.
    """

    files: Files
    findings: tuple[PluginFinding, ...]
    sdk: SdkRun | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


def check(place: Path, *, sdk_python: Path | None = None) -> CheckResult:
    """Check a plugin's folder or a `.difypkg`; a folder in a checkout is checked as it would be packed.

    Args:
        place: the folder or the file.
        sdk_python: a Python 3.12 with Dify's SDK; with it the SDK loads the plugin too.

    Raises:
        ConfigError: there is nothing that can be read.
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
    findings = check_files(files, project)
    run = load_with_sdk(files, sdk_python) if sdk_python is not None else None
    failed = [PluginFinding("", "", "sdk-load", run.problem)] if run is not None and run.problem is not None else []
    return CheckResult(files=files, findings=(*findings, *failed), sdk=run)


def check_files(files: Files, project: Project | None = None) -> tuple[PluginFinding, ...]:
    """Return what breaks a rule in the files of a package.

    Args:
        files: the package.
        project: the checkout it is made from, whose versions must be the manifest's.
    """
    report = PluginReport(files)
    manifest = check_manifest(report)
    if manifest is not None:
        for provider in manifest.at("plugins").at("tools").items():
            if isinstance(provider.value, str) and provider.value in files:
                check_provider(report, provider.value, manifest)
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
    check_documents(report)
    check_requirements(report)
    return tuple(dict.fromkeys(report.found))
