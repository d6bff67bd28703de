"""What Dify's marketplace refuses and a bank's own Dify takes: rules of its published review, for those who submit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from context_engine.apps.packaging.documents import PRIVACY, README
from context_engine.apps.packaging.findings import Node, PluginReport
from context_engine.apps.packaging.requirements import REQUIREMENTS, read_requirements

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
