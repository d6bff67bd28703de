"""The rules of manifest.yaml."""

from __future__ import annotations

import re
from typing import Final

from context_engine.apps.packaging.findings import Node, PluginReport, open_yaml

MANIFEST: Final = "manifest.yaml"
VERSION: Final = r"\d{1,4}(\.\d{1,4}){2}(-\w{1,16})?"
_AUTHOR: Final = r"[a-z0-9_-]{1,64}"
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_RFC3339: Final = r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})"
_URL: Final = r"https?://[^\s/]+.*"
_TAGS: Final = (
    "search",
    "image",
    "videos",
    "weather",
    "finance",
    "design",
    "travel",
    "social",
    "news",
    "medical",
    "productivity",
    "education",
    "business",
    "entertainment",
    "utilities",
    "agent",
    "rag",
    "other",
    "trigger",
)
PROVIDER_TAGS: Final = ("rag", "search", "business", "productivity", "utilities", "finance")
"""Tags that Dify 1.12 accepts on a provider; one without tags inherits the manifest's."""

_MODEL_PERMISSIONS: Final = ("llm", "text_embedding", "rerank", "tts", "speech2text", "moderation")
_PERMISSIONS: Final = {
    "tool": ("enabled",),
    "model": ("enabled", *_MODEL_PERMISSIONS),
    "node": ("enabled",),
    "endpoint": ("enabled",),
    "app": ("enabled",),
    "storage": ("enabled",),
}
_KINDS: Final = ("tools", "models", "endpoints", "agent_strategies", "datasources", "triggers")
_ALONE: Final = ("models", "agent_strategies", "datasources", "triggers")


def check_manifest(report: PluginReport) -> Node | None:
    """Check manifest.yaml and return it, or None if it cannot be read."""
    top = open_yaml(report, MANIFEST)
    if top is None:
        return None
    top.at("version").text(pattern=VERSION, example="0.1.0")
    _check_author(top.at("author"))
    texts = [top.at(name) for name in ("label", "description")]
    report.require_languages(texts)
    for text in texts:
        text.languages()
    for name in ("icon", "icon_dark"):
        if top.at(name).text(longest=128):
            report.asset(top.at(name))
    top.at("created_at").text(pattern=_RFC3339, example="2026-01-31T09:00:00Z")
    _check_resource(top.at("resource"))
    _check_plugins(report, top)
    _check_meta(report, top.at("meta"))
    for tag in top.at("tags").items():
        tag.choice(_TAGS)
    _check_links(report, top)
    return top


def _check_author(node: Node) -> None:
    author = node.text(pattern=_AUTHOR)
    if author and _UUID.fullmatch(author):
        node.fail("author", "must not be a UUID")
    elif author and ("langgenius" in author or "dify" in author):
        node.fail("author", "must not contain langgenius or dify: the marketplace refuses it")


def _check_resource(node: Node) -> None:
    memory = node.at("memory").number()
    if memory is not None and memory <= 0:
        node.at("memory").fail("range", "must be a number of bytes above 0, e.g. 268435456")
    for entry in node.at("permission").entries():
        kind = entry.key.rsplit(".", 1)[-1]
        if kind in _PERMISSIONS:
            _check_permission(entry, kind)
        else:
            entry.fail("permission", f"is not a permission. Valid: {', '.join(_PERMISSIONS)}.")


def _check_permission(node: Node, kind: str) -> None:
    for entry in node.entries():
        name = entry.key.rsplit(".", 1)[-1]
        if name in _PERMISSIONS[kind]:
            entry.flag()
        elif not (kind == "storage" and name == "size"):
            entry.fail("permission", f"is not known. Valid: {', '.join(_PERMISSIONS[kind])}.")
    if kind == "storage":
        node.at("size").is_present()
    if kind == "model" and not node.at("enabled").value and any(node.at(name).value for name in _MODEL_PERMISSIONS):
        node.at("enabled").fail("permission", "must be true, else the model permissions below it do nothing")


def _check_plugins(report: PluginReport, top: Node) -> None:
    plugins = top.at("plugins")
    used = [kind for kind in _KINDS if plugins.at(kind).value]
    if not used:
        plugins.fail("plugins", f"must name at least one file under one of {', '.join(_KINDS)}")
    for entry in plugins.entries():
        if entry.key.rsplit(".", 1)[-1] not in _KINDS:
            entry.fail("plugins", f"is not known. Valid: {', '.join(_KINDS)}.")
    for kind in used:
        files = plugins.at(kind)
        if kind in _ALONE and len(used) > 1:
            files.fail("plugins", f"cannot be combined with {', '.join(other for other in used if other != kind)}")
        for file in files.items():
            report.path(file)
        if len(files.items()) > 1:
            files.fail("one-provider", "must name one file: Dify keeps the last one, silently")
    if "endpoints" in used and top.at("resource").at("permission").at("endpoint").at("enabled").value is not True:
        report.add(
            MANIFEST, "resource.permission.endpoint.enabled", "permission", "must be true for a plugin with endpoints"
        )


def _check_meta(report: PluginReport, meta: Node) -> None:
    meta.at("version").text(pattern=VERSION, example="0.0.1")
    if meta.at("arch").value == []:
        meta.at("arch").fail("required", "must name amd64, arm64 or both")
    meta.at("runner").at("version").text(longest=128)
    meta.at("runner").at("entrypoint").choice(("main",))
    if "main.py" not in report.files:
        report.add("main.py", "", "file", "is missing: the entry point")


def _check_links(report: PluginReport, top: Node) -> None:
    top.at("repo").text(pattern=_URL, example="https://git.example/plugin")
    privacy = top.at("privacy").text()
    if privacy and not re.fullmatch(_URL, privacy) and privacy.removeprefix("./") not in report.files:
        top.at("privacy").fail("path", f"there is no file {privacy}")
