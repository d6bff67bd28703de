"""The rules of the provider's, the endpoint group's and an endpoint's YAML file."""

from __future__ import annotations

from typing import Final

from context_engine.apps.packaging.fields import check_field, source_of
from context_engine.apps.packaging.findings import Node, Report, open_yaml
from context_engine.apps.packaging.manifest import PROVIDER_TAGS
from context_engine.apps.packaging.tool import IDENTITY_NAME, check_tool

__all__ = ["check_group", "check_provider"]

_METHODS: Final = ("HEAD", "GET", "POST", "PUT", "DELETE", "OPTIONS")
_MOST_SETTINGS: Final = 64
Sources = list[tuple[str, str]]
"""(Python file, the class of the SDK it must derive from)."""


def check_provider(report: Report, file: str, manifest: Node) -> Sources:
    """Check the provider and its tools and return the Python files behind them."""
    top = open_yaml(report, file)
    if top is None:
        return []
    identity = top.at("identity")
    if identity.mapping():
        identity.at("author").text()
        identity.at("name").text(pattern=IDENTITY_NAME)
        identity.at("label").languages()
        identity.at("description").languages()
        if identity.at("icon").text():
            report.asset(identity.at("icon"))
        if identity.at("icon_dark").text(required=False):
            report.asset(identity.at("icon_dark"))
        _check_tags(identity.at("tags"), manifest.at("tags"))
    _check_credentials(top)
    sources: Sources = [(source, "ToolProvider")] if (source := source_of(top)) else []
    if not top.at("tools").value:
        top.at("tools").fail("required", "must name the tools' files")
    names: set[str] = set()
    for tool in top.at("tools").items():
        if report.path(tool):
            name, source = check_tool(report, tool.value)
            if name in names:
                report.add(tool.value, "identity.name", "duplicate", f"two tools are called {name!r}")
            names.add(name or "")
            sources.extend([(source, "Tool")] if source else [])
    return sources


def check_group(report: Report, file: str) -> Sources:
    """Check a group of endpoints and return the Python files behind them."""
    top = open_yaml(report, file)
    if top is None:
        return []
    settings = top.at("settings")
    names: set[str] = set()
    for one in settings.items():
        check_field(one)
        name = one.at("name").text(longest=1023)
        if name in names:
            one.at("name").fail("duplicate", f"the setting {name!r} stands twice")
        names.add(name or "")
    _check_count(settings, len(names))
    if not top.at("endpoints").value:
        top.at("endpoints").fail("required", "must name the endpoints' files")
    sources: Sources = []
    for endpoint in top.at("endpoints").items():
        source = _check_endpoint(report, endpoint.value) if report.path(endpoint) else None
        sources.extend([(source, "Endpoint")] if source else [])
    return sources


def _check_endpoint(report: Report, file: str) -> str | None:
    top = open_yaml(report, file)
    if top is None:
        return None
    top.at("path").text(pattern=r"/\S*", example="/retrieval")
    top.at("method").choice(_METHODS)
    top.at("hidden").flag()
    return source_of(top)


def _check_tags(tags: Node, inherited: Node) -> None:
    for tag in tags.items():
        tag.choice(PROVIDER_TAGS)
    if not tags.value:
        for tag in inherited.items():
            if isinstance(tag.value, str) and tag.value not in PROVIDER_TAGS:
                tags.fail(
                    "tags", f"the provider inherits the tag {tag.value!r} from manifest.yaml; Dify refuses it here"
                )


def _check_credentials(top: Node) -> None:
    if top.at("credentials_schema").value is not None:
        top.at("credentials_schema").fail("credentials", "is not read by the SDK: write credentials_for_provider")
    credentials = top.at("credentials_for_provider")
    if not credentials.mapping(required=False):
        return
    for name in credentials.value:
        if len(str(name)) > 1023:
            credentials.at(str(name)).fail("length", "a name has at most 1023 characters")
        check_field(credentials.at(str(name)))
    _check_count(credentials, len(credentials.value))


def _check_count(node: Node, count: int) -> None:
    if count > _MOST_SETTINGS:
        node.fail("length", f"has {count} entries, at most {_MOST_SETTINGS} are allowed")
