"""Build a `.difypkg` from the plugin's folder: collect the files, check them, write the archive."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from context_engine.apps.packaging.bundle import read_bundle
from context_engine.apps.packaging.check import check_files
from context_engine.apps.packaging.files import (
    MAX_BYTES,
    Files,
    checksum,
    never_ships,
    read_folder,
    read_package,
    size_line,
    write_archive,
)
from context_engine.apps.packaging.findings import PluginFinding
from context_engine.apps.packaging.manifest import MANIFEST
from context_engine.apps.packaging.requirements import (
    REQUIREMENTS,
    WheelTarget,
    canonical,
    download_wheels,
    read_requirements,
)
from context_engine.apps.packaging.sign import sign
from context_engine.apps.packaging.vendor import find_project, vendor_installed, vendor_project
from context_engine.core.models import Notice, NoticeCode
from context_engine.errors import ConfigError
from context_engine.settings import ConfigPaths
from context_engine.settings.data_dir import replace_file


class BrokenPlugin(ConfigError):
    """A plugin that Dify would refuse; `findings` has the reasons."""

    def __init__(self, findings: tuple[PluginFinding, ...]) -> None:
        self.findings = findings
        super().__init__("; ".join(map(str, findings)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PackOptions:
    """The contents of a package besides the plugin and the engine.

    Attributes:
        config, manifests: folders to include, or None.
        stage: the overlay whose connections and dataset ids are included.
        wheels: include the wheels of every requirement for this target.
        include: importable packages to include.
        extras: of the engine, whose requirements to add: "documents" for Word, Excel, PDF and the like, "audit" for a
            ledger in PostgreSQL.
        key: PEM of the key to sign with.
    """

    config: Path | None = None
    manifests: Path | None = None
    stage: str | None = None
    wheels: WheelTarget | None = None
    include: tuple[str, ...] = ()
    extras: tuple[str, ...] = ("documents",)
    key: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A written package.

    Attributes:
        path: the file.
        files: its contents.
        identifier: in Dify, author/name:version@checksum.
        signed: whether it is signed.
        notices: for the operator.
    """

    path: Path
    files: Files
    identifier: str
    signed: bool
    notices: tuple[Notice, ...]


def pack(plugin_dir: Path, out: Path, options: PackOptions | None = None, *, env: Mapping[str, str]) -> Packed:
    """Write the package of a plugin.

    Args:
        plugin_dir: its folder, in a checkout of context_engine.
        out: the folder to write to; created if missing.
        env: the environment; SOURCE_DATE_EPOCH, if set, is the time of signing.

    Raises:
        BrokenPlugin: a broken rule.
        ConfigError: a named file or package is missing, unusable, or must not ship.
    """
    options = options or PackOptions()
    project = find_project(plugin_dir)
    if project is None:
        problem = f"{plugin_dir} is not in a checkout of context_engine: run this in the checkout's root"
        raise ConfigError(problem, key="--plugin-dir")
    plugin, included = read_folder(plugin_dir), [vendor_installed(name) for name in options.include]
    carried = [vendored.files for vendored in included]
    further = [line for name in options.extras for line in project.extra(name)]
    own = vendor_project(project, [plugin, *carried], further)
    files: dict[str, bytes] = {}
    for part in (plugin, own.files, *carried):
        _refuse_overlap(files, part)
        files |= part
    files[REQUIREMENTS] = _required(files, [*(line for vendored in included for line in vendored.requires), *further])
    baked, notices = _baked(options, env)
    _refuse_overlap(files, baked)
    files |= baked
    if options.wheels is not None:
        files = _with_wheels(files, options.wheels)
        notice = f"the wheels are for {options.wheels.platform}: the package installs nowhere else"
        notices = (*notices, Notice(NoticeCode.PLATFORM_BOUND, options.wheels.platform, notice))
    _refuse(files, options)
    findings = check_files(files, project)
    if findings:
        raise BrokenPlugin(findings)
    return _written(files, out, options.key, env, notices)


def _refuse(files: Files, options: PackOptions) -> None:
    for path, why in never_ships(files):
        raise ConfigError(f"must never ship: {why}. Leave it out with .difyignore.", file=path)
    if sum(map(len, files.values())) > MAX_BYTES:
        spare = options.wheels is not None and "documents" in options.extras
        remedy = ". Without the libraries that read Word, Excel and PDF (--extras none) it is smaller" if spare else ""
        raise ConfigError(f"the package is too large: {size_line(files)}{remedy}")


def _refuse_overlap(files: Files, more: Files) -> None:
    for path in more:
        if path in files:
            raise ConfigError("would be overwritten: the plugin's folder holds it already", file=path)


def _baked(options: PackOptions, env: Mapping[str, str]) -> tuple[dict[str, bytes], tuple[Notice, ...]]:
    if options.config is None and options.manifests is None:
        return {}, ()
    for folder, option in ((options.config, "--config"), (options.manifests, "--manifests")):
        if folder is not None and not folder.is_dir():
            raise ConfigError(f"there is no folder {folder}", key=option)
    paths = ConfigPaths(origin="--config", config_dir=options.config, manifest_dir=options.manifests, cwd=Path.cwd())
    bundle = read_bundle(paths, env=env, stage=options.stage)
    needed = (
        Notice(NoticeCode.FILE_NEEDED, key, f"{key}: {path} must be there where the plugin runs", {"path": path})
        for key, path in bundle.local_files().items()
    )
    return bundle.files(), tuple(needed)


def _required(files: Files, more: list[str]) -> bytes:
    """Return requirements.txt with the further requirements of the included packages."""
    text = files.get(REQUIREMENTS, b"").decode("utf-8")
    have = {canonical(requirement.name): requirement for requirement in read_requirements(text.splitlines())[0]}
    added: list[str] = []
    for requirement in read_requirements(more)[0]:
        name = canonical(requirement.name)
        if name not in have:
            have[name] = requirement
            added.append(str(requirement))
        elif have[name] != requirement:
            problem = f"needs {requirement}, and the plugin {have[name]}: write the same in both"
            raise ConfigError(problem, file=REQUIREMENTS, key=name)
    return (text.rstrip("\n") + "\n" + "".join(f"{line}\n" for line in added) if added else text).encode()


def _with_wheels(files: Files, target: WheelTarget) -> dict[str, bytes]:
    lines, _ = read_requirements(files[REQUIREMENTS].decode("utf-8").splitlines())
    wheels = download_wheels([str(line) for line in lines], target)
    kept = {path: content for path, content in files.items() if path not in ("pyproject.toml", "uv.lock")}
    listed = "".join(f"./wheels/{name}\n" for name in sorted(wheels))
    return {**kept, **{f"wheels/{name}": content for name, content in wheels.items()}, REQUIREMENTS: listed.encode()}


def _written(
    files: dict[str, bytes], out: Path, key: bytes | None, env: Mapping[str, str], notices: tuple[Notice, ...]
) -> Packed:
    manifest = yaml.safe_load(files[MANIFEST])
    at = int(env.get("SOURCE_DATE_EPOCH") or time.time())
    archive = write_archive(files) if key is None else sign(files, key, at=at)
    path = out / f"{manifest['name']}-{manifest['version']}.difypkg"
    try:
        replace_file(path, archive)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=str(path), key="--out") from None
    packed = Packed(path=path, files=read_package(path), identifier="", signed=key is not None, notices=notices)
    name = f"{manifest['author']}/{manifest['name']}:{manifest['version']}"
    return replace(packed, identifier=f"{name}@{checksum(packed.files)}")
