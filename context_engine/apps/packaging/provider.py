"""The rules of the provider's, the endpoint group's and an endpoint's YAML file."""

from __future__ import annotations

from typing import Final

from context_engine.apps.packaging.fields import check_field
from context_engine.apps.packaging.findings import Node, PluginReport, open_yaml
from context_engine.apps.packaging.manifest import PROVIDER_TAGS
from context_engine.apps.packaging.tool import IDENTITY_NAME, check_tool

_METHODS: Final = ("HEAD", "GET", "POST", "PUT", "DELETE", "OPTIONS")
_MOST_SETTINGS: Final = 64
_LONGEST_NAME: Final = 1023


def check_provider(report: PluginReport, file: str, manifest: Node) -> None:
    """Check the provider and its tools."""
    top = open_yaml(report, file)
    if top is None:
        return
    identity = top.at("identity")
    identity.at("name").text(pattern=IDENTITY_NAME)
    identity.at("label").languages()
    identity.at("description").languages()
    report.asset(identity.at("icon"))
    report.asset(identity.at("icon_dark"))
    _check_inherited_tags(identity.at("tags"), manifest.at("tags"))
    _check_credentials(top)
    if not top.at("tools").value:
        top.at("tools").fail("required", "must name the tools' files")
    names: set[str] = set()
    for tool in top.at("tools").items():
        name = check_tool(report, tool.value) if tool.text() in report.files else None
        if name in names:
            report.add(tool.value, "identity.name", "duplicate", f"two tools are called {name!r}")
        names |= {name} if name else set()


def check_group(report: PluginReport, file: str) -> None:
    """Check a group of endpoints."""
    top = open_yaml(report, file)
    if top is None:
        return
    settings = top.at("settings")
    names: set[str] = set()
    for one in settings.items():
        check_field(one)
        name = one.at("name").text(longest=_LONGEST_NAME)
        if name in names:
            one.at("name").fail("duplicate", f"the setting {name!r} appears twice")
        names |= {name} if name else set()
    _check_count(settings, len(settings.items()))
    if not top.at("endpoints").value:
        top.at("endpoints").fail("required", "must name the endpoints' files")
    for endpoint in top.at("endpoints").items():
        if endpoint.text() in report.files:
            _check_endpoint(report, endpoint.value)


def _check_endpoint(report: PluginReport, file: str) -> None:
    top = open_yaml(report, file)
    if top is not None:
        top.at("method").choice(_METHODS)
        top.at("hidden").flag()


def _check_inherited_tags(tags: Node, inherited: Node) -> None:
    for tag in inherited.items() if not tags.value else ():
        if isinstance(tag.value, str) and tag.value not in PROVIDER_TAGS:
            message = f"the provider inherits the tag {tag.value!r} from manifest.yaml; Dify refuses it here"
            tags.fail("tags", message)


def _check_credentials(top: Node) -> None:
    if top.at("credentials_schema").value is not None:
        top.at("credentials_schema").fail("credentials", "is not read by the SDK: write credentials_for_provider")
    credentials = top.at("credentials_for_provider")
    for one in credentials.entries():
        if len(one.key) - len(credentials.key) - 1 > _LONGEST_NAME:
            one.fail("length", f"a name has at most {_LONGEST_NAME} characters")
        check_field(one)
    _check_count(credentials, len(credentials.entries()))


def _check_count(node: Node, count: int) -> None:
    if count > _MOST_SETTINGS:
        node.fail("length", f"has {count} entries, at most {_MOST_SETTINGS} are allowed")
