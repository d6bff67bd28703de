"""The rules of manifest.yaml."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from context_engine.apps.packaging.findings import Node, Report, open_yaml
from context_engine.apps.packaging.requirements import is_version

__all__ = ["MANIFEST", "PROVIDER_TAGS", "check_manifest"]

MANIFEST: Final = "manifest.yaml"
VERSION: Final = r"\d{1,4}(\.\d{1,4}){2}(-\w{1,16})?"
_AUTHOR: Final = r"[a-z0-9_-]{1,64}"
_NAME: Final = r"[a-z0-9_-]{1,128}"
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
"""What Dify 1.12 takes on a provider; one without tags inherits the manifest's."""

_MODEL_PERMISSIONS: Final = ("llm", "text_embedding", "rerank", "tts", "speech2text", "moderation")
_PERMISSIONS: Final = {
    "tool": ("enabled",),
    "model": ("enabled", *_MODEL_PERMISSIONS),
    "node": ("enabled",),
    "endpoint": ("enabled",),
    "app": ("enabled",),
    "storage": ("enabled",),
}
_STORAGE_BYTES: Final = (1024, 1_073_741_824)
_KINDS: Final = ("tools", "models", "endpoints", "agent_strategies", "datasources", "triggers")
_ALONE: Final = ("models", "agent_strategies", "datasources", "triggers")


def check_manifest(report: Report) -> Node | None:
    """Check manifest.yaml and return it, None where it cannot be read."""
    top = open_yaml(report, MANIFEST)
    if top is None:
        return None
    _check_names(top)
    for name in ("label", "description"):
        top.at(name).languages()
    if top.at("icon").text(longest=128):
        report.asset(top.at("icon"))
    if top.at("icon_dark").text(required=False, longest=128):
        report.asset(top.at("icon_dark"))
    _check_created(top.at("created_at"))
    _check_resource(top.at("resource"))
    _check_plugins(report, top)
    _check_meta(report, top.at("meta"))
    for tag in top.at("tags").items():
        tag.choice(_TAGS)
    _check_links(report, top)
    return top


def _check_names(top: Node) -> None:
    version = top.at("version").text(pattern=VERSION, example="0.1.0")
    if version and not is_version(version):
        top.at("version").fail("version", f"{version!r} is no Python version: Dify refuses it; 0.1.0-rc1 is one")
    top.at("type").choice(("plugin",))
    author = top.at("author").text(pattern=_AUTHOR)
    if author and _UUID.fullmatch(author):
        top.at("author").fail("author", "must not be a UUID")
    elif author and ("langgenius" in author or "dify" in author):
        top.at("author").fail("author", "must not contain langgenius or dify: the marketplace refuses it")
    top.at("name").text(pattern=_NAME)


def _check_created(node: Node) -> None:
    text = node.text(pattern=_RFC3339, example="2026-01-31T09:00:00Z")
    if text is None:
        return
    try:
        datetime.fromisoformat(text)
    except ValueError:
        node.fail("pattern", f"{text!r} is no date and time")


def _check_resource(node: Node) -> None:
    if not node.mapping():
        return
    memory = node.at("memory")
    if memory.given():
        number = memory.number(whole=True)
        if number is not None and number <= 0:
            memory.fail("range", "must be a number of bytes above 0, e.g. 268435456")
    permission = node.at("permission")
    if not permission.mapping(required=False):
        return
    for kind in permission.value:
        one = permission.at(str(kind))
        if kind not in _PERMISSIONS:
            one.fail("permission", f"is no permission. Valid: {', '.join(_PERMISSIONS)}.")
        elif one.mapping():
            _check_permission(one, str(kind))


def _check_permission(node: Node, kind: str) -> None:
    for name in node.value:
        if name in _PERMISSIONS[kind]:
            node.at(name).flag()
        elif not (kind == "storage" and name == "size"):
            node.at(str(name)).fail("permission", f"is not known. Valid: {', '.join(_PERMISSIONS[kind])}.")
    if kind == "storage" and node.at("size").given():
        size, (least, most) = node.at("size").number(whole=True), _STORAGE_BYTES
        if size is not None and not least <= size <= most:
            node.at("size").fail("range", f"must be from {least} to {most} bytes")
    if kind == "model" and not node.value.get("enabled") and any(node.value.get(name) for name in _MODEL_PERMISSIONS):
        node.at("enabled").fail("permission", "must be true, else the model permissions below it do nothing")


def _check_plugins(report: Report, top: Node) -> None:
    plugins = top.at("plugins")
    if not plugins.mapping():
        return
    used = [kind for kind in _KINDS if plugins.value.get(kind)]
    if not used:
        plugins.fail("plugins", f"must name at least one file under one of {', '.join(_KINDS)}")
    for kind in plugins.value:
        if kind not in _KINDS:
            plugins.at(str(kind)).fail("plugins", f"is not known. Valid: {', '.join(_KINDS)}.")
    for kind in used:
        files = plugins.at(kind)
        if kind in _ALONE and len(used) > 1:
            files.fail("plugins", f"cannot stand beside {', '.join(one for one in used if one != kind)}")
        for file in files.items():
            report.path(file)
        if len(files.items()) > 1:
            files.fail("one-provider", "must name one file: Dify keeps the last one, silently")
    if "endpoints" in used and top.at("resource").at("permission").at("endpoint").at("enabled").value is not True:
        report.add(
            MANIFEST, "resource.permission.endpoint.enabled", "permission", "must be true for a plugin with endpoints"
        )


def _check_meta(report: Report, meta: Node) -> None:
    if not meta.mapping():
        return
    meta.at("version").text(pattern=VERSION, example="0.0.1")
    if meta.at("arch").given():
        arches = meta.at("arch").items()
        if not arches and meta.at("arch").value == []:
            meta.at("arch").fail("required", "must name amd64, arm64 or both")
        for arch in arches:
            arch.choice(("amd64", "arm64"))
    least = meta.at("minimum_dify_version")
    if (text := least.text(required=False)) and not is_version(text):
        least.fail("version", f"{text!r} is no version, e.g. 1.10.0")
    runner = meta.at("runner")
    if runner.mapping():
        runner.at("language").choice(("python",))
        runner.at("version").text(longest=128)
        runner.at("entrypoint").choice(("main",))
        if "main.py" not in report.files:
            report.add("main.py", "", "file", "is missing: the entry point")


def _check_links(report: Report, top: Node) -> None:
    top.at("repo").text(required=False, pattern=_URL, example="https://git.example/plugin")
    privacy = top.at("privacy").text(required=False)
    if privacy and not re.fullmatch(_URL, privacy) and privacy.removeprefix("./") not in report.files:
        top.at("privacy").fail("path", f"there is no file {privacy}")
