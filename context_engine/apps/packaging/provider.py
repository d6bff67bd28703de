"""The rules of the YAML files of the provider, the endpoints, the tools and the data sources."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from context_engine.apps.packaging.findings import Node, PluginReport, open_yaml
from context_engine.apps.packaging.manifest import PROVIDER_TAGS

_MODEL_SCOPES: Final = frozenset(
    {"llm", "text-embedding", "rerank", "tts", "speech2text", "moderation", "vision", "document", "tool-call"}
)

_APP_SCOPES: Final = frozenset({"all", "chat", "workflow", "completion"})
_MOST_OPTIONS: Final = 127


def check_field(node: Node) -> None:
    """Check a credential or a setting of an endpoint."""
    kind = node.at("type").text()
    node.at("required").flag()
    node.at("multiple").flag()
    for name in ("label", "help", "placeholder"):
        node.at(name).languages()
    check_scope(node, kind)
    check_options(node, kind)
    _check_field_default(node, kind)


def _check_field_default(node: Node, kind: str | None) -> None:
    default = node.at("default")
    if default.value is None:
        return
    if kind == "secret-input":
        default.fail("default", "a secret must have no default: it would ship with the package")
    elif kind == "boolean" and not isinstance(default.value, bool):
        default.fail("default", f"must be true or false, got {default.value!r}")
    elif kind in ("text-input", "select") and not isinstance(default.value, str):
        default.fail("default", f"must be text: put it in quotes, got {default.value!r}")
    elif isinstance(default.value, Mapping):
        default.fail("default", "must be text, a number, true or false")


def check_options(node: Node, kind: str | None) -> None:
    """Check the options of a select, and that its default is one of them."""
    options = node.at("options")
    if kind == "select" and not options.value:
        options.fail("options", "a select needs options")
        return
    values: list[str] = []
    for option in options.items():
        value = option.at("value").text(longest=127)
        option.at("label").languages()
        option.report.asset(option.at("icon"))
        if value is not None and value in values:
            option.at("value").fail("options", f"{value!r} appears twice")
        values.append(value or "")
    if len(values) > _MOST_OPTIONS:
        options.fail("options", f"has {len(values)} options, at most {_MOST_OPTIONS} are allowed")
    default = node.at("default").value
    defaults = default if isinstance(default, list) else [default]
    for choice in defaults if kind == "select" and default is not None else ():
        if isinstance(choice, str) and values and "" not in values and choice not in values:
            node.at("default").fail("default", f"{choice!r} is not among the options {', '.join(values)}")


def check_scope(node: Node, kind: str | None) -> None:
    """Check a scope, which only an app-selector, a model-selector and a parameter of type any may have."""
    scope = node.at("scope")
    text = scope.text(longest=1024)
    if text is None or kind is None or kind == "any":
        return
    valid = {"app-selector": _APP_SCOPES, "model-selector": _MODEL_SCOPES}.get(kind)
    if valid is None:
        scope.fail("scope", f"cannot be set on a field of type {kind}")
        return
    for word in text.split("&"):
        if word.strip() not in valid:
            scope.fail("scope", f"{word.strip()!r} is not a scope of a {kind}. Valid: {', '.join(sorted(valid))}.")


IDENTITY_NAME: Final = r"[a-zA-Z0-9_-]+"
_LATER_TYPES: Final = ("date", "date-range")
_OUTPUT_TYPES: Final = ("string", "number", "integer", "boolean", "object", "array", "null")
_RESERVED: Final = ("text", "json", "files")
_REF: Final = re.compile(r"https://dify\.ai/schemas/v\d+/[a-z_]+\.json")

_DEFAULTS: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "secret-input": (str,),
    "number": (int, float),
    "boolean": (bool,),
}


def check_tool(report: PluginReport, file: str) -> str | None:
    """Check a tool's YAML and return its name, or None."""
    top = open_yaml(report, file)
    if top is None:
        return None
    top.at("description").at("human").languages()
    seen: set[str] = set()
    for parameter in top.at("parameters").items():
        _check_parameter(parameter, seen)
    top.at("has_runtime_parameters").flag()
    return _check_member(top)


def check_datasource(report: PluginReport, file: str) -> str | None:
    """Check a data source's YAML and return its name, or None."""
    top = open_yaml(report, file)
    if top is None:
        return None
    top.at("description").languages()
    return _check_member(top)


def _check_member(top: Node) -> str | None:
    """Check what the YAML of a tool and of a data source have in common, and return the name, or None."""
    name = top.at("identity").at("name").text(pattern=IDENTITY_NAME)
    top.at("identity").at("label").languages()
    if top.at("output_schema").value is not None:
        _check_output(top.at("output_schema"))
    source = top.at("extra").at("python").at("source")
    if source.text() in top.report.files and source.value.removesuffix(".py") != top.file.rsplit(".", 1)[0]:
        source.fail("stem", f"{source.value} and {top.file} must differ only in their suffix")
    return name


def _check_parameter(node: Node, seen: set[str]) -> None:
    name = node.at("name").text(longest=1023)
    if name in seen:
        node.at("name").fail("duplicate", f"the parameter {name!r} appears twice")
    seen |= {name} if name else set()
    node.at("label").languages()
    node.at("human_description").languages()
    kind = node.at("type").text()
    if kind in _LATER_TYPES:
        node.at("type").fail("choice", f"{kind!r} is not known to Dify 1.12: use a string")
    if node.at("form").value == "llm":
        node.at("llm_description").is_present()
    node.at("required").flag()
    node.at("multiple").flag()
    check_scope(node, kind)
    check_options(node, kind)
    _check_bounds(node)
    _check_parameter_default(node, kind)
    node.at("template").at("enabled").flag()


def _check_bounds(node: Node) -> None:
    least, most = node.at("min").number(), node.at("max").number()
    if least is not None and most is not None and least > most:
        node.at("min").fail("range", f"min {least:g} is above max {most:g}")
    default = node.at("default").value
    if isinstance(default, bool) or not isinstance(default, int | float):
        return
    if (least is not None and default < least) or (most is not None and default > most):
        node.at("default").fail("default", f"{default} is not from min to max")


def _check_parameter_default(node: Node, kind: str | None) -> None:
    default = node.at("default")
    if default.value is None or kind is None:
        return
    if isinstance(default.value, list | Mapping):
        default.fail("default", "must be text, a number, true or false: an agent cannot read lists and objects here")
        return
    kinds = _DEFAULTS.get(kind, ())
    wrong = bool(kinds) and not isinstance(default.value, kinds)
    if wrong or (kind == "number" and isinstance(default.value, bool)):
        default.fail("default", f"{default.value!r} is not a value of type {kind}")


def _check_output(schema: Node) -> None:
    """Check a tool's output schema, which the SDK does not check."""
    if schema.at("type").value != "object":
        schema.at("type").fail("choice", f"must be object, got {schema.at('type').value!r}")
    schema.at("properties").is_present()
    for entry in schema.at("properties").entries():
        if entry.key.rsplit(".", 1)[-1] in _RESERVED:
            entry.fail("output-schema", "Dify has an output of this name: it would be overwritten")
        _check_property(entry)


def _check_property(node: Node) -> None:
    ref = node.at("$ref")
    if ref.value is not None:
        if not (isinstance(ref.value, str) and _REF.fullmatch(ref.value)):
            ref.fail("output-schema", "must be one of Dify's schemas: https://dify.ai/schemas/v1/<name>.json")
        return
    kind = node.at("type")
    kind.is_present()
    kinds = [item.choice(_OUTPUT_TYPES) for item in kind.items()] or [kind.choice(_OUTPUT_TYPES)]
    if "array" in kinds and node.at("items").is_present():
        _check_property(node.at("items"))
    for entry in node.at("properties").entries() if "object" in kinds else ():
        _check_property(entry)


_METHODS: Final = ("HEAD", "GET", "POST", "PUT", "DELETE", "OPTIONS")
_MOST_SETTINGS: Final = 64
_LONGEST_NAME: Final = 1023


def check_provider(report: PluginReport, file: str, manifest: Node) -> None:
    """Check the provider and its tools."""
    top = open_yaml(report, file)
    if top is None:
        return
    _check_identity(top.at("identity"))
    _check_inherited_tags(top.at("identity").at("tags"), manifest.at("tags"))
    _check_credentials(top)
    _check_members(top.at("tools"), check_tool)


def check_datasource_provider(report: PluginReport, file: str) -> None:
    """Check the provider of data sources, and these."""
    top = open_yaml(report, file)
    if top is None:
        return
    _check_identity(top.at("identity"))
    _check_settings(top.at("credentials_schema"))
    _check_members(top.at("datasources"), check_datasource)


def _check_identity(identity: Node) -> None:
    identity.at("name").text(pattern=IDENTITY_NAME)
    identity.at("label").languages()
    identity.at("description").languages()
    identity.report.asset(identity.at("icon"))
    identity.report.asset(identity.at("icon_dark"))


def _check_members(files: Node, check: Callable[[PluginReport, str], str | None]) -> None:
    """Check the files of a provider's tools or data sources."""
    if not files.value:
        files.fail("required", f"must name the files of the {files.key}")
    names: set[str] = set()
    for file in files.items():
        name = check(files.report, file.value) if file.text() in files.report.files else None
        if name in names:
            files.report.add(file.value, "identity.name", "duplicate", f"two {files.key} are called {name!r}")
        names |= {name} if name else set()


def check_group(report: PluginReport, file: str) -> None:
    """Check a group of endpoints."""
    top = open_yaml(report, file)
    if top is None:
        return
    _check_settings(top.at("settings"))
    if not top.at("endpoints").value:
        top.at("endpoints").fail("required", "must name the endpoints' files")
    for endpoint in top.at("endpoints").items():
        if endpoint.text() in report.files:
            _check_endpoint(report, endpoint.value)


def _check_settings(settings: Node) -> None:
    """Check a list of settings with names."""
    names: set[str] = set()
    for setting in settings.items():
        check_field(setting)
        name = setting.at("name").text(longest=_LONGEST_NAME)
        if name in names:
            setting.at("name").fail("duplicate", f"the setting {name!r} appears twice")
        names |= {name} if name else set()
    _check_count(settings, len(settings.items()))


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
    for entry in credentials.entries():
        if len(entry.key) - len(credentials.key) - 1 > _LONGEST_NAME:
            entry.fail("length", f"a name has at most {_LONGEST_NAME} characters")
        check_field(entry)
    _check_count(credentials, len(credentials.entries()))


def _check_count(node: Node, count: int) -> None:
    if count > _MOST_SETTINGS:
        node.fail("length", f"has {count} entries, at most {_MOST_SETTINGS} are allowed")
