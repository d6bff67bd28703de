"""Rules of what is no YAML and no Python: readmes, privacy note, ignore file, size, and what must never ship."""

from __future__ import annotations

import re
from typing import Final

from context_engine.apps.packaging.files import MAX_BYTES, never_ships, size_line
from context_engine.apps.packaging.findings import PluginReport
from context_engine.apps.packaging.ignore import negations

_CHINESE: Final = re.compile(r"[\u3000-\u303f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef]")
_README: Final = re.compile(r"README_([a-z]{2}_[A-Za-z]{2,})\.md")
_LEAST_PRIVACY: Final = 200


def check_documents(report: PluginReport) -> None:
    """Check everything in a package that is not read by Dify as a form."""
    for path in report.files:
        if path in ("__init__.py", "dify_plugin/__init__.py"):
            report.add(path, "", "no-init", "shadows Dify's SDK, whose import name is the same: take it out")
    _check_readmes(report)
    _check_privacy(report)
    ignore = report.files.get(".difyignore")
    if ignore is None:
        report.add(".difyignore", "", "file", "is missing: without it nothing is left out, .env and caches among it")
    for line in negations((ignore or b"").decode("utf-8", "replace")):
        report.add(".difyignore", line, "ignore", "a line that begins with ! does nothing: take it out")
    for path, why in never_ships(report.files):
        report.add(path, "", "never-ships", f"{why}: leave it out with .difyignore")
    if sum(map(len, report.files.values())) > MAX_BYTES:
        report.add("", "", "size", f"the package is too large: {size_line(report.files)}")


def _check_readmes(report: PluginReport) -> None:
    readme = report.files.get("README.md")
    if readme is None:
        report.add("README.md", "", "file", "is missing")
    else:
        _check_english(report, readme.decode("utf-8", "replace"))
    for path in report.files:
        folder, _, name = path.rpartition("/")
        if folder == "readme" and not _README.fullmatch(name):
            report.add(path, "", "readme", "must be called like README_zh_Hans.md")


def _check_english(report: PluginReport, text: str) -> None:
    if not text.strip():
        report.add("README.md", "", "readme", "is empty")
    for number, line in enumerate(text.splitlines(), start=1):
        if found := _CHINESE.search(line):
            message = f"holds {found.group()!r}: Chinese belongs into readme/README_zh_Hans.md"
            report.add("README.md", f"line {number}", "readme", message)
            return


def _check_privacy(report: PluginReport) -> None:
    content = report.files.get("PRIVACY.md")
    if content is None:
        report.add("PRIVACY.md", "", "file", "is missing")
    elif len(content.decode("utf-8", "replace").strip()) < _LEAST_PRIVACY:
        report.add("PRIVACY.md", "", "privacy", f"is not filled in: fewer than {_LEAST_PRIVACY} characters")
