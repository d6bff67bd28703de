"""The checks of the files that are neither YAML forms nor code."""

from __future__ import annotations

import re
from typing import Final

from context_engine.apps.packaging.files import MAX_BYTES, negations, never_ships, size_line
from context_engine.apps.packaging.findings import PluginReport

README: Final = "README.md"
PRIVACY: Final = "PRIVACY.md"
_CHINESE: Final = re.compile(r"[\u3000-\u303f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef]")
_TRANSLATION: Final = re.compile(r"README_([a-z]{2}_[A-Za-z]{2,})\.md")
_PICTURE: Final = re.compile(r"""!\[[^\]]*\]\(\s*<?([^)\s>]+)|<img\b[^>]*?\bsrc=["']([^"']+)""", re.IGNORECASE)
_ELSEWHERE: Final = re.compile(r"https?://|data:", re.IGNORECASE)
_LEAST_PRIVACY: Final = 200
_UNWRITTEN: Final = "please fill in the privacy policy"
_TEMPLATE_ICON: Final = b"DIFY_MARKETPLACE_TEMPLATE_ICON_DO_NOT_USE"


def check_documents(report: PluginReport) -> None:
    """Check names, texts and pictures, and that nothing is packed that must not be."""
    for path in report.files:
        if path in ("__init__.py", "dify_plugin/__init__.py"):
            report.add(path, "", "no-init", "shadows Dify's SDK, whose import name is the same: remove it")
    _check_readmes(report)
    _check_privacy(report)
    _check_icons(report)
    _check_left_out(report)
    if sum(map(len, report.files.values())) > MAX_BYTES:
        report.add("", "", "size", f"the package is too large: {size_line(report.files)}")


def _check_left_out(report: PluginReport) -> None:
    ignore = report.files.get(".difyignore")
    if ignore is None:
        report.add(".difyignore", "", "file", "is missing: without it nothing is left out, .env and caches among it")
    for line in negations((ignore or b"").decode("utf-8", "replace")):
        report.add(".difyignore", line, "ignore", "a line that begins with ! does nothing: remove it")
    for path, why in never_ships(report.files):
        report.add(path, "", "never-ships", f"{why}: leave it out with .difyignore")


def _check_readmes(report: PluginReport) -> None:
    readme = report.files.get(README)
    if readme is None:
        report.add(README, "", "file", "is missing")
    else:
        _check_english(report, readme.decode("utf-8", "replace"))
    for path, content in report.files.items():
        folder, _, name = path.rpartition("/")
        if folder == "readme" and not _TRANSLATION.fullmatch(name):
            report.add(path, "", "readme", "must be called like README_zh_Hans.md")
        if path == README or folder == "readme":
            _check_pictures(report, path, content.decode("utf-8", "replace"))


def _check_english(report: PluginReport, text: str) -> None:
    if not text.strip():
        report.add(README, "", "readme", "is empty")
    for number, line in enumerate(text.splitlines(), start=1):
        if match := _CHINESE.search(line):
            message = f"holds {match.group()!r}: Chinese belongs in readme/README_zh_Hans.md"
            report.add(README, f"line {number}", "readme", message)
            return


def _check_pictures(report: PluginReport, path: str, text: str) -> None:
    """Check that Dify's page of the plugin finds each picture: it looks in `_assets` alone, from every README."""
    for number, line in enumerate(text.splitlines(), start=1):
        for match in _PICTURE.finditer(line):
            target = match[1] or match[2]
            if _ELSEWHERE.match(target):
                continue
            inner = target.removeprefix("./")
            if not inner.startswith("_assets/"):
                message = f"the picture {target} is not shown by Dify: write _assets/NAME, in the folder readme/ too"
                report.add(path, f"line {number}", "readme", message)
            elif inner not in report.files:
                report.add(path, f"line {number}", "readme", f"there is no file {inner}")


def _check_privacy(report: PluginReport) -> None:
    content = report.files.get(PRIVACY)
    if content is None:
        report.add(PRIVACY, "", "file", "is missing")
        return
    text = content.decode("utf-8", "replace").strip()
    if _UNWRITTEN in text.lower():
        report.add(PRIVACY, "", "privacy", "is the template's text: write what is collected, stored and sent to whom")
    elif len(text) < _LEAST_PRIVACY:
        report.add(PRIVACY, "", "privacy", f"is not filled in: fewer than {_LEAST_PRIVACY} characters")


def _check_icons(report: PluginReport) -> None:
    for path, content in report.files.items():
        if path.startswith("_assets/") and _TEMPLATE_ICON in content:
            report.add(path, "", "icon", "is the icon of the template: draw the plugin's own")
