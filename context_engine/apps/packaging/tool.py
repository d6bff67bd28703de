"""The rules of a tool's YAML file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from context_engine.apps.packaging.fields import check_options, check_scope, source_of
from context_engine.apps.packaging.findings import Node, Report, open_yaml

__all__ = ["IDENTITY_NAME", "check_tool"]

IDENTITY_NAME: Final = r"[a-zA-Z0-9_-]+"
_TYPES: Final = (
    "string",
    "number",
    "boolean",
    "select",
    "secret-input",
    "file",
    "files",
    "app-selector",
    "model-selector",
    "any",
    "dynamic-select",
    "array",
    "object",
    "checkbox",
)
_FORMS: Final = ("schema", "form", "llm")
_MULTIPLE: Final = ("select", "dynamic-select")
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


def check_tool(report: Report, file: str) -> tuple[str | None, str | None]:
    """Check a tool's YAML and return (its name, its Python file), None for what is missing."""
    top = open_yaml(report, file)
    if top is None:
        return None, None
    identity = top.at("identity")
    name = None
    if identity.mapping():
        identity.at("author").text()
        name = identity.at("name").text(pattern=IDENTITY_NAME)
        identity.at("label").languages()
    description = top.at("description")
    if description.mapping():
        description.at("human").languages()
        description.at("llm").text()
    seen: set[str] = set()
    for parameter in top.at("parameters").items():
        _check_parameter(parameter, seen)
    top.at("has_runtime_parameters").flag()
    if top.at("output_schema").mapping(required=False):
        _check_output(top.at("output_schema"))
    source = source_of(top)
    if source and source.removesuffix(".py") != file.rsplit(".", 1)[0]:
        top.at("extra").at("python").at("source").fail("stem", f"{source} and {file} must differ in their suffix alone")
    return name, source


def _check_parameter(node: Node, seen: set[str]) -> None:
    if not node.mapping():
        return
    name = node.at("name").text(longest=1023)
    if name in seen:
        node.at("name").fail("duplicate", f"the parameter {name!r} stands twice")
    seen.add(name or "")
    node.at("label").languages()
    node.at("human_description").languages()
    kind, form = node.at("type").choice(_TYPES), node.at("form").choice(_FORMS)
    node.at("llm_description").text(required=form == "llm")
    node.at("required").flag()
    node.at("multiple").flag()
    if node.at("multiple").value is True and kind not in (*_MULTIPLE, None):
        node.at("multiple").fail("multiple", f"cannot stand on a parameter of type {kind}")
    check_scope(node, kind)
    check_options(node, kind, needed=kind == "select", icons=True)
    _check_bounds(node)
    _check_default(node, kind)
    if node.at("auto_generate").mapping(required=False):
        node.at("auto_generate").at("type").choice(("prompt_instruction",))
    if node.at("template").mapping(required=False):
        node.at("template").at("enabled").flag()


def _check_bounds(node: Node) -> None:
    least, most = node.at("min").number(), node.at("max").number()
    node.at("precision").number(whole=True)
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
    if kind in _MULTIPLE:
        kinds = (list,) if node.at("multiple").value is True else (str,)
    wrong = bool(kinds) and not isinstance(default.value, kinds)
    if wrong or (kind == "number" and isinstance(default.value, bool)):
        default.fail("default", f"{default.value!r} is no value of type {kind}")


def _check_output(schema: Node) -> None:
    schema.at("type").choice(("object",))
    properties = schema.at("properties")
    if not properties.mapping():
        return
    for name in properties.value:
        if name in _RESERVED:
            properties.at(str(name)).fail("output-schema", "Dify has an output of this name: it would be overwritten")
        _check_property(properties.at(str(name)))


def _check_property(node: Node) -> None:
    if not node.mapping():
        return
    ref = node.at("$ref")
    if ref.value is not None:
        if not (isinstance(ref.value, str) and _REF.fullmatch(ref.value)):
            ref.fail("output-schema", "must be one of Dify's schemas: https://dify.ai/schemas/v1/<name>.json")
        return
    kind = node.at("type")
    if isinstance(kind.value, list):
        kinds = [one.choice(_OUTPUT_TYPES) for one in kind.items()]
    else:
        kinds = [kind.choice(_OUTPUT_TYPES)]
    if "array" in kinds and node.at("items").mapping():
        _check_property(node.at("items"))
    inner = node.at("properties")
    if "object" in kinds and inner.mapping(required=False):
        for name in inner.value:
            _check_property(inner.at(str(name)))
