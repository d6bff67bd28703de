"""The rules of a tool's YAML file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from context_engine.apps.packaging.fields import check_options, check_scope
from context_engine.apps.packaging.findings import Node, PluginReport, open_yaml

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
    "array": (list,),
    "object": (dict,),
}


def check_tool(report: PluginReport, file: str) -> str | None:
    """Check a tool's YAML and return its name, None where there is none."""
    top = open_yaml(report, file)
    if top is None:
        return None
    name = top.at("identity").at("name").text(pattern=IDENTITY_NAME)
    top.at("identity").at("label").languages()
    top.at("description").at("human").languages()
    seen: set[str] = set()
    for parameter in top.at("parameters").items():
        _check_parameter(parameter, seen)
    top.at("has_runtime_parameters").flag()
    if top.at("output_schema").value is not None:
        _check_output(top.at("output_schema"))
    source = top.at("extra").at("python").at("source")
    if source.text() in report.files and source.value.removesuffix(".py") != file.rsplit(".", 1)[0]:
        source.fail("stem", f"{source.value} and {file} must differ in their suffix alone")
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
        node.at("type").fail("choice", f"{kind!r} is not known to Dify 1.12: take a string")
    if node.at("form").value == "llm":
        node.at("llm_description").given()
    node.at("required").flag()
    node.at("multiple").flag()
    check_scope(node, kind)
    check_options(node, kind)
    _check_bounds(node)
    _check_default(node, kind)
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


def _check_default(node: Node, kind: str | None) -> None:
    default = node.at("default")
    if default.value is None or kind is None:
        return
    kinds = _DEFAULTS.get(kind, ())
    wrong = bool(kinds) and not isinstance(default.value, kinds)
    if wrong or (kind == "number" and isinstance(default.value, bool)):
        default.fail("default", f"{default.value!r} is no value of type {kind}")


def _check_output(schema: Node) -> None:
    """Check what a tool says of its variables; the SDK does not look at it."""
    if schema.at("type").value != "object":
        schema.at("type").fail("choice", f"must be object, got {schema.at('type').value!r}")
    schema.at("properties").given()
    for one in schema.at("properties").entries():
        if one.key.rsplit(".", 1)[-1] in _RESERVED:
            one.fail("output-schema", "Dify has an output of this name: it would be overwritten")
        _check_property(one)


def _check_property(node: Node) -> None:
    ref = node.at("$ref")
    if ref.value is not None:
        if not (isinstance(ref.value, str) and _REF.fullmatch(ref.value)):
            ref.fail("output-schema", "must be one of Dify's schemas: https://dify.ai/schemas/v1/<name>.json")
        return
    kind = node.at("type")
    kind.given()
    kinds = [one.choice(_OUTPUT_TYPES) for one in kind.items()] or [kind.choice(_OUTPUT_TYPES)]
    if "array" in kinds and node.at("items").given():
        _check_property(node.at("items"))
    for one in node.at("properties").entries() if "object" in kinds else ():
        _check_property(one)
